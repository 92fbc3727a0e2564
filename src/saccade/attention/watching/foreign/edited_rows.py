"""Which positions of the text the rows of an edited call are.

An edit names positions of a text, but a call of torch's attention only has rows. In a forward pass over a whole text
the two are the same. In a step of a generation they are not: then the cache that the model is given tells how many
positions came before, and if nothing tells it, the edit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.running import RunningModule
from saccade.attention.watching.interventions import RowRange, Target, cannot

__all__ = ["CallStep", "EditedCalls", "cached_positions", "rows_of"]

NO_CACHE_LENGTH = (
    "the model was given a {} object that does not tell how many positions it holds, so the positions of this call are "
    "not known; run the model once over the whole text"
)
KEPT = (
    "it keeps the keys of earlier forward passes where their number is not told, so the positions of this call are not "
    "known; run the model once over the whole text"
)
SEVERAL = "its module calls it several times in one forward pass, and the positions of its rows are not known"
DROPPED = "its cache dropped old keys, so its columns are not the positions of the text"


class CallStep(NamedTuple):
    """Where in a forward pass a call is made."""

    cached: int | str  # how many positions came before this forward pass, or what was given that does not tell
    use: int  # which call of its module this is, counted from 1
    last_key: Tensor | None  # of the call before this one
    continues: bool = False  # whether its keys begin with those of an earlier forward pass


def cached_positions(given: Sequence[object]) -> int | str:
    """Return how many positions the cache in these arguments holds, or the name of its class if it does not say."""
    for part in given:
        if hasattr(part, "get_seq_length"):  # the caches of Hugging Face
            return int(part.get_seq_length())
    unknown = [type(part).__name__ for part in given if not isinstance(part, dict)]
    return unknown[0] if unknown else 0


class _Last(NamedTuple):
    """The last edited call of a module."""

    outermost: int
    innermost: int
    number: int  # within its outermost run, counted from 1
    query: Tensor
    key: Tensor


class EditedCalls:
    """The edited calls of a thread, so that each knows what came before it."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}  # of each module

    def note(self, runs: Sequence[RunningModule], query: Tensor, key: Tensor) -> CallStep:
        """Note a call of the innermost running module; return where in the forward pass it is made."""
        module, outermost, innermost = runs[-1].module, runs[0], runs[-1].number
        last = self._last.get(id(module))
        number, continues = 1, False
        if last is not None and last.outermost != outermost.number:
            continues = _continues(last, query, key)
        if last is not None and last.outermost == outermost.number:
            # Two calls that differ in their values alone (DiffLlama) are one attention.
            is_same = last.innermost == innermost and torch.equal(last.query, query) and torch.equal(last.key, key)
            number = last.number + (not is_same)
        query, key = (part.detach().clone() for part in (query, key))  # the caller may overwrite them
        self._last[id(module)] = _Last(outermost.number, innermost, number, query, key)
        return CallStep(outermost.cached, number, None if last is None else last.key, continues)


def _continues(last: _Last, query: Tensor, key: Tensor) -> bool:
    """Return whether the keys of a call begin with those of an earlier forward pass, and others follow."""
    known, rows = last.key, last.query.shape[-2]
    is_alike = known.ndim == key.ndim and known.shape[:-2] == key.shape[:-2] and known.shape[-1] == key.shape[-1]
    if not is_alike or key.shape[-2] <= query.shape[-2] or torch.equal(known, key):
        return False
    return torch.equal(known[..., :rows, :], key[..., :rows, :])


def rows_of(call: Call, key: Tensor, targets: Sequence[Target], step: CallStep) -> RowRange:
    """Return the positions of a call's rows in the text; raise an error if an edit needs them and they are unknown."""
    _, _, num_rows, num_columns = call.shape
    first = step.cached if isinstance(step.cached, int) else 0
    if any(target.needs_positions for target in targets):
        name = targets[0].name
        if num_rows != num_columns and isinstance(step.cached, str):
            raise cannot(name, NO_CACHE_LENGTH.format(step.cached))
        if step.continues and not step.cached:
            raise cannot(name, KEPT)
        if num_rows != num_columns and step.use > 1:
            raise cannot(name, SEVERAL)
        asks_again = step.last_key is not None and torch.equal(step.last_key, key)
        if first and num_columns < first + num_rows and not asks_again:
            raise cannot(name, DROPPED)
    return RowRange(range(first, first + num_rows), num_columns, use=step.use)
