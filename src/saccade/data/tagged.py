"""Read sentences with one label per word: CoNLL-U, or columns with one word and its label per line.

A blank line ends a sentence. Nothing is guessed silently: the report notes which columns were used and how they are
separated, and an error names the first line in another format.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELD_PARSERS, DEFAULT_FIELDS, parse_line

from saccade.data.labels import LabelReport, collect
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.tables import SEPARATORS, choose_separator, is_json, refuse_separator
from saccade.errors import FileError, OptionError, counted

__all__ = [
    "CONLLU",
    "DEFAULT_FIELDS",
    "DOCUMENT_START",
    "LOOKED_AT",
    "TaggedSentence",
    "cell_splitter",
    "column_separator",
    "is_conllu",
    "is_number",
    "read_tagged",
]

#: A line that some corpora put between documents, in place of a sentence.
DOCUMENT_START = "-DOCSTART-"
#: The suffix of CoNLL-U files.
CONLLU = ".conllu"
#: Only the number of a word is parsed; all other fields stay text.
_PARSERS = {"id": DEFAULT_FIELD_PARSERS["id"]}

#: Usual names of the column of words.
HEADERS = ("word", "words", "token", "tokens", "form")

#: The number of lines that are used to tell columns from plain text.
LOOKED_AT = 200

NumberedLine = tuple[int, str]
WordLine = tuple[int, str, str, tuple[str, ...]]  # line, word, label, features


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence, and their labels."""

    words: tuple[str, ...]
    labels: tuple[str, ...]
    label_lines: tuple[int, ...]  # the line number of each word, counting from 1
    file: str
    features: tuple[tuple[str, ...], ...] = ()  # the values of the feature columns for each word

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
    feature_columns: Sequence[str] = (),
    separator: str | None = None,
    encoding: str | None = None,
    max_length: int | None = None,
    labelled: bool = True,
) -> tuple[list[TaggedSentence], LabelReport]:
    """Read the sentences in a file: CoNLL-U if its suffix is ``.conllu``, otherwise columns.

    In CoNLL-U, columns are given by name, and are ``form`` and ``upos`` by default. The words of a multi-word token are
    read, but not the token itself, and empty nodes are skipped.

    Other columns are given by number, from 0 or from the end (-1 is the last), or by name if the first line names them.
    The first and the last column are the default. Unless ``separator`` is given, columns are separated by commas,
    semicolons or tabs in a ``.csv`` file (`choose_separator`), by tabs if the first line has any, and otherwise by
    white space. ``feature_columns`` have more information on
    each word, such as its part of speech. If ``labelled`` is False, no column has labels, and all labels are empty.
    """
    name, notes = choose_encoding(path, encoding)
    lines = read_lines(path, name)
    separator = column_separator(path, name, separator)
    if suffix(path) == CONLLU:
        refuse_separator(path, separator)
        columns = word_column or "form", label_column or "upos"
        words = _conllu_words(path, lines, *columns, feature_columns)
        notes = (*notes, _note([*columns, *feature_columns]))
    else:
        if suffix(path) in (".json", ".jsonl") or is_json(next((text for _, text in read_lines(path, name)), "")):
            raise FileError(f"{path} is a JSON file; words and labels are read from CoNLL-U files or columns only.")
        if word_column is None and label_column is None:
            _refuse_other_columns(path, name)
        every = [word_column or "0", label_column or "-1", *feature_columns]
        if not labelled:
            del every[1]
        words, choices = _column_words(path, lines, every, separator, labelled)
        notes = (*notes, *choices)
    return collect(str(path), _sentences(str(path), words), unit="sentences", max_length=max_length, notes=notes)


def _refuse_other_columns(path: str | Path, encoding: str) -> None:
    """Refuse a file whose first and last columns are clearly not words and labels: CoNLL-U, or a table with header."""
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT)]
    rows = [re.split(r"[\t,; ]", text.strip()) for text in lines if text.strip() and text[0] != "#"]
    if is_conllu(lines, "\t,; "):
        raise FileError(
            f"{path} looks like CoNLL-U, whose words are not in the first column; rename it to end in {CONLLU}, or say "
            "which columns have the words and the labels, such as --columns 1,3."
        )
    if rows and rows[0][0].casefold() in HEADERS and rows[0][-1] not in [row[-1] for row in rows[1:]]:
        raise FileError(
            f"{path}: the first line, {' '.join(rows[0])!r}, looks like a header; say which columns have the words and "
            f"the labels, such as --columns {rows[0][0]},{rows[0][-1]}, or --columns 0,-1 if the line is data."
        )


def is_conllu(lines: Sequence[str], between: str = "\t") -> bool:
    """Return whether lines look like CoNLL-U: they begin with one of its comments, or with the first word of a sentence
    in ten columns, with one of the characters in ``between`` between them."""
    some = [text for text in lines if text.strip()]
    if some and re.match(r"#\s*(sent_id|text|newdoc|newpar|global\.columns)\b", some[0]):
        return True
    first = next((re.split(f"[{between}]", text.strip()) for text in some if text[0] != "#"), [])
    return len(first) == len(DEFAULT_FIELDS) and first[0].partition("-")[0] == "1"


def _sentences(file: str, words: Iterable[WordLine | None]) -> Iterator[TaggedSentence]:
    """Group words into sentences. None ends a sentence."""
    sentence: list[WordLine] = []
    for word in chain(words, [None]):
        if word is not None:
            sentence.append(word)
        elif sentence:
            lines, forms, labels, features = zip(*sentence, strict=True)
            if forms != (DOCUMENT_START,):
                yield TaggedSentence(forms, labels, lines, file, features if features[0] else ())
            sentence = []


