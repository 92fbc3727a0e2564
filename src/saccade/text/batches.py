"""Group examples of different lengths into batches with little padding."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64
from torch import Tensor

from saccade.errors import OptionError, ShapeError
from saccade.text.kinds import PAD

__all__ = ["pad", "plan_batches"]


def plan_batches(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    *,
    max_tokens: int,
    max_sentences: int | None = None,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    bucket: int = 1,
) -> list[list[int]]:
    """Return the batches of one epoch as lists of indices; each example is in exactly one batch.

    `lengths` has shape (n,), or (n, k) for k sequences per example, such as source and target. The cost of a batch is
    the length of its longest sequence, over all k, times its number of examples, so padding counts too. The cost is at
    most `max_tokens`.

    Examples are sorted by length, where lengths in the same bucket of `bucket` consecutive lengths count as equal, and
    equal ones are in random order. They are cut into batches, which are then shuffled. All random choices follow from
    `seed` and `epoch`, so a resumed run gets the same list and continues after the last batch that it trained on.
    Without `shuffle`, the batches are sorted by length and do not depend on the seed.
    """
    sizes = _check_lengths(lengths, max_tokens, max_sentences, bucket)
    draw = np.random.default_rng([seed, epoch])
    number = len(sizes)
    tie_breaker = draw.permutation(number) if shuffle else np.arange(number)
    longest = sizes.max(axis=1, initial=1)
    others = sizes.sum(axis=1) - longest  # so that the shorter side needs little padding too
    order = np.lexsort((tie_breaker, others // bucket, longest // bucket))
    batches = _cut(order, longest[order], max_tokens, max_sentences or number)
    return [batches[index] for index in draw.permutation(len(batches))] if shuffle else batches


def _check_lengths(
    lengths: Sequence[int] | npt.NDArray[np.integer], max_tokens: int, max_sentences: int | None, bucket: int
) -> npt.NDArray[np.int64]:
    """Check the arguments, and return the lengths with shape (n, k)."""
    for name, value in (("max_tokens", max_tokens), ("max_sentences", max_sentences), ("bucket", bucket)):
        if value is not None and value < 1:
            raise OptionError(f"{name} must be 1 or more, not {value}.")
    sizes = np.asarray(lengths, dtype=np.int64)
    if sizes.ndim not in (1, 2):
        raise ShapeError(f"Lengths have shape {sizes.shape}; expected (n,) or (n, k).")
    sizes = sizes.reshape(len(sizes), -1) if sizes.size else np.zeros((len(sizes), 1), dtype=np.int64)
    too_long = np.flatnonzero(sizes.max(axis=1, initial=0) > max_tokens)
    if len(too_long):
        raise OptionError(
            f"Example {too_long[0] + 1:,} has {sizes[too_long[0]].max():,} tokens, more than a batch may have "
            f"(max_tokens={max_tokens:,}); {len(too_long):,} of {len(sizes):,} examples are too long: raise "
            "max_tokens, or leave them out."
        )
    return sizes


def _cut(
    order: npt.NDArray[np.int64], longest: npt.NDArray[np.int64], max_tokens: int, max_sentences: int
) -> list[list[int]]:
    """Cut `order` into consecutive runs, each as long as its cost permits; `longest` is in the same order."""
    indices = order.tolist()
    # Lengths increase, except within a bucket. Replacing each by the longest so far makes them increase everywhere, so
    # the cost of a run grows with its length, and bisection finds the longest run that fits.
    peaks = np.maximum.accumulate(longest).tolist()
    batches = []
    start = 0
    while start < len(indices):
        most = min(max_sentences, max_tokens // peaks[start], len(indices) - start)
        size = bisect_right(range(1, most + 1), max_tokens, key=lambda size: peaks[start + size - 1] * size)
        batches.append(indices[start : start + size])
        start += size
    return batches


def pad(sequences: Sequence[Sequence[int]], value: int = PAD) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, " B"]]:
    """Return the sequences as rows of a tensor, padded at the end, and their lengths."""
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    rows = np.full((len(sequences), lengths.max(initial=0)), value, dtype=np.int64)
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    rows[inside] = np.fromiter(chain.from_iterable(sequences), dtype=np.int64, count=int(lengths.sum()))
    return torch.from_numpy(rows), torch.from_numpy(lengths)
