"""Print a walkthrough as tables in the terminal, as in lecture 003: a table for each query, with a row for each key.

A line never breaks inside a number. Columns that do not fit side by side go into another table, and a vector that is
too wide for one line is split into ranges of its components, each in a column of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from saccade.errors import OptionError
from saccade.lens.walk.walkthrough import Step, Walkthrough

__all__ = ["print_sides", "print_walkthrough"]

DECIMALS = 4
MIN_WIDTH = 40  # columns that a label and a number need
MAX_LABEL = 16
GAP = "  "  # between the components of a vector


@dataclass(frozen=True)
class _Column:
    """A column of formatted text."""

    header: str
    cells: tuple[str, ...]
    style: str = ""

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.header, *self.cells)))


def print_walkthrough(walk: Walkthrough, console: Console, row: int | None = None) -> None:
    """Print the whole walkthrough; with ``row``, print the table of that query only, counted from 1.

    The matrices before and after the tables are printed in both cases.
    """
    if row is not None and not 1 <= row <= len(walk.query_labels):
        raise OptionError(f"row must be 1 to {len(walk.query_labels)}, one for each query, not {row}.")
    if row is not None and "scores" not in walk:
        raise OptionError(
            "row selects the table of one query, but a walkthrough with several heads has no such "
            "tables; leave row out."
        )
    width = max(console.width, MIN_WIDTH)
    rows = range(len(walk.query_labels)) if row is None else [row - 1]
    names = [step.name for step in walk]
    first = names.index("values") + 1  # the step after Q, K and V
    kind = "Cross-attention" if "source" in walk else "Self-attention" if "inputs" in walk else "Attention"
    sizes = f"queries × keys {len(walk.query_labels)} × {len(walk.key_labels)}"
    summary = f"{kind}: {sizes}, score {walk.score}, weights {walk.weights}, mask {walk.mask}"
    console.print(Text(summary, style="bold"))
    for part in (names[: first - 3], names[first - 3 : first]):  # the arguments, then Q, K and V
        _print_matrices(console, [walk[name] for name in part], width)
    if "scores" in walk:
        _print_queries(console, walk, rows, width)
    else:
        for head in range(sum(name.startswith("Z") for name in names)):
            console.print(Text(f"Head {head}", style="bold"))
            _print_matrices(console, [step for step in walk if step.title.startswith(f"Head {head}:")], width)
    last = names.index("sum" if "sum" in walk else "concatenated")
    _print_matrices(console, walk.steps[last + ("sum" in walk) :], width)
    console.print(Text("The same in Python", style="bold"))
    for step in walk:
        if "given[" not in step.code or step.name.startswith("masked"):
            console.print(Text(f"  {step.code}"), soft_wrap=True)


def print_sides(sides: Sequence[tuple[str, Sequence[Step]]], console: Console) -> None:
    """Print several lists of matrices below each other, each under its title, with its matrices side by side."""
    for title, steps in sides:
        console.print(Text(title, style="bold"))
        _print_matrices(console, steps, max(console.width, MIN_WIDTH))


def _print_matrices(console: Console, steps: Sequence[Step], width: int) -> None:
    _print_side_by_side(console, [table for step in steps for table in _matrix_tables(step, width)], width)


def _print_queries(console: Console, walk: Walkthrough, rows: Iterable[int], width: int) -> None:
    """Print the table of each query."""
    if "W_score" in walk:
        _print_matrices(console, [walk["W_score"]], width)
    for query in rows:
        console.print(Text.assemble((f"Query {query + 1}", "bold"), f": {_label(walk.query_labels[query])}"))
        for table in _fold(_labels(walk.key_labels, "word"), _query_columns(walk, query, width), width):
            console.print(table)
        if walk["sum"].column_labels != tuple(str(number + 1) for number in range(walk["sum"].values.shape[1])):
            console.print(Text(f"{_label(walk.query_labels[query])} → {_found(walk['sum'], query)}"), soft_wrap=True)
        if query in walk["weights"].row_notes:
            console.print(Text(f"The weights of this query were {walk['weights'].row_notes[query]}."), soft_wrap=True)


# --- the table of one query --------------------------------------------------------------------------------


def _query_columns(walk: Walkthrough, query: int, width: int) -> Iterator[_Column]:
    """Yield lecture 003's columns; the query and its sum are in the row of the query's own word."""
    keys = len(walk.key_labels)
    own = query if walk.query_labels == walk.key_labels else 0
    room = width - _table_width([_labels(walk.key_labels, "word")]) - 3
    names = {name: walk[name].values for name in ("queries", "keys", "values", "scores", "weights", "weighted", "sum")}
    yield from _vector("q vector", _only_at(own, keys, names["queries"], query), room)
    yield from _vector("k vector", _texts(names["keys"]), room)
    yield from _vector("v vector", _texts(names["values"]), room)
    if "compared" in walk:
        yield from _vector("tanh(q + k)", _texts(walk["compared"].values[query], walk["compared"].values), room)
    yield _numbers("score", walk["scores"], query)
    if "scaled" in walk:
        yield _numbers(_scaled_header(walk["scaled"].equation), walk["scaled"], query)
    if "masked" in walk:
        yield _numbers("masked", walk["masked"], query)
    yield _numbers(walk.weights, walk["weights"], query)
    yield from _vector(f"{walk.weights} · v", _texts(names["weighted"][query], names["weighted"]), room)
    yield from _vector("sum", _only_at(own, keys, names["sum"], query), room, style="bold green")


def _scaled_header(equation: str) -> str:
    """Return what was done to a score, from the equation of the step: "score / √3"."""
    formula, *given = equation.removeprefix("E = ").split(", ")
    for letter, number in (one.split(" = ") for one in given):
        formula = formula.replace(letter, number)
    return formula.replace("Q Kᵀ", "score")


def _found(total: Step, query: int) -> str:
    """Write the sum with the names of its columns: ``0.25 · Hull + 0.75 · Jane Doe``."""
    shares = zip(total.values[query].tolist(), total.column_labels, strict=True)
    terms = [name if share == 1 else f"{share:.{DECIMALS}g} · {name}" for share, name in shares if share]
    return " + ".join(terms) or "0, nothing found"


def _only_at(place: int, count: int, vectors: Tensor, which: int) -> list[list[str]]:
    """Return one vector in its row and blanks in the other rows."""
    texts = _texts(vectors)[which]
    return [texts if index == place else [" " * len(texts[0])] * len(texts) for index in range(count)]


def _numbers(header: str, step: Step, row: int) -> _Column:
    return _Column(header, tuple(_texts(step.values)[row]))


# --- numbers as text ---------------------------------------------------------------------------------------


def _texts(values: Tensor, like: Tensor | None = None) -> list[list[str]]:
    """Format a matrix with one width and as many decimals as its numbers need, at most four.

    If the matrix is a part of ``like``, all parts get the same number of decimals.
    """
    form = _form(values if like is None else like)
    rows = [[_text(number, form) for number in row] for row in values.tolist()]
    width = max(len(text) for row in rows for text in row)
    return [[text.rjust(width) for text in row] for row in rows]


def _form(values: Tensor) -> str:
    numbers = values[values.isfinite()]
    if (numbers.abs() >= 1e6).any():
        return f".{DECIMALS}e"
    for decimals in range(DECIMALS):
        # Compared approximately: for the reader, 0.1 + 0.2 has one decimal.
        if torch.allclose(numbers.round(decimals=decimals), numbers, rtol=1e-13, atol=1e-12):
            return f".{decimals}f"
    return f".{DECIMALS}f"


def _text(number: float, form: str) -> str:
    if number == -math.inf:
        return "−∞"
    text = format(number, form)
    return text.replace("-", "", 1) if text.startswith("-") and not text.strip("-0.") else text  # no -0.0000


# --- tables that fit ---------------------------------------------------------------------------------------


def _labels(labels: Sequence[str], header: str) -> _Column:
    return _Column(header, tuple(map(_label, labels)))


def _label(text: str) -> str:
    """Shorten a label and replace control characters, which the terminal would execute."""
    safe = "".join(letter if letter.isprintable() else "�" for letter in text)
    return safe if cell_len(safe) <= MAX_LABEL else set_cell_size(safe, MAX_LABEL - 1) + "…"


def _vector(header: str, rows: list[list[str]], room: int, style: str = "") -> Iterator[_Column]:
    """Yield a vector per row, split into ranges of components if it is wider than the room."""
    each = len(rows[0][0]) + len(GAP)
    fitting = max(1, (room + len(GAP)) // each)
    total = len(rows[0])
    for start in range(0, total, fitting):
        stop = min(start + fitting, total)
        name = header if fitting >= total else f"{header} {start + 1}–{stop}"
        yield _Column(name, tuple(GAP.join(row[start:stop]) for row in rows), style)


def _matrix_tables(step: Step, width: int) -> Iterator[Table]:
    header = "row" if step.name.startswith("W_") else step.title.lower()
    labels = _labels(step.row_labels, header)
    columns = _vector(step.equation, _texts(step.values), width - _table_width([labels]) - 3)
    return _fold(labels, columns, width)


def _fold(labels: _Column, columns: Iterator[_Column], width: int) -> Iterator[Table]:
    """Yield tables with as many columns as fit side by side, each with the labels."""
    taken = [labels]
    for column in columns:
        if len(taken) > 1 and _table_width([*taken, column]) > width:
            yield _table(taken)
            taken = [labels]
        taken.append(column)
    yield _table(taken)


def _table_width(columns: Sequence[_Column]) -> int:
    return sum(column.width + 3 for column in columns) + 1  # a space on each side and a line


def _table(columns: Sequence[_Column]) -> Table:
    table = Table(box=box.ROUNDED, header_style="bold", width=_table_width(columns))
    for number, column in enumerate(columns):
        table.add_column(
            Text(column.header),
            justify="right" if number else "left",
            no_wrap=True,
            style=column.style,
            width=column.width,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _print_side_by_side(console: Console, tables: Sequence[Table], width: int) -> None:
    """Print tables side by side as long as they fit."""
    line: list[RenderableType] = []
    used = 0
    for table in [*tables, None]:
        if line and (table is None or used + (table.width or 0) > width):
            grid = Table.grid(padding=(0, 1))
            grid.add_row(*line)
            console.print(grid)
            line, used = [], 0
        if table is not None:
            line.append(table)
            used += (table.width or 0) + 1
