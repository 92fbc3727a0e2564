"""Masks: rules that say which query may attend to which key.

A rule is a function ``(batch, head, row, column) -> bool`` (True = may attend) of index tensors that broadcast
against each other; rows and columns are absolute positions. It can be evaluated for any tile, which is a block of rows
and columns, so the N×N matrix is never needed, and it runs unchanged as a ``mask_mod`` of
``torch.nn.attention.flex_attention``. Rules combine:

    causal & padding(lengths)        # a decoder on a padded batch
    window(3) | ~causal              # neighbours, and everything ahead

So that a kernel can skip work, a rule can also say two things without being evaluated: outside which range of columns
it forbids everything for given rows (``span``), and whether it allows everything in a tile (``is_full``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention.tracing import is_exporting
from saccade.errors import OptionError, ShapeError

if TYPE_CHECKING:
    from saccade.attention.equation import DenseTile

__all__ = ["Mask", "causal", "dense", "indices", "padding", "rule", "window"]


Four = tuple[int, int, int, int]


def indices(first: Four, size: Four, device: torch.device) -> list[Int[Tensor, "#B #H #Q #K"]]:
    """Return the numbers of consecutive sequences, heads, rows and columns, as tensors that broadcast to ``size``."""
    shapes = (-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1)
    return [
        torch.arange(start, start + number, device=device).view(shape)
        for start, number, shape in zip(first, size, shapes, strict=True)
    ]


class Mask:
    """Base class of all mask rules."""

    #: The last tensor that was computed from the rule; all layers of a forward pass share it.
    memo: DenseTile | None = None
    #: False if a rule may read tensors that it does not declare, so that results computed from it cannot be cached.
    is_fixed: bool = True

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        """Return True where the query at ``row`` may attend to the key at ``column``."""
        raise AssertionError("subclasses must implement __call__()")

    def tile(self, first: Four, size: Four, device: torch.device) -> Tensor:
        """Evaluate the rule for consecutive sequences, heads, rows and columns, of which ``first`` are the first and
        ``size`` the numbers; the result broadcasts to this size."""
        return self(*indices(first, size, device))

    def version(self) -> int:
        """Return a number that grows when a tensor that the rule reads changes in place, to detect stale caches."""
        return 0

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that the rule is known to read; a rule made from a function declares none."""
        return ()

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        """Return (start, stop): no row from ``first_row`` to ``last_row`` may attend to a column outside this range."""
        return 0, num_columns

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        """Return True only if each of these rows may attend to every column in start..stop-1."""
        return False

    def check(self, batch: int, num_heads: int, first_row: int, num_rows: int, num_columns: int) -> None:
        """Raise an error if the rule does not fit attention of these sizes, for example another batch size."""

    def __and__(self, other: Mask) -> Mask:
        return _And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return _Or(self, other)

    def __invert__(self) -> Mask:
        return _Not(self)


class _Causal(Mask):
    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return row >= column

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        return 0, min(last_row + 1, num_columns)

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return stop <= first_row + 1


class _Padding(Mask):
    def __init__(self, lengths: Int[Tensor, " B"]) -> None:
        if not isinstance(lengths, Tensor):
            raise ShapeError(f"padding() takes a tensor of lengths, shape (B,); it got a {type(lengths).__name__}.")
        if lengths.ndim != 1 or lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
            raise ShapeError(
                f"padding() takes one whole-number length for each sequence, shape (B,); "
                f"it got {lengths.dtype} of shape {tuple(lengths.shape)}."
            )
        self.lengths = lengths.clone()  # the caller may change its own; the values below must stay true
        is_known = not is_exporting() and len(lengths) > 0  # an exported graph takes any lengths
        self.shortest = int(lengths.min()) if is_known else 0
        self.longest = int(lengths.max()) if is_known else 0
        if self.shortest < 0:
            raise OptionError(f"padding() takes lengths of at least 0; it got {self.shortest}.")

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return column < self.lengths.to(batch.device)[batch]

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        return 0, min(self.longest, num_columns)

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return stop <= self.shortest

    def check(self, batch: int, num_heads: int, first_row: int, num_rows: int, num_columns: int) -> None:
        if self.lengths.shape[0] != batch:
            raise ShapeError(f"The padding mask has {len(self.lengths)} lengths, but the batch has {batch} sequences.")
        if self.longest > num_columns:
            raise ShapeError(f"The padding mask has a length of {self.longest}, but there are only {num_columns} keys.")


class _SlidingWindow(Mask):
    def __init__(self, radius: int) -> None:
        if radius < 0:
            raise OptionError(f"window() takes a radius of at least 0; it got {radius}.")
        self.radius = radius

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return (row - column <= self.radius) & (column - row <= self.radius)

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        start = min(max(first_row - self.radius, 0), num_columns)
        return start, max(min(last_row + self.radius + 1, num_columns), start)

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return start >= last_row - self.radius and stop <= first_row + self.radius + 1


