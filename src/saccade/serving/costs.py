"""An upper bound on the cost of an answer before it is computed, in token steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from saccade.tasks.base.predictor import Predictor

__all__ = ["Cost", "estimate"]


class Cost(NamedTuple):
    """The cost of one input."""

    tokens: int  # tokens read
    steps: int  # consecutive calls of the network
    total: int  # token steps: tokens read and written, times the beam or the tries


def estimate(predictor: Predictor, inputs: Sequence[Any], options: dict[str, Any]) -> list[Cost]:
    """The cost of each input, if its answer becomes as long as allowed."""
    chosen = predictor.chosen(options).model_dump()
    rows = chosen.get("tries", 1) if chosen.get("sample") else chosen.get("beam", 1)
    costs = []
    for one in inputs:
        tokens = predictor.count_tokens(one)
        if "max_ratio" in chosen:
            written = int(chosen["max_ratio"] * tokens) + 20
        else:
            written = chosen.get("max_tokens", chosen.get("max_length", 0))
        costs.append(Cost(tokens, 1 + written, rows * (tokens + written)))
    return costs
