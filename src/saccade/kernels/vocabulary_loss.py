"""The cross-entropy of an output layer, without ever holding all logits in memory.

    x = W f + b,   loss = Σ_rows [ log Σ_v exp x_v  -  (1 - ε) x_target  -  ε/V Σ_v x_v ]

``F.cross_entropy(F.linear(f, W, b), targets, label_smoothing=ε, reduction="sum")`` computes this with several tensors
of N × V numbers, which takes most of a training step for a small model with 10,000 words. Here the rows are processed
in chunks, and the gradient of each chunk is computed while its exponentials are still in the processor's cache:

    ∂loss/∂f = softmax(x) W  -  (1 - ε) W_target  -  ε/V Σ_v W_v          and likewise for W and b.

The term of label smoothing does not need the logits, since Σ_v x_v = f · Σ_v W_v + Σ_v b_v.

With a vocabulary of a few hundred tokens, such as characters, ``F.cross_entropy`` is faster, and is used.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.kernels.precision import narrowed, product_type, without_autocast

__all__ = ["vocabulary_loss"]

#: Number of logits in memory at once: the fastest power of 2 as measured, though its neighbours are about as fast.
CHUNK_NUMBERS = 1 << 21
#: Up to this many words the plain form is used: it was measured to take half the time at 70 words, the same at 1,000.
SMALL_VOCABULARY = 512


def vocabulary_loss(
    features: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the cross-entropy with label smoothing, summed over rows. Matrix products are computed in the type that
    ``narrow_products`` has set."""
    learned = [tensor for tensor in (features, weight, bias) if tensor is not None and tensor.requires_grad]
    wanted = torch.is_grad_enabled() and bool(learned)
    products = product_type(features)
    if len(weight) <= SMALL_VOCABULARY and products == features.dtype:
        logits = F.linear(features, weight, bias)
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=label_smoothing)
    with without_autocast(features):  # only the large products are narrow
        loss: Tensor = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
            features, weight, bias, targets, label_smoothing, products, wanted
        )
    return loss


class _VocabularyLoss(torch.autograd.Function):
    """``forward`` also computes the gradient, up to one factor; ``backward`` only multiplies it by this factor."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        products: torch.dtype,
        wanted: bool,
    ) -> Tensor:
        gradient = _Gradient(features, weight, bias) if wanted else None
        sum_weight = weight.sum(dim=0)
        sum_logits = (features.sum(dim=0) * sum_weight).sum()
        if bias is not None:
            sum_logits = sum_logits + len(features) * bias.sum()
        total = -smoothing / len(weight) * sum_logits
        narrow_weight = narrowed(weight, products)
        rows = max(1, CHUNK_NUMBERS // len(weight))
        for start in range(0, len(features), rows):
            part = narrowed(features[start : start + rows], products)
            words = targets[start : start + rows]
            logits = (part @ narrow_weight.T).to(weight.dtype)
            if bias is not None:
                logits += bias
            right = logits.gather(1, words[:, None])
            highest = logits.amax(dim=1, keepdim=True)
            exponentials = logits.sub_(highest).exp_()
            sums = exponentials.sum(dim=1, keepdim=True)
            total = total + (sums.log() + highest - (1 - smoothing) * right).sum()
            if gradient is not None:
                gradient.add_softmax(start, part, exponentials, sums, narrow_weight, products)
        if gradient is not None:
            gradient.subtract_targets(features, weight, targets, smoothing, sum_weight)
            ctx.save_for_backward(gradient.features, gradient.weight, gradient.bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, bias = ctx.saved_tensors
        return features * factor, weight * factor, None if bias is None else bias * factor, None, None, None, None


class _Gradient:
    """The gradient of the loss with respect to the features, the weight and the bias."""

    def __init__(self, features: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.features = torch.empty_like(features)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add_softmax(
        self,
        start: int,
        part: Tensor,
        exponentials: Tensor,
        sums: Tensor,
        weight: Tensor,
        products: torch.dtype,
    ) -> None:
        """Add softmax = exponentials / sums; the sums divide smaller tensors, not all the exponentials."""
        narrow = narrowed(exponentials, products)
        self.features[start : start + len(part)] = (narrow @ weight) / sums
        shares = narrowed(part / sums, products)
        if narrow.dtype == self.weight.dtype:
            self.weight.addmm_(narrow.T, shares)
        else:
            self.weight += narrow.T @ shares
        if self.bias is not None:
            self.bias += (1 / sums).T.mm(exponentials)[0]

    def subtract_targets(
        self, features: Tensor, weight: Tensor, targets: Tensor, smoothing: float, sum_weight: Tensor
    ) -> None:
        every = smoothing / len(weight)
        self.features -= (1 - smoothing) * weight[targets] + every * sum_weight
        self.weight.index_add_(0, targets, features.to(weight.dtype), alpha=-(1 - smoothing))
        self.weight -= every * features.sum(dim=0)
        if self.bias is not None:
            ones = self.bias.new_ones(len(targets))
            self.bias.index_add_(0, targets, ones, alpha=-(1 - smoothing))
            self.bias -= every * len(targets)
