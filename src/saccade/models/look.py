"""The attention of a recurrent or convolutional decoder, which computes a context from the encoder's states."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention import MLP, Additive, Bilinear, Hard, KeyValue, Mask, Score, Weights, attend, weigh
from saccade.attention.scores import resolve_score
from saccade.attention.weights import resolve_weights
from saccade.errors import OptionError

__all__ = ["Look", "ScoreName"]

ScoreName = Literal["dot", "scaled_dot", "cosine", "bilinear", "additive", "mlp"]


class Look(nn.Module):
    """``e_i = f_att(s, h_i)``, ``a = softmax(e)``, ``c = Σ a_i h_i`` (Bahdanau 2015; 002 and 004 of the lectures).

    The context is a mix of the states themselves. Products and the additive score compare projected queries and
    keys; the bilinear and the MLP score have projections of their own. Hard attention draws a state while training
    (see ``reinforce``) and takes the best one otherwise.
    """

    def __init__(
        self, query_width: int, source_width: int, width: int, score: ScoreName = "additive", weights: str = "softmax"
    ) -> None:
        super().__init__()
        own = score in ("bilinear", "mlp")
        self.query = nn.Identity() if own else nn.Linear(query_width, width, bias=False)
        self.key = nn.Identity() if own else nn.Linear(source_width, width)
        self.score = _score(score, query_width, source_width, width)
        self.weights: Weights = Hard("sample") if weights == "hard" else resolve_weights(weights)
        self._drawn: list[Float[Tensor, "B Q"]] = []  # log-probabilities of hard attention's draws, call by call

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        source: KeyValue,
        *,
        mask: Mask | None = None,
        first_row: int = 0,
    ) -> Float[Tensor, "B Q E"]:
        """The context of each query; the source comes from ``project``."""
        weights = Hard("greedy") if isinstance(self.weights, Hard) and not self.training else self.weights
        asked = self.query(query).unsqueeze(1)
        # Under autocast what was projected is of another type than what was not.
        context = attend(
            asked,
            source.key.to(asked.dtype),
            source.value.to(asked.dtype),
            score=self.score,
            weights=weights,
            mask=mask,
            first_row=first_row,
            owner=self,
        ).squeeze(1)
        if isinstance(weights, Hard) and weights.log_probability is not None:
            self._drawn = [*(self._drawn if first_row else ()), weights.log_probability.squeeze(1)]
        return context

    def weigh(
        self, query: Float[Tensor, "B Q D"], source: KeyValue, *, mask: Mask | None = None, first_row: int = 0
    ) -> Float[Tensor, "B 1 Q K"]:
        """The weights behind the context, written out with their gradient, for a loss on them."""
        asked = self.query(query).unsqueeze(1)
        return weigh(
            asked, source.key.to(asked.dtype), score=self.score, weights=self.weights, mask=mask, first_row=first_row
        )

    def project(self, source: Float[Tensor, "B K E"], value: Float[Tensor, "B K E"] | None = None) -> KeyValue:
        """Compute the keys and values once for all steps."""
        return KeyValue(self.key(source).unsqueeze(1), (source if value is None else value).unsqueeze(1))

    @property
    def log_probability(self) -> Float[Tensor, "B Q"]:
        """The log-probabilities of the states that hard attention drew in the last pass, for all steps."""
        if not self._drawn:
            raise OptionError("Only hard attention that has drawn has log-probabilities; train with weights = 'hard'.")
        return torch.cat(self._drawn, dim=1)


def _score(name: ScoreName, query_width: int, source_width: int, width: int) -> Score:
    if name == "bilinear":
        return Bilinear(query_width, source_width)
    if name == "additive":
        return Additive(width)
    if name == "mlp":
        return MLP(query_width, source_width, width)
    return resolve_score(name)
