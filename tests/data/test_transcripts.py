"""Long texts with a question at the end: the answers are in the texts, and no text is in two splits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import saccade
from saccade.data.transcripts import DISTANCES, TRANSCRIPTS
from saccade.errors import OptionError

RECALL, COUNTING = (TRANSCRIPTS[name](400, 3, "train") for name in ("recall", "counting"))


def test_what_is_asked_was_said_at_the_given_distance() -> None:
    for one in RECALL:
        words = one.text.split()
        asked = words[-3]
        place = words.index(asked)
        assert words[place : place + 4] == [asked, "likes", one.label, "."]
        filler = len(words) - 3 * 4 - len([".", "what", "does", "X", "like", "?"])
        assert one.kind == f"distance {filler}"


def test_the_word_occurs_as_often_as_the_label_says() -> None:
    for one in COUNTING:
        text, question = one.text.split(" . ")
        asked = question.split()[2]
        assert text.split().count(asked) == int(one.label)
        assert one.kind == f"length {len(text.split())}"


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_splits_share_no_text_and_all_distances_are_equally_frequent(name: str) -> None:
    splits = [TRANSCRIPTS[name](200, 5, split) for split in ("train", "validation", "test")]
    texts = [{one.text for one in split} for split in splits]
    assert all(len(own) == 200 for own in texts)
    assert texts[0].isdisjoint(texts[1] | texts[2])
    assert texts[1].isdisjoint(texts[2])
    kinds = [one.kind.split()[1] for one in splits[0]]
    assert [kinds.count(str(distance)) for distance in DISTANCES] == [50] * len(DISTANCES)
    assert TRANSCRIPTS[name](20, 5, "test") == splits[2][:20]


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
