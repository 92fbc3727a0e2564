"""Cross-attention of a recurrent or convolutional decoder: it computes a context vector from the encoder's states."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention import MLP, Additive, Bilinear, Hard, KeyValue, Mask, Score, Weights, attend, weigh
from saccade.attention.scores import resolve_score
from saccade.attention.weights import resolve_weights
from saccade.errors import OptionError

__all__ = ["CrossAttention", "ScoreName"]

ScoreName = Literal["dot", "scaled_dot", "cosine", "bilinear", "additive", "mlp"]


class CrossAttention(nn.Module):
    """``e_i = f_att(s, h_i)``, ``a = softmax(e)``, ``c = Σ a_i h_i`` (Bahdanau 2015; lectures 002 and 004).

    s is the decoder's state (the query), h_i are the encoder's states, and the context c is a weighted sum of the h_i
    without a projection. Dot products, cosine and the additive score compare projected queries and keys; the bilinear
    and MLP scores include their own projections. With ``weights="hard"``, c is one h_i: in training a sample (see the
    module ``reinforce``), otherwise the one with the highest score.
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
        self._sampled: list[Float[Tensor, "B Q"]] = []  # log-probabilities of the sampled states, one tensor per call

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        source: KeyValue,
        *,
        mask: Mask | None = None,
        first_row: int = 0,
    ) -> Float[Tensor, "B Q E"]:
        """The context vector of each query; ``source`` are the keys and values that ``project`` returned."""
        weights = Hard("greedy") if isinstance(self.weights, Hard) and not self.training else self.weights
        projected = self.query(query).unsqueeze(1)
        # Under autocast, projected tensors have a different type from the others.
        context = attend(
            projected,
            source.key.to(projected.dtype),
            source.value.to(projected.dtype),
            score=self.score,
            weights=weights,
            mask=mask,
            first_row=first_row,
            owner=self,
        ).squeeze(1)
        if isinstance(weights, Hard) and weights.log_probability is not None:
            self._sampled = [*(self._sampled if first_row else ()), weights.log_probability.squeeze(1)]
        return context

    def weigh(
        self, query: Float[Tensor, "B Q D"], source: KeyValue, *, mask: Mask | None = None, first_row: int = 0
    ) -> Float[Tensor, "B 1 Q K"]:
        """The attention weights that ``forward`` uses, with gradients, for losses that depend on the weights."""
        projected = self.query(query).unsqueeze(1)
        keys = source.key.to(projected.dtype)
        return weigh(projected, keys, score=self.score, weights=self.weights, mask=mask, first_row=first_row)

    def project(self, source: Float[Tensor, "B K E"], value: Float[Tensor, "B K E"] | None = None) -> KeyValue:
        """The keys and values of the source, to be computed once and used in every step.

        The values are ``value``, or ``source`` itself if ``value`` is None.
        """
        return KeyValue(self.key(source).unsqueeze(1), (source if value is None else value).unsqueeze(1))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the log-probabilities of the last pass out of copies, because they belong to that pass's gradients."""
        weights = Hard(self.weights.mode, self.weights.generator) if isinstance(self.weights, Hard) else self.weights
        return {**self.__dict__, "_sampled": [], "weights": weights}

    @property
    def log_probability(self) -> Float[Tensor, "B Q"]:
        """The log-probabilities of the states that hard attention sampled at each step of the last forward pass."""
        if not self._sampled:
            raise OptionError(
                "There are no log-probabilities yet; only a forward pass in training with weights = 'hard' computes "
                "them."
            )
        return torch.cat(self._sampled, dim=1)


def _score(name: ScoreName, query_width: int, source_width: int, width: int) -> Score:
    if name == "bilinear":
        return Bilinear(query_width, source_width)
    if name == "additive":
        return Additive(width)
    if name == "mlp":
        return MLP(query_width, source_width, width)
    return resolve_score(name)
