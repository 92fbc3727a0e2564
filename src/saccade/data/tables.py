"""Read columns of TSV, CSV and JSONL files row by row, with the line where each row begins.

TSV is read literally, without quotes or escapes, because that is how parallel corpora are published. CSV has quotes,
with possible line breaks inside. A line of JSONL is an object (columns have names) or an array (columns have numbers).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Never

from saccade.data.lines import choose_encoding, is_tabbed, read_lines, suffix
from saccade.errors import FileError, OptionError, counted

__all__ = [
    "TABLES",
    "Column",
    "is_named",
    "note_skipped",
    "read_columns",
    "refuse_header",
    "refuse_or_skip",
    "split_line",
    "table_format",
]

#: Suffixes of files whose texts are in columns.
TABLES = (".csv", ".tsv", ".jsonl")

Column = str | int
Row = tuple[int, list[str]]  # line number, cells


def table_format(path: str | Path) -> str:
    """Return the suffix that decides how a file is read: its own or, if that is not known, ``.tsv`` if all lines have
    equally many tabs."""
    own = suffix(path)
    return ".tsv" if own not in TABLES and is_tabbed(path) else own


def read_columns(
    path: str | Path,
    columns: tuple[Column, ...],
    *,
    header: bool | None = None,
    encoding: str | None = None,
    in_order: tuple[Column, ...] = (),
    numbers: Collection[Column] = (),
    bad: list[str] | None = None,
) -> tuple[tuple[str, ...], Iterator[Row]]:
    """Read the requested cells of each row. Also return notes on the choices that were made.

    `numbers` are the columns in which JSON may also have a whole number or a boolean, such as a label. Rows that cannot
    be read are an error; if `bad` is given, they are skipped instead and the error messages are added to it.

    If `header` is None, the first line of a TSV or CSV file is a header if it contains all the requested names, in
    upper or lower case. A file without these names is refused, unless the names are those of `in_order`, which are
    defaults and not chosen by the user: they then stand for the columns in order, and the file must not have other
    columns.
    """
    kind = table_format(path)
    name, notes = choose_encoding(path, encoding)
    if kind == ".jsonl":
        if header is not None:
            raise OptionError(f"{path} is a JSONL file, which has no header line; leave out the header option.")
        return notes, _json_rows(path, columns, name, numbers, bad)
    if kind not in (".tsv", ".csv"):
        raise FileError(
            f"{path} ends in {kind or 'nothing'!r} and does not have the same number of tabs in each line; expected a "
            ".tsv, .csv or .jsonl file."
        )
    lines = read_lines(path, name)
    if kind == ".csv":
        mark = _delimiter(path, name, columns)
        rows, notes = _csv_rows(path, lines, mark), (*notes, *(["separated by semicolons"] if mark == ";" else []))
    else:
        rows = ((line, text.split("\t")) for line, text in lines)
    first = next(rows, None)
    if first is None:
        return notes, iter(())
    indices, headed = _locate(path, first, columns, header, columns == in_order)
    note = (
        f"columns {', '.join(first[1][index].strip() for index in indices)}, named in line {first[0]}"
        if headed and any(isinstance(column, str) for column in columns)
        else f"columns {', '.join(map(str, indices))}, numbered from 0, after a header in line {first[0]}"
        if headed
        else f"columns {', '.join(map(str, columns))}, read as numbers {', '.join(map(str, indices))}: no header, so "
        f"line {first[0]} is data"
    )
    data = rows if headed else chain([first], rows)
    return (*notes, note), _pick(path, data, indices, len(first[1]), bad)


def refuse_or_skip(message: str, bad: list[str] | None) -> None:
    """Raise the error for a row that cannot be read, or keep its message if such rows are skipped."""
    if bad is None:
        raise FileError(message)
    bad.append(message)


def refuse_header(path: str | Path, cells: Sequence[str]) -> None:
    """Raise an error if the first line looks like a header (every cell is a single word) but lacks the requested
    names."""
    if not any(" " in cell.strip() for cell in cells):
        raise FileError(
            f"{path}, line 1: {', '.join(map(repr, cells))} looks like a header, but does not have the requested "
            f"columns; choose columns with --columns, or use --set data.header=false (in Python and recipes, header "
            f"= false in [data]) if it is data."
        )


def note_skipped(bad: list[str] | None) -> tuple[str, ...]:
    """Say how many rows were skipped, and why the first one was."""
    return (f"{len(bad):,} bad rows were skipped, the first: {bad[0].removesuffix('.')}",) if bad else ()


def split_line(line: str, delimiter: str) -> list[str]:
    """Split a single line into cells. Cells may have quotes, except in a line with tabs."""
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def is_named(path: str | Path, columns: Sequence[Column], encoding: str, kind: str | None = None) -> bool:
    """Return whether the first line of a .tsv or .csv file names all these columns."""
    first = next((text for _, text in read_lines(path, encoding)), "")
    marks = ",;" if (kind or table_format(path)) == ".csv" else "\t"
    return any(_names(first, columns, mark) for mark in marks)


def _names(line: str, columns: Sequence[Column], delimiter: str) -> bool:
    names = [cell.strip() for cell in split_line(line, delimiter)]
    return all(isinstance(column, str) and bool(_places(column, names)) for column in columns)


def _delimiter(path: str | Path, encoding: str, columns: tuple[Column, ...]) -> str:
    """Return a semicolon if the first line names the columns with semicolons between them, as spreadsheets in many
    countries write them, and otherwise a comma."""
    first = next((text for _, text in read_lines(path, encoding)), "")
    return ";" if _names(first, columns, ";") and not _names(first, columns, ",") else ","


def _csv_rows(path: str | Path, lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[Row]:
    reader = csv.reader((text + "\n" for _, text in lines), strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            said = (
                "it has a carriage return outside quotes; end every line with a line feed"
                if "new-line character" in str(error)  # Python's advice is for programmers
                else str(error)
            )
            raise FileError(f"{path}, line {line}: this is not a CSV row ({said}).") from None
        if cells is None:
            return
        yield line, cells


def _locate(
    path: str | Path, first: Row, columns: tuple[Column, ...], header: bool | None, may_order: bool
) -> tuple[list[int], bool]:
    """Return the number of each requested column, and whether the first row is a header."""
    line, cells = first
    names = [cell.strip() for cell in cells]
    wanted = [column for column in columns if isinstance(column, str)]
    places = {name: _places(name, names) for name in wanted}
    missing = [name for name in wanted if not places[name]]
    headed = header if header is not None else bool(wanted) and not missing
    by_order = may_order and len(wanted) == len(columns) == len(cells)
    some = header is None and 0 < len(missing) < len(wanted)  # the first row names one of them, so it is a header
    if (missing and headed) or some or (wanted and not headed and not by_order):
        raise FileError(
            f"{path}, line {line}: there is no column named {(missing or wanted)[0]!r}; the line has: "
            f"{', '.join(map(repr, names))}{_advice(path, names, len(columns))}."
        )
    for name in wanted if headed else ():
        if len(places[name]) > 1:
            raise FileError(f"{path}, line {line}: {len(places[name])} columns are named {name!r}; expected one.")
    order: Iterable[Column] = range(len(columns)) if wanted and not headed else columns
    indices = [places[place][0] if isinstance(place, str) else place for place in order]
    for index in indices:
        if not 0 <= index < len(cells):
            raise FileError(
                f"{path}, line {line}: there is no column {index}; the line has "
                f"{counted(len(cells), 'column')}, numbered from 0{_advice(path, names, 0)}."
            )
    return indices, headed


def _places(name: str, names: list[str]) -> list[int]:
    """Return the columns with this name, spelled exactly or, if there are none, ignoring upper and lower case."""
    same = [place for place, one in enumerate(names) if one == name]
    return same or [place for place, one in enumerate(names) if one.casefold() == name.casefold()]


def _advice(path: str | Path, names: list[str], wanted: int) -> str:
    if len(names) == 1 and table_format(path) == ".csv" and ";" in names[0]:
        return " (semicolons only separate the cells of a .csv file if its first line names the requested columns)"
    numbers = ",".join(map(str, range(wanted)))
    return f"; if the file has no header line, give the columns by number, such as {numbers}" if wanted else ""


def _pick(
    path: str | Path, rows: Iterator[Row], indices: list[int], width: int, bad: list[str] | None
) -> Iterator[Row]:
    for line, cells in rows:
        if cells in ([], [""]):  # the caller reports an empty line
            yield line, [""] * len(indices)
        elif len(cells) != width:
            refuse_or_skip(
                f"{path}, line {line}: the line has {counted(len(cells), 'column')}; expected {width}, as in "
                "the first line.",
                bad,
            )
        else:
            yield line, [cells[index] for index in indices]


def _json_rows(
    path: str | Path, columns: tuple[Column, ...], encoding: str, numbers: Collection[Column], bad: list[str] | None
) -> Iterator[Row]:
    for line, text in read_lines(path, encoding):
        if not text.strip():
            yield line, [""] * len(columns)
            continue
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
            cells = [_json_cell(path, line, value, column, column in numbers) for column in columns]
        except FileError as error:
            refuse_or_skip(str(error), bad)
        except (ValueError, RecursionError) as error:
            refuse_or_skip(f"{path}, line {line}: this is not JSON ({error}).", bad)
        else:
            yield line, cells


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON value")


def _json_cell(path: str | Path, line: int, value: Any, column: Column, number: bool) -> str:
    cells = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(cells, dict):
        raise FileError(f"{path}, line {line}: expected an object or an array with column {column!r}.")
    if column not in cells:
        has = ", ".join(map(repr, cells)) or "none"
        raise FileError(f"{path}, line {line}: there is no column {column!r}; the line has: {has}.")
    cell = cells[column]
    if number and isinstance(cell, int):
        return json.dumps(cell)  # true, not True
    if not isinstance(cell, str):
        raise FileError(f"{path}, line {line}: column {column!r} is {json.dumps(cell)[:40]}; expected text.")
    try:
        cell.encode()
    except UnicodeEncodeError:
        raise FileError(
            f"{path}, line {line}: column {column!r} contains half of a surrogate pair, which is not a character."
        ) from None
    return cell
