"""What an answer costs at most, before it is computed: tokens that are read and written, for each text kept in mind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from saccade.tasks.base.predictor import Predictor

__all__ = ["Cost", "estimate"]


class Cost(NamedTuple):
    """Of one input."""

    tokens: int  # that are read
    steps: int  # that the network takes one after another
    total: int  # tokens read and written, times the beam or the tries


def estimate(predictor: Predictor, inputs: Sequence[Any], options: dict[str, Any]) -> list[Cost]:
    """Of each input, if each answer becomes as long as it may."""
    chosen = predictor.chosen(options).model_dump()
    rows = chosen.get("tries", 1) if chosen.get("sample") else chosen.get("beam", 1)
    costs = []
    for given in inputs:
        tokens = predictor.count_tokens(given)
        if "max_ratio" in chosen:
            written = int(chosen["max_ratio"] * tokens) + 20
        else:
            written = chosen.get("max_tokens", chosen.get("max_length", 0))
        costs.append(Cost(tokens, 1 + written, rows * (tokens + written)))
    return costs
