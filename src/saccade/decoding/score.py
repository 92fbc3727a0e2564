"""The log-probability of given outputs, without the vocabulary logits of all positions at once.

Shapes: B sentences, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["sequence_log_probabilities", "token_log_probabilities"]


@torch.no_grad()
def token_log_probabilities(
    project: Callable[[Tensor], Tensor],
    features: Float[Tensor, "B T D"],
    targets: Int[Tensor, "B T"],
    *,
    chunk_size: int = 512,
) -> Float[Tensor, "B T"]:
    """log p(target_t | targets before t), from one forced pass of the model.

    `features[b, t]` is the vector that predicts `targets[b, t]` and `project` the model's last layer, (N,
    D) to the logits (N, V). It is called for `chunk_size` positions at a time, and of each chunk one number
    a position is kept, so the memory is chunk_size·V and not B·T·V. No gradient flows: it would keep every
    chunk.
    """
    if chunk_size < 1:
        raise OptionError(f"chunk_size must be 1 or more, not {chunk_size}.")
    if features.shape[:-1] != targets.shape:
        raise ShapeError(
            f"features must be of shape (B, T, D) with targets (B, T), "
            f"not {tuple(features.shape)} with {tuple(targets.shape)}."
        )
    terms = [
        _of_targets(project(vectors), tokens)
        for vectors, tokens in zip(
            torch.split(features.flatten(0, -2), chunk_size),
            torch.split(targets.flatten(), chunk_size),
            strict=True,
        )
    ]
    return torch.cat(terms).view(targets.shape)


def sequence_log_probabilities(
    project: Callable[[Tensor], Tensor],
    features: Float[Tensor, "B T D"],
    targets: Int[Tensor, "B T"],
    present: Bool[Tensor, "B T"],
    *,
    chunk_size: int = 512,
) -> Float[Tensor, " B"]:
    """log p(targets) of each sentence: the sum over the tokens that are `present`; padding costs nothing."""
    if present.shape != targets.shape:
        raise ShapeError(f"present must be of shape {tuple(targets.shape)}, not {tuple(present.shape)}.")
    terms = token_log_probabilities(project, features[present], targets[present], chunk_size=chunk_size)
    sentence = present.nonzero()[:, 0]
    return terms.new_zeros(len(targets)).index_add(0, sentence, terms)


def _of_targets(logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return precise.log_softmax(dim=1).gather(1, targets.unsqueeze(1)).squeeze(1)
