"""Read the inputs of a model from a file in the format of its training file, ignoring labels."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.labelled import split_label
from saccade.data.lines import choose_encoding, is_utf8, read_lines, suffix
from saccade.data.tables import TABLES, Column, note_skipped, read_columns, table_format
from saccade.data.tagged import CONLLU, are_columns, read_tagged

__all__ = ["read_texts", "read_words", "suffix_of"]

#: The number of lines from which the format of a stream is inferred.
LOOKED_AT = 50


def read_texts(
    path: Path,
    columns: Sequence[Column] = (),
    wanted: int = 0,
    *,
    labels: Collection[str] = (),
    encoding: str | None = None,
    skip_bad: bool = False,
) -> tuple[list[str], str]:
    """Read the texts in a file, and return them with a phrase that says how the file was read.

    ``columns`` are the columns of the training table, in the order that they have if there is no header. The texts are
    in the column with the index ``wanted``, and the other columns may be missing. A file that is not a table has one
    text per line. If most lines begin with one of the ``labels``, as in a training file, the label is dropped.
    """
    name, notes = _encoding(path, encoding)
    if columns and table_format(path) in TABLES:
        chosen, place = _columns_to_read(path, columns, wanted, name)
        bad: list[str] | None = [] if skip_bad else None
        how, found = read_columns(path, chosen, encoding=name, bad=bad)
        rows = [[" ".join(cell.split()) for cell in cells] for _, cells in found]
        if len(chosen) > 1 and labels and 2 * sum(row[1 - place] in labels for row in rows) <= len(rows):
            read_columns(path, (columns[wanted],), encoding=name)  # raises an error: no column has this name
        return [row[place] for row in rows], "; ".join(
            (f"texts from column {chosen[place]}", *how, *notes, *note_skipped(bad))
        )
    texts = [text.strip() for _, text in read_lines(path, name)]
    pairs = [split_label(text) for text in texts]
    labelled = sum(bool(text) and label in labels for label, text in pairs)
    filled = sum(map(bool, texts))
    if 2 * labelled <= filled or (filled == 1 and "\t" not in "".join(texts)):  # a single text may start with any word
        return texts, "; ".join(("one text per line", *notes))
    how = (
        f"one label and one text per line, labels ignored ({labelled:,} of {filled:,} lines start with a known label)",
    )
    return [" ".join(text.split()) for _, text in pairs], "; ".join((*how, *notes))


def _encoding(path: Path, given: str | None) -> tuple[str, tuple[str, ...]]:
    """Use the encoding of the training file only for input that is not UTF-8, because terminals send UTF-8 anyway."""
    return choose_encoding(path, given if given is not None and path.is_file() and not is_utf8(path) else None)


def _columns_to_read(
    path: Path, columns: Sequence[Column], wanted: int, encoding: str
) -> tuple[tuple[Column, ...], int]:
    """Return the columns to read, and the index among them of the one with the texts."""
    column = columns[wanted]
    kind = table_format(path)
    if kind == ".jsonl" or isinstance(column, int):
        return (column,), 0
    first = next((text for _, text in read_lines(path, encoding)), "")
    (cells,) = _rows([first], kind)
    return ((column,), 0) if column in cells or len(cells) == 1 else (tuple(columns), wanted)


def read_words(
    path: Path,
    word_column: str | None,
    label_column: str | None,
    *,
    labels: Collection[str],
    feature_columns: Sequence[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
) -> tuple[list[Any], str]:
    """Read sentences as lists of words if the file is CoNLL-U or has columns; otherwise one text per line. With
    features, a word is a list of the word and its features."""
    name, notes = _encoding(path, encoding)
    if suffix(path) != CONLLU and not are_columns(path, word_column, label_column, separator, name, labels):
        return read_texts(path, encoding=encoding)
    sentences, report = read_tagged(
        path, word_column, label_column, feature_columns=feature_columns, separator=separator, encoding=name
    )
    words: list[Any] = [
        [[word, *more] for word, more in zip(one.words, one.features, strict=True)]
        if feature_columns
        else list(one.words)
        for one in sentences
    ]
    return words, "; ".join(("one word per line, labels ignored", *report.notes, *notes))


def suffix_of(path: Path, trained: str, columns: Sequence[Column]) -> str:
    """Guess the suffix of a stream, which has no file name. ``trained`` is the suffix of the training file."""
    encoding, _ = choose_encoding(path)
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    if not lines:
        return ".txt"
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(lines[0]), dict | list if trained == ".jsonl" else dict):
            return ".jsonl"
    if trained == CONLLU and (lines[0].startswith("#") or lines[0].count("\t") == 9):
        return CONLLU
    if trained not in (".csv", ".tsv"):
        return ".txt"
    rows = _rows(lines, trained)
    has_header = any(column in rows[0] for column in columns)
    alike = sum(len(row) == len(rows[0]) for row in rows) if len(rows[0]) > 1 else 0
    # Tabs make a table even if a few rows are bad. A single sentence with a comma is not a table, but several lines
    # with equally many commas almost always are.
    is_table = 2 * alike > len(rows) if trained == ".tsv" else alike == len(rows) > 1
    return trained if has_header or is_table else ".txt"


def _rows(lines: Sequence[str], kind: str) -> list[list[str]]:
    """Split each line into cells, independently of the other lines."""
    rows = [next(csv.reader([text]), []) if kind == ".csv" else text.split("\t") for text in lines]
    return [[cell.strip() for cell in cells] for cells in rows]
