"""Views for the terminal: ``rich.print(view.terminal("arcs", name="encoder.1.self", row=7))``.

Weights are drawn as shaded characters in the terminal's own text colour, as ``terminal.heatmap`` describes. If there is
no room for all columns or keys, those with the largest weights are shown, and a line says how many of them there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text
from torch import Tensor

from saccade.errors import OptionError
from saccade.lens.terminal.heatmap import TerminalHeatmap, left_aligned, legend, line, right_aligned, shade, shades_for
from saccade.lens.view import Head, View
from saccade.lens.words import visible, visible_text

__all__ = ["TERMINAL", "TerminalArcs", "TerminalGrid", "WithCoverage"]

_LABEL_WIDTH = 20
_BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_PICTURE_LINES = 5
_NARROWEST_PICTURE, _WIDEST_PICTURE = 2, 12


def heatmap(view: View, name: str | None = None, head: Head = "mean", *, words: bool = False) -> TerminalHeatmap:
    """Return a heat map of one head, or of the mean or maximum of all heads, with tokens on both axes."""
    name = name or view.names[-1]
    rows, columns = (axis.labels(words) for axis in view.axes(name))
    return TerminalHeatmap(view.matrix(name, head, words=words).cpu(), rows, columns, view.describe(name, head))


def arcs(
    view: View, name: str | None = None, row: int = 0, head: Head = "mean", *, words: bool = False, most: int = 20
) -> TerminalArcs:
    """Return what a token attends to, with a line for each key: a bar for its weight in ``head``, a shade per head."""
    name = name or view.names[-1]
    if most < 1:
        raise OptionError(f"most must be at least 1, not {most}.")
    every = view.row(name, row, words=words).cpu()
    return TerminalArcs(
        view.one_row(name, row, head, words=words).cpu(),
        every,
        view.columns[name].labels(words),
        f"{visible(view.rows[name].labels(words)[row])} in {view.describe(name, head)}",
        most,
    )


def grid(view: View, names: Sequence[str] | None = None) -> TerminalGrid:
    """Return a small heat map of every head of the attentions ``names``, or of all attentions."""
    return TerminalGrid(view, view.names if names is None else list(names))


@dataclass(frozen=True)
class WithCoverage:
    """A terminal view, followed by a line about the attentions of the model that are not shown."""

    shown: RenderableType
    coverage: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.shown
        yield line(f"In this model: {visible_text(self.coverage)}", options, wrap=True)


@dataclass(frozen=True)
class TerminalArcs:
    """The keys with the largest weights for one query, at most ``most`` of them, in the order of the text."""

    weights: Float[Tensor, " K"]
    heads: Float[Tensor, "H K"]
    keys: Sequence[str]
    title: str
    most: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        shades = shades_for(options)
        strongest = torch.maximum(self.weights, self.heads.amax(0)).argsort(descending=True, stable=True)[: self.most]
        shown = sorted(strongest.tolist())
        names = [visible(self.keys[key]) for key in shown]
        if len(shown) < len(self.keys):
            names = [f"{key} {name}" for key, name in zip(shown, names, strict=True)]
        label_width = min(_LABEL_WIDTH, max(map(cell_len, names), default=0), max(1, options.max_width // 3))
        bar_width = max(1, min(_BAR_WIDTH, options.max_width - label_width - len("  0.00  ") - 2 * len(self.heads)))
        yield line(visible_text(self.title), options, wrap=True)
        numbers = "".join(f"{number % 10} " for number in range(len(self.heads)))
        yield line(" " * (label_width + 1 + bar_width + len(" 0.00  ")) + numbers, options)
        for name, key in zip(names, shown, strict=True):
            weight = float(self.weights[key])
            columns = "".join(shades[shade(float(one))] * 2 for one in self.heads[:, key])
            bar = _bar(weight, bar_width, options)
            yield line(f"{right_aligned(name, label_width)} {bar} {weight:.2f}  {columns}", options)
        yield line(legend(shades), options, wrap=True)
        if len(shown) < len(self.keys):
            yield line(f"The {len(shown)} strongest of {len(self.keys)} keys are shown.", options, wrap=True)


@dataclass(frozen=True)
class TerminalGrid:
    """A small heat map of each head, with queries down and keys across.

    One character stands for several queries and keys; its shade shows the largest of their weights.
    """

    view: View
    names: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        shades = shades_for(options)
        most_heads = max((self.view.heads(name) for name in self.names), default=1)
        width = min(_WIDEST_PICTURE, max(_NARROWEST_PICTURE, options.max_width // most_heads - 1))
        fitting = max(1, (options.max_width + 1) // (width + 1))
        for name in self.names:
            yield line(visible(name), options, wrap=True)
            heads = range(min(fitting, self.view.heads(name)))
            yield line(" ".join(left_aligned(str(head), width) for head in heads), options)
            for parts in zip(*(_block(self.view, name, head, width, shades) for head in heads), strict=True):
                yield line(" ".join(parts), options)
            yield line("", options)
        yield line(f"{legend(shades)}  largest weight of each cell", options, wrap=True)
        if fitting < most_heads:
            yield line(f"Showing {fitting} of {most_heads} heads.", options, wrap=True)


def _block(view: View, name: str, head: int, width: int, shades: str) -> list[str]:
    """Return one head in ``width`` columns and at most five lines."""
    fine = view.overview(name, head, size=max(_PICTURE_LINES, width) * 8, reduce="max").values.cpu()
    cell = max(1, -(-fine.shape[0] // _PICTURE_LINES)), max(1, -(-fine.shape[1] // width))
    pooled = F.max_pool2d(fine[None], cell, ceil_mode=True)[0]
    return ["".join(shades[shade(float(weight))] for weight in row).ljust(width) for row in pooled]


def _bar(weight: float, width: int, options: ConsoleOptions) -> str:
    """Return a bar that fills ``width`` cells at weight 1, in eighths of a cell if the terminal can show them."""
    share = min(1.0, max(0.0, weight))
    if options.ascii_only:
        return ("#" * round(share * width)).ljust(width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


#: The kinds of ``View.terminal``; each takes a view and its own options.
TERMINAL: dict[str, Callable[..., RenderableType]] = {"heatmap": heatmap, "arcs": arcs, "grid": grid}
