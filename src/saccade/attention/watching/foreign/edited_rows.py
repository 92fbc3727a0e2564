"""Finds out which positions of the text the rows of an edited attention call stand for.

An edit names positions of a text, but a call of torch's attention only has rows. In a forward pass over a whole text,
row i is position i. In a step of generation it is not: the cache that is passed to the model then says how many
positions came before. If there is no such cache, the ids of the tokens that queries and keys were computed from
(``identity``) must prove that the rows are the first positions of the text; if they do not, the edit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.identity import HASHED, LEARNED, MADE, NOBODY, kind_of, sequence_of, unseen
from saccade.attention.watching.foreign.lineage import Lineage, source_of
from saccade.attention.watching.foreign.running import RunningModule
from saccade.attention.watching.interventions import RowRange, Target, active_edits, cannot, targets_of

__all__ = ["CallStep", "EditedCalls", "Start", "cached_positions", "rows_of"]

NO_CACHE_LENGTH = (
    "the model was given a {} object that does not tell how many positions it holds, so the positions of this call are "
    "not known; run the model once over the whole text"
)
KEPT = (
    "it is not known which positions of the text its queries and keys are: the model stores the keys of earlier steps "
    "itself, or adds other keys to those of the text; run it once over the whole text, within the block"
)
SEVERAL = "its module computes attention several times in one forward pass, and the positions of its rows are not known"
SEVERAL_VALUES = (
    "its module applies its weights to several sets of values, and one output cannot replace all the results"
)
DROPPED = "its cache dropped old keys, so its columns are not the positions of the text"


class Start(Enum):
    """What the origins of queries and keys (``identity``) prove about the positions of the queries in their text."""

    FIRST = auto()  # the queries are the first positions of their text
    FIRST_IF_HIDDEN = auto()  # the same, but only if a mask hides all keys after theirs, which may be cached keys
    LATER = auto()  # the keys begin with keys that an earlier forward pass computed
    UNKNOWN = auto()


class CallStep(NamedTuple):
    """Which of its module's calls an attention call is, and what is known about the positions of its queries."""

    cached: int | str | None  # see ``cached_positions``
    use: int  # 1 for the module's first call in this forward pass, 2 for its second call, and so on
    last_key: Tensor | None  # the keys of the module's previous call
    start: Start
    is_later: bool  # whether its forward pass continues an earlier one, or its keys continue those of an earlier call


def cached_positions(given: Sequence[object]) -> int | str | None:
    """Return how many positions the cache among these arguments holds, or the name of its class if it does not say.

    If there is no cache, return None; the modules may still store keys themselves.
    """
    for part in given:
        if hasattr(part, "get_seq_length"):  # the caches of Hugging Face
            return int(part.get_seq_length())
    unknown = [type(part).__name__ for part in given if not isinstance(part, dict)]
    return unknown[0] if unknown else None


class _Last(NamedTuple):
    """The last edited call of a module."""

    outermost: int
    innermost: int
    number: int  # among the module's calls in this outermost forward pass, counted from 1
    query: Tensor
    key: Tensor


class EditedCalls:
    """Remembers the last edited call of each module in this thread, to compare the next call with it."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}  # by the id of the module

    def look(
        self, runs: Sequence[RunningModule], query: Tensor, key: Tensor, lineage: Lineage, is_turned: bool
    ) -> Start:
        """Return what a call, edited or not, proves about the positions of its queries in the text.

        If the queries continue the text of an earlier forward pass, note that the running pass is a later step.
        """
        if not any(target.needs_positions for edit in active_edits() for target in edit.targets.values()):
            return Start.UNKNOWN
        start, outermost = start_of(query, key, lineage, is_turned), runs[0]
        outermost.is_later = outermost.is_later or start is Start.LATER
        if outermost.is_later and outermost.linked is not None and not isinstance(outermost.cached, int):
            raise cannot(outermost.linked, KEPT)
        return start

    def note(
        self, runs: Sequence[RunningModule], query: Tensor, key: Tensor, lineage: Lineage, is_turned: bool
    ) -> CallStep:
        """Remember a call of the innermost running module, and return its number and what it proves (``CallStep``)."""
        module, outermost, innermost = runs[-1].module, runs[0], runs[-1].number
        start = self.look(runs, query, key, lineage, is_turned)
        outermost.linked = next((one.name for one in targets_of(module) if one.needs_positions), outermost.linked)
        last = self._last.get(id(module))
        number, is_later = 1, outermost.is_later
        if last is not None and last.outermost != outermost.number:
            is_later = is_later or _continues(last, query, key)
        if last is not None and last.outermost == outermost.number:
            # Two calls that differ in their values alone (DiffLlama) are one attention.
            is_same = last.innermost == innermost and torch.equal(last.query, query) and torch.equal(last.key, key)
            number = last.number + (not is_same)
            given = [one for one in targets_of(module) if any(head.value is not None for head in one.heads)]
            if is_same and given:
                raise cannot(given[0].name, SEVERAL_VALUES)
        query, key = (part.detach().clone() for part in (query, key))  # the caller may overwrite them
        self._last[id(module)] = _Last(outermost.number, innermost, number, query, key)
        return CallStep(outermost.cached, number, None if last is None else last.key, start, is_later)


def _continues(last: _Last, query: Tensor, key: Tensor) -> bool:
    """Return whether the first keys of a call are those of the module's last call, one for each of its queries."""
    known, rows = last.key, last.query.shape[-2]
    is_alike = known.ndim == key.ndim and known.shape[:-2] == key.shape[:-2] and known.shape[-1] == key.shape[-1]
    if not is_alike or key.shape[-2] <= query.shape[-2] or torch.equal(known, key):
        return False
    return torch.equal(known[..., :rows, :], key[..., :rows, :])


