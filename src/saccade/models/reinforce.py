"""Training hard attention by reinforcement (lecture 004; Xu 2015, section 4.1; Williams 1992).

Hard attention samples one state a of the source, and no gradient flows back through this choice to the scores. Instead,
the loss makes samples more likely that did better than expected: ``loss = -log p(y | a) - (R - b) · log p(a)``, where y
are the words to predict. The reward R is the log-probability of the words that the sample can affect and counts as a
constant; the baseline b is the reward that was expected.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.attention import Hard
from saccade.errors import ShapeError
from saccade.models.cross_attention import CrossAttention

__all__ = ["ReinforcedLoss", "hard_attention"]


class ReinforcedLoss(nn.Module):
    """Adds to the loss of each token a term that trains the attention sample with which the token was predicted.

    The baseline is the batch's mean reward at the same step: some steps are easier than others, and a single mean over
    all steps would reward every sample at the easy ones. So a batch needs more than one sentence.

    Args:
        later: how much later words count in the reward, ``R_t = Σ_{s≥t} later^(s-t) log p(y_s)``. Use 0 if the sample
            affects its own word only, and more if it enters the decoder's state and so affects all later words. The
            later a word is, the less its probability depends on this sample, so with 1 the reward is mostly noise.
        exploration: weight of a bonus for the entropy of the attention weights, which keeps the samples varied until
            the rewards become informative.
    """

    def __init__(self, strength: float = 1.0, later: float = 0.0, exploration: float = 0.0) -> None:
        super().__init__()
        self.strength = strength
        self.later = later
        self.exploration = exploration

    def forward(
        self,
        token_loss: Float[Tensor, "B T"],
        log_probability: Float[Tensor, "B T"],
        real: Bool[Tensor, "B T"],
    ) -> Float[Tensor, ""]:
        """The mean loss over real tokens, which are those that are not padding.

        It is computed from -log p of each token (``token_loss``) and log p of its attention sample.
        """
        if log_probability.shape != token_loss.shape:
            raise ShapeError(
                f"There must be one attention sample per token; the losses have shape {tuple(token_loss.shape)}, the "
                f"samples {tuple(log_probability.shape)}."
            )
        count = real.sum().clamp(min=1)
        reward = -token_loss.detach() * real
        for step in reversed(range(reward.shape[1] - 1)):
            reward[:, step] += self.later * reward[:, step + 1]
        advantage = _above_mean(reward, real)
        # Dividing by the spread keeps updates the same size as rewards shrink.
        spread = ((advantage.square() * real).sum() / count).sqrt().clamp(min=1e-3)
        # The gradient of the entropy is that of a reward for samples that were unlikely.
        surprise = self.exploration * _above_mean(-log_probability.detach(), real)
        surrogate = -(advantage / spread + surprise) * log_probability
        return ((token_loss + self.strength * surrogate) * real).sum() / count


def _above_mean(values: Float[Tensor, "B T"], real: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Return by how much each value exceeds the mean of its step over the batch."""
    return values - (values * real).sum(dim=0) / real.sum(dim=0).clamp(min=1)


def hard_attention(model: nn.Module) -> CrossAttention | None:
    """The model's first layer of hard attention, which samples one state to attend to; None if it has no such layer."""
    sampling = (m for m in model.modules() if isinstance(m, CrossAttention) and isinstance(m.weights, Hard))
    return next(sampling, None)
