"""Weights: functions that turn the scores of a query into weights, by which the values of the keys are multiplied.

Each function has two halves. ``statistic`` reduces the scores of each whole row to one number; ``apply`` turns any
tile (a block of rows and columns) of scores into weights, using only the numbers of its rows. The exact weights of a
tile therefore need the tile's scores and its rows' statistics, never the rest of the matrix:

===========  ==========================  =============================================  =====================
softmax      ``exp(s - l)``              l = log Σ exp(s)                               rows sum to 1
relu         ``max(s, 0)``               none                                           any sum (004)
sparsemax    ``max(s - τ, 0)``           τ such that the row sums to 1 (Martins 2016)   rows sum to 1
hard         1 at the chosen key         its index                                      rows sum to 1
lookup       1 where the key is equal    none                                           any sum (000)
===========  ==========================  =============================================  =====================

A score of -inf means "may not attend" and gives a weight of exactly 0, even if all scores of a row are -inf.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from saccade.attention.scores import Equal, Score
from saccade.errors import OptionError, UnknownNameError

__all__ = ["WEIGHTS", "Elementwise", "Hard", "HardMode", "Lookup", "Relu", "Softmax", "Sparsemax", "Weights"]

HardMode = Literal["greedy", "straight_through", "sample"]


class Weights:
    """Base class of all weights functions."""

    #: True if ``merge`` can combine the statistics of two parts of the same rows; otherwise whole rows are needed.
    merges: ClassVar[bool] = False
    #: True if adding a number to a whole row changes none of its weights.
    shifts: ClassVar[bool] = True
    #: True if the statistic is a decision that must be kept, because it cannot be recomputed.
    decides: ClassVar[bool] = False
    #: True if the scores may be too large for float32.
    needs_double: ClassVar[bool] = False
    #: The only score that these weights can be computed from; None if any will do.
    score: ClassVar[Score | None] = None
    #: True if the scores are weights that were computed elsewhere.
    is_given: ClassVar[bool] = False

    def statistic(self, scores: Float[Tensor, "B H Q K"]) -> Shaped[Tensor, "B H Q 1"]:
        """Return the number that ``apply`` needs to know about each row; ``scores`` has all columns of the rows."""
        raise AssertionError("subclasses must implement statistic()")

    def apply(
        self,
        scores: Float[Tensor, "B H Q K"],
        statistic: Shaped[Tensor, "B H Q 1"],
        first_column: int = 0,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights for any tile of scores; ``first_column`` is the position of its first key."""
        raise AssertionError("subclasses must implement apply()")

    def merge(self, left: Shaped[Tensor, "B H Q 1"], right: Shaped[Tensor, "B H Q 1"]) -> Shaped[Tensor, "B H Q 1"]:
        """Return the statistic of whole rows, given the statistics of their left and right parts."""
        raise AssertionError("subclasses that set merges must implement merge()")


class Softmax(Weights):
    """``exp(s) / Σ exp(s)``."""

    merges = True

    def statistic(self, scores: Tensor) -> Tensor:
        return torch.logsumexp(scores, dim=-1, keepdim=True)

    def merge(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.logaddexp(left, right)

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return torch.exp(scores - statistic)


class Elementwise(Weights):
    """Base class of weights functions that look at each score separately, and so need no statistic."""

    merges = True
    shifts = False

    def statistic(self, scores: Tensor) -> Tensor:
        return scores.new_zeros((*scores.shape[:-1], 1))

    def merge(self, left: Tensor, right: Tensor) -> Tensor:
        return left


class Relu(Elementwise):
    """``max(s, 0)``, an example of lecture 004's "any scaling function"."""

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return torch.relu(scores)


class Lookup(Relu):
    """Hard look-up, ``z = Σ_j 1(q = k_j) v_j`` (lecture 000), whose score is always ``Equal``.

    A query that equals no key gets 0, and one that equals two keys gets the sum of their values.
    """

    score = Equal()


class Sparsemax(Weights):
    """The point of the probability simplex nearest to the scores, in which keys with low scores have exactly 0.

    (Martins & Astudillo 2016, algorithm 1.)
    """

    def statistic(self, scores: Tensor) -> Tensor:
        ordered = scores.sort(dim=-1, descending=True).values
        total = ordered.cumsum(dim=-1)
        size = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        support = (1 + size * ordered > total).sum(dim=-1, keepdim=True).clamp(min=1)
        return (total.gather(-1, support - 1) - 1) / support.to(scores.dtype)

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return torch.relu(scores - statistic)


class Hard(Weights):
    """Hard attention: all the weight on one key (lecture 004; Xu 2015, section 4.1).

    ``greedy`` takes the key with the highest score and passes no gradient to the scores. ``straight_through`` takes
    the same key, but in the backward pass uses the gradient of softmax (Bengio 2013). ``sample`` draws a key from the
    softmax; for reinforcement learning, ``log_probability`` (B, H, Q) then holds the log-probabilities of the keys
    that the last call drew, with gradient.
    """

    decides = True

    def __init__(self, mode: HardMode = "greedy", generator: torch.Generator | None = None) -> None:
        if mode not in get_args(HardMode):
            raise OptionError(f"The mode of hard attention is one of {', '.join(get_args(HardMode))}, not {mode!r}.")
        self.mode = mode
        self.generator = generator
        self.log_probability: Float[Tensor, "B H Q"] | None = None

    def statistic(self, scores: Tensor) -> Tensor:
        if self.mode != "sample":
            return scores.argmax(dim=-1, keepdim=True)
        log_probability = torch.log_softmax(scores, dim=-1)
        rows = log_probability.detach().exp().reshape(-1, scores.shape[-1])
        drawn = torch.multinomial(rows, 1, generator=self.generator)
        drawn = drawn.reshape(*scores.shape[:-1], 1)
        self.log_probability = log_probability.gather(-1, drawn).squeeze(-1)
        return drawn

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        columns = torch.arange(first_column, first_column + scores.shape[-1], device=scores.device)
        chosen = (columns == statistic).to(scores.dtype)
        if self.mode == "straight_through" and scores.requires_grad:
            passed: Tensor = _StraightThrough.apply(chosen, torch.softmax(scores, dim=-1))  # type: ignore[no-untyped-call]
            return passed
        return chosen


class _StraightThrough(torch.autograd.Function):
    """Use the choice in the forward pass, and the probabilities' gradient in the backward pass."""

    @staticmethod
    def forward(ctx: object, chosen: Tensor, probabilities: Tensor) -> Tensor:
        return chosen.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


WEIGHTS: dict[str, type[Weights]] = {
    "softmax": Softmax,
    "relu": Relu,
    "sparsemax": Sparsemax,
    "hard": Hard,
    "lookup": Lookup,
}


def resolve_weights(weights: str | Weights) -> Weights:
    """Return the weights function with this name; a weights object is returned unchanged."""
    if isinstance(weights, Weights):
        return weights
    if not isinstance(weights, str) or weights not in WEIGHTS:
        raise UnknownNameError("weights function", weights, WEIGHTS)
    return WEIGHTS[weights]()
