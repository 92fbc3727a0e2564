"""Training hard attention by reinforcement (004 of the lectures; Xu 2015, section 4.1; Williams 1992).

A drawn state passes no gradient to the scores that chose it. Instead, draws that did better than expected are made
more likely: ``loss = -log p(y | a) - (R - b) · log p(a)``, with the reward ``R = log p(y | a)``, a constant, and b
what was to be expected.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

__all__ = ["ReinforcedLoss"]


class ReinforcedLoss(nn.Module):
    """Adds to the loss of each token what teaches the draw behind it; the baseline is a moving average."""

    baseline: Tensor

    def __init__(self, momentum: float = 0.95, strength: float = 1.0) -> None:
        super().__init__()
        self.momentum = momentum
        self.strength = strength
        self.register_buffer("baseline", torch.zeros(()))

    def forward(
        self,
        token_loss: Float[Tensor, "B T"],
        log_probability: Float[Tensor, "B T"],
        real: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """The mean loss over the real tokens: ``token_loss`` is -log p of each, ``log_probability`` of its draw."""
        count = real.sum().clamp(min=1)
        reward = -token_loss.detach()
        mean = (reward * real).sum() / count
        advantage = reward - self.baseline
        # Dividing by the spread keeps the step size while rewards shrink.
        spread = ((advantage.square() * real).sum() / count).sqrt().clamp(min=1e-3)
        surrogate = -(advantage / spread) * log_probability
        if self.training:
            self.baseline.lerp_(mean, 1 - self.momentum)
        return ((token_loss + self.strength * surrogate) * real).sum() / count
