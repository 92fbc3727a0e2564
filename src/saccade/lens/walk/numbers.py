"""Matrices that come from outside: checked entry by entry, so that an error can name the one at fault."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["Numbers", "boolean_matrix", "matrix", "refuse_other_size", "require_finite", "to_float"]

Numbers = Tensor | Sequence[Sequence[float]]


def matrix(name: str, given: Numbers) -> Float[Tensor, "rows columns"]:
    """The matrix in float64, apart from the caller's graph and device; ragged or not finite is refused."""
    numbers = given.detach().to("cpu", torch.float64) if isinstance(given, Tensor) else _from_rows(name, given)
    if numbers.ndim != 2 or numbers.numel() == 0:
        raise ShapeError(f"{name} is a matrix, at least 1 by 1; it has shape {tuple(numbers.shape)}.")
    require_finite(name, numbers, "all numbers must be finite")
    return numbers


def boolean_matrix(name: str, given: Tensor | Sequence[Sequence[bool]]) -> Bool[Tensor, "rows columns"]:
    """True = may attend. Numbers are refused: 0 and 1 could as well mean what is added to a score."""
    if isinstance(given, Tensor):
        if given.dtype != torch.bool or given.ndim != 2:
            raise ShapeError(f"{name} is a boolean matrix; it is {given.dtype} of shape {tuple(given.shape)}.")
        return given.detach().cpu()
    for row, entries in enumerate(given):
        for column, entry in enumerate(entries):
            if not isinstance(entry, bool):
                raise OptionError(f"{name}[{row}][{column}] is {entry!r}; expected true (may attend) or false.")
    return _from_rows(name, given).bool()


def refuse_other_size(name: str, size: Sequence[int], expected: tuple[int, int], why: str) -> None:
    """``why`` says what the expected rows and columns are."""
    if tuple(size) != expected:
        raise ShapeError(f"{name} is {size[0]} by {size[1]}; expected {expected[0]} by {expected[1]} ({why}).")


def require_finite(name: str, numbers: Float[Tensor, "*shape"], reason: str) -> None:
    """Refuse NaN and infinity by the name of the first such entry."""
    wrong = (~numbers.isfinite()).nonzero()
    if len(wrong):
        at = wrong[0].tolist()
        entry = name + "".join(f"[{index}]" for index in at)
        raise OptionError(f"{entry} is {numbers[tuple(at)].item()}; {reason}.")


def _from_rows(name: str, given: Sequence[Sequence[float]]) -> Tensor:
    if not len(given):
        raise ShapeError(f"{name} is empty; expected a list of rows.")
    for row, entries in enumerate(given):
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            raise ShapeError(f"{name}[{row}] is {entries!r}; expected a row of numbers.")
        if len(entries) != len(given[0]):
            raise ShapeError(
                f"{name}[{row}] has length {len(entries)}, {name}[0] has length {len(given[0])}; "
                "all rows of a matrix have one length."
            )
        for column, entry in enumerate(entries):
            if not isinstance(entry, int | float):
                raise OptionError(f"{name}[{row}][{column}] is {entry!r}; expected a number.")
    return torch.tensor([[to_float(entry) for entry in entries] for entries in given], dtype=torch.float64)


def to_float(entry: float) -> float:
    """As a float; a whole number past 1e308 is infinite."""
    try:
        return float(entry)
    except OverflowError:
        return math.inf
