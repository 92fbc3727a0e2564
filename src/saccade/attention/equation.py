"""Computes the equation ``weights(score(q, k) + bias) v`` step by step, for any tile of the attention matrix.

A tile is a block of rows (queries) and columns (keys). A ``Call`` holds everything that determines the weights of one
call of an attention layer: projected queries and keys, score, mask and bias; "rules" means its mask and bias. The
same code computes the forward pass (``attend``), the weights that are recorded while watching (``trace``), and the
numbers that ``saccade explain`` shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from saccade.attention.masks import Mask, indices
from saccade.attention.scores import Score
from saccade.attention.weights import Weights
from saccade.errors import OptionError, ShapeError

__all__ = ["After", "Bias", "Call", "DenseTile", "normalise"]

HALF_PRECISION = (torch.float16, torch.bfloat16)


class Bias:
    """A rule ``(batch, head, row, column) -> number`` that is added to the score, such as ALiBi's."""

    memo: DenseTile | None = None
    #: False if the rule may read tensors that it does not declare, so that results computed from it cannot be cached.
    is_fixed: bool = False

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        added = self.function(batch, head, row, column)
        if not isinstance(added, Tensor) or added.dtype == torch.bool or added.ndim > 4:
            kind = f"{added.dtype} of {added.ndim} dimensions" if isinstance(added, Tensor) else type(added).__name__
            raise OptionError(f"A bias must return a tensor of numbers for tensors of indices, not {kind}.")
        return added

    def check(self, num_heads: int) -> None:
        """Raise an error if the rule was made for another number of heads."""

    def frozen(self) -> Bias:
        """Return a copy that later training does not change, or the rule itself if nothing in it is trained."""
        return self

    def as_score_mod(self) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Return the same rule in the form that ``flex_attention`` takes."""
        return lambda score, batch, head, row, column: score + self(batch, head, row, column)


class DenseTile(NamedTuple):
    """The numbers added to the scores of a tile: the bias, and -inf where the mask forbids attention."""

    key: tuple[object, ...]
    bias: Bias | Tensor | None
    added: Float[Tensor, "#B #H #Q #K"]


class Indices(NamedTuple):
    """The indices of a tile's entries, as four tensors that broadcast to (B, H, Q, K)."""

    batch: Tensor
    head: Tensor
    row: Tensor
    column: Tensor


@dataclass(eq=False)
class After:
    """The projection W_O that is applied to the output of a call, and the output's gradient, set as the model runs."""

    projection: Float[Tensor, "HV E"] | None = None  # W_O, which takes the outputs of all heads side by side
    version: int = 0  # of that tensor, when it was used
    gradient: Float[Tensor, "B H Q V"] | None = None  # of what was differentiated, with respect to the heads' outputs

    def set_projection(self, weight: Float[Tensor, "HV E"]) -> None:
        self.projection = weight.detach()
        self.version = 0 if weight.is_inference() else weight._version


