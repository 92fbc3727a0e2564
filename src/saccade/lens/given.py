"""Turn attention weights that a model returned itself into traces, which are what a view of attention is made from.

The weights are shown bit for bit. But weights alone do not show what their rows and columns are, nor what else the
model computes:

- Columns may be something other than the tokens, although there are as many columns as tokens: Longformer returns, for
  each token, the weights of its neighbours. Such a layout is recognised, and its columns are labelled with numbers.
- Rows may sum to less than 1 (because of an attention sink) or to more than 1 (because of dropout). A note in the
  title says so; if rows sum to more than 1, no rollout can be computed.
- Other parts of the model may mix tokens too, as convolutions or state spaces do. A rollout assumes that nothing but
  attention mixes tokens, and its title says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import Dot, Trace
from saccade.attention.equation import Call
from saccade.attention.watching.trace import Place
from saccade.attention.weights import Elementwise
from saccade.errors import OptionError, ShapeError
from saccade.lens.axis import is_cross_by_name

__all__ = ["ASSUMPTION", "GivenTrace"]

ASSUMPTION = "assuming that these layers follow each other and that nothing but them mixes tokens"
BAND = "columns are numbered, because they seem to be neighbours of each token, as in Longformer, and not the tokens"
#: How far the sum of a row may be from 1 because of rounding, in 32 and in 16 bits.
_ROUNDING, _HALF_ROUNDING = 1e-3, 2e-2


class _Unchanged(Elementwise):
    """A weights function that returns the scores unchanged."""

    is_given = True

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return scores


class GivenTrace(Trace):
    """The weights (batch, heads, queries, keys) of one layer, as the model returned them."""

    def __init__(self, name: str, weights: object, *, is_band: bool = False) -> None:
        checked = _checked(name, weights)
        super().__init__(name, _as_call(checked))
        self.is_band = is_band or (not is_cross_by_name(name) and is_banded(checked))  # columns are neighbours
        if self.is_band:
            self.place = Place("unknown", 0, frozenset(), is_whole=False, is_in_order=True, has_keys_in_order=False)
        totals = checked.sum(-1, dtype=torch.float64)
        totals = totals[totals > 0]  # a row that may attend to nothing is zero
        allowed = _HALF_ROUNDING if checked.element_size() < 4 else _ROUNDING
        lowest, highest = (float(totals.min()), float(totals.max())) if len(totals) else (1.0, 1.0)
        self.sums = (lowest, highest) if max(1 - lowest, highest - 1) > allowed else None  # if they are not 1
        self.is_excessive = highest > 1 + allowed

    @property
    def note(self) -> str | None:
        """A remark to show with these weights, such as that rows do not sum to 1, or None."""
        notes = []
        if self.sums is not None:
            notes.append(f"rows sum to {self.sums[0]:.3g} to {self.sums[1]:.3g}, not to 1")
        if self.is_band:
            notes.append(BAND)
        elif self.shape[2] != self.shape[3] and not is_cross_by_name(self.name):
            notes.append(f"{self.shape[2]} queries attend to {self.shape[3]} keys")
        return "; ".join(notes) or None


def _checked(name: str, weights: object) -> Float[Tensor, "B H Q K"]:
    if isinstance(weights, Sequence) and weights and isinstance(weights[0], Tensor):
        raise OptionError(
            f"{name} is itself a list: generate() returns a list of layers for each step. Run the model once over the "
            "whole text and view the attentions that this returns."
        )
    if not isinstance(weights, Tensor):
        raise OptionError(f"The weights of {name} must be a tensor, not {type(weights).__name__}.")
    if weights.ndim != 4 or not weights.is_floating_point():
        raise ShapeError(
            f"The weights of {name} must be floating-point numbers of shape (batch, heads, queries, keys), not "
            f"{weights.dtype} of shape {tuple(weights.shape)}."
        )
    whole = weights.detach()
    wrong = whole[~(whole.isfinite() & (whole >= 0))]
    if len(wrong):
        raise OptionError(f"The weights of {name} must be finite and at least 0, not {float(wrong[0]):g}.")
    return whole


def _as_call(weights: Float[Tensor, "B H Q K"]) -> Call:
    """Return a call whose scores are these weights."""
    batch, heads, queries, keys = weights.shape
    exact = torch.float64 if weights.dtype == torch.float64 else torch.float32
    query, key = (torch.zeros(batch, heads, size, 1, dtype=exact, device=weights.device) for size in (queries, keys))
    return Call(query, key, Dot(), _Unchanged(), bias=weights)


def is_banded(weights: Float[Tensor, "B H N N"]) -> bool:
    """Return whether the columns seem to be the neighbours of each row's token, and not the tokens of the text.

    In such a layout, the first columns may be tokens that all tokens attend to. Of the other columns, the middle one is
    the row's own token, and a cell is 0 if its neighbour would lie outside the text. The layout is recognised by these
    zeros, and by a zero on the diagonal in all heads of a column that has other weights, which is unlikely if the
    columns are tokens, because a token then never attends to itself.
    """
    size = weights.shape[-1]
    if weights.shape[-2] != size or size < 2:
        return False
    is_zero = ~(weights > 0).any(1)  # (batch, N, N)
    if not bool((is_zero.diagonal(dim1=-2, dim2=-1) & ~is_zero.all(-2)).any()):
        return False
    places = torch.arange(size, device=weights.device)
    for reach in range(1, (size - 1) // 2 + 1):
        middle = size - 1 - reach
        neighbour = places[:, None] + places - middle
        is_outside = (places >= middle - reach) & ((neighbour < 0) | (neighbour >= size))
        if bool(is_zero[:, is_outside].all()):
            return True
    return False