@unseen()
def start_of(query: Tensor, key: Tensor, lineage: Lineage, is_turned: bool) -> Start:
    """Return what the origins of a call's queries and keys (``identity``) prove about the positions of the queries.

    ``is_turned`` says whether the tensors are (positions, batch, width) instead of (batch, positions, width).
    """
    number = lineage.new_number()
    found = [lineage.rows.positions(part, number, is_turned) for part in (query, key)] if lineage.is_on else []
    if not found or found[0] is None or found[1] is None:
        return Start.UNKNOWN
    rows, columns = found[0].ids, found[1].ids
    num_rows = rows.shape[1]
    if columns.shape[1] <= num_rows:
        return Start.FIRST
    is_own = torch.isin(columns, rows[rows != NOBODY])
    if not bool(is_own.any()):
        if is_turned and torch.equal(key[-num_rows:], query):  # inputs that torch's function projects itself
            return Start.LATER
        is_cross = source_of(lineage.marks(query), lineage.marks(key)) == "cross"
        return Start.FIRST if is_cross or _are_two_inputs(rows, columns) else Start.UNKNOWN
    is_alike = len(rows) == len(columns) and torch.equal(columns[:, :num_rows], rows)
    if is_alike and not bool(is_own[:, num_rows:].any()):
        return Start.FIRST if bool(_is_of_pass(columns, rows)[:, num_rows:].all()) else Start.FIRST_IF_HIDDEN
    first = int(is_own.any(0).nonzero()[0])
    is_later = is_alike or not bool(_is_of_pass(columns, rows)[:, :first].all())
    return Start.LATER if is_later else Start.UNKNOWN


def _are_two_inputs(rows: Int[Tensor, "B Q"], columns: Int[Tensor, "B K"]) -> bool:
    """Return whether all queries and keys are tokens, and no key is from a sequence of the queries."""
    are_tokens = all(bool(((ids != NOBODY) & (ids < HASHED)).all()) for ids in (rows, columns))
    return are_tokens and not bool(torch.isin(sequence_of(columns), sequence_of(rows)).any())


def _is_of_pass(columns: Int[Tensor, "B K"], rows: Int[Tensor, "B Q"]) -> Bool[Tensor, "B K"]:
    """Return which keys were computed in this forward pass: from the sequence of the queries, a picture, or
    parameters."""
    is_token = (columns != NOBODY) & (columns < HASHED)
    own = sequence_of(rows[(rows != NOBODY) & (rows < HASHED)])
    is_made = (kind_of(columns) == MADE) | (kind_of(columns) == LEARNED)
    return is_token & (is_made | torch.isin(sequence_of(columns), own))


def rows_of(call: Call, key: Tensor, targets: Sequence[Target], step: CallStep, hides_rest: bool) -> RowRange:
    """Return the positions of a call's rows in the text; raise an error if an edit needs them and they are unknown.

    ``hides_rest`` says whether a mask hides all keys after those of the queries (``Start.FIRST_IF_HIDDEN``).
    """
    _, _, num_rows, num_columns = call.shape
    is_told = isinstance(step.cached, int)
    first = step.cached if isinstance(step.cached, int) else 0
    if any(target.needs_positions for target in targets):
        name = targets[0].name
        if num_rows != num_columns and isinstance(step.cached, str):
            raise cannot(name, NO_CACHE_LENGTH.format(step.cached))
        if num_rows != num_columns and step.use > 1:
            raise cannot(name, SEVERAL)
        is_first = step.start is Start.FIRST or hides_rest
        if not is_told and (step.is_later or (num_rows < num_columns and not is_first)):
            raise cannot(name, KEPT)
        asks_again = step.last_key is not None and torch.equal(step.last_key, key)
        if first and num_columns < first + num_rows and not asks_again:
            raise cannot(name, DROPPED)
    return RowRange(range(first, first + num_rows), num_columns, use=step.use)
