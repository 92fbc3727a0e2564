"""Read the inputs of a model from a file in the format of its training file, ignoring labels."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.labelled import split_label, split_labels
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.paths import column as parse_column
from saccade.data.tables import TABLES, Column, is_named, note_skipped, read_columns, split_line, table_format
from saccade.data.tagged import CONLLU, in_columns, read_tagged, without_labels
from saccade.errors import FileError, counted

__all__ = ["LabelledFormat", "read_pairs", "read_prompts", "read_texts", "read_words", "suffix_of"]

#: The number of lines from which the format of a stream is inferred.
LOOKED_AT = 50
#: What decides how a file is read if it can be read in two ways.
DECIDED_BY = "add --lines if each line is a text"


@dataclass(frozen=True)
class LabelledFormat:
    """The labels of a classifier, whether its training file had lines with a label, a space and a text, and what
    separates labels if a text may have any number of them."""

    labels: Collection[str]
    in_lines: bool = False
    separator: str | None = None

    def knows(self, cell: str) -> bool:
        """Whether the model has the label, or all labels, in a cell."""
        return all(label in self.labels for label in self.split(cell))

    def split(self, cell: str) -> tuple[str, ...]:
        return (cell,) if self.separator is None else split_labels(cell, self.separator)


def read_texts(
    path: Path,
    columns: Sequence[Column | None] = (),
    wanted: int = 0,
    *,
    in_order: tuple[Column, ...] = (),
    labelled: LabelledFormat | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    lines: bool = False,
    chosen: bool = False,
) -> tuple[list[str], str]:
    """Read the texts in a file, and return them with a phrase that says how the file was read.

    The texts of a table are in the column with the index ``wanted`` among those of the training table, ``columns``. The
    others may be missing, or None. For ``in_order`` and ``header`` see `read_columns`. A file that is not a table has
    one text per line, or if the training file had them, a label and a text. With ``lines``, each line is a text,
    whatever it looks like. ``chosen`` says that the columns were chosen for this file: if it is not a table, only a
    label and a text, which are columns 0 and 1, can be chosen.
    """
    if columns and not lines and table_format(path) in TABLES:
        return _table_texts(path, columns, wanted, in_order, labelled, header, encoding, skip_bad)
    name, notes = choose_encoding(path, encoding)
    texts = [text.strip() for _, text in read_lines(path, name)]
    by_column = chosen and labelled is not None and tuple(columns) == (0, 1)
    if chosen and not by_column:
        raise FileError(f"{path} is not a table, so it has no columns to choose; leave out --columns.")
    if lines or labelled is None or not (by_column or _has_labels(path, texts, labelled)):
        return texts, "; ".join(("one text per line", *notes))
    how = ("one label and one text per line, labels ignored", *notes)
    return [" ".join(split_label(text)[1].split()) for text in texts if text], "; ".join(how)


def read_pairs(
    path: Path,
    columns: tuple[Column | None, Column, Column],
    *,
    labelled: LabelledFormat,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
) -> tuple[list[tuple[str, ...]], str]:
    """Read the pairs of texts in a table whose columns are those of the label, which may be missing, and of the
    texts, and return them with a phrase that says how the file was read."""
    texts = columns[1:]
    bad: list[str] | None = [] if skip_bad else None
    name, _ = choose_encoding(path, encoding)
    # The labels only matter for which rows are bad.
    chosen = _columns_to_read(path, columns, texts, (), name, all_of_json=True) if skip_bad else texts
    how, found = read_columns(path, chosen, header=header, encoding=encoding, numbers=set(chosen) - set(texts), bad=bad)
    rows = _filled(path, found, 0 if len(chosen) > 2 else None, labelled, bad)
    said = (f"pairs of texts from columns {texts[0]} and {texts[1]}", *how, *note_skipped(bad))
    pairs = [tuple(cells[-2:]) for _, cells in rows]
    return [pair for pair in pairs if any(pair)], "; ".join(said)


def read_prompts(
    path: Path,
    column: str,
    *,
    labelled: bool,
    encoding: str | None,
    lines: bool = False,
    chosen: bool = False,
    **_: Any,
) -> tuple[list[str], str]:
    """Read the texts in a column of a table, or the lines of another file, without their first word if it was a label
    in training (``labelled``), unless ``lines`` says that each line is a text. ``chosen`` says that the column was
    chosen for this file, which must then be a table."""
    if suffix(path) in TABLES and not lines:
        return read_texts(path, [parse_column(column)], in_order=("text",), encoding=encoding)
    if chosen:
        raise FileError(f"{path} is not a .tsv, .csv or .jsonl file, so it has no columns; leave out --columns.")
    texts, how = read_texts(path, encoding=encoding, lines=True)
    if not labelled or lines:
        return texts, how
    return [text.partition(" ")[2].strip() for text in texts], f"{how}, without its first word, which is a label"


def _has_labels(path: Path, texts: Sequence[str], labelled: LabelledFormat) -> bool:
    """Return whether each line begins with a label. A file that can be read in two ways is refused."""
    pairs = [split_label(text) for text in texts if text]
    count = sum(bool(text) and labelled.knows(label) for label, text in pairs)
    if labelled.in_lines and count == len(pairs) > 1:
        return True
    if count > 0 if labelled.in_lines else 2 * count > len(pairs) > 1:
        raise FileError(
            f"{path}: {count:,} of {counted(len(pairs), 'line')} {'begins' if count == 1 else 'begin'} with a label of "
            f"this model, so it is not clear whether the lines begin with labels; {DECIDED_BY}, or --columns 1,0 if "
            "each line is a label and a text."
        )
    return False


def _table_texts(
    path: Path,
    columns: Sequence[Column | None],
    wanted: int,
    in_order: tuple[Column, ...],
    labelled: LabelledFormat | None,
    header: bool | None,
    encoding: str | None,
    skip_bad: bool,
) -> tuple[list[str], str]:
    name, _ = choose_encoding(path, encoding)
    column = columns[wanted]
    assert column is not None
    chosen = _columns_to_read(path, columns, (column,), in_order, name, all_of_json=skip_bad)
    place, other = chosen.index(column), 1 - chosen.index(column) if len(chosen) > 1 else None
    # A table with a single column need not name it.
    unnamed = in_order if other is not None else chosen
    bad: list[str] | None = [] if skip_bad else None
    how, found = read_columns(
        path, chosen, header=header, encoding=encoding, in_order=unnamed, numbers=set(chosen) - {column}, bad=bad
    )
    if labelled is None:
        rows = [(line, [" ".join(cell.split()) for cell in cells]) for line, cells in found]
    else:
        rows = _filled(path, found, other, labelled, bad)
        is_unnamed = table_format(path) != ".jsonl" and not is_named(path, chosen, name)
        if other is not None and isinstance(column, str) and is_unnamed:
            _check_labels(path, [cells[other] for _, cells in rows], labelled)
    said = (f"texts from column {column}", *how, *note_skipped(bad))
    return [cells[place] for _, cells in rows], "; ".join(said)


def _filled(
    path: Path,
    found: Iterable[tuple[int, list[str]]],
    label: int | None,
    labelled: LabelledFormat,
    bad: list[str] | None,
) -> list[tuple[int, list[str]]]:
    """Return the rows without blank rows, which training and scoring skip too. If bad rows are skipped, also leave
    out those that lack a text, or a label although others have one, unless a text may have no labels."""
    rows = [(line, [" ".join(cell.split()) for cell in cells]) for line, cells in found]
    rows = [row for row in rows if any(row[1])]
    if bad is None:
        return rows
    needs_label = label is not None and labelled.separator is None and any(cells[label] for _, cells in rows)
    whole = [
        row for row in rows if all(cell or (place == label and not needs_label) for place, cell in enumerate(row[1]))
    ]
    kept = {line for line, _ in whole}
    bad += [f"{path}, line {line}: a label or a text is missing." for line, _ in rows if line not in kept]
    if bad and not whole:
        raise FileError(f"There are no texts in {path}: all of its rows are bad, the first: {bad[0]}")
    return whole


def _check_labels(path: Path, found: Sequence[str], labelled: LabelledFormat) -> None:
    """Refuse a table without a header if its first column does not contain the model's labels."""
    if found and 2 * sum(map(labelled.knows, found)) <= len(found):
        raise FileError(
            f"{path}, line 1: no column is named, and most of the first column, such as {found[0][:40]!r}, is not a "
            "label of this model; say which column has the texts, such as --columns 0."
        )


