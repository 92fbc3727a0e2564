"""A file in another format than the model reads is read right or refused, never taken for plain texts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from toy_labels import classification, tagging, toy_sentences, toy_texts

from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.predictor import NoOptions, Predictor
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.registry import TASKS
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer

SLOWLY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TAGGER, CLASSIFIER = tagging(toy_sentences(20, seed=1)), classification(toy_texts(20, seed=1))


def opened(task: Task, data: dict[str, Any]) -> Predictor:
    return TASKS[task.name].predictor(Bundle(task, "transformer", Config(), nn.Identity(), NoOptions(), data))


def ways(predictor: Predictor, name: str, content: str) -> Iterator[tuple[list[Any] | None, str]]:
    """The inputs and how they were read, or None and why they are refused: by file, by stream and by the server."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(content)
        readers: list[Callable[[], tuple[list[Any], str]]] = [
            lambda: predictor.read_file(path),
            lambda: predictor.read_stream(io.BytesIO(content.encode())),
            lambda: predictor.read_bytes(content.encode()),
        ]
        for read in readers:
            try:
                yield read()
            except (FileError, OptionError) as error:
                yield None, str(error)


def scored(task: str, data: dict[str, Any], name: str, content: str) -> list[Any] | None:
    """What ``evaluate`` reads; None if it refuses the file."""
    reader = TASKS[task].data
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(content)
        table = data | {"file": str(path)}
        try:
            return reader.read_for_scoring(reader.settings.read(table, "the test"))
        except (FileError, OptionError):
            return None


# --- words in columns ---

WORD = st.text("abcdefgé", min_size=1, max_size=6)
SENTENCES = st.lists(
    st.lists(st.tuples(WORD, st.sampled_from(["NOUN", "VERB", "DET"])), min_size=3, max_size=6), min_size=2, max_size=4
)
#: How a line of each format is made of a number, a word and its label.
COLUMNS: dict[str, tuple[str, Callable[[int, str, str], str]]] = {
    "own": ("a.txt", lambda number, word, label: f"{word} {label}"),
    "own with tabs": ("a.txt", lambda number, word, label: f"{word}\t{label}"),
    "one more": ("a.txt", lambda number, word, label: f"{word} {label} B-X{number % 3}"),
    "one more with tabs": ("a.txt", lambda number, word, label: f"{word}\t{label}\tB-X{number % 3}"),
    "other labels": ("a.txt", lambda number, word, label: f"{word} B-X{number % 3}"),
    "words": ("a.txt", lambda number, word, label: word),
    "words, some of two": ("a.txt", lambda number, word, label: word if number != 3 else f"{word}\xa0{word}"),
    "CoNLL-U": ("a.conllu", lambda number, word, label: f"{number}\t{word}\t_\t{label}" + "\t_" * 6),
}
#: The training file of a tagger, and how its columns were chosen.
TRAINED: list[dict[str, Any]] = [
    {"file": "train.txt"},
    {"file": "train.conllu"},
    {"file": "train.tsv"},
    {"file": "train.tsv", "word_column": "0", "label_column": "1"},
    {"file": "train.tsv", "word_column": "word", "label_column": "tag"},
]


@SLOWLY
@given(SENTENCES, st.sampled_from(list(COLUMNS)), st.sampled_from(TRAINED), st.booleans())
def test_columns_of_words_are_never_read_as_texts(
    sentences: list[list[tuple[str, str]]], form: str, data: dict[str, Any], has_comments: bool
) -> None:
    name, line = COLUMNS[form]
    blocks = [
        "".join(f"{line(number, *word)}\n" for number, word in enumerate(one, start=1)) + "\n" for one in sentences
    ]
    if form == "CoNLL-U" and has_comments:
        blocks = [f"# sent_id = {number}\n# text = a b\n{block}" for number, block in enumerate(blocks)]
    content, words = "".join(blocks), [[word for word, _ in one] for one in sentences]
    read = scored("tagging", data, name, content)
    for found, how in ways(opened(TAGGER, data), name, content):
        if found is None:
            assert "--columns" in how or "CoNLL-U has no column" in how or ".conllu" in how
        else:
            assert read is not None
            assert found == words == [list(one.words) for one in read]
    if form.startswith("own") and "word" not in data.values():
        assert read is not None
        assert all(found == words for found, _ in ways(opened(TAGGER, data), name, content))


