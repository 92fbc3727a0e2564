"""Read columns of TSV, CSV and JSONL files row by row, with the line where each row begins.

TSV is read literally, without quotes or escapes, because that is how parallel corpora are published. CSV cells may be
quoted, and quoted cells may contain line breaks. A line of JSONL is an object (columns have names) or an array (columns
have numbers).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Never

from saccade.data.lines import LONGEST_LINE, choose_encoding, is_tabbed, read_lines, suffix
from saccade.errors import FileError, OptionError, counted

__all__ = [
    "SEPARATORS",
    "TABLES",
    "ChosenSeparator",
    "Column",
    "choose_separator",
    "divided",
    "find_separator",
    "is_json",
    "is_named",
    "note_skipped",
    "read_columns",
    "refuse_header",
    "refuse_or_skip",
    "refuse_separator",
    "split_line",
    "table_format",
]

#: Suffixes of files whose texts are in columns.
TABLES = (".csv", ".tsv", ".jsonl")

#: The separators that a .csv file can have, and their names.
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
#: How many lines are examined to find the separator, and what fraction must have as many cells as the first line.
LOOKED_AT, MOST = 1_000, 0.9
#: What to do if the first line of a file for training or evaluation looks like a header, but is data.
AS_DATA = (
    "for train, add --set data.header=false (in Python and recipes, header = false in [data]); for evaluate, move the "
    "line further down"
)

#: A cell may be as long as a line; Python's own limit is 128 KiB.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))

Column = str | int
TableRow = tuple[int, list[str]]  # line number, cells


class ChosenSeparator(str):
    """A separator that the user gave for a file to predict or to score. With it, a file that is not read as a .csv file
    is refused."""


def refuse_separator(path: str | Path, separator: str | None) -> None:
    """Raise an error if the user chose a separator for this file, because it is not read as a .csv file."""
    if isinstance(separator, ChosenSeparator):
        raise FileError(f"--separator does not apply to {path}, because it is not read as a .csv file.")


def table_format(path: str | Path) -> str:
    """Return the suffix that decides how a file is read: that of its name or, if that is not the suffix of a table but
    all lines have the same number of tabs, ``.tsv``. A ``.json`` file is refused, because it is one value, not one row
    per line."""
    own = suffix(path)
    if own == ".json":
        raise FileError(
            f"{path} is one JSON value, which has no rows; write it as JSONL (.jsonl): one object per line, such as "
            '{"text": "...", "label": "..."}.'
        )
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
    separator: str | None = None,
) -> tuple[tuple[str, ...], Iterator[TableRow]]:
    """Read the cells of the requested columns, row by row. Also return notes on how the file was read.

    `numbers` are the columns, such as labels, in which JSON may also have numbers or booleans. Rows that cannot be
    read are an error; if `bad` is given, they are skipped instead and the error messages are added to it. `separator`
    separates the cells of a CSV file; by default, `find_separator` finds it.

    If `header` is None, the first line of a TSV or CSV file is a header if it contains all the requested names, in
    upper or lower case. A file without these names is refused, with one exception: if the requested `columns` are
    `in_order`, the names that are used if the user chooses none, the file may have no header; it must then have just
    these columns, in this order.
    """
    kind = table_format(path)
    name, notes = choose_encoding(path, encoding)
    if kind != ".csv":
        refuse_separator(path, separator)
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
        mark = separator or find_separator(path, name, columns, in_order)
        rows, notes = _csv_rows(path, lines, mark), (*notes, *([] if mark == "," else [_separated_by(mark)]))
    else:
        rows, notes = ((line, text.split("\t")) for line, text in lines), (*notes, *_note_quotes(path, name))
    first = next(rows, None)
    if first is None:
        return notes, iter(())
    indices, headed = _locate(path, first, columns, header, columns == in_order)
    names = [first[1][index].strip() for index in indices]
    numbered = ", ".join(f"{index} ({name})" for index, name in zip(indices, names, strict=True))
    note = (
        f"columns {', '.join(names)}, named in line {first[0]}"
        if headed and any(isinstance(column, str) for column in columns)
        else f"columns {numbered}, numbered from 0, after a header in line {first[0]}"
        if headed
        else f"columns {', '.join(map(str, columns))}, read as numbers {', '.join(map(str, indices))}: no header, so "
        f"line {first[0]} is data"
    )
    data = rows if headed else chain([first], rows)
    return (*notes, note), _pick(path, data, indices, len(first[1]), bad)


def _note_quotes(path: str | Path, encoding: str) -> tuple[str, ...]:
    """Return a note that quotes in a TSV file were kept, if they look as if a program had put them around its cells."""
    rows = [text.split("\t") for _, text in islice(read_lines(path, encoding), LOOKED_AT) if text.strip()]
    columns = list(zip(*rows, strict=False))
    is_doubled = any(_is_quoted(cell) and '""' in cell[1:-1] for column in columns for cell in column)
    if not is_doubled and not any(all(map(_is_quoted, column)) for column in columns):
        return ()
    return ("quotes around cells were read as part of the texts, as usual in TSV; if they are not, call the file .csv",)


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def refuse_or_skip(message: str, bad: list[str] | None) -> None:
    """Raise an error for a row that cannot be read or, if such rows are skipped, add its message to ``bad``."""
    if bad is None:
        raise FileError(message)
    bad.append(message)


def refuse_header(path: str | Path, cells: Sequence[str], if_data: str = AS_DATA) -> None:
    """Raise an error if the first line looks like a header (every cell is a single word) but lacks the requested names.
    ``cells`` are those of the columns that are read, in the order of --columns; ``if_data`` says how to read data."""
    if not any(" " in cell.strip() for cell in cells):
        raise FileError(
            f"{path}, line 1: {', '.join(map(repr, cells))} looks like a header; if it is one, give the columns by "
            f"name, such as --columns {','.join(cell.strip() for cell in cells)}, and if it is data, {if_data}."
        )


def note_skipped(bad: list[str] | None) -> tuple[str, ...]:
    """Return a note that says how many rows were skipped, and why the first one was."""
    if not bad:
        return ()
    were = "was" if len(bad) == 1 else "were"
    return (f"{counted(len(bad), 'bad row')} {were} skipped, the first: {bad[0].removesuffix('.')}",)


def split_line(line: str, delimiter: str) -> list[str]:
    """Split a single line into cells at this delimiter. Cells may be quoted, unless the delimiter is a tab."""
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def is_named(path: str | Path, columns: Sequence[Column], encoding: str, separator: str) -> bool:
    """Return whether the first line of a .tsv or .csv file names all these columns."""
    first = next((text for _, text in read_lines(path, encoding)), "")
    return _names(first, columns, separator) == len(columns)


def find_separator(
    path: str | Path, encoding: str, columns: Sequence[Column], in_order: Sequence[Column] = (), kind: str | None = None
) -> str:
    """Return the separator of a .tsv or .csv file from which these columns are read. In a .csv file, it is the one that
    separates the names of these columns in the first line or, if that line does not name them, the one that
    `choose_separator` finds."""
    if (kind or table_format(path)) == ".tsv":
        return "\t"
    lines = [text for _, text in islice(read_lines(path, encoding), LOOKED_AT)]
    named = {mark: _names(lines[0], columns, mark) for mark in SEPARATORS} if lines else {}
    most = [mark for mark, count in named.items() if count == max(named.values()) > 0]
    if len(most) == 1:
        return most[0]
    last = max((column for column in columns if isinstance(column, int)), default=0)

    def is_readable(width: int) -> bool:
        return width > last and (not in_order or tuple(columns) != tuple(in_order) or width == len(columns))

    return choose_separator(path, lines, is_readable)


def choose_separator(path: str | Path, lines: Sequence[str], is_readable: Callable[[int], bool]) -> str:
    """Return the separator of these lines of a .csv file: the only one that divides nearly all lines into the same
    number of cells, at least two, with quotes only around whole cells. ``is_readable`` says whether a row may have this
    many cells. If no separator fits, return a comma; if several do, raise an error."""
    found = {mark: _fit(lines, mark, is_readable) for mark in SEPARATORS}
    fits = {mark: fit for mark, fit in found.items() if fit[1] >= MOST}
    best = [mark for mark, fit in fits.items() if fit[:2] == (True, 1.0)] or [
        mark for mark, fit in fits.items() if fit[0] == max(fit[0] for fit in fits.values())
    ]
    if len(best) > 1:
        cells = " or ".join(f"{SEPARATORS[mark]} ({counted(found[mark][2], 'cell')})" for mark in best)
        raise FileError(
            f"{path}, line 1: the cells of each line may be separated by {cells}; say which it is, such as --set "
            f"data.separator={best[-1]!r} for train, and --separator {best[-1]!r} for predict and evaluate."
        )
    return best[0] if best else ","


def divided(lines: Sequence[str], separators: Iterable[str] = SEPARATORS) -> list[list[list[str]]]:
    """Return the rows of a .csv file for each separator that divides all its lines into the same number of cells, at
    least two, with quotes only around whole cells."""
    fits = [mark for mark in separators if _fit(lines, mark, lambda width: True)[:2] == (True, 1.0)]
    return [[split_line(text, mark) for text in lines] for mark in fits]


def _fit(lines: Sequence[str], separator: str, is_readable: Callable[[int], bool]) -> tuple[bool, float, int]:
    """Return whether quotes only surround cells, the fraction of the rows with as many cells as the first, and how many
    cells that is."""
    rows = []
    try:
        for row in csv.reader((text + "\n" for text in lines), strict=True, delimiter=separator):
            rows.append(row)
    except csv.Error as error:
        if "unexpected end of data" not in str(error) or len(lines) < LOOKED_AT:  # the last row may continue later
            return False, 0.0, 0
    rows = [row for row in rows if len(row) > 1 or "".join(row).strip()]
    width = len(rows[0]) if rows else 0
    if width < 2 or not is_readable(width):
        return False, 0.0, width
    inside = sum(cell.count('"') for row in rows for cell in row)
    written = sum(text.count('"') for text in lines)
    return not inside or 2 * inside < written, sum(len(row) == width for row in rows) / len(rows), width


def _separated_by(separator: str) -> str:
    return f"separated by {SEPARATORS.get(separator, repr(separator))}"


def _names(line: str, columns: Sequence[Column], separator: str) -> int:
    """Return how many of these columns a line names."""
    names = [cell.strip() for cell in split_line(line, separator)]
    return sum(isinstance(column, str) and bool(_places(column, names)) for column in columns)


def _csv_rows(path: str | Path, lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[TableRow]:
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
    path: str | Path, first: TableRow, columns: tuple[Column, ...], header: bool | None, may_order: bool
) -> tuple[list[int], bool]:
    """Return the number of each requested column, and whether the first row is a header."""
    line, cells = first
    names = [cell.strip() for cell in cells]
    wanted = [column for column in columns if isinstance(column, str)]
    places = {name: _places(name, names) for name in wanted}
    missing = [name for name in wanted if not places[name]]
    headed = header if header is not None else bool(wanted) and not missing
    by_order = may_order and len(wanted) == len(columns) == len(cells)
    some = header is None and 0 < len(missing) < len(wanted)  # the first row has some of the names, so it is a header
    if (missing and headed) or some or (wanted and not headed and not by_order):
        raise FileError(
            f"{path}, line {line}: there is no column named {(missing or wanted)[0]!r}; the line has: "
            f"{', '.join(map(repr, names))}{_advice(len(columns))}."
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
                f"{counted(len(cells), 'column')}, numbered from 0; choose the columns with "
                "--columns or, in a recipe, in [data]."
            )
    return indices, headed


def _places(name: str, names: list[str]) -> list[int]:
    """Return the columns with this name, spelled exactly or, if there are none, ignoring upper and lower case."""
    same = [place for place, one in enumerate(names) if one == name]
    return same or [place for place, one in enumerate(names) if one.casefold() == name.casefold()]


def _advice(wanted: int) -> str:
    numbers = ",".join(map(str, range(wanted)))
    return f"; if the file has no header line, give the columns by number, such as {numbers}" if wanted else ""


def _pick(
    path: str | Path, rows: Iterator[TableRow], indices: list[int], width: int, bad: list[str] | None
) -> Iterator[TableRow]:
    for line, cells in rows:
        if len(cells) < 2 and not "".join(cells).strip():  # the caller reports an empty line
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
) -> Iterator[TableRow]:
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


def is_json(line: str, kind: Any = dict) -> bool:
    """Return whether a line is a JSON object, or another ``kind`` of value."""
    try:
        return isinstance(json.loads(line), kind)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON value")


def _json_cell(path: str | Path, line: int, value: Any, column: Column, number: bool) -> str:
    cells = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(cells, dict):
        raise FileError(f"{path}, line {line}: expected an object or an array with column {column!r}.")
    if column not in cells:
        has = ", ".join(map(repr, cells)) or "none"
        raise FileError(
            f"{path}, line {line}: there is no column {column!r}; the line has: {has}; choose columns with --columns."
        )
    cell = cells[column]
    if number and isinstance(cell, float) and math.isfinite(cell):
        return json.dumps(int(cell) if cell.is_integer() else cell)  # in JSON, 1.0 is the same number as 1
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
