"""The ``[data]`` table: where pairs come from, what is held out, and what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from saccade.errors import FileError, OptionError, SaccadeError
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.translation.data import TranslationData, TranslationFiles


def lines(path: Path, texts: list[str]) -> str:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return str(path)


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    return {
        "source": lines(tmp_path / "a", [f"s{n} x" for n in range(50)]),
        "target": lines(tmp_path / "b", [f"t{n} y" for n in range(50)]),
    }


def data(values: dict[str, object]) -> TranslationData:
    return TranslationData.read(values, "here")


def test_a_share_is_held_out_by_source(own: dict[str, str]) -> None:
    splits = TranslationFiles.read(data({**own, "validation": 0.2, "test": 0.2}), seed=1)
    parts = [{pair.source for pair in part} for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 50
    assert all(parts)


def test_given_files_are_taken_as_they_are(own: dict[str, str], tmp_path: Path) -> None:
    held = {
        "validation_source": lines(tmp_path / "va", ["s1 x", "", "new", "new"]),
        "validation_target": lines(tmp_path / "vb", ["t1 y", "", "neu", "neu"]),
    }
    splits = TranslationFiles.read(data({**own, **held}), seed=1)
    assert [pair.source for pair in splits.validation] == ["s1 x", "", "new", "new"]
    assert len(splits.train) == 50
    files = [value for what, value in splits.rows if what == "files"]
    assert files == [", ".join(own.values()), ", ".join(held.values())]
    assert "1 source in both" in " ".join(splits.notes)


def test_pairs_without_text_are_scored_and_told(tmp_path: Path) -> None:
    file = lines(tmp_path / "a.tsv", ["a b\tx", "", "\ty", "c d\tz"])
    said: list[str] = []
    assert len(TranslationFiles.read_for_scoring(data({"table": file}), said.append)) == 4
    assert said[-2:] == [
        "empty on both sides: 1 kept: line 2, and scored like all others",
        "text on one side only: 1 kept: line 3, and scored like all others",
    ]


def test_gold_links_go_with_their_lines(own: dict[str, str], tmp_path: Path) -> None:
    links = lines(tmp_path / "links", ["0-0 1-1"] * 49 + ["0-1"])
    splits = TranslationFiles.read(data({**own, "alignments": links}), seed=1)
    by_source = {pair.source: pair.links for pair in [*splits.train, *splits.validation]}
    assert by_source["s0 x"] == {(0, 0), (1, 1)}
    assert by_source["s49 x"] == {(0, 1)}
    short = lines(tmp_path / "short", ["0-0"])
    with pytest.raises(FileError, match="1 line of links for 50 pairs"):
        TranslationFiles.read(data({**own, "alignments": short}), seed=1)
    bad = lines(tmp_path / "bad", ["0-0"] * 7 + ["0-x"] + ["0-0"] * 42)
    with pytest.raises(FileError, match=r"Line 8 of .*bad"):
        TranslationFiles.read(data({**own, "alignments": bad}), seed=1)


def test_links_to_words_that_are_not_there_are_named(own: dict[str, str], tmp_path: Path) -> None:
    links = lines(tmp_path / "links", ["0-0"] * 4 + ["0-2"] + ["0-0"] * 45)
    with pytest.raises(
        FileError,
        match=r"Line 5 of .*links: the link 0-2 is to a word that does not exist",
    ):
        TranslationFiles.read(data({**own, "alignments": links}), seed=1)


def test_paths_may_use_the_environment(own: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE_OF_DATA", str(tmp_path))
    given = data({"source": "$PLACE_OF_DATA/a", "target": "$PLACE_OF_DATA/b"})
    assert len(TranslationFiles.read_for_scoring(given)) == 50
    monkeypatch.delenv("PLACE_OF_DATA")
    with pytest.raises(FileError, match="environment variable PLACE_OF_DATA"):
        TranslationFiles.read_for_scoring(given)


def test_columns_may_be_numbers(tmp_path: Path) -> None:
    table = lines(tmp_path / "p.tsv", ["1\tb\ta", "2\td\tc"])
    pairs = TranslationFiles.read_for_scoring(data({"table": table, "source_column": "2", "target_column": "1"}))
    assert [(pair.source, pair.target) for pair in pairs] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "give one of"),
        ({"builtin": "grammar", "nettalk": "x"}, "give one of"),
        ({"source": "a"}, "give both source and target, or neither"),
        ({"builtin": "grammar", "test_target": "a"}, "give both test_source and test_target, or neither"),
        ({"table": "a.tsv", "alignments": "b"}, "alignments needs source and target"),
        ({"builtin": "grammar", "sentences": 5}, "sentences must be"),
        ({"builtin": "grammar", "validation": 1.0}, "validation"),
        ({"biultin": "grammar"}, "Did you mean 'builtin'?"),
    ],
)
def test_what_does_not_fit_is_one_sentence(values: dict[str, object], said: str) -> None:
    with pytest.raises(SaccadeError) as raised:
        data(values)
    assert said in str(raised.value)


def test_training_needs_validation_pairs(own: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="no validation examples"):
        TranslationFiles.read(data({**own, "validation": 0.0}), seed=1).require_some()


def test_several_languages_take_turns_and_name_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in {"BUILTIN_HELD_OUT": 20, "LEAST_OF_LANGUAGE": 15}.items():
        monkeypatch.setattr(f"saccade.tasks.translation.data.{name}", few)  # drawing 1,000 takes seconds
    splits = TranslationFiles.read(data({"builtin": "grammar", "languages": ["de", "zh"], "sentences": 101}), seed=1)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [101, 30, 30]
    assert [pair.language for pair in splits.train[:4]] == ["de", "zh", "de", "zh"]
    german, chinese = splits.train[0], splits.train[1]
    assert german.source.startswith("German: ")
    assert chinese.source.startswith("Chinese: ")
    assert german.source.removeprefix("German: ") != chinese.source.removeprefix("Chinese: ")  # other sentences each
    first = german.source[slice(*german.source_words[0])]
    assert german.source == f"German: {first}{german.source[german.source_words[0][1] :]}"


def test_one_language_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.tasks.translation.data.BUILTIN_HELD_OUT", 20)
    german = TranslationFiles.read(TranslationData(builtin="grammar", languages=("de",), sentences=100), seed=1)
    french = TranslationFiles.read(TranslationData(builtin="grammar", sentences=100), seed=1)
    assert [pair.source for pair in german.train] == [pair.source for pair in french.train]
    assert all(not pair.language for pair in german.train)
    assert german.train[0].target != french.train[0].target


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"builtin": "grammar", "languages": ["de", "de"]}, "languages lists a language twice"),
        ({"builtin": "reverse", "languages": ["de"]}, 'languages only applies to builtin = "grammar"'),
        (
            {"builtin": "grammar", "languages": ["ta"]},
            "item 1 of languages must be 'fr', 'es', 'it', 'de', 'hi' or 'zh'",
        ),
    ],
)
def test_languages_that_do_not_fit_are_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        data(values)


def test_chinese_is_scored_by_characters() -> None:
    """As words, two of three sentences that differ in one character would have no word in common with the reference."""
    references = ["黑猫吃了老鼠。", "小狗睡觉了。"]
    assert text_scores(references, references)["bleu"] == pytest.approx(100)
    nearly = text_scores(["黑猫吃了老虎。", "小狗睡觉了。"], references)["bleu"]
    assert 50 < nearly < 100
    english = text_scores(["The cat ate the mouse ."], ["The cat ate the mouse ."])
    assert english["bleu"] == pytest.approx(100)
