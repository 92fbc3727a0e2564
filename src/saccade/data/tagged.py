"""Read sentences with one label per word: CoNLL-U, or columns with one word and its label per line.

A blank line ends a sentence. Nothing is guessed silently: the report notes which columns were used and how they are
separated, and the error for a line that does not fit gives its number.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELD_PARSERS, DEFAULT_FIELDS, parse_line

from saccade.data.labels import LabelReport, collect
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.errors import FileError, OptionError

__all__ = ["CONLLU", "TaggedSentence", "are_columns", "read_tagged"]

#: A line that some corpora put between documents, in place of a sentence.
DOCUMENT_START = "-DOCSTART-"
#: The suffix of CoNLL-U files.
CONLLU = ".conllu"
#: Only the word number is parsed; all other fields stay text.
_PARSERS = {"id": DEFAULT_FIELD_PARSERS["id"]}

#: Number of lines used to distinguish columns from plain text.
LOOKED_AT = 200

Line = tuple[int, str]
Word = tuple[int, str, str]  # line, word, label


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their labels."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    label_lines: tuple[int, ...]
    """The line number of each word, counted from 1."""
    file: str

    @property
    def line(self) -> int:
        return self.label_lines[0]

    @property
    def source(self) -> str:
        return " ".join(self.words)

    @property
    def length(self) -> int:
        return len(self.words)


def read_tagged(
    path: str | Path,
    word_column: str | None = None,
    label_column: str | None = None,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    max_length: int | None = None,
) -> tuple[list[TaggedSentence], LabelReport]:
    """Read the sentences of a file: CoNLL-U if its suffix is ``.conllu``, otherwise columns.

    CoNLL-U: columns are given by name, usually ``form`` and ``upos``; the words of a multi-word token are read, but not
    the token itself, nor empty nodes. Columns: given by number from 0 or from the end (-1 is the last), usually the
    first and the last, or by name if the first line names them. Unless ``separator`` is given, they are separated by
    tabs if the first line has any, by commas in a ``.csv`` file, and otherwise by white space.
    """
    name, notes = choose_encoding(path, encoding)
    lines = read_lines(path, name)
    if suffix(path) == CONLLU:
        columns = word_column or "form", label_column or "upos"
        words = _conllu_words(path, lines, *columns)
        notes = (*notes, f"columns {columns[0]} and {columns[1]}")
    else:
        words, said = _column_words(path, lines, word_column or "0", label_column or "-1", separator)
        notes = (*notes, *said)
    return collect(str(path), _sentences(str(path), words), unit="sentences", max_length=max_length, notes=notes)


def _sentences(file: str, words: Iterable[Word | None]) -> Iterator[TaggedSentence]:
    """Group words into sentences; a None ends a sentence."""
    sentence: list[Word] = []
    for word in chain(words, [None]):
        if word is not None:
            sentence.append(word)
        elif sentence:
            lines, forms, labels = zip(*sentence, strict=True)
            if forms != (DOCUMENT_START,):
                yield TaggedSentence(forms, labels, lines, file)
            sentence = []


# --- CoNLL-U -----------------------------------------------------------------------------------------------


def _conllu_words(path: str | Path, lines: Iterable[Line], word: str, label: str) -> Iterator[Word | None]:
    for column in (word, label):
        if column not in DEFAULT_FIELDS:
            raise OptionError(f"CoNLL-U has no column {column!r}; its columns are {', '.join(DEFAULT_FIELDS)}.")
    for number, text in lines:
        if text.startswith("#"):
            continue
        if not text.strip():
            yield None
            continue
        try:
            row = parse_line(text, DEFAULT_FIELDS, _PARSERS)
        except ParseException as error:
            raise FileError(f"{path}, line {number}: not a line of CoNLL-U ({error}).") from None
        if len(row) < len(DEFAULT_FIELDS):
            raise FileError(
                f"{path}, line {number}: {len(row)} columns; expected {len(DEFAULT_FIELDS)} separated by tabs, as "
                "CoNLL-U has."
            )
        if isinstance(row["id"], int):  # not 3-4, several words written as one, nor 5.1, a word that is not written
            yield number, row[word], row[label]


# --- columns -----------------------------------------------------------------------------------------------


def _column_words(
    path: str | Path, lines: Iterator[Line], word: str, label: str, separator: str | None
) -> tuple[Iterator[Word | None], tuple[str, ...]]:
    """Return the words, and notes on the choices made."""
    # A new document ends a sentence like a blank line, whether or not one follows.
    lines = ((number, "" if text.startswith(DOCUMENT_START) else text) for number, text in lines)
    first = next(((number, text) for number, text in lines if text.strip()), None)
    if first is None:
        return iter(()), ()
    cut, separated = _cutter(path, first[1], separator)
    cells = cut(first[1])
    if len(cells) == 1:
        raise FileError(
            f"{path}, line {first[0]}: only one column (separator: {separated}); expected a word and a label."
        )
    if not _is_number(word) or not _is_number(label):
        names = [cell.strip() for cell in cells]
        places = [_named(path, first[0], names, column) for column in (word, label)]
        note = f"columns {word} and {label} named by line {first[0]}, separated by {separated}"
    else:
        places = [_numbered(path, first[0], len(cells), int(column)) for column in (word, label)]
        lines = chain([first], lines)
        note = f"columns {places[0]} and {places[1]}, counted from 0, separated by {separated}"
    return _picked(path, lines, cut, (places[0], places[1]), (first[0], len(cells))), (note,)


def are_columns(
    path: Path, word: str | None, label: str | None, separator: str | None, encoding: str, known: Collection[str]
) -> bool:
    """Whether a file has words and labels in columns rather than one text per line: its first line names the columns,
    or most of its labels are known."""
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    if not lines or (cells := _cutter(path, lines[0], separator)[0])(lines[0]) == []:
        return False
    rows = [cells(text) for text in lines if not text.startswith(DOCUMENT_START)]
    names = [name for name in (word, label) if name is not None and not _is_number(name)]
    if names:
        return all(name in rows[0] for name in names)
    place = int(label or -1)
    width = len(rows[0])
    if width < 2 or not -width <= place < width or any(len(row) != width for row in rows):
        return False
    return 2 * sum(row[place].strip() in known for row in rows) > len(rows)


def _cutter(path: str | Path, first: str, separator: str | None) -> tuple[Callable[[str], list[str]], str]:
    """Return the function that splits a line into cells, and a description of the separator."""
    if separator == "":
        raise OptionError("The separator is empty; omit it for white space, or give one such as '|'.")
    if separator is None and suffix(path) == ".csv":
        separator = ","
    if separator is None:
        separator = "\t" if "\t" in first else None
    if separator == ",":  # with quotes, since a comma can be a word
        return (lambda text: next(csv.reader([text]), [])), "commas"
    return (lambda text: text.split(separator)), {None: "white space", "\t": "tabs"}.get(separator, repr(separator))


def _picked(
    path: str | Path,
    lines: Iterable[Line],
    cut: Callable[[str], list[str]],
    places: tuple[int, int],
    first: tuple[int, int],
) -> Iterator[Word | None]:
    for number, text in lines:
        if not text.strip():
            yield None
            continue
        cells = cut(text)
        if len(cells) != first[1]:
            raise FileError(
                f"{path}, line {number}: {len(cells)} columns; expected {first[1]}, as in line {first[0]}, "
                "or a blank line between sentences."
            )
        word, label = (cells[place].strip() for place in places)
        if not word or not label:
            missing = "label" if word else "word"
            raise FileError(f"{path}, line {number}: no {missing}; expected a word and its label.")
        yield number, word, label


def _is_number(column: str) -> bool:
    return column.removeprefix("-").isdecimal()


def _named(path: str | Path, line: int, names: list[str], column: str) -> int:
    if column not in names:
        raise FileError(
            f"{path}, line {line}: there is no column named {column!r}; the line has: {', '.join(map(repr, names))}."
        )
    return names.index(column)


def _numbered(path: str | Path, line: int, width: int, column: int) -> int:
    if not -width <= column < width:
        raise FileError(
            f"{path}, line {line}: there is no column number {column}; the line has {width} columns, counted from 0."
        )
    return column % width
