"""Read a model's inputs from a file in the same format as its training file, ignoring the labels."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from saccade.data.labelled import split_label
from saccade.data.lines import choose_encoding, is_utf8, read_lines, suffix
from saccade.data.tables import TABLES, Column, read_columns, table_format
from saccade.data.tagged import CONLLU, are_columns, read_tagged

__all__ = ["read_texts", "read_words", "suffix_of"]

#: Number of lines from which the format of a stream is inferred.
LOOKED_AT = 50


def read_texts(
    path: Path,
    columns: Sequence[Column] = (),
    wanted: int = 0,
    *,
    labels: Collection[str] = (),
    encoding: str | None = None,
) -> tuple[list[str], str]:
    """Read the texts of a file, with a note on how it was read.

    ``columns`` are those of the training table, in the order they have without a header; number ``wanted`` holds the
    texts, and the others may be missing. Any other file has one text per line; if most lines begin with one of the
    ``labels``, as in a training file, the label is dropped.
    """
    name, notes = _encoding(path, encoding)
    if columns and table_format(path) in TABLES:
        chosen, place = _present(path, columns, wanted, name)
        said, found = read_columns(path, chosen, encoding=name)
        rows = [[" ".join(cell.split()) for cell in cells] for _, cells in found]
        if len(chosen) > 1 and labels and 2 * sum(row[1 - place] in labels for row in rows) <= len(rows):
            read_columns(path, (columns[wanted],), encoding=name)  # raises the error that no column has this name
        texts = [row[place] for row in rows]
        used = f"the texts are column {chosen[place]}"
        return texts, "; ".join((used, *said, *notes))
    texts = [text.strip() for _, text in read_lines(path, name)]
    parted = [split_label(text) for text in texts]
    begun = sum(bool(text) and label in labels for label, text in parted)
    filled = sum(map(bool, texts))
    if 2 * begun <= filled or (filled == 1 and "\t" not in "".join(texts)):  # a single text may begin with any word
        return texts, "; ".join(("one text per line", *notes))
    used = f"one label and text per line, labels ignored ({begun:,} of {filled:,} are labels that the model knows)"
    return [" ".join(text.split()) for _, text in parted], "; ".join((used, *notes))


def _encoding(path: Path, given: str | None) -> tuple[str, tuple[str, ...]]:
    """Use the training encoding only for input that is not UTF-8: terminals send UTF-8 whatever training used."""
    return choose_encoding(path, given if given is not None and path.is_file() and not is_utf8(path) else None)


def _present(path: Path, columns: Sequence[Column], wanted: int, encoding: str) -> tuple[tuple[Column, ...], int]:
    """Return the columns to read, and the index among them of the one that holds the texts."""
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
    separator: str | None = None,
    encoding: str | None = None,
) -> tuple[list[list[str]] | list[str], str]:
    """Read sentences as lists of words if the file is CoNLL-U or has columns; otherwise one text per line."""
    name, notes = _encoding(path, encoding)
    if suffix(path) != CONLLU and not are_columns(path, word_column, label_column, separator, name, labels):
        return read_texts(path, encoding=encoding)
    sentences, report = read_tagged(path, word_column, label_column, separator=separator, encoding=name)
    return [list(one.words) for one in sentences], "; ".join(
        ("one word per line, labels ignored", *report.notes, *notes)
    )


def suffix_of(path: Path, trained: str, columns: Sequence[Column]) -> str:
    """Guess the suffix that fits a stream, which has no file name; ``trained`` is the training file's suffix."""
    encoding, _ = choose_encoding(path)
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    if not lines:
        return ".txt"
    if _is_json(lines[0], trained):
        return ".jsonl"
    if trained == CONLLU and (lines[0].startswith("#") or lines[0].count("\t") == 9):
        return CONLLU
    if trained not in (".csv", ".tsv"):
        return ".txt"
    rows = _rows(lines, trained)
    headed = any(column in rows[0] for column in columns)
    even = len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
    # One sentence with a comma is not a table; several in a row with exactly one comma each are almost always one.
    return trained if headed or (even and (trained == ".tsv" or len(rows) > 1)) else ".txt"


def _rows(lines: Sequence[str], kind: str) -> list[list[str]]:
    """Split each line into cells independently of the others."""
    cut = [next(csv.reader([text]), []) if kind == ".csv" else text.split("\t") for text in lines]
    return [[cell.strip() for cell in cells] for cells in cut]


def _is_json(line: str, trained: str) -> bool:
    try:
        return isinstance(json.loads(line), dict | list if trained == ".jsonl" else dict)
    except (ValueError, RecursionError):
        return False
