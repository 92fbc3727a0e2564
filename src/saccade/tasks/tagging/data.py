"""Where the sentences of a tagger come from: the ``[data]`` table of a recipe."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from saccade.data.grammar import generate
from saccade.data.labels import LabelReport
from saccade.data.paths import resolve_path
from saccade.data.tagged import TaggedSentence, read_tagged
from saccade.tasks.base.labelled_data import BUILTIN_HELD_OUT, LabelledData, read_parts
from saccade.tasks.base.task import Splits

__all__ = ["TaggingData", "read_given_sentences", "read_sentences"]


class TaggingData(LabelledData):
    """Words with labels: CoNLL-U, or a word per line in columns; paths may use ~ and $SACCADE_DATA."""

    word_column: str | None = Field(
        None, description="Word column: name or number from 0; if not given, form in CoNLL-U, otherwise the first"
    )
    label_column: str | None = Field(
        None, description="Label column: name or number from 0; if not given, upos in CoNLL-U, otherwise the last"
    )
    separator: str | None = Field(
        None, description="Separator of columns; if not given, tabs or spaces, whichever the first line has"
    )
    max_length: int = Field(250, ge=1, description="Longest sentence in words; longer training sentences are dropped")


def read_sentences(data: TaggingData, seed: int) -> Splits[TaggedSentence]:
    """Read, clean and part the sentences; what was dropped is in the report."""
    if data.builtin is not None:
        counts = {"train": data.sentences, "validation": BUILTIN_HELD_OUT, "test": BUILTIN_HELD_OUT}
        parts = [_from_grammar(count, seed + i, name) for i, (name, count) in enumerate(counts.items())]
        return Splits(parts[0], parts[1], parts[2], notes=["built-in synthetic corpus (docs/corpus.md)"])
    return read_parts(data, lambda path, trained_on: _read(data, path, trained_on), seed)


def read_given_sentences(data: TaggingData) -> list[TaggedSentence]:
    """The sentences of the file as they are, nothing dropped; of the built-in corpus those for testing."""
    if data.file is None:
        return read_sentences(data, seed=1).test
    return _read(data, resolve_path(data.file), False)[0]


def _read(data: TaggingData, path: Path, trained_on: bool) -> tuple[list[TaggedSentence], LabelReport]:
    return read_tagged(
        path,
        data.word_column,
        data.label_column,
        separator=data.separator,
        encoding=data.encoding,
        max_length=data.max_length if trained_on else None,
    )


def _from_grammar(count: int, seed: int, part: str) -> list[TaggedSentence]:
    """The words as they are written: the first with a capital."""
    return [
        TaggedSentence(
            tuple(example.source_text[start:stop] for start, stop in example.source_spans),
            example.tags,
            (number,) * len(example.tags),
            "the built-in corpus",
        )
        for number, example in enumerate(generate(count, seed, part), start=1)
    ]
