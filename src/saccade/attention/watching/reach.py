"""Finds out which keys are padding in a trace, and whether any of its queries may attend to a later position.

All rows are examined, block by block. A softmax gives a weight to every key that mask and bias allow, so it is enough
to evaluate these. If a trace was made from weights that a model returned, it has no mask and no bias, and a key counts
as allowed if its weight is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.segment import STATISTIC_LIMIT, Segment, exact_weights

__all__ = ["FORBIDDEN", "looks_ahead", "unreached"]

#: A bias of at most this value forbids a key.
FORBIDDEN = -1e3
#: Number of rows examined at once: a causal mask needs to be evaluated only near the diagonal.
BLOCK_ROWS = 512


def unreached(parts: Sequence[tuple[Segment, Call]], num_columns: int) -> Bool[Tensor, " K"]:
    """Return, for each key, whether no query may attend to it.

    If the trace was made from weights that a model returned, rows with the same weight for every key in all heads are
    ignored, unless all rows are like that: a softmax gives such weights to a row in which everything is masked, as the
    rows of padding may be.
    """
    reached = torch.zeros(num_columns, dtype=torch.bool, device=parts[0][1].query.device)
    reached_by_equal = reached.clone()
    for segment, part in reversed(parts):  # the last rows of a decoder reach every token
        width = part.shape[3]
        for rows in reversed(list(_blocks(part, STATISTIC_LIMIT))):
            allowed = _allowed(segment, part, rows, range(width))
            if part.weights.is_given:
                weights = _weights(segment, part, rows, range(width))
                is_equal = (weights == weights[..., :1]).all(-1).all(1).flatten()
                reached_by_equal |= allowed[is_equal].any(0)
                allowed = allowed[~is_equal]
            reached[:width] |= allowed.any(0)
            if bool(reached.all()):
                return ~reached
    return ~reached if bool(reached.any()) else ~reached_by_equal


def looks_ahead(parts: Sequence[tuple[Segment, Call]], but: Bool[Tensor, " Q"] | None = None) -> bool:
    """Return whether any row may attend to a key after its own position; rows where ``but`` is True are skipped."""
    for segment, part in parts:
        for rows in _blocks(part, BLOCK_ROWS * max(1, part.shape[3])):
            first = segment.start + rows.start
            columns = range(first + 1, part.span(rows).stop)
            if not len(columns):
                continue
            ahead = _allowed(segment, part, rows, columns).triu()
            if but is not None:
                ahead = ahead[~but[first : first + len(rows)]]
            if bool(ahead.any()):
                return True
    return False


def _blocks(part: Call, limit: int) -> Iterator[range]:
    _, heads, num_rows, num_columns = part.shape
    size = max(1, limit // max(1, num_columns * (heads if part.weights.is_given else 1)))
    for first in range(0, num_rows, size):
        yield range(first, min(first + size, num_rows))


def _allowed(segment: Segment, part: Call, rows: range, columns: range) -> Bool[Tensor, "Q K"]:
    """Return which of these keys each of these rows of a single sequence may attend to, in any head."""
    if part.weights.is_given:
        return (_weights(segment, part, rows, columns) > 0).any(1)[0]
    added = part.added(rows, columns, torch.float32)
    if added is None:
        return torch.ones(len(rows), len(columns), dtype=torch.bool, device=part.query.device)
    return (added > FORBIDDEN).any(1)[0].expand(len(rows), len(columns))


def _weights(segment: Segment, part: Call, rows: range, columns: range) -> Tensor:
    batch, heads, _, _ = part.shape
    chosen = range(part.first_batch, part.first_batch + batch), range(part.first_head, part.first_head + heads)
    return exact_weights(part, segment.statistics(rows, *chosen), rows, columns)