def _columns_to_read(
    path: Path,
    columns: Sequence[Column | None],
    wanted: tuple[Column, ...],
    in_order: tuple[Column, ...],
    encoding: str,
    *,
    all_of_json: bool,
) -> tuple[Column, ...]:
    """Return the columns of the training table if the file has all of them, and otherwise the wanted ones."""
    every = tuple(column for column in columns if column is not None)
    kind = table_format(path)
    cells = _first_cells(path, kind, encoding)
    if kind == ".jsonl":
        has_all = all_of_json and all(column in cells for column in every)
    elif all(isinstance(column, int) for column in every):
        has_all = max(map(int, every)) < len(cells)
    else:
        by_order = every == in_order and len(cells) == len(every) and not is_named(path, wanted, encoding)
        has_all = is_named(path, every, encoding) or by_order
    return every if has_all else wanted


def _first_cells(path: Path, kind: str, encoding: str) -> list[Any]:
    """Return the cells of the first row of a table; in JSON, the names or numbers of its columns."""
    first = next((text for _, text in read_lines(path, encoding) if text.strip()), "")
    if kind != ".jsonl":
        return _rows([first], kind)[0]
    with suppress(ValueError, RecursionError):
        value = json.loads(first)
        return list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return []


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
    """Read sentences as lists of words if the file is CoNLL-U or has columns; otherwise one text per line. With
    features, a word is a list of the word and its features. ``has_labels`` says that there are columns, and whether one
    of them has labels; without it, the file decides (`in_columns`)."""
    name, _ = choose_encoding(path, encoding)
    if lines:
        return read_texts(path, encoding=encoding, lines=True)
    if suffix(path) == CONLLU:
        has_labels = True
    elif has_labels is None:
        has_labels = in_columns(path, (word_column, label_column, *feature_columns), separator, name, labels)
        if has_labels is False:
            word_column, feature_columns = without_labels(word_column, label_column, feature_columns)
    if has_labels is None:
        return read_texts(path, encoding=encoding)
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


def suffix_of(path: Path, trained: str, columns: Sequence[Column], encoding: str | None = None) -> str:
    """Guess the suffix of a stream, which has no file name. ``trained`` is the suffix of the training file."""
    encoding, _ = choose_encoding(path, encoding)
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
    has_header = any(is_named(path, [column], encoding, trained) for column in columns if isinstance(column, str))
    alike = sum(len(row) == len(rows[0]) for row in rows) if len(rows[0]) > 1 else 0
    # Tabs make a table even if a few rows are bad. A single sentence with a comma is not a table, but several lines
    # with equally many commas almost always are.
    is_table = 2 * alike > len(rows) if trained == ".tsv" else alike == len(rows) > 1
    return trained if has_header or is_table else ".txt"


def _rows(lines: Sequence[str], kind: str) -> list[list[str]]:
    """Split each line into cells, independently of the other lines."""
    return [[cell.strip() for cell in split_line(text, "," if kind == ".csv" else "\t")] for text in lines]
