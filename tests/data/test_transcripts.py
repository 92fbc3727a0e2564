"""Long texts with a question at the end: the answers are in the texts, and no text is in two splits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import saccade
from saccade.data import transcripts
from saccade.data.transcripts import COLOURS, DISTANCES, FILLER, TRANSCRIPTS
from saccade.errors import OptionError

RECIPE = Path(__file__).parents[2] / "recipes" / "recall.toml"
RECALL, COUNTING = (TRANSCRIPTS[name](400, 3, "train") for name in ("recall", "counting"))


def test_what_is_asked_was_said_at_the_given_distance() -> None:
    for one in RECALL:
        words = one.text.split()
        asked = words[-1]
        place = words.index(asked)
        assert place in (0, 2)
        assert words[place + 1] == one.label
        assert {words[1], words[3]} <= set(COLOURS)
        assert words[1] != words[3]
        assert set(words[4:-1]) <= set(FILLER)
        assert one.kind == f"distance {len(words[4:-1])}"


def test_the_word_occurs_as_often_as_the_label_says() -> None:
    for one in COUNTING:
        text, question = one.text.split(" . ")
        asked = question.split()[2]
        assert text.split().count(asked) == int(one.label)
        assert one.kind == f"length {len(text.split())}"


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_splits_share_no_text_and_what_is_measured_has_all_distances_equally_often(name: str) -> None:
    splits = [TRANSCRIPTS[name](200, 5, split) for split in ("train", "validation", "test")]
    texts = [{one.text for one in split} for split in splits]
    assert all(len(own) == 200 for own in texts)
    assert texts[0].isdisjoint(texts[1] | texts[2])
    assert texts[1].isdisjoint(texts[2])
    for split in splits[1:]:
        kinds = [one.kind.split()[1] for one in split]
        assert [kinds.count(str(distance)) for distance in DISTANCES] == [50] * len(DISTANCES)
    assert TRANSCRIPTS[name](20, 5, "test") == splits[2][:20]


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_training_has_as_many_words_of_each_range_of_distances(name: str) -> None:
    """From 4 to 7, from 8 to 15, and so on: a short distance is drawn more often, as its texts have fewer words."""
    distances = [int(one.kind.split()[1]) for one in TRANSCRIPTS[name](12_000, 7, "train")]
    assert min(distances) == 1
    assert max(distances) == max(DISTANCES)
    words = [sum(one for one in distances if 2**octave <= one < 2 ** (octave + 1)) for octave in range(2, 7)]
    assert max(words) < 1.5 * min(words)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(OptionError, match="must be 0 or more, not -1"):
        TRANSCRIPTS["recall"](-1, 0, "train")


@pytest.mark.parametrize("kind", ["recurrent", "convolutional", "transformer", "rwkv"])
def test_a_recipe_reports_each_distance(kind: str, tmp_path: Path, one_thread: None) -> None:
    """Four updates teach nothing; how many of each distance are right is counted all the same."""
    tables = {
        "task": "classification",
        "data": {"builtin": "recall", "sentences": 100},
        "text": {"kind": "word", "vocabulary": 200},
        "model": {"kind": kind, "width": 8, "encoder_layers": 1, "pooling": "last"},
        "training": {"steps": 4, "warmup": 1, "validate_every": 4, "batch_tokens": 600},
    }
    run = saccade.train(tables, output=tmp_path / "run", quiet=True)
    kinds = json.loads((tmp_path / "run" / "result.json").read_text())["kinds"]
    assert {name: total for name, (_, total) in kinds.items()} == {f"distance {one}": 250 for one in DISTANCES}
    right = sum(number for number, _ in kinds.values())
    assert run.scores["accuracy"] == pytest.approx(100 * right / 1000)


def test_recall_is_learned_from_short_texts(tmp_path: Path, one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Knowing only which two colours were named would give 50%; the name must be found, and its colour with it."""
    monkeypatch.setattr(transcripts, "OCTAVES", 2)
    monkeypatch.setattr(transcripts, "DISTANCES", (4,))
    short = {"data.sentences": 20_000, "training.steps": 250, "training.batch_tokens": 1024, "training.warmup": 30}
    run = saccade.train(RECIPE, output=tmp_path / "run", settings=short, quiet=True)
    assert run.scores["accuracy"] >= 95
