"""The rules that say whether torch's functions mix, move or keep the tokens of their arguments.

A rule returns the ids of the tokens that the outputs of a function call were computed from (``identity``), given those
of its arguments.

If a function has no rule here, or is called in a way that its rule does not cover, the tokens of its output are
unknown. So only the functions that are listed here are trusted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from saccade.attention.watching.foreign import row_mixes, row_moves
from saccade.attention.watching.foreign.called import Called
from saccade.attention.watching.foreign.row_functions import (
    ADDS,
    CONSTANTS,
    ELEMENTWISE,
    JOINS,
    MOVES,
    OVER,
    RANDOM,
    SAME,
    WRITES,
    name_of,
    pointwise,
    words,
)

__all__ = ["joins", "rule_of"]

Rule = Callable[[Called], Any]


@functools.cache
def _rules() -> dict[str, Rule]:
    products = words("addmm baddbmm bmm matmul mm mv")
    norms = ["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"]
    pools = ["avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool"]
    sized = [f"{name}{size}d" for name in ("conv", *pools) for size in (1, 2, 3)]
    rules: dict[str, Rule] = {
        **dict.fromkeys(ELEMENTWISE | pointwise() - {"max", "min"}, row_moves.elementwise),
        **dict.fromkeys(SAME, row_moves.same),
        **dict.fromkeys(CONSTANTS, row_moves.constant),
        **dict.fromkeys(RANDOM, row_moves.random),
        **dict.fromkeys(MOVES, row_moves.moved),
        **dict.fromkeys(JOINS, row_moves.joined),
        **dict.fromkeys(WRITES, row_moves.written),
        **dict.fromkeys(ADDS, row_moves.added),
        **dict.fromkeys(OVER, row_mixes.over),
        **dict.fromkeys(norms, row_mixes.normalized),
        **dict.fromkeys(products, row_mixes.product),
        **dict.fromkeys([*sized, "interpolate", "upsample"], row_mixes.windows),
        **dict.fromkeys(["sort", "topk"], row_mixes.sorted_along),
        **dict.fromkeys(["pad", "constant_pad_nd"], row_moves.padded),
        **dict.fromkeys(["view_as_real", "view_as_complex"], row_moves.of_complex),
        **dict.fromkeys(["copy", "data ="], row_moves.copied),
        **dict.fromkeys(["_grouped_mm", "grouped_mm"], row_mixes.grouped),
    }
    return rules | {
        "broadcast_tensors": row_moves.broadcast, "bucketize": row_moves.alone, "cumsum": row_mixes.counted,
        "embedding": row_mixes.embedded, "einsum": row_mixes.summed, "fill": row_moves.filled,
        "linear": row_mixes.linear, "masked_fill": row_moves.chosen, "one_hot": row_mixes.one_hot,
        "where": row_moves.chosen,
    }  # fmt: skip


@functools.lru_cache(4096)
def rule_of(function: Callable[..., Any]) -> Rule | None:
    return _rules().get(name_of(function))


def joins(function: Callable[..., Any]) -> bool:
    """Return whether a function combines its tensor arguments element by element, or concatenates them."""
    return rule_of(function) in (row_moves.elementwise, row_moves.chosen, row_moves.joined)
