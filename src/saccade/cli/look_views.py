"""The views of ``saccade look``, in the terminal and in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rich.console import RenderableType

from saccade.attention.watching.overview import ReportProgress, progress_of_part
from saccade.cli.options import console, progress
from saccade.errors import OptionError
from saccade.lens.causal import find_places
from saccade.lens.figures.drawable import MOST_TOKENS
from saccade.lens.figures.formats import save
from saccade.lens.figures.matrix import draw_weights
from saccade.lens.terminal.heatmap import TerminalHeatmap
from saccade.lens.view import Head, View

__all__ = ["Wanted", "read_head", "read_part", "show_difference", "show_view"]

_CELLS = 24  # cells per side of an overview, so that it fits into a terminal of 80 columns
_LARGEST_DIFFERENCES = 12
_BAR_STEPS = 1000


@dataclass(frozen=True)
class Wanted:
    """The choices of the user of ``saccade look``: what to show, and which files to write."""

    view: str
    layer: str | None
    head: Head
    word: str | None
    words: bool
    rows: slice
    columns: slice
    pictures: Sequence[Path]
    html: Path | None
    numbers: Path | None
    dark: bool

    @property
    def is_part(self) -> bool:
        return (self.rows, self.columns) != (slice(None), slice(None))


def read_head(given: str | None) -> Head:
    """Parse --head: the number of a head, or the mean or maximum of all heads."""
    if given is None:
        return "mean"
    if given.isdecimal():
        return int(given)
    if given not in ("mean", "max"):
        raise OptionError(f"--head takes a number, mean or max, not {given!r}.")
    return cast(Head, given)


def read_part(option: str, given: str | None) -> slice:
    """Parse a range of positions such as ``100:356``; either end may be left out."""
    if given is None:
        return slice(None)
    found = re.fullmatch(r"(\d*):(\d*)", given)
    ends = [int(end) if end else None for end in found.groups()] if found else []
    if not found or (None not in ends and cast(int, ends[0]) >= cast(int, ends[1])):
        raise OptionError(f"{option} takes a range of positions such as 100:356, not {given!r}.")
    return slice(*ends)


def show_view(view: View, wanted: Wanted, layer: str, answer: str | None = None) -> None:
    """Print the answer and one view of its attention, then write the files; ``layer`` is shown if none was chosen."""
    name = wanted.layer or layer
    view.heads(name)  # raises an error if there is no such layer
    row = find_places(view.rows[name], wanted.word)[0] if wanted.word is not None else 0
    if wanted.words and wanted.word is not None:
        row = view.rows[name].words[row]
    if answer is not None:
        console().print(answer, markup=False)
    is_long = wanted.view in ("heatmap", "overview") and not wanted.is_part and _size(view, name) > MOST_TOKENS
    if not (is_long and wanted.pictures):  # computing every weight takes long, so do it only for the file
        with progress(f"looking at {name}", _BAR_STEPS) as bar:
            shown = _terminal(view, wanted, name, row, lambda done: bar(round(done * _BAR_STEPS)))
        console().print(shown)
    for path in wanted.pictures:
        with progress(f"drawing {path.name}", _BAR_STEPS) as bar:
            _picture(view, wanted, name, row, path, lambda done: bar(round(done * _BAR_STEPS)))
        _wrote(path)
    if wanted.html is not None:
        names = None if wanted.layer is None else [name]
        heads = [wanted.head] if isinstance(wanted.head, int) and wanted.layer is not None else None
        opens: dict[str, Any] = {"name": name, "head": wanted.head, "words": wanted.words}
        opens |= {"kind": "arcs" if wanted.view == "arcs" else "heatmap", "row": None if wanted.word is None else row}
        with progress(f"writing {wanted.html.name}", _BAR_STEPS) as bar:
            view.save(
                wanted.html, names=names, heads=heads, progress=lambda done: bar(round(done * _BAR_STEPS)), **opens
            )
        _wrote(wanted.html)
    if wanted.numbers is not None:
        _wrote(view.save_numbers(wanted.numbers, name, wanted.head, wanted.rows, wanted.columns))


def show_difference(view: View, other: View, wanted: Wanted, layer: str, answers: Sequence[str]) -> None:
    """Print the answers to two inputs and the largest differences in attention, between tokens that both contain."""
    name = wanted.layer or layer
    found = view.difference(other, name, wanted.head, words=wanted.words)
    if not found.values.numel():
        raise OptionError(f"The two inputs have no tokens in common in {name}, so there is no difference to show.")
    shown = console()
    for text in answers:
        shown.print(text, markup=False)
    shown.print(
        f"{view.describe(name, wanted.head)}: weight in this text minus weight in the other, then both weights",
        markup=False,
    )
    matrices = [side.matrix(name, wanted.head, words=wanted.words) for side in (view, other)]
    width = max(map(len, found.rows))
    for place in found.values.abs().flatten().argsort(descending=True)[:_LARGEST_DIFFERENCES].tolist():
        row, column = divmod(place, len(found.columns))
        weights = [
            float(matrix[found.row_pairs[row][side], found.column_pairs[column][side]])
            for side, matrix in enumerate(matrices)
        ]
        places = found.row_pairs[row][0], found.column_pairs[column][0]
        link = f"{places[0]:>3} {found.rows[row]:<{width}} → {places[1]:>3} {found.columns[column]}"
        shown.print(f"{weights[0] - weights[1]:+.3f}  {weights[0]:.3f} {weights[1]:.3f}  {link}", markup=False)
    for path in wanted.pictures:
        theme = "dark" if wanted.dark else "light"
        view.save(path, "difference", other=other, name=name, head=wanted.head, words=wanted.words, theme=theme)
        _wrote(path)


def _terminal(view: View, wanted: Wanted, name: str, row: int, bar: ReportProgress) -> RenderableType:
    if wanted.view == "arcs":
        return view.terminal("arcs", name=name, row=row, head=wanted.head, words=wanted.words)
    if wanted.view == "grid":
        return view.terminal("grid", names=_names(wanted))
    if wanted.view == "entropy":
        return _entropy_lines(view, _names(wanted) or view.names, bar)
    if wanted.view == "rollout":
        stack = _stack(wanted)
        flow = view.rollout(stack, _reduction(wanted), words=wanted.words)
        tokens = view.rows[view.stacks[stack or next(iter(view.stacks))][-1]].labels(wanted.words)
        return TerminalHeatmap(flow, tokens, tokens, f"rollout, {_reduction(wanted)} of heads")
    if wanted.is_part:
        rows, columns = view.rows[name].tokens[wanted.rows], view.columns[name].tokens[wanted.columns]
        part = view.tile(name, wanted.head, wanted.rows, wanted.columns)
        return TerminalHeatmap(part.cpu(), rows, columns, view.describe(name, wanted.head))
    if wanted.view == "overview" or _size(view, name) > MOST_TOKENS:
        pooled = view.overview(name, wanted.head, _CELLS, progress=bar)
        (height, width), (tall, wide) = pooled.values.shape, pooled.cell
        rows, columns = [str(cell * tall) for cell in range(height)], [str(cell * wide) for cell in range(width)]
        # With many keys all weights are small: on a scale up to 1, every cell would be blank.
        largest = float(pooled.values.max())
        title = f"{view.describe(name, wanted.head)}: {pooled.label}, by position; the darkest cell is {largest:.3g}"
        return TerminalHeatmap(pooled.values.cpu() / (largest or 1.0), rows, columns, title)
    return view.terminal("heatmap", name=name, head=wanted.head, words=wanted.words)


def _picture(view: View, wanted: Wanted, name: str, row: int, path: Path, bar: ReportProgress) -> None:
    options: dict[str, Any] = {"theme": "dark" if wanted.dark else "light"}
    if wanted.is_part:
        rows, columns = view.rows[name].tokens[wanted.rows], view.columns[name].tokens[wanted.columns]
        part = view.tile(name, wanted.head, wanted.rows, wanted.columns)
        save(draw_weights(part, rows, columns, title=view.describe(name, wanted.head), dark=wanted.dark), path)
        return
    kind = "heatmap" if wanted.view == "overview" else wanted.view
    if kind in ("grid", "entropy"):
        options |= {"names": _names(wanted), "progress": bar}
    elif kind == "rollout":
        options |= {"stack": _stack(wanted), "heads": _reduction(wanted), "words": wanted.words}
    else:
        options |= {"name": name, "head": wanted.head, "words": wanted.words}
        options |= {"row": row} if kind == "arcs" else {"progress": bar} if kind == "heatmap" else {}
        if wanted.view == "overview":
            options["scale"] = None  # up to the largest weight, as in the terminal
    view.save(path, kind, **options)


def _entropy_lines(view: View, names: Sequence[str], bar: ReportProgress) -> str:
    """The entropy of each head, and for self-attention its mean distance."""
    lines = []
    for number, name in enumerate(names):
        bits = "  ".join(f"{value:5.2f}" for value in view.entropy(name, progress_of_part(bar, number, len(names))))
        lines.append(f"{name}  entropy in bits, head by head:  {bits}")
        if view.is_self(name):
            away = "  ".join(f"{value:5.1f}" for value in view.distance(name))
            lines.append(f"{' ' * len(name)}  distance in tokens:             {away}")
    return "\n".join(lines)


def _names(wanted: Wanted) -> list[str] | None:
    return None if wanted.layer is None else [wanted.layer]


def _stack(wanted: Wanted) -> str | None:
    return None if wanted.layer is None else re.sub(r"\d+", "*", wanted.layer)


def _reduction(wanted: Wanted) -> Any:
    if isinstance(wanted.head, int):
        raise OptionError(f"--view rollout takes the mean or max of all heads, not head {wanted.head} alone.")
    return wanted.head


def _size(view: View, name: str) -> int:
    return max(len(view.rows[name]), len(view.columns[name]))


def _wrote(path: Path) -> None:
    console().print(f"Wrote {path}.", markup=False)
