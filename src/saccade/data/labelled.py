"""Read labelled texts: columns of a CSV, TSV or JSONL file, or lines with a label and a text.

A table may also have a second text for each label, or several labels for each text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from saccade.data.labels import LabelReport, collect
from saccade.data.lines import choose_encoding, is_marked, read_lines, suffix
from saccade.data.tables import (
    TABLES,
    note_skipped,
    read_columns,
    refuse_header,
    refuse_or_skip,
    refuse_separator,
    table_format,
)
from saccade.errors import FileError

__all__ = [
    "FASTTEXT",
    "LABEL_FIRST",
    "LabelledText",
    "is_headed",
    "label_end",
    "read_labelled",
    "split_label",
    "split_labels",
]

#: The beginning of each label in the format of fastText.
FASTTEXT = "__label__"
#: The columns of a table without a header, unless the user chooses others.
LABEL_FIRST = ("label", "text")


@dataclass(frozen=True)
class LabelledText:
    """A text, or a pair of texts, with one or several labels."""

    text: str
    label: str  # as in the file, even if it is a list of several labels
    line: int
    file: str
    kind: str = ""  # the kind of a built-in text; scores are also computed for each kind
    second: str | None = None  # the second text, if the label belongs to a pair of texts
    several: tuple[str, ...] | None = None  # the labels, if there may be any number of them
    #: Whether the label is the first word of a line by default, because the user did not say where labels are.
    is_first_word: bool = field(default=False, compare=False)

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def source(self) -> str:
        return "\t".join(self.texts)

    @property
    def length(self) -> int:
        return len(self.source.split())

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,) if self.several is None else self.several

    @property
    def label_lines(self) -> tuple[int, ...]:
        return (self.line,) * len(self.labels)


def read_labelled(
    path: str | Path,
    text_column: str | int = "text",
    label_column: str | int = "label",
    *,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    second_column: str | int | None = None,
    label_separator: str | None = None,
    separator: str | None = None,
) -> tuple[list[LabelledText], LabelReport]:
    """Read labelled texts from a table, which is recognised by its suffix or its tabs, or from lines with a label, a
    space and a text.

    If a table has no header and no columns are chosen, its first column is the label. Blank lines are skipped. A label
    without a text, or a text without a label, is an error; with ``skip_bad`` it is skipped and counted. With
    ``second_column``, each example is a pair of texts with one label. With ``label_separator``, which separates the
    labels of one text, a text can have any number of labels, even none. ``separator`` separates the cells of CSV files.
    """
    bad: list[str] | None = [] if skip_bad else None
    is_table = table_format(path) in TABLES
    if second_column is not None and not is_table:
        raise FileError(f"{path} is not a table, so it has no column for the second text; give a .tsv, .csv or .jsonl.")
    if is_table:
        notes, rows = read_columns(
            path,
            (label_column, text_column, *([] if second_column is None else [second_column])),
            header=header,
            encoding=encoding,
            in_order=LABEL_FIRST,
            numbers=(label_column,),
            bad=bad,
            separator=separator,
        )
    else:
        refuse_separator(path, separator)
        if isinstance(text_column, int) and (label_column, text_column) != (0, 1):
            raise FileError(
                f"{path} is not a table: each line is a label, a space and a text, which are columns 0 and 1; it has "
                f"no other columns to choose."
            )
        name, said = choose_encoding(path, encoding)
        notes = ("one label and one text per line", *said)
        lines = list(read_lines(path, name))
        end = label_end([line for _, line in lines])
        rows = ((number, list(split_label(line, end))) for number, line in lines)
    found = _texts(str(path), rows, bad, label_separator)
    if not is_table and not isinstance(text_column, int):
        found = (replace(one, is_first_word=True) for one in found)
    texts, report = collect(str(path), found, unit="texts", notes=notes)
    if is_table and header is None and suffix(path) != ".jsonl":
        _refuse_header(path, texts)
    return texts, replace(report, notes=(*report.notes, *note_skipped(bad)))


def _refuse_header(path: str | Path, texts: Sequence[LabelledText]) -> None:
    """Refuse a file whose first line looks like a header that lacks the requested columns."""
    first, *others = texts
    if first.line == 1 and is_headed(first.label, [one.label for one in others]):
        refuse_header(path, (*first.texts, first.label))


def is_headed(first: str, others: Sequence[str]) -> bool:
    """Return whether the first cell of a column of labels may be its name: it is no other text's label, unlike all the
    others."""
    counts = Counter(others)
    return len(others) >= 10 and first not in counts and min(counts.values()) > 1


def label_end(lines: Sequence[str]) -> str | None:
    """Return the separator after the label in lines with a label and a text: a tab if each line has one, so that labels
    may contain spaces, and otherwise None for any white space. A label in the format of fastText never has spaces."""
    some = [line.strip() for line in lines if line.strip()]
    return "\t" if all("\t" in line and not is_marked(line) for line in some) else None


def split_label(line: str, end: str | None = None) -> tuple[str, str]:
    """Split a line into its label and its text. ``end`` is the result of `label_end` for the file."""
    label, *text = line.strip().split(end, 1) or [""]
    return label, text[0].strip() if text else ""


def _texts(
    file: str, rows: Iterator[tuple[int, list[str]]], bad: list[str] | None, separator: str | None
) -> Iterator[LabelledText]:
    for line, cells in rows:
        label, *texts = (" ".join(cell.split()) for cell in cells)
        if not label and not any(texts):
            continue
        if label.startswith(FASTTEXT) and any(text.startswith(FASTTEXT) for text in texts):
            refuse_or_skip(
                f"{file}, line {line}: the line begins with several labels; write a table with a column of labels, and "
                "set data.label_separator.",
                bad,
            )
        elif all(texts) and (label or separator is not None):
            found = None if separator is None else split_labels(label, separator)
            yield LabelledText(texts[0], label, line, file, second=texts[1] if texts[1:] else None, several=found)
        else:
            missing = "the text has no label" if all(texts) else f"the label {label!r} has no text"
            expected = "a label and two texts" if texts[1:] else "a label and a text"
            if any(texts) and not all(texts):
                missing = "one of the two texts is empty"
            refuse_or_skip(f"{file}, line {line}: {missing}; expected {expected}.", bad)


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell in order, without repeated ones."""
    return tuple(dict.fromkeys(part.strip() for part in cell.split(separator) if part.strip()))
