"""Check matrices that a user gives, entry by entry, so that an error can name the wrong entry."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["Numbers", "boolean_matrix", "matrix", "require_finite", "require_size", "to_float"]

Numbers = Tensor | Sequence[Sequence[float]]


def matrix(name: str, given: Numbers) -> Float[Tensor, "rows columns"]:
    """Return the matrix in float64 on the CPU, without gradient; raise an error if it is ragged or not finite."""
    numbers = given.detach().to("cpu", torch.float64) if isinstance(given, Tensor) else _from_rows(name, given)
    if numbers.ndim != 2 or numbers.numel() == 0:
        raise ShapeError(f"{name} must be a matrix of at least 1 by 1; it has shape {tuple(numbers.shape)}.")
    require_finite(name, numbers, "all numbers must be finite")
    return numbers


def boolean_matrix(name: str, given: Tensor | Sequence[Sequence[bool]]) -> Bool[Tensor, "rows columns"]:
    """Return a mask, in which True means that a query may attend to a key. Entries must be booleans, not numbers,
    because 0 and 1 could also be meant as a bias."""
    if isinstance(given, Tensor):
        if given.dtype != torch.bool or given.ndim != 2:
            raise ShapeError(f"{name} must be a boolean matrix; it is {given.dtype} of shape {tuple(given.shape)}.")
        return given.detach().cpu()
    for row, entries in enumerate(given):
        for column, entry in enumerate(entries):
            if not isinstance(entry, bool):
                raise OptionError(f"{name}[{row}][{column}] is {entry!r}; expected true (may attend) or false.")
    return _from_rows(name, given).bool()


def require_size(name: str, size: Sequence[int], num_queries: int, num_keys: int) -> None:
    """Raise an error unless the ``size`` of the matrix ``name`` is a row for each query and a column for each key."""
    if tuple(size) != (num_queries, num_keys):
        raise ShapeError(
            f"{name} is {size[0]} by {size[1]}; expected {num_queries} by {num_keys} "
            "(a row for each query, a column for each key)."
        )


def require_finite(name: str, numbers: Float[Tensor, "*shape"], reason: str) -> None:
    """If any number is NaN or infinite, raise an error that names the first such entry and gives the ``reason``."""
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
                f"{name}[{row}] has length {len(entries)}, but {name}[0] has length {len(given[0])}; "
                "all rows of a matrix must have the same length."
            )
        for column, entry in enumerate(entries):
            if not isinstance(entry, int | float):
                raise OptionError(f"{name}[{row}][{column}] is {entry!r}; expected a number.")
    return torch.tensor([[to_float(entry) for entry in entries] for entries in given], dtype=torch.float64)


def to_float(entry: float) -> float:
    """Convert a number to a float; a whole number that is too large for a float becomes infinity."""
    try:
        return float(entry)
    except OverflowError:
        return math.inf