# --- CoNLL-U -----------------------------------------------------------------------------------------------


def _note(columns: Sequence[str], labelled: bool = True) -> str:
    """Return a note that says which columns are read."""
    features = columns[2:] if labelled else columns[1:]
    read = f"columns {columns[0]} and {columns[1]}" if labelled else f"column {columns[0]}, no labels"
    return read + "".join(f", and {one} as a feature" for one in features)


def _conllu_words(
    path: str | Path, lines: Iterable[NumberedLine], word: str, label: str, features: Sequence[str]
) -> Iterator[WordLine | None]:
    for column in (word, label, *features):
        if column not in DEFAULT_FIELDS:
            raise OptionError(
                f"CoNLL-U has no column {column!r}; its columns are {', '.join(DEFAULT_FIELDS)}; choose two of them "
                "with --columns, such as --columns form,upos."
            )
    for number, text in lines:
        if text.startswith("#"):
            continue
        if not text.strip():
            yield None
            continue
        try:
            row = parse_line(text, DEFAULT_FIELDS, _PARSERS)
        except (ParseException, ValueError) as error:  # ValueError: a number of thousands of digits
            raise FileError(f"{path}, line {number}: this is not a line of CoNLL-U ({error}).") from None
        if len(row) < len(DEFAULT_FIELDS):
            raise FileError(
                f"{path}, line {number}: the line has {counted(len(row), 'column')}; CoNLL-U has "
                f"{len(DEFAULT_FIELDS)}, separated by "
                "tabs."
            )
        if isinstance(row["id"], int):  # skip 3-4 (several words written as one) and 5.1 (a word that is not written)
            yield number, row[word], row[label], tuple(row[name] for name in features)


# --- columns -----------------------------------------------------------------------------------------------


def _column_words(
    path: str | Path, lines: Iterator[NumberedLine], columns: Sequence[str], separator: str | None, labelled: bool
) -> tuple[Iterator[WordLine | None], tuple[str, ...]]:
    """Return the words, and notes on the choices that were made. The second column has the labels, if there are any."""
    # The start of a document ends a sentence, as a blank line does.
    lines = ((number, "" if text.startswith(DOCUMENT_START) else text) for number, text in lines)
    first = next(((number, text) for number, text in lines if text.strip()), None)
    if first is None:
        return iter(()), ()
    split, separated = cell_splitter(path, first[1], separator)
    cells = split(first[1])
    where = f"{path}, line {first[0]}"
    if len(cells) == 1 < len(columns):
        raise FileError(f"{where}: there is only one column (separator: {separated}); expected a word and a label.")
    places = []
    if not all(map(is_number, columns)):
        names = [cell.strip() for cell in cells]
        for column in columns:
            if column not in names:
                raise FileError(
                    f"{where}: there is no column named {column!r}; the line has: {', '.join(map(repr, names))}; "
                    "choose columns with --columns, by number (such as 0,1) if the file has no header line."
                )
            places.append(names.index(column))
        note = f"{_note(columns, labelled)}, named in line {first[0]}, separated by {separated}"
    else:
        for number in map(int, columns):
            if not -len(cells) <= number < len(cells):
                raise FileError(
                    f"{where}: there is no column {number}; the line has "
                    f"{counted(len(cells), 'column')}, numbered from 0; choose the columns with "
                    "--columns or, in a recipe, in [data]."
                )
            places.append(number % len(cells))
        lines = chain([first], lines)
        note = f"{_note([str(place) for place in places], labelled)}, numbered from 0, separated by {separated}"
    return _read_cells(path, lines, split, places, (first[0], len(cells)), labelled), (note,)


def column_separator(path: str | Path, encoding: str, given: str | None) -> str | None:
    """Return the given separator or, for a .csv file without one, the separator that its lines show."""
    if given is not None or suffix(path) != ".csv":
        return given
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    return choose_separator(path, lines, lambda width: True)


def cell_splitter(path: str | Path, first: str, separator: str | None) -> tuple[Callable[[str], list[str]], str]:
    """Return a function that splits a line into cells, and a description of the separator."""
    if separator == "":
        raise OptionError("The separator is empty; leave it out for white space, or give one such as '|'.")
    if separator is None:
        separator = "\t" if "\t" in first else None
    said = SEPARATORS.get(separator, repr(separator)) if separator else "white space"
    if separator == "," or (suffix(path) == ".csv" and separator in SEPARATORS):  # with quotes: a comma can be a word
        return (lambda text: next(csv.reader([text], delimiter=separator), [])), said
    return (lambda text: text.split(separator)), said


def _read_cells(
    path: str | Path,
    lines: Iterable[NumberedLine],
    split: Callable[[str], list[str]],
    places: Sequence[int],
    first: tuple[int, int],
    labelled: bool,
) -> Iterator[WordLine | None]:
    for number, text in lines:
        if not text.strip():
            yield None
            continue
        cells = split(text)
        if len(cells) != first[1]:
            raise FileError(
                f"{path}, line {number}: the line has {counted(len(cells), 'column')}; expected {first[1]}, "
                f"as in line {first[0]}, "
                "or a blank line between sentences."
            )
        word, *others = (cells[place].strip() for place in places)
        if not word or not all(others):
            missing = "word" if not word else "label" if labelled and not others[0] else "feature"
            raise FileError(f"{path}, line {number}: there is no {missing}; expected a word and its label.")
        yield number, word, others[0] if labelled else "", tuple(others[labelled:])


def is_number(column: str) -> bool:
    return column.removeprefix("-").isdecimal()
