"""Measures of attention: rollout, entropy and distance.

Entropy and distance are summed over blocks of rows, so long inputs (64k tokens) need no more memory than one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention import Trace
from saccade.attention.watching.overview import ReportProgress
from saccade.errors import OptionError, ShapeError

__all__ = ["distance", "entropy", "reduce_heads", "rollout"]

#: Maximum number of weights in a block of rows (4 MB in float32, which stays in the processor's cache).
BLOCK_WEIGHTS = 1 << 20


def rollout(layers: Sequence[Float[Tensor, "N N"]]) -> Float[Tensor, "N N"]:
    """Return how much of each input reaches each output of a stack of self-attentions (Abnar & Zuidema 2020, eq. 1).

    ``layers`` are the weights W of each layer, from the first to the last. It is assumed that half of each layer's
    output comes from its residual connection, so each W is averaged with the identity, and the results are multiplied:

        A_l = (W_l + I) / 2,   rollout = A_L · ... · A_1

    Rows of A_l that do not sum to 1 are divided by their sum. Such rows occur if W is the maximum over heads, or if all
    keys of a query are masked.
    """
    if not layers:
        raise OptionError("A rollout needs at least one self-attention; none was given.")
    size = layers[0].shape[-1]
    identity = torch.eye(size, dtype=torch.float64, device=layers[0].device)
    flow = identity
    for weights in layers:
        if weights.shape != (size, size):
            raise ShapeError(f"All layers of a rollout must have shape {(size, size)}, not {tuple(weights.shape)}.")
        mixed = weights.double() + identity
        flow = mixed / mixed.sum(dim=-1, keepdim=True) @ flow
    return flow.to(layers[0].dtype)


def entropy(
    trace: Trace, *, batch: int = 0, padding: Bool[Tensor, " Q"] | None = None, progress: ReportProgress | None = None
) -> Float[Tensor, " H"]:
    """Return the entropy of each head in bits, averaged over its rows.

    A row with all weight on one key has entropy 0, and a row with equal weight on K keys has log₂ K. Rows in which all
    keys are masked are not counted, nor are rows that ``padding`` marks.
    """

    def bits(weights: Tensor, _: range) -> Tensor:
        return _total(torch.special.entr(weights)) / math.log(2)

    return _mean_over_rows(trace, batch, bits, padding, progress)


def distance(
    trace: Trace, *, batch: int = 0, padding: Bool[Tensor, " Q"] | None = None, progress: ReportProgress | None = None
) -> Float[Tensor, " H"]:
    """Return how many tokens away each head attends: the mean over its rows i of Σ_j weight[i, j] · |i - j|.

    Rows in which all keys are masked are not counted, nor are rows that ``padding`` marks.
    """
    _, _, num_rows, num_columns = trace.shape
    if num_rows != num_columns:
        raise ShapeError(
            f"Distance is defined only for self-attention; {trace.name} attends from {num_rows} queries "
            f"to {num_columns} keys."
        )

    def away(weights: Tensor, rows: range) -> Tensor:
        places = torch.arange(num_columns, dtype=weights.dtype, device=weights.device)
        return _total((places[rows.start : rows.stop, None] - places).abs_().mul_(weights))

    return _mean_over_rows(trace, batch, away, padding, progress)


def reduce_heads(matrices: Iterator[Tensor], how: Literal["mean", "max"]) -> Tensor:
    """Return the elementwise mean or maximum of the heads' matrices, holding only one of them in memory at a time."""
    first = next(matrices)
    total, count = first.double(), 1
    for matrix in matrices:
        total = total + matrix if how == "mean" else torch.maximum(total, matrix.double())
        count += 1
    return (total / count if how == "mean" else total).to(first.dtype)


def _mean_over_rows(
    trace: Trace,
    batch: int,
    measure: Callable[[Tensor, range], Tensor],
    padding: Bool[Tensor, " Q"] | None,
    progress: ReportProgress | None,
) -> Float[Tensor, " H"]:
    """Average a measure over the rows of each head, from blocks of exact weights."""
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
                    f"Head {head} of {trace.name} has weights that are not finite, so it cannot be measured."
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
    return terms.sum(-1, dtype=torch.float64)  # a float32 sum of 64k terms would lose the small ones
