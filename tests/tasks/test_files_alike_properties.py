"""Whatever texts a file has, in whatever format and encoding: every way to read it gives the same inputs."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from toy_labels import classification, tagging, toy_sentences, toy_texts

from saccade.models import Config
from saccade.tasks.base.predictor import NoOptions, Predictor
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.registry import TASKS
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer

WORDS = Tokenizer.train(["a dog", "un chien"], "word")
#: Letters of Latin-1, so that every encoding here can write them, and what has a meaning in some format.
WORD = st.text("abcéüß0127\"',;:|#{}[]<>-_.&%", min_size=1, max_size=6)
TEXT = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-8-sig": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "latin-1": lambda text: text.encode("latin-1"),
}


class Kind(NamedTuple):
    """A task that reads a table of texts: the names of its columns and of the keys that name them in a recipe."""

    task: Task
    names: tuple[str, ...]
    keys: tuple[str, ...]
    cells: st.SearchStrategy[tuple[str, ...]]  # one row; the first cell is the input
    source: Callable[[Any], Any]


KINDS = {
    "classification": Kind(
        classification(toy_texts(20, seed=1)),
        ("text", "label"),
        ("text_column", "label_column"),
        st.tuples(TEXT, st.sampled_from(["good", "bad"])),
        lambda one: one.text,
    ),
    "translation": Kind(
        Translation(TranslationState(WORDS, WORDS)),
        ("source", "target"),
        ("source_column", "target_column"),
        st.tuples(TEXT, TEXT),
        lambda one: one.source,
    ),
    "language-model": Kind(
        LanguageModel(LanguageModelState(WORDS, 8, separated=True)),
        ("text",),
        ("column",),
        st.tuples(TEXT),
        lambda one: one.text,
    ),
}


TAGGING = tagging(toy_sentences(20, seed=1))


def table(kind: str, header: list[str], rows: list[list[str]], line_end: str) -> str:
    """The rows in a format."""
    if kind == ".jsonl":
        return "".join(json.dumps(dict(zip(header, row, strict=True))) + line_end for row in rows)
    written = io.StringIO()
    if kind == ".csv":
        csv.writer(written, lineterminator=line_end).writerows([header, *rows])
        return written.getvalue()
    return "".join("\t".join(row) + line_end for row in [header, *rows])


def assert_alike(kind: str, data: dict[str, Any], content: bytes, name: str, source: Callable[[Any], Any]) -> list[Any]:
    """The inputs in a file, which are those of training, of scoring, of a stream and of the server."""
    reader, task = TASKS[kind].data, TASKS[kind]
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        held_out = path.with_name(f"validation-{name}")
        for file in (path, held_out):
            file.write_bytes(content)
        read_as = data | reader.table([path, held_out], None)
        checked = reader.settings.read(read_as, "the test")
        scored = [source(one) for one in reader.read_for_scoring(checked)]
        assert [source(one) for one in reader.read(checked, 1).train] == scored
        made = TAGGING if kind == "tagging" else KINDS[kind].task
        options = SearchOptions() if isinstance(made, Translation) else NoOptions()
        predictor: Predictor = task.predictor(Bundle(made, "transformer", Config(), nn.Identity(), options, read_as))
        assert predictor.read_file(path)[0] == scored
        assert predictor.read_stream(io.BytesIO(content))[0] == scored
        assert predictor.read_bytes(content)[0] == scored
    return scored


def packed(text: str, encoding: str, compressed: bool) -> bytes:
    content = ENCODINGS[encoding](text)
    return gzip.compress(content) if compressed else content


FORMS = st.tuples(
    st.sampled_from([".csv", ".tsv", ".jsonl"]), st.sampled_from(list(ENCODINGS)), st.sampled_from(["\n", "\r\n"])
)
SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOWLY
@given(st.data(), st.sampled_from(list(KINDS)), FORMS, st.booleans(), st.booleans(), st.permutations([0, 1, 2]))
def test_tables(
    data: st.DataObject, kind: str, form: tuple[str, str, str], compressed: bool, named: bool, order: list[int]
) -> None:
    """Tables with a further column, with the columns in any order and of any names."""
    one, (suffix, encoding, line_end) = KINDS[kind], form
    rows = data.draw(st.lists(one.cells, min_size=2, max_size=6, unique_by=lambda row: row[0]))
    names = [f"my {name}" for name in one.names] if named else list(one.names)
    places = [place for place in order if place <= len(names)]  # one column more than is needed
    header = [[*names, "more"][place] for place in places]
    cells = [[[*row, f"x{number}"][place] for place in places] for number, row in enumerate(rows)]
    read_as = dict(zip(one.keys, names, strict=True))
    if encoding == "latin-1":
        read_as["encoding"] = encoding
    content = packed(table(suffix, header, cells, line_end), encoding, compressed)
    found = assert_alike(kind, read_as, content, f"a{suffix}{'.gz' * compressed}", one.source)
    assert found == [row[0] for row in rows]


@SLOWLY
@given(
    st.lists(
        st.lists(
            st.tuples(WORD.filter(lambda word: word[0] != "#"), st.sampled_from(["NOUN", "VERB", "DET"])),
            min_size=1,
            max_size=4,
        ),
        min_size=2,
        max_size=5,
        unique_by=str,
    ),
    st.sampled_from([" ", "\t"]),
    st.sampled_from(list(ENCODINGS)),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_words_in_columns(
    sentences: list[list[tuple[str, str]]], separator: str, encoding: str, line_end: str, compressed: bool
) -> None:
    lines = ["".join(f"{word}{separator}{label}{line_end}" for word, label in one) for one in sentences]
    read_as = {"encoding": encoding} if encoding == "latin-1" else {}
    content = packed(line_end.join(lines), encoding, compressed)
    found = assert_alike("tagging", read_as, content, f"a.txt{'.gz' * compressed}", lambda one: list(one.words))
    assert found == [[word for word, _ in one] for one in sentences]
