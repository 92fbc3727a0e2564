"""Measure each head: entropy, distance, and the weight on the previous token, on the token itself and on equal tokens.

Heads that stand out in such a measure have names in the literature: previous-token heads and induction heads (Elhage et
al. 2021; Olsson et al. 2022), positional heads (Voita et al. 2019). The measures are means over the rows of one input,
so they show what a head does for this input, not in general.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.lens.view import View

__all__ = ["Habits", "habits"]


@dataclass(frozen=True)
class Habits:
    """The measures of one head. All but ``entropy`` are None if queries and keys are not the same sequence.

    ``entropy`` is in bits; ``distance`` is how many tokens away the head attends on average. ``previous`` and
    ``itself`` are the mean weights that a token gives to the token before it and to itself. ``same`` is the mean total
    weight that a token gives to other tokens with the same text, over the tokens that occur more than once; None if no
    token does.
    """

    entropy: float
    distance: float | None = None
    previous: float | None = None
    itself: float | None = None
    same: float | None = None


def habits(view: View, name: str) -> list[Habits]:
    """Return the measures of each head of the attention ``name``, holding the weights of only one head in memory."""
    entropy = view.entropy(name).tolist()
    if not view.is_self(name):
        return [Habits(bits) for bits in entropy]
    distance = view.distance(name).tolist()
    twins = _twins(view.rows[name].tokens)
    found = []
    for head, (bits, away) in enumerate(zip(entropy, distance, strict=True)):
        weights = view.matrix(name, head).double().cpu()
        before, rows = weights.diagonal(-1), twins.any(dim=1)
        previous = float(before.mean()) if len(before) else None
        same = float((weights * twins)[rows].sum(dim=1).mean()) if bool(rows.any()) else None
        found.append(Habits(bits, away, previous, float(weights.diagonal().mean()), same))
    return found


def _twins(tokens: list[str]) -> Bool[Tensor, "N N"]:
    """Return for each token which other tokens have the same text, ignoring case."""
    texts = [token.lower() for token in tokens]
    numbers: Float[Tensor, " N"] = torch.tensor([texts.index(text) for text in texts])
    return (numbers[:, None] == numbers) & ~torch.eye(len(texts), dtype=torch.bool)
