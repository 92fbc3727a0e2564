"""Find out whether a file of inputs has labels, and where; refuse it if that is not clear."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.data.labelled import FASTTEXT, is_headed, label_end, split_label, split_labels
from saccade.data.tables import Column, is_json, refuse_header, refuse_or_skip
from saccade.errors import FileError, counted

__all__ = [
    "DECIDED_BY",
    "LabelledFormat",
    "check_labels",
    "has_labels",
    "refuse_numbered_header",
    "refuse_swapped",
    "without_labels",
]

#: Advice for a file that can be read in two ways.
DECIDED_BY = "add --lines if each line is a text"

NumberedRows = Sequence[tuple[int, list[str]]]  # the line number and the cells of each row


@dataclass(frozen=True)
class LabelledFormat:
    """What a classifier knows of its training file: the labels; whether each line was a label, a space and a text; and
    the separator between the labels of a text, or None if each text has exactly one label."""

    labels: Collection[str]
    in_lines: bool = False
    separator: str | None = None

    def knows(self, cell: str) -> bool:
        """Return whether all labels in a cell of a table are among the model's labels."""
        return all(label in self.labels for label in self.split(cell))

    def resembles(self, label: str) -> bool:
        """Return whether the model has this label, perhaps only with or without the prefix of fastText."""
        plain = label.removeprefix(FASTTEXT)
        return any(one in self.labels for one in (label, plain, FASTTEXT + plain))

    def split(self, cell: str) -> tuple[str, ...]:
        return (cell,) if self.separator is None else split_labels(cell, self.separator)


def without_labels(path: Path, lines: Sequence[str], bad: list[str] | None) -> list[str]:
    """Return the texts of lines that begin with a label, except blank ones. A line with several labels is refused or
    skipped, as for training."""
    end, texts = label_end(lines), []
    for number, line in enumerate(lines, start=1):
        label, text = split_label(line, end)
        if label.startswith(FASTTEXT) and text.startswith(FASTTEXT):
            refuse_or_skip(f"{path}, line {number}: the line begins with several labels; {DECIDED_BY}.", bad)
        elif line:
            texts.append(" ".join(text.split()))
    return texts


def has_labels(path: Path, texts: Sequence[str], labelled: LabelledFormat) -> bool:
    """Return whether each line begins with a label. Raises an error if that is not clear, and for lines that are just
    labels."""
    end = label_end(texts)
    pairs = [split_label(text, end) for text in texts if text]
    if labelled.in_lines and all(text and labelled.knows(label) for label, text in pairs) and len(pairs) > 1:
        return True
    if is_json(next(filter(None, texts), "")):
        raise FileError(f"{path} looks like JSON; rename it to end in .jsonl, or {DECIDED_BY}.")
    if 2 * sum(map(labelled.knows, filter(None, texts))) > len(pairs) > 1:
        raise FileError(f"{path}: most lines are just a label of this model, without a text; {DECIDED_BY}.")
    found = [label for label, text in pairs if text and labelled.resembles(label)]
    marked = [label for label, text in pairs if text and label.startswith(FASTTEXT)]
    decided = f"{DECIDED_BY}, or --columns 1,0 if each line is a label and a text"
    if found if labelled.in_lines else 2 * len(found) > len(pairs) > 1:
        raise FileError(
            f"{path}: {len(found):,} of {counted(len(pairs), 'line')} {'begins' if len(found) == 1 else 'begin'} with "
            f"a label of this model, such as {found[0]!r}, so it is not clear whether the lines begin with labels; "
            f"{decided}."
        )
    if 2 * len(marked) > len(pairs):
        raise FileError(
            f"{path}: the lines begin with labels of fastText, such as {marked[0]!r}, which this model does not have; "
            f"{decided}."
        )
    return False


def check_labels(path: Path, found: Sequence[str], labelled: LabelledFormat) -> None:
    """Refuse a table without a header if its first column does not contain the model's labels."""
    if found and 2 * sum(map(labelled.knows, found)) <= len(found):
        raise FileError(
            f"{path}, line 1: the line does not name the columns, and most cells of the first column, such as "
            f"{found[0][:40]!r}, are not labels of this model; say which column has the texts, such as --columns 0, or "
            f"{DECIDED_BY}."
        )


def refuse_numbered_header(
    path: Path,
    rows: NumberedRows,
    columns: tuple[Column, ...],
    place: int,
    labelled: LabelledFormat | None,
    is_chosen: bool,
) -> None:
    """Refuse a table whose columns have numbers if its first row looks like a header: it is one single word where all
    other rows have several, unless the user chose the columns for this file, or a label that no other row has."""
    other = 1 - place if len(columns) > 1 else None
    if not rows or rows[0][0] != 1:
        return
    (_, first), others = rows[0], [cells for _, cells in rows[1:]]
    has_names = not is_chosen and len(others) >= 10 and all(" " in cells[place] for cells in others)
    if labelled is not None and other is not None:
        labels = [cells[other] for cells in others]
        is_known = len(labels) > 1 and all(map(labelled.knows, labels)) and not labelled.knows(first[other])
        has_names = has_names or is_known or is_headed(first[other], labels)
    if has_names:
        if_data = f"choose just the column of texts for this file, --columns {columns[place]}"
        refuse_header(path, [first[place], *([] if other is None else [first[other]])], if_data)


def refuse_swapped(path: Path, rows: NumberedRows, place: int, other: int | None, labelled: LabelledFormat) -> None:
    """Refuse a table whose columns have numbers if its texts are labels, or single words next to labels of several."""
    texts = [cells[place] for _, cells in rows]
    labels = [] if other is None else [cells[other] for _, cells in rows]
    if labels and all(map(labelled.knows, labels)):
        return
    are_labels = 2 * sum(map(labelled.knows, texts)) > len(texts) > 1
    are_swapped = 2 * sum(" " in label for label in labels) > len(texts) > 1 and not any(" " in text for text in texts)
    if are_labels or are_swapped:
        raise FileError(
            f"{path}: the column of texts has single labels, such as {texts[0][:40]!r}, so the columns may be in "
            f"another order than in training; say with --columns which columns have the texts and the labels, or "
            f"{DECIDED_BY}."
        )