class _Dense(Mask):
    def __init__(self, allowed: Bool[Tensor, "*BH Q K"], first_row: int) -> None:
        if allowed.dtype != torch.bool or not 2 <= allowed.ndim <= 4:
            raise ShapeError(
                f"A mask tensor must be boolean (True = may attend) of shape (Q, K), (H, Q, K) or (B, H, Q, K); "
                f"this one is {allowed.dtype} of shape {tuple(allowed.shape)}."
            )
        if allowed.is_inference():  # such a tensor does not record changes
            with torch.inference_mode(False):
                allowed = allowed.clone()
        self.allowed = allowed.view((1,) * (4 - allowed.ndim) + tuple(allowed.shape))
        self.first_row = first_row

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        sizes = self.allowed.shape
        return self.allowed[
            batch if sizes[0] > 1 else batch * 0,
            head if sizes[1] > 1 else head * 0,
            row - self.first_row if sizes[2] > 1 else row * 0,
            column if sizes[3] > 1 else column * 0,
        ]

    def tile(self, first: Four, size: Four, device: torch.device) -> Tensor:
        starts = (first[0], first[1], first[2] - self.first_row, first[3])
        cuts = (slice(start, start + number) for start, number in zip(starts, size, strict=True))
        varies = (number > 1 for number in self.allowed.shape)
        found = self.allowed[tuple(cut if vary else slice(None) for cut, vary in zip(cuts, varies, strict=True))]
        assert all(one in (1, whole) for one, whole in zip(found.shape, size, strict=True)), "check() was not called"
        return found

    def version(self) -> int:
        return self.allowed._version

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.allowed,)

    def check(self, batch: int, num_heads: int, first_row: int, num_rows: int, num_columns: int) -> None:
        # Rows are absolute positions, so the tensor may cover more rows than this call needs (a cached step).
        last = first_row - self.first_row + num_rows
        sizes = self.allowed.shape
        fits = (
            sizes[0] in (1, batch)
            and sizes[1] in (1, num_heads)
            and (sizes[2] == 1 or (first_row >= self.first_row and sizes[2] >= last))
            and sizes[3] in (1, num_columns)
        )
        if not fits:
            raise ShapeError(
                f"The mask has shape {tuple(sizes)}; expected (B, H, Q, K) = "
                f"{(batch, num_heads, last, num_columns)}, with 1 for a dimension along which it does not vary."
            )


class _Rule(Mask):
    is_fixed = False

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        allowed = self.function(batch, head, row, column)
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool or allowed.ndim > 4:
            found = type(allowed).__name__
            if isinstance(allowed, Tensor):
                found = f"{allowed.dtype} of {allowed.ndim} dimensions"
            raise OptionError(f"A rule must return a boolean tensor for tensors of indices, not {found}.")
        return allowed


class _Combined(Mask):
    """A rule made of one or two others."""

    def __init__(self, *parts: Mask) -> None:
        if not all(isinstance(part, Mask) for part in parts):
            raise OptionError(
                f"& and | combine two mask rules; got {' and '.join(type(part).__name__ for part in parts)}. "
                "To turn a boolean tensor into a rule, use dense(tensor)."
            )
        self.parts = parts
        self.is_fixed = all(part.is_fixed for part in parts)

    def version(self) -> int:
        return sum(part.version() for part in self.parts)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for part in self.parts for tensor in part.tensors())

    def check(self, batch: int, num_heads: int, first_row: int, num_rows: int, num_columns: int) -> None:
        for part in self.parts:
            part.check(batch, num_heads, first_row, num_rows, num_columns)


class _And(_Combined):
    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        left, right = (part(batch, head, row, column) for part in self.parts)
        return left & right

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        starts, stops = zip(*(part.span(first_row, last_row, num_columns) for part in self.parts), strict=True)
        return max(starts), max(min(stops), *starts)

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return all(part.is_full(first_row, last_row, start, stop) for part in self.parts)


class _Or(_Combined):
    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        left, right = (part(batch, head, row, column) for part in self.parts)
        return left | right

    def span(self, first_row: int, last_row: int, num_columns: int) -> tuple[int, int]:
        starts, stops = zip(*(part.span(first_row, last_row, num_columns) for part in self.parts), strict=True)
        return min(starts), max(stops)

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return any(part.is_full(first_row, last_row, start, stop) for part in self.parts)


class _Not(_Combined):
    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return ~self.parts[0](batch, head, row, column)


causal: Mask = _Causal()
"""Each position sees itself and the positions before it."""


def padding(lengths: Int[Tensor, " B"]) -> Mask:
    """Allow only the first ``lengths[b]`` keys of sequence b; the others are padding."""
    return _Padding(lengths)


def window(radius: int) -> Mask:
    """Let each position see itself and ``radius`` neighbours on each side: local attention (N < T in lecture 004)."""
    return _SlidingWindow(radius)


def dense(allowed: Bool[Tensor, "*BH Q K"], first_row: int = 0) -> Mask:
    """Turn a boolean tensor, which takes O(N²) memory, into a rule; row 0 of the tensor is position ``first_row``."""
    return _Dense(allowed, first_row)


def rule(function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Mask:
    """Turn any function of (batch, head, row, column) into a rule."""
    return _Rule(function)


def resolve_mask(mask: Mask | Tensor | None, first_row: int, num_rows: int) -> Mask | None:
    """Turn a mask tensor, which must have one row per query, into a rule; a rule is returned unchanged."""
    if mask is None or isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        if mask.ndim > 1 and mask.shape[-2] not in (1, num_rows):
            raise ShapeError(
                f"The mask has shape {tuple(mask.shape)}, which is {mask.shape[-2]} rows; "
                f"it needs {num_rows}, one for each query."
            )
        return dense(mask, first_row)
    raise OptionError(
        f"A mask must be a rule (causal, padding(lengths), ...) or a boolean tensor, not {type(mask).__name__}."
    )
