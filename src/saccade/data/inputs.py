"""Read the inputs of a model from a file in the same format as its training file, ignoring labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data.label_checks import (
    DECIDED_BY,
    LabelledFormat,
    check_labels,
    has_labels,
    refuse_numbered_header,
    refuse_swapped,
    without_labels,
)
from saccade.data.lines import choose_encoding, is_tabbed, read_lines, suffix
from saccade.data.paths import column as parse_column
from saccade.data.tables import (
    SEPARATORS,
    TABLES,
    Column,
    divided,
    find_separator,
    is_json,
    is_named,
    note_skipped,
    read_columns,
    refuse_header,
    refuse_separator,
    split_line,
    table_format,
)
from saccade.errors import FileError, counted

__all__ = ["read_column", "read_pairs", "read_prompts", "read_texts", "suffix_of"]

#: The number of lines from which the format of a stream is inferred.
LOOKED_AT = 50


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
    separator: str | None = None,
) -> tuple[list[str], str]:
    """Read the texts in a file, and return them with a phrase that says how the file was read.

    ``columns`` are the columns that were read from the training table; the texts are in ``columns[wanted]``. The file
    need not have the other columns, which may also be None. See `read_columns` for ``in_order``, ``header`` and
    ``separator``. A file that is not a table has one text per line or, if the training file had labels, a label and a
    text per line. With ``lines``, each line is a text, whatever it looks like. ``chosen`` says that the user chose
    ``columns`` for this file; of a file that is not a table, only columns 0 (labels) and 1 (texts) can be chosen.
    """
    if columns and not lines and table_format(path) in TABLES:
        rows, how = read_column(
            path,
            columns,
            wanted,
            in_order=in_order,
            labelled=labelled,
            header=header,
            encoding=encoding,
            skip_bad=skip_bad,
            separator=separator,
            is_chosen=chosen,
        )
        return [text for _, text in rows], "; ".join((f"texts from column {columns[wanted]}", *how))
    refuse_separator(path, separator)
    name, notes = choose_encoding(path, encoding)
    texts = [text.strip() for _, text in read_lines(path, name)]
    by_column = chosen and labelled is not None and tuple(columns) == (0, 1)
    if chosen and not by_column:
        raise FileError(f"{path} is not a table, so it has no columns to choose; leave out --columns.")
    if lines or labelled is None or not (by_column or has_labels(path, texts, labelled)):
        return texts, "; ".join(("one text per line", *notes))
    bad: list[str] | None = [] if skip_bad else None
    found = without_labels(path, texts, bad)
    return found, "; ".join(("one label and one text per line, labels ignored", *notes, *note_skipped(bad)))


def read_pairs(
    path: Path,
    columns: tuple[Column | None, Column, Column],
    *,
    labelled: LabelledFormat,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    separator: str | None = None,
    is_chosen: bool = False,
) -> tuple[list[tuple[str, ...]], str]:
    """Read pairs of texts from a table, and return them with a phrase that says how the file was read. ``columns`` are
    the column of labels (or None), which the file need not have, and the columns of the two texts. A table with only
    two columns needs no header: they are the two texts. ``is_chosen`` says that the user chose them for this file."""
    texts = columns[1:]
    bad: list[str] | None = [] if skip_bad else None
    name, _ = choose_encoding(path, encoding)
    # Labels are only read to find out which rows are bad.
    chosen = _columns_to_read(path, columns, texts, (), name, separator, all_of_json=True) if skip_bad else texts
    how, found = read_columns(
        path,
        chosen,
        header=header,
        encoding=encoding,
        in_order=texts,
        numbers=set(chosen) - set(texts),
        bad=bad,
        separator=separator,
    )
    rows = _filled(path, found, 0 if len(chosen) > 2 else None, labelled, bad)
    others = [cells[-2:] for _, cells in rows[1:]]
    may_have_header = header is None and not is_chosen and table_format(path) != ".jsonl"
    if may_have_header and others and rows[0][0] == 1 and all(any(" " in cell for cell in pair) for pair in others):
        *label, first, second = rows[0][1]
        numbers = ",".join(str(one) if isinstance(one, int) else str(place) for place, one in enumerate(texts))
        if_data = f"choose just the columns of the two texts for this file, --columns {numbers},-"
        refuse_header(path, [first, second, *label], if_data)
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
    separator: str | None = None,
    **_: Any,
) -> tuple[list[str], str]:
    """Read the texts in a column of a table, or the lines of another file, and return them with a phrase that says how
    the file was read. If the training file had a label as the first word of each line (``labelled``), the first word of
    each line is left out here too, unless ``lines`` says that the whole line is the text. ``chosen`` says that the user
    chose the column for this file, which must then be a table."""
    if suffix(path) in TABLES and not lines:
        return read_texts(path, [parse_column(column)], in_order=("text",), encoding=encoding, separator=separator)
    if chosen:
        raise FileError(f"{path} is not a .tsv, .csv or .jsonl file, so it has no columns; leave out --columns.")
    texts, how = read_texts(path, encoding=encoding, lines=True, separator=separator)
    if not labelled or lines:
        return texts, how
    return [text.partition(" ")[2].strip() for text in texts], f"{how}, without its first word, which is a label"


def read_column(
    path: Path,
    columns: Sequence[Column | None],
    wanted: int = 0,
    *,
    in_order: tuple[Column, ...] = (),
    labelled: LabelledFormat | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    separator: str | None = None,
    is_chosen: bool = False,
) -> tuple[list[tuple[int, str]], tuple[str, ...]]:
    """Read the cells of ``columns[wanted]`` in a table, each with its line number, and return them with notes on how
    the table was read. See `read_texts` for the arguments."""
    name, _ = choose_encoding(path, encoding)
    column = columns[wanted]
    assert column is not None
    if table_format(path) == ".csv":
        separator = separator or find_separator(path, name, [one for one in columns if one is not None], in_order)
    chosen = _columns_to_read(path, columns, (column,), in_order, name, separator, all_of_json=skip_bad)
    place, other = chosen.index(column), 1 - chosen.index(column) if len(chosen) > 1 else None
    # A table with a single column need not name it.
    unnamed = in_order if other is not None else chosen
    bad: list[str] | None = [] if skip_bad else None
    how, found = read_columns(
        path,
        chosen,
        header=header,
        encoding=encoding,
        in_order=unnamed,
        numbers=set(chosen) - {column},
        bad=bad,
        separator=separator,
    )
    if labelled is None:
        rows = [(line, [" ".join(cell.split()) for cell in cells]) for line, cells in found]
    else:
        rows = _filled(path, found, other, labelled, bad)
        is_unnamed = table_format(path) != ".jsonl" and not is_named(path, chosen, name, separator or "\t")
        if other is not None and isinstance(column, str) and is_unnamed:
            check_labels(path, [cells[other] for _, cells in rows], labelled)
    if header is None and isinstance(column, int) and table_format(path) != ".jsonl":
        refuse_numbered_header(path, rows, chosen, place, labelled, is_chosen)
    if labelled is not None and isinstance(column, int) and not is_chosen:
        refuse_swapped(path, rows, place, other, labelled)
    return [(line, cells[place]) for line, cells in rows], (*how, *note_skipped(bad))


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


def _columns_to_read(
    path: Path,
    columns: Sequence[Column | None],
    wanted: tuple[Column, ...],
    in_order: tuple[Column, ...],
    encoding: str,
    separator: str | None,
    *,
    all_of_json: bool,
) -> tuple[Column, ...]:
    """Return the columns of the training table if the file has all of them, and otherwise the wanted ones."""
    every = tuple(column for column in columns if column is not None)
    kind = table_format(path)
    mark = "" if kind == ".jsonl" else separator or find_separator(path, encoding, every, in_order)
    cells = _first_cells(path, mark, encoding)
    if kind == ".jsonl":
        has_all = all_of_json and all(column in cells for column in every)
    elif all(isinstance(column, int) for column in every):
        has_all = max(map(int, every)) < len(cells)
    else:
        by_order = every == in_order and len(cells) == len(every) and not is_named(path, wanted, encoding, mark)
        has_all = is_named(path, every, encoding, mark) or by_order
    return every if has_all else wanted


def _first_cells(path: Path, separator: str, encoding: str) -> list[Any]:
    """Return the cells of the first row of a table; without a separator (JSONL), the names or numbers of its
    columns."""
    first = next((text for _, text in read_lines(path, encoding) if text.strip()), "")
    if separator:
        return [cell.strip() for cell in split_line(first, separator)]
    with suppress(ValueError, RecursionError):
        value = json.loads(first)
        return list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return []


def suffix_of(
    path: Path,
    trained: str,
    columns: Sequence[Column],
    in_order: Collection[Column] = (),
    *,
    label: tuple[Column, Callable[[str], bool]] | None = None,
    chosen: bool = False,
    encoding: str | None = None,
    separator: str | None = None,
) -> str:
    """Return the suffix of the format that fits the content of a stream such as standard input, which has no file name.
    ``trained`` is the suffix of the training file. ``columns`` are the columns of the training file or, if ``chosen``,
    those that the user chose for this stream. ``in_order`` are the columns of a table without a header. ``label`` is
    the column of labels, and a function that says whether the model knows a label."""
    encoding, _ = choose_encoding(path, encoding)
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    if not lines:
        return ".txt"
    if is_json(lines[0], dict | list if trained == ".jsonl" else dict):
        return ".jsonl"
    if trained not in (".csv", ".tsv"):
        return ".txt"
    marks = "\t" if trained == ".tsv" else separator or SEPARATORS
    if any(is_named(path, [column], encoding, mark) for column in columns for mark in marks):
        return trained
    if trained == ".tsv":  # tabs make a table even if a few rows are bad
        counts = [line.count("\t") for line in lines]
        return trained if counts[0] and 2 * counts.count(counts[0]) > len(lines) else ".txt"
    if chosen:
        return ".txt" if is_tabbed(path) else trained
    if all(len(line) > 1 and line[0] == line[-1] == '"' and len(split_line(line, ",")) == 1 for line in lines):
        raise FileError(
            f"{path} may be a table with one quoted cell in each line, or texts in quotes; {DECIDED_BY}, or --columns "
            "0 if each line is a cell."
        )
    quotes = any('"' in line for line in lines)
    tables = [_is_csv(path, rows, quotes, columns, in_order, label) for rows in divided(lines, separator or SEPARATORS)]
    return trained if any(tables) else ".txt"


def _is_csv(
    path: Path,
    rows: Sequence[Sequence[str]],
    has_quotes: bool,
    columns: Sequence[Column],
    in_order: Collection[Column],
    label: tuple[Column, Callable[[str], bool]] | None,
) -> bool:
    """Return whether lines without names of columns are a .csv file with these rows, and not texts with commas. Raises
    an error if they can be either."""
    width = len(rows[0])
    by_number = all(isinstance(column, int) and column < width for column in columns)
    if label is not None and any(
        2 * sum(label[1](row[place].strip()) for row in rows if len(row) > place) > len(rows) for place in range(width)
    ):
        return len(rows) > 1 or by_number or width == len(columns)  # if the labels are in another column, it is refused
    if not by_number and (set(columns) != set(in_order) or width != len(columns)):
        return False  # it cannot be read without names
    if has_quotes and not any(cell.startswith(" ") for row in rows for cell in row[1:]):
        return True  # in `"Yes", he said.` the quotes are not those of a table
    if len(rows) == 1 or (label is not None and not by_number):
        return False
    raise FileError(
        f"{path} may be a table, with {counted(width, 'cell')} in each line, or texts; {DECIDED_BY}, or --columns with "
        "the columns of the table, such as --columns 0,1."
    )
