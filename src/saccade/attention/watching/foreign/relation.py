"""How an attention call relates to the previous call of the same layer, judging by the content of its keys.

A call continues the previous one, so that the rows of both are shown in one matrix, in three cases:

- Its keys are the earlier keys, bit for bit, followed by those of the new queries. The keys of the last tokens may be
  missing, if the decoder has discarded these tokens.
- Its keys are a buffer of fixed size, in which at most as many columns changed as there are new queries, and a mask
  forbade these columns before.
- Its keys are the same as before (cross-attention), and another layer's call in the same forward pass continues that
  layer's previous call in one of the first two ways.

In all other cases, the rows of the two calls are not shown in one matrix.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.reach import FORBIDDEN

__all__ = ["Move", "Relation", "step_between"]


class Relation(Enum):
    """How a call relates to the previous call of the same layer."""

    NEW = auto()  # it belongs to another forward pass
    GROWN = auto()  # its keys are the earlier keys (perhaps without the last ones), then those of the new queries
    AGAIN = auto()  # its keys are the same as before
    REORDERED = auto()  # the sequences of the batch changed places, as in beam search
    SHIFTED = auto()  # old keys were dropped, as by a cache with a window
    IN_TURNS = auto()  # it continues not the last forward pass, but the pass before that


class Move(NamedTuple):
    """How a call continues the previous call, and how many rows the decoder discarded at the end before it."""

    step: Relation
    back: int = 0


def step_between(last: Call, call: Call, is_self: bool = False) -> Move:
    """Return how a call continues the last recorded call; ``is_self`` says whether it is self-attention."""
    _, _, num_queries, num_keys = call.shape
    old, new, num_last = last.key, call.key, last.shape[3]
    is_same_form = old.shape[:2] == new.shape[:2] and old.shape[3] == new.shape[3] and old.dtype == new.dtype
    if not is_same_form or last.shape[1] != call.shape[1] or not len(new):
        return Move(Relation.NEW)
    num_before = num_keys - num_queries  # the number of old keys, if the keys are the tokens of the queries
    if not is_self and num_last == num_keys and torch.equal(old, new):
        return Move(Relation.AGAIN)
    if num_before <= 0:
        return Move(Relation.NEW)
    if num_last < num_keys and num_last <= num_before:
        # A buffer may be longer than its content; then everything beyond the new keys is forbidden.
        beyond = range(num_last + num_queries, num_keys)
        if beyond and not _forbids(call, beyond):
            return Move(Relation.NEW)
        if torch.equal(old, new[:, :, :num_last]):
            return Move(Relation.GROWN)
        return Move(Relation.REORDERED if _has_all(old, new[:, :, :num_last], 0) else Relation.NEW)
    if num_last == num_keys:
        differs = _changed_columns(old, new)
        changed = differs.any(0).nonzero().flatten().tolist()
        if 0 < len(changed) <= num_queries and all(_forbids(last, range(c, c + 1)) for c in changed):
            return Move(Relation.GROWN)  # new keys were written to an empty part of a buffer
        allowed = num_queries if call.has_rules else 0
        if int(differs.sum(-1).max()) > allowed and _has_all(old, new, allowed):
            return Move(Relation.REORDERED)
    if is_self and torch.equal(old[:, :, :num_before], new[:, :, :num_before]):
        return Move(Relation.GROWN, num_last - num_before)  # the decoder discarded the last tokens
    was_kept = old[:, :, num_last - num_keys + num_queries :]
    return Move(Relation.SHIFTED if _has_all(was_kept, new[:, :, :-num_queries], 0) else Relation.NEW)


def _forbids(call: Call, columns: range) -> bool:
    """Return whether the last query of each sequence may attend to none of these columns."""
    last = call.shape[2] - 1
    added = call.added(range(last, last + 1), columns, torch.float32)
    return added is not None and bool((added <= FORBIDDEN).all())


def _has_all(old: Float[Tensor, "B G K D"], new: Float[Tensor, "B G K D"], allowed: int) -> bool:
    """Whether each new sequence equals one of the old ones (in any order), except in at most ``allowed`` columns."""
    return all(int(_changed_columns(old, new[b : b + 1]).sum(-1).min()) <= allowed for b in range(len(new)))


def _changed_columns(old: Float[Tensor, "B G K D"], new: Float[Tensor, "#B G K D"]) -> Bool[Tensor, "B K"]:
    return (old != new).any(dim=3).any(dim=1)
