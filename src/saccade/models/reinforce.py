"""Training hard attention by reinforcement (004 of the lectures; Xu 2015, section 4.1; Williams 1992).

A drawn state passes no gradient to the scores that chose it. Instead, draws that did better than expected are made
more likely: ``loss = -log p(y | a) - (R - b) · log p(a)``, with the reward ``R = log p(y | a)``, a constant, and b
what was to be expected.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.attention import Hard
from saccade.errors import ShapeError
from saccade.models.look import Look

__all__ = ["ReinforcedLoss", "hard_attention"]


class ReinforcedLoss(nn.Module):
    """Adds to the loss of each token what teaches the draw behind it.

    What was to be expected is the batch's mean reward at the same step t: some steps are easier than others, and one
    mean for all would praise every draw at the easy ones. So a batch needs more than one sentence.
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(
        self,
        token_loss: Float[Tensor, "B T"],
        log_probability: Float[Tensor, "B T"],
        real: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """The mean loss over the real tokens: ``token_loss`` is -log p of each, ``log_probability`` of its draw."""
        if log_probability.shape != token_loss.shape:
            raise ShapeError(
                f"Each token has one draw; the losses have shape {tuple(token_loss.shape)}, the draws "
                f"{tuple(log_probability.shape)}."
            )
        count = real.sum().clamp(min=1)
        reward = -token_loss.detach()
        expected = (reward * real).sum(dim=0) / real.sum(dim=0).clamp(min=1)
        advantage = reward - expected
        # Dividing by the spread keeps the step size while rewards shrink.
        spread = ((advantage.square() * real).sum() / count).sqrt().clamp(min=1e-3)
        surrogate = -(advantage / spread) * log_probability
        return ((token_loss + self.strength * surrogate) * real).sum() / count


def hard_attention(model: nn.Module) -> Look | None:
    """The layer that draws what it attends to; None if a model has none."""
    drawing = (m for m in model.modules() if isinstance(m, Look) and isinstance(m.weights, Hard))
    return next(drawing, None)
