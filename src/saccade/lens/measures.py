"""What is computed from attention: rollout, entropy, distance, and the difference between two inputs.

Sums run over blocks of exact weights, so that entropy and distance are known of 64k tokens as of 12.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention import Trace
from saccade.attention.watching.overview import Progress
from saccade.errors import OptionError, ShapeError

__all__ = ["distance", "entropy", "matching", "reduce_heads", "rollout"]

#: The most weights that a block of rows holds (4 MB in float32: it stays in the processor's cache).
BLOCK_WEIGHTS = 1 << 20


def rollout(layers: Sequence[Float[Tensor, "N N"]]) -> Float[Tensor, "N N"]:
    """How much of each input reaches each output of a stack of self-attentions (Abnar & Zuidema 2020, eq. 1).

    The weights W of each layer, first layer first, are joined with the path around the attention and multiplied:

        A_l = (W_l + I) / 2,   rollout = A_L · ... · A_1

    Rows that do not sum to 1 (the maximum over heads, a row that may attend to nothing) are divided by their sum.
    """
    if not layers:
        raise OptionError("A rollout needs at least one self-attention; there is none.")
    size = layers[0].shape[-1]
    identity = torch.eye(size, dtype=torch.float64, device=layers[0].device)
    flow = identity
    for weights in layers:
        if weights.shape != (size, size):
            raise ShapeError(
                f"The layers of a rollout attend to the same {size} tokens, not as {tuple(weights.shape)}."
            )
        mixed = weights.double() + identity
        flow = mixed / mixed.sum(dim=-1, keepdim=True) @ flow
    return flow.to(layers[0].dtype)


def entropy(
    trace: Trace, *, batch: int = 0, padding: Bool[Tensor, " Q"] | None = None, progress: Progress | None = None
) -> Float[Tensor, " H"]:
    """The entropy of each head in bits, the mean over its rows: 0 looks at one key, log₂ K at all alike.

    Rows that may attend to nothing have none and do not count, nor do those that are ``padding``.
    """

    def bits(weights: Tensor, _: range) -> Tensor:
        return _total(torch.special.entr(weights)) / math.log(2)

    return _mean_over_rows(trace, batch, bits, padding, progress)


def distance(
    trace: Trace, *, batch: int = 0, padding: Bool[Tensor, " Q"] | None = None, progress: Progress | None = None
) -> Float[Tensor, " H"]:
    """How many tokens away each head looks: the mean over its rows of Σ_j weight[i, j] · |i - j|.

    Rows that are ``padding`` do not count.
    """
    _, _, num_rows, num_columns = trace.shape
    if num_rows != num_columns:
        raise ShapeError(
            f"A distance is between tokens of one sequence; {trace.name} attends from {num_rows} to {num_columns}."
        )

    def away(weights: Tensor, rows: range) -> Tensor:
        places = torch.arange(num_columns, dtype=weights.dtype, device=weights.device)
        return _total((places[rows.start : rows.stop, None] - places).abs_().mul_(weights))

    return _mean_over_rows(trace, batch, away, padding, progress)


def reduce_heads(matrices: Iterator[Tensor], how: Literal["mean", "max"]) -> Tensor:
    """The mean or the maximum of matrices, one at a time, so that no two of them are held beside the result."""
    first = next(matrices)
    total, count = first.double(), 1
    for matrix in matrices:
        total = total + matrix if how == "mean" else torch.maximum(total, matrix.double())
        count += 1
    return (total / count if how == "mean" else total).to(first.dtype)


def matching(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """The places at which two lists of tokens have the same token, in the order of both."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]


def _mean_over_rows(
    trace: Trace,
    batch: int,
    measure: Callable[[Tensor, range], Tensor],
    padding: Bool[Tensor, " Q"] | None,
    progress: Progress | None,
) -> Float[Tensor, " H"]:
    """The mean of a measure of each row, head by head, from blocks of exact weights."""
    _, num_heads, num_rows, num_columns = trace.shape
    tall = max(1, BLOCK_WEIGHTS // max(1, num_columns))
    means = torch.zeros(num_heads, dtype=torch.float64)
    if num_columns == 0:
        return means  # no row may attend to anything
    for head in range(num_heads):
        count = 0
        for first in range(0, num_rows, tall):
            rows = range(first, min(first + tall, num_rows))
            weights = trace.tile(rows, slice(None), head=head, batch=batch)
            if not bool(weights.isfinite().all()):
                raise OptionError(
                    f"Head {head} of {trace.name} has weights that are not finite, so nothing is measured."
                )
            real = weights.amax(-1) > 0
            if padding is not None:
                real &= ~padding[rows.start : rows.stop]
            means[head] += measure(weights, rows)[real].sum().cpu()
            count += int(real.sum())
            if progress is not None:
                progress((head + rows.stop / num_rows) / num_heads)
        means[head] /= max(1, count)
    return means


def _total(terms: Float[Tensor, "Q K"]) -> Float[Tensor, " Q"]:
    return terms.sum(-1, dtype=torch.float64)  # of 64k terms, float32 would lose the small ones
