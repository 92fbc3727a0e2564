"""Read the inputs of a tagger: words in columns, with or without labels, or one text per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.inputs import read_texts
from saccade.data.label_checks import DECIDED_BY
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.tables import is_json
from saccade.data.tagged import (
    CONLLU,
    DEFAULT_FIELDS,
    DOCUMENT_START,
    LOOKED_AT,
    cell_splitter,
    column_separator,
    is_conllu,
    is_number,
    read_tagged,
)
from saccade.errors import FileError, counted

__all__ = ["read_words", "suffix_of_words"]

#: More columns than any file has, to sort negative column numbers, which count from the end, after the others.
UNLIMITED = 1 << 30
#: If this many lines, and this fraction of all of them, have the same number of words, they look like columns.
FEW, MOST = 5, 0.9
#: How a user says which columns a file has.
CHOSEN_BY = "--columns with the columns of the words, the labels (- if there are none) and the features"


def read_words(
    path: Path,
    word_column: str | None,
    label_column: str | None,
    *,
    labels: Collection[str],
    feature_columns: Sequence[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
    lines: bool = False,
    has_labels: bool | None = None,
) -> tuple[list[Any], str]:
    """Read sentences as lists of words if the file is CoNLL-U or has columns, and otherwise one text per line; return
    them with a phrase that says how the file was read. If there are ``feature_columns``, a list of the word and its
    features takes the place of each word. ``has_labels`` says that the file has columns, and whether one of them has
    labels; if it is None, `in_columns` finds out."""
    name, _ = choose_encoding(path, encoding)
    if lines:
        return read_texts(path, encoding=encoding, lines=True)
    if suffix(path) == CONLLU:
        has_labels = True
    elif has_labels is None:
        has_labels = in_columns(path, (word_column, label_column, *feature_columns), separator, name, labels)
        if has_labels is False:
            word_column, feature_columns = unlabelled_columns(word_column, label_column, feature_columns)
    if has_labels is None:
        return read_texts(path, encoding=encoding, separator=separator)
    sentences, report = read_tagged(
        path,
        word_column,
        label_column,
        feature_columns=feature_columns,
        separator=separator,
        encoding=encoding,
        labelled=has_labels,
    )
    words: list[Any] = [
        [[word, *more] for word, more in zip(one.words, one.features, strict=True)]
        if feature_columns
        else list(one.words)
        for one in sentences
    ]
    ignored = ", labels ignored" if has_labels else ""
    return words, "; ".join((f"one word per line{ignored}", *report.notes))


def suffix_of_words(path: Path, columns: Sequence[str | None], trained: str, encoding: str | None = None) -> str | None:
    """Return the suffix of CoNLL-U if that is the format of a file whose name does not reveal it, and otherwise None.
    ``columns`` are those that are read; if they have numbers, the file is read as other columns are. ``trained`` is the
    suffix of the training file."""
    if any(column is not None and is_number(column) for column in columns):
        return None
    name, _ = choose_encoding(path, encoding)
    lines = [text for _, text in islice(read_lines(path, name), LOOKED_AT) if text.strip()]
    is_wide = trained == CONLLU and bool(lines) and lines[0].count("\t") == len(DEFAULT_FIELDS) - 1
    return CONLLU if is_wide or is_conllu(lines) else None


def unlabelled_columns(word: str | None, label: str | None, features: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the column of words and the columns of features in a file that is like the training files, whose columns
    are given, but has no column of labels.

    Names of columns stay the same. If columns are given by number, the file is expected to have only words and
    features, in the same order as in the training files, and their numbers in this file are returned.
    """
    columns = [word or "0", *features, label or "-1"]
    if not all(map(is_number, columns)):
        return word, list(features)
    order = sorted(range(len(columns)), key=lambda place: int(columns[place]) % UNLIMITED)
    order.remove(len(columns) - 1)
    first, *others = (str(order.index(place)) for place in range(len(order)))
    return first, others