@pytest.mark.parametrize("data", TRAINED)
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_json_is_no_text_to_tag(name: str, data: dict[str, Any]) -> None:
    content = "".join(json.dumps({"tokens": ["the", word], "tags": ["DET", "NOUN"]}) + "\n" for word in "abc")
    assert scored("tagging", data, name, content) is None
    predictor = opened(TAGGER, data)
    for found, how in ways(predictor, name, content):
        assert (found, "looks like JSON" in how, "add --lines" in how) == (None, True, True)
    predictor.read_otherwise(lines=True)
    assert all(found == content.splitlines() for found, _ in ways(predictor, name, content))


@pytest.mark.parametrize("data", TRAINED[:3])
def test_a_text_of_ten_words_that_begins_with_1_is_no_conllu(data: dict[str, Any]) -> None:
    texts = ["1 of the ten words of this text is odd", "1,2;a,b c,d,e f,g,h", "and this one is short"]
    for order in (texts, [texts[1], texts[2], texts[0]]):
        for found, how in ways(opened(TAGGER, data), "a.txt", "".join(f"{text}\n" for text in order)):
            assert (found, how) == (order, "one text per line")


# --- labelled texts ---

LABELS = st.sampled_from(["good", "bad"])
TEXT = st.lists(st.text("abcdefé", min_size=1, max_size=5), min_size=2, max_size=5).map(" ".join)
ROWS = st.lists(st.tuples(LABELS, TEXT), min_size=10, max_size=14).filter(lambda rows: {"good", "bad"} <= {*dict(rows)})
MARKED = classification(
    [type(one)(one.text, f"__label__{one.label}", one.line, one.file) for one in toy_texts(20, seed=1)]
)


@SLOWLY
@given(ROWS, st.booleans(), st.sampled_from(["{}", "__label__{}", "__label__{} __label__odd"]), st.booleans())
def test_labels_at_the_beginning_of_lines_are_never_read_as_words(
    rows: list[tuple[str, str]], is_marked: bool, form: str, skip_bad: bool
) -> None:
    """With or without the prefix of fastText, one or two, whichever of them the model knows."""
    task = MARKED if is_marked else CLASSIFIER
    content = "".join(f"{form.format(label)} {text}\n" for label, text in rows)
    data = {"file": "train.txt", "skip_bad_rows": skip_bad}
    predictor, known = opened(task, data), set(task.labels)
    expected = [text for _, text in rows]
    for found, how in ways(predictor, "a.txt", content):
        if form.format("good") in known:
            assert (found, "labels ignored" in how) == (expected, True)
        elif "odd" in form and is_marked and skip_bad:
            assert (found, f"{len(rows)} bad rows were skipped" in how) == ([], True)
        else:
            assert found is None
            assert "add --lines" in how
    predictor.read_otherwise(lines=True)
    assert all(found == content.splitlines() for found, _ in ways(predictor, "a.txt", content))


def table_of(rows: Sequence[tuple[str, ...]], suffix: str) -> str:
    return "".join(("\t" if suffix == ".tsv" else ",").join(row) + "\n" for row in rows)


@SLOWLY
@given(ROWS, st.sampled_from([".tsv", ".csv"]), st.sampled_from(["0,1", "1,0"]), st.booleans())
def test_a_header_is_never_a_text(rows: list[tuple[str, str]], suffix: str, columns: str, is_chosen: bool) -> None:
    """Neither in the columns of training nor in those chosen for a file, if labels show that it is a header. If the
    user chooses just the column of texts, a single word is one of them."""
    is_first = columns[0] == "0"
    names = ("review", "sentiment")
    content = table_of([names, *((text, label) for label, text in rows)] if is_first else [names[::-1], *rows], suffix)
    if is_chosen:
        predictor = opened(CLASSIFIER, {"file": f"train{suffix}"})
        predictor.read_otherwise(columns=columns)
    else:
        data = {"text_column": columns[0], "label_column": columns[-1]}
        predictor = opened(CLASSIFIER, {"file": f"train{suffix}", **data})
    for found, how in ways(predictor, f"a{suffix}", content):
        assert found is None
        assert "looks like a header; if it is one, give the columns by name, such as --columns review" in how
        assert f"if it is data, choose just the column of texts for this file, --columns {columns[0]}." in how
    predictor.read_otherwise(columns=columns[0])
    for found, _ in ways(predictor, f"a{suffix}", content):
        assert found == ["review", *(text for _, text in rows)]
    predictor.read_otherwise(columns="review")
    assert all(found == [text for _, text in rows] for found, _ in ways(predictor, f"a{suffix}", content))