@dataclass(frozen=True)
class Call:
    """One call of an attention layer: its queries and keys, and what turns them into weights."""

    query: Float[Tensor, "B H Q D"]
    key: Float[Tensor, "B G K E"]  # G divides H: each key head serves H/G query heads
    score: Score
    weights: Weights
    mask: Mask | None = None
    bias: Bias | Float[Tensor, "#B #H #Q #K"] | None = None
    first_row: int = 0  # absolute position of the first query
    first_head: int = 0  # set if only some of the heads or the batch were selected,
    first_batch: int = 0  # so that the rules still see the true indices
    statistic: Shaped[Tensor, "B H Q 1"] | None = None  # kept if it is a decision that cannot be recomputed
    value: Float[Tensor, "B G K V"] | None = None  # kept if a watcher needs the values too
    after: After | None = None  # kept with the values
    has_dropout: bool = False  # whether some weights were dropped before they were multiplied by the values

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K)"""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]

    @property
    def has_rules(self) -> bool:
        return self.mask is not None or self.bias is not None

    def span(self, rows: range) -> range:
        """Return a range that contains every column that any of these rows may attend to."""
        if self.mask is None or not len(rows):
            return range(self.shape[3])
        return range(*self.mask.span(self.first_row + rows[0], self.first_row + rows[-1], self.shape[3]))

    def has_rules_in(self, rows: range, columns: range) -> bool:
        """Return False if mask and bias are known to change no score of this tile, so that they can be skipped."""
        if self.mask is None or self.bias is not None or not len(rows):
            return self.has_rules
        first, last = self.first_row + rows[0], self.first_row + rows[-1]
        return not self.mask.is_full(first, last, columns.start, columns.stop)

    def indices(self, rows: range, columns: range) -> Indices:
        return self.indices_of(self.first_row + rows.start, len(rows), columns.start, len(columns))

    def indices_of(self, row: int, num_rows: int, column: int, num_columns: int) -> Indices:
        """Return the indices of a tile that begins at an absolute row and column."""
        first = (self.first_batch, self.first_head, row, column)
        return Indices(*indices(first, (*self.shape[:2], num_rows, num_columns), self.query.device))

    def added(self, rows: range, columns: range, dtype: torch.dtype) -> Float[Tensor, "#B #H #Q #K"] | None:
        """Return what is added to the scores of this tile: the bias, and -inf where the mask forbids attention."""
        added: Tensor | None = None
        if isinstance(self.bias, Tensor):
            added = self._bias_tile(rows, columns).to(dtype)
        elif self.bias is not None:
            added = self.bias(*self.indices(rows, columns)).to(dtype)
        if self.mask is not None:
            allowed = self._mask_tile(self.mask, rows, columns)
            if added is None:
                added = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
            added = torch.where(allowed, added, float("-inf"))
        return None if added is None else added.reshape((1,) * (4 - added.ndim) + tuple(added.shape))

    def _mask_tile(self, mask: Mask, rows: range, columns: range) -> Bool[Tensor, "#B #H #Q #K"]:
        first = (self.first_batch, self.first_head, self.first_row + rows.start, columns.start)
        return mask.tile(first, (*self.shape[:2], len(rows), len(columns)), self.query.device)

    def _bias_tile(self, rows: range, columns: range) -> Tensor:
        assert isinstance(self.bias, Tensor)
        batch, heads, _, _ = self.shape
        cuts = (
            slice(self.first_batch, self.first_batch + batch),
            slice(self.first_head, self.first_head + heads),
            slice(rows.start, rows.stop),
            slice(columns.start, columns.stop),
        )
        sizes = self.bias.shape
        return self.bias[tuple(cut if size > 1 else slice(None) for cut, size in zip(cuts, sizes, strict=True))]

    def scores(self, rows: range, columns: range, dtype: torch.dtype | None = None) -> Float[Tensor, "B H Q K"]:
        """Compute the scores of a tile in ``dtype``, with the bias added, and -inf where the mask forbids attention."""
        dtype = dtype or self._score_dtype()
        query = self.query[:, :, rows.start : rows.stop].to(dtype)
        key = self.key[:, :, columns.start : columns.stop].to(dtype)
        if key.shape[1] != query.shape[1]:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        at = self.indices(rows, columns)
        scores = self.score(query, key, at.row.flatten(), at.column.flatten())
        if scores.dtype in HALF_PRECISION:
            scores = scores.float()
        added = self.added(rows, columns, scores.dtype) if self.has_rules_in(rows, columns) else None
        return scores if added is None else scores + added

    def _score_dtype(self) -> torch.dtype:
        # Half precision is too coarse for sums, as in the fused kernels. A learned score has its own precision.
        is_half = self.query.dtype in HALF_PRECISION and not isinstance(self.score, nn.Module)
        return torch.float32 if is_half else self.query.dtype

    def part(self, batch: range, heads: range) -> Call:
        """Return this call for only some sequences and heads; mask and bias get their numbers in the whole call."""

        def grouped(tensor: Tensor) -> Tensor:
            group = self.query.shape[1] // tensor.shape[1]
            key_heads = range(heads.start // group, (heads.stop - 1) // group + 1)
            part = tensor[batch.start : batch.stop, key_heads.start : key_heads.stop]
            if len(key_heads) > 1 and group > 1:
                part = part.repeat_interleave(group, dim=1)
                part = part[:, heads.start - key_heads.start * group :][:, : len(heads)]
            return part

        cut = (slice(batch.start, batch.stop), slice(heads.start, heads.stop))
        return replace(
            self,
            query=self.query[cut],
            key=grouped(self.key),
            value=None if self.value is None else grouped(self.value),
            score=self.score.part(heads),
            statistic=None if self.statistic is None else self.statistic[cut],
            first_batch=self.first_batch + batch.start,
            first_head=self.first_head + heads.start,
        )

    def block_rows(self, limit: int) -> int:
        """Return how many whole rows to compute at a time, so that at most ``limit`` numbers are in memory at once."""
        batch, heads, _, columns = self.shape
        row = batch * heads * columns * self.score.pair_width(self.key.shape[-1])
        return max(1, limit // max(row, 1))


def normalise(
    scores: Float[Tensor, "B H Q K"], weights: Weights, has_rules: bool
) -> tuple[Float[Tensor, "B H Q K"], Shaped[Tensor, "B H Q 1"]]:
    """Return the weights for the scores of whole rows, and each row's statistic (see ``Weights``).

    A weight is exactly 0 where the score is -inf. The softmax of a row that is all -inf is undefined. The scores of
    such a row are therefore replaced by 0 before the softmax, and its weights are set to 0 after it, so that neither
    the output nor any gradient is NaN.
    """
    if not scores.shape[-1]:  # no keys at all
        return scores, scores.new_zeros((*scores.shape[:-1], 1))
    forbidden = scores == float("-inf") if has_rules else None
    if forbidden is not None:
        scores = scores.masked_fill(forbidden.all(dim=-1, keepdim=True), 0.0)
    if weights.shifts:  # otherwise the statistic would be as large as the scores, and as coarse
        scores = scores - scores.amax(dim=-1, keepdim=True).detach()
    statistic = weights.statistic(scores)
    found = weights.apply(scores, statistic)
    return found if forbidden is None else found.masked_fill(forbidden, 0.0), statistic


def check_bias(bias: object, shape: tuple[int, int, int, int]) -> Bias | Tensor | None:
    """Check and return a bias: a rule, or a tensor that broadcasts to (B, H, Q, K), returned with four dimensions."""
    if bias is None:
        return None
    if isinstance(bias, Bias):
        bias.check(shape[1])
        return bias
    if not isinstance(bias, Tensor):
        if callable(bias):
            return Bias(bias)
        raise OptionError(
            f"A bias must be a rule (batch, head, row, column) -> number or a tensor, not {type(bias).__name__}."
        )
    if not bias.dtype.is_floating_point:
        raise OptionError(f"A bias is added to the scores, so it must be floating-point, not {bias.dtype}.")
    tensor = bias
    whole = tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape)) if tensor.ndim < 4 else tensor
    if whole.ndim != 4 or any(s not in (1, n) for s, n in zip(whole.shape, shape, strict=True)):
        raise ShapeError(
            f"The bias has shape {tuple(tensor.shape)}; expected (B, H, Q, K) = {shape}, "
            "with 1 or nothing for a dimension along which it does not vary."
        )
    return whole