@dataclass(frozen=True)
class LineShape:
    """What the first lines of a file look like: their cells, and whether they must be cells of columns."""

    rows: list[list[str]]
    is_divided: bool  # by tabs, or by a separator that the user gave
    has_blanks: bool  # whether there is a blank line between two others

    @property
    def width(self) -> int:
        return len(self.rows[0])

    @property
    def is_even(self) -> bool:
        """Whether the lines have so regularly the same number of words that they are hardly texts."""
        if len(self.rows) < 2:
            return False
        width, count = Counter(map(len, self.rows)).most_common(1)[0]
        if count == len(self.rows) and (width == 1 or self.has_blanks):
            return True
        if self.has_blanks and width == 1 and 2 * count > len(self.rows):  # New York can be one word
            return True
        return count >= FEW and count >= MOST * len(self.rows)


def in_columns(
    path: Path, columns: Sequence[str | None], separator: str | None, encoding: str, known: Collection[str]
) -> bool | None:
    """Return whether one of the columns of a file has labels, or None if the file has no columns but one text per line.

    ``columns`` are those of the words, the labels and the features in the training files. A file has columns if its
    first line names them, if tabs or the given ``separator`` divide its lines, or if most cells in the column of labels
    are ``known`` labels. It has no labels if it has one column less than the training files. Raises an error if a file
    can be read in both ways, or looks like columns other than these.
    """
    found = _shape(path, separator, encoding, all(column is None or is_number(column) for column in columns))
    if found is None:
        return None
    every = [columns[0] or "0", columns[1] or "-1", *(one or "" for one in columns[2:])]
    rows, width = found.rows, found.width
    if not all(map(is_number, every)):
        names = [cell.strip() for cell in rows[0]]
        missing = [name for name in every if name not in names]
        is_table = width > 1 and (found.is_divided or found.is_even)
        if width == 1 and missing and found.is_even:
            _refuse_either(path)
        return not missing if missing in ([], [every[1]]) or is_table else None
    if width == len(every) - 1 > 1 and all(len(row) == width for row in rows):
        return False
    place = int(every[1])
    cells = [row[place].strip() for row in rows if len(row) > 1 and -len(row) <= place < len(row)]
    count = sum(label in known for label in cells)
    if width > 1 and (found.is_divided or found.is_even) and 2 * count < len(cells) and set(cells) != {"_"}:
        decided = f"{CHOSEN_BY}{'' if found.is_divided else f', or {DECIDED_BY}'}"
        raise FileError(
            f"{path} looks like {counted(width, 'column')}, but most cells of column {every[1]}, such as {cells[0]!r}, "
            f"are not labels of this model; add {decided}."
        )
    if width > 1 and (found.is_divided or 2 * count >= len(rows) > 1):
        return True
    if count or found.is_even:
        _refuse_either(path)
    return None


def _shape(path: Path, separator: str | None, encoding: str, by_number: bool) -> LineShape | None:
    """Return what the first lines of a file look like; None if there are none. Raises an error for a format that has
    no columns of words, and for CoNLL-U that is not called so."""
    looked_at = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT)]
    lines = [text for text in looked_at if text.strip() and not text.startswith(DOCUMENT_START)]
    if suffix(path) in (".json", ".jsonl") or (lines and is_json(lines[0])):
        raise FileError(f"{path} looks like JSON, but words are read from CoNLL-U files or columns only; {DECIDED_BY}.")
    is_divided = separator is not None
    separator = column_separator(path, encoding, separator)
    if is_conllu(looked_at) and not (by_number and lines and "\t" in lines[0]):
        raise FileError(f"{path} looks like CoNLL-U; rename it to end in {CONLLU}, or {DECIDED_BY}.")
    if not lines or (split := cell_splitter(path, lines[0], separator)[0])(lines[0]) == []:
        return None
    has_blanks = any(not text.strip() for text in "\n".join(looked_at).strip().split("\n"))
    return LineShape([split(text) for text in lines], is_divided or "\t" in lines[0], has_blanks)


def _refuse_either(path: Path) -> None:
    raise FileError(
        f"{path} may have one word per line or one text per line; {DECIDED_BY}, or {CHOSEN_BY}, such as --columns 0,-."
    )
