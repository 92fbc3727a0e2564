"""Recognises heads that were moved into the batch dimension, as in queries of shape (batch · heads, positions, width).

To torch, such a call looks like many sequences with one head each. The ids of the tokens that the queries were computed
from (``identity``) show which of these sequences are really heads of the same text: they have the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.call import call_of_sdpa
from saccade.attention.watching.foreign.identity import HASHED, NOBODY, ROWS, is_made_of_rows, kind_of
from saccade.attention.watching.foreign.lineage import Lineage
from saccade.attention.watching.foreign.positions import order_of
from saccade.attention.watching.interventions import Target, cannot

__all__ = ["FOLDED", "Fold", "Layouts", "fold_of"]

FOLDED = (
    "its heads, or parts of its texts such as windows, seem to be in the batch dimension, and nothing shows which of "
    "its sequences are heads of one text"
)
NOT_THE_TEXT = "its rows are not the positions of the text: they are parts of it, such as windows, or were reordered"


class Fold(NamedTuple):
    """How the texts and heads of a call are laid out in its first one or two dimensions."""

    num_texts: int
    num_heads: int
    is_head_first: bool = False  # True if all texts of the first head come first

    def fits(self, query: Tensor) -> bool:
        return query.ndim in (3, 4) and query.shape[:-2].numel() == self.num_texts * self.num_heads

    def is_plain(self, query: Tensor) -> bool:
        """Whether the layout is torch's own: (texts, heads, ...), or (texts, ...) with one head."""
        return not self.is_head_first and self.num_texts == query.shape[0]

    def unfold(self, tensor: Tensor) -> Tensor:
        """Return a tensor of this layout, reshaped to (texts, heads, ...)."""
        rest = tensor.shape[-2:]
        if self.is_head_first:
            return tensor.reshape(self.num_heads, self.num_texts, *rest).transpose(0, 1)
        return tensor.reshape(self.num_texts, self.num_heads, *rest)

    def texts(self, query: Tensor) -> Int[Tensor, ...]:
        """Return, for each entry of the first one or two dimensions, the number of the text that it belongs to."""
        entries = torch.arange(query.shape[:-2].numel(), device=query.device).view(query.shape[:-2])
        return entries % self.num_texts if self.is_head_first else entries // self.num_heads

    def call_of_sdpa(self, bound: dict[str, Any]) -> Call | str:
        """Translate a call of ``scaled_dot_product_attention`` with this layout, or return why it cannot be shown."""
        tensors = {name: part for name, part in bound.items() if isinstance(part, Tensor) and part.ndim > 2}
        first = bound["query"].shape[:-2]
        if any(part.shape[:-2] not in (first, (1,) * len(first)) for part in tensors.values()):
            return FOLDED
        found = {name: self.unfold(part.expand(*first, *part.shape[-2:])) for name, part in tensors.items()}
        return call_of_sdpa(**bound | found)


def fold_of(rows: Int[Tensor, ...] | None) -> Fold | None:
    """Return the layout of queries, given the id of the token that each element was computed from (``identity``).

    Return None if the ids do not show the layout.
    """
    if rows is None or rows.ndim not in (3, 4) or not rows.numel():
        return None
    if not torch.equal(rows[..., :1].expand_as(rows), rows):  # the elements of a row belong to several tokens
        return None
    tokens = rows[..., 0]
    num_heads = tokens.shape[1] if tokens.ndim == 3 else 1
    entries = tokens.reshape(-1, tokens.shape[-1])
    if bool((entries[0] == NOBODY).all()):
        return None
    plain = Fold(len(tokens), num_heads)
    if num_heads > 1 and torch.equal(tokens[:, :1].expand_as(tokens), tokens):
        return plain
    if not _are_rows(entries):  # in parts of a picture or mixed tokens, the heads of a text may differ
        return None
    count = int((entries == entries[0]).all(-1).sum())
    for is_head_first in (False, True):
        if len(entries) % count == 0:
            fold = Fold(len(entries) // count, count, is_head_first)
            layout = fold.unfold(entries.unsqueeze(-1))
            if torch.equal(layout[:, :1].expand_as(layout), layout):
                return fold
    return None


def _are_rows(ids: Int[Tensor, ...]) -> bool:
    """Return whether each id is that of a row of an input, or means that there is no token."""
    return bool(((ids < HASHED) & ((ids == NOBODY) | (kind_of(ids) <= ROWS))).all())


def _heads_differ(rows: Int[Tensor, ...] | None) -> bool:
    """Return whether the heads of queries (texts, heads, ...) have different tokens, which shows that they are not
    heads but parts of a text, such as windows."""
    if rows is None or rows.ndim != 4 or not rows.numel() or not _are_rows(rows):
        return False
    return not torch.equal(rows[:, :1].expand_as(rows), rows)


class Layouts:
    """Finds the layout of each attention call."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._last: dict[int, Fold | None] = {}  # by module: the layout of its last call whose tokens were known

    def of(self, module: nn.Module, query: Tensor) -> Fold | None:
        """Return how the texts and heads of a call are laid out; None if this cannot be found out.

        In a step of generation, tokens are not tracked; the layout is then that of the previous step.
        """
        if not self._lineage.is_on:
            known = self._last.get(id(module))
            return known if known is None or known.fits(query) else None
        with torch._C.DisableTorchFunction():
            fold = self._last[id(module)] = fold_of(self._lineage.rows.of(query))
        return fold

    def may_fold(self, query: Tensor) -> bool:
        """Return whether some heads may be in the batch dimension, judging by shapes alone."""
        heads = query.shape[1] if query.ndim == 4 else 1
        return query.ndim in (3, 4) and self._lineage.may_fold(query.shape[0], heads, query.shape[-2])

    def check(self, module: nn.Module, query: Tensor, targets: Sequence[Target]) -> None:
        """Raise an error if the call cannot be edited because its head dimension may not hold the model's heads, or
        because its rows are not the positions of the text."""
        fold, rows = self.of(module, query), self._lineage.rows
        if self.may_fold(query) if fold is None else not fold.is_plain(query):
            raise cannot(targets[0].name, FOLDED)
        if not self._lineage.is_on:
            return
        with torch._C.DisableTorchFunction():
            if _heads_differ(rows.of(query)):
                raise cannot(targets[0].name, FOLDED)
        if any(target.needs_positions for target in targets):
            positions = rows.positions(query, 0)
            is_of_text = positions is not None and bool(is_made_of_rows(positions.ids).any())
            if is_of_text and not order_of(positions, positions, rows.lengths).is_in_order:
                raise cannot(targets[0].name, NOT_THE_TEXT)
