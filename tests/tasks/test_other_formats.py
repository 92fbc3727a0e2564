"""A file in another format than the model reads is read right or refused, never taken for plain texts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
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