@pytest.mark.parametrize("task", ["classification", "translation"])
def test_a_first_text_of_one_word_can_be_read(tmp_path: Path, task: str) -> None:
    """The message names the option with which it is read."""
    texts = ["Great!", *(f"a film of {number}" for number in range(10))]
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{text}\n" for text in texts))
    columns = {"text_column": "0", "label_column": "1"}
    predictor = opened(CLASSIFIER, {"file": "train.tsv", **columns})
    if task == "translation":
        words = Tokenizer.train(texts, "word")
        columns = {"source_column": "0", "target_column": "1"}
        predictor = opened(Translation(TranslationState(words, words)), {"table": "train.tsv", **columns})
    with pytest.raises(FileError, match=r"'Great!' looks like a header.*for this file, --columns 0\."):
        predictor.read_file(path)
    predictor.read_otherwise(columns="0")
    assert predictor.read_file(path)[0] == texts


@SLOWLY
@given(
    ROWS, st.sampled_from([".tsv", ".csv"]), st.sampled_from([("0", "1"), ("1", "0"), ("text", "label")]), st.booleans()
)
def test_labels_are_never_read_as_texts_of_a_table(
    rows: list[tuple[str, str]], suffix: str, trained: tuple[str, str], knows: bool
) -> None:
    """If the columns are in another order than in training, whether or not the model knows these labels."""
    data = {"file": f"train{suffix}", "text_column": trained[0], "label_column": trained[1]}
    labels = {"good": "good" if knows else "fine", "bad": "bad" if knows else "poor"}
    cells = [(labels[label], text) for label, text in rows]
    text_first = trained[0] == "0"
    content = table_of(cells if text_first else [row[::-1] for row in cells], suffix)
    predictor = opened(CLASSIFIER, data)
    for found, how in ways(predictor, f"a{suffix}", content):
        if found is not None:  # texts with their labels on a stream, which has no name
            assert suffix == ".csv"
            assert not knows
            assert "one text per line" in how
            assert found == content.splitlines()
        else:
            assert "--columns" in how
    predictor.read_otherwise(columns="1,0" if text_first else "0,1")
    assert all(found == [text for _, text in rows] for found, _ in ways(predictor, f"a{suffix}", content))


@pytest.mark.parametrize("trained", ["train.csv", "train.tsv", "train.txt"])
def test_lines_of_nothing_but_labels_are_asked_about(trained: str) -> None:
    predictor = opened(CLASSIFIER, {"file": trained})
    for found, how in ways(predictor, "a.txt", "good\nbad\ngood\n"):
        assert (found, "just a label of this model" in how, "add --lines" in how) == (None, True, True)


@SLOWLY
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_one_column_of_quoted_texts_is_read_alike_or_asked_about(texts: list[str]) -> None:
    content = "".join(f'"{text}"\n' for text in texts)
    predictor = opened(CLASSIFIER, {"file": "train.csv"})
    by_name, *others = ways(predictor, "a.csv", content)
    assert by_name[0] == texts
    assert all(found is None and "one quoted cell in each line" in how for found, how in others)
    predictor.read_otherwise(columns="0")
    assert all(found == texts for found, _ in ways(predictor, "a.csv", content))


@pytest.mark.parametrize(
    ("name", "header"), [("a.tsv", None), ("a.csv", None), ("a.jsonl", None), ("a.tsv", False), ("a.csv", False)]
)
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_first_pair_of_two_words_can_be_read(tmp_path: Path, name: str, header: bool | None, skip_bad: bool) -> None:
    """If it can be no header, or the user says that it is none; the columns by name are advised in their order."""
    task = classification([replace(one, second="again") for one in toy_texts(20, seed=1)])
    pairs = [("Great!", "Yes!"), ("so fine", "not bad"), ("a film", "a good film")]
    rows = [(*pair, "good") for pair in pairs]
    path = tmp_path / name
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows) if name == "a.jsonl" else table_of(rows, path.suffix)
    )
    columns = {"text_column": "0", "second_column": "1", "label_column": "2"}
    data = {"file": "train.tsv", "header": header, "skip_bad_rows": skip_bad, **columns}
    predictor = opened(task, data)
    if header is None and name != "a.jsonl":
        named, advised = ("Great!,Yes!,good" if skip_bad else "Great!,Yes!"), "for this file, --columns 0,1,-."
        with pytest.raises(FileError, match=rf"such as --columns {named}, .* {advised}"):
            predictor.read_file(path)
        predictor.read_otherwise(columns="0,1,-")
    assert predictor.read_file(path)[0] == pairs
