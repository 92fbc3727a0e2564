"""One generated sequence with its score, which makes sequences of different lengths comparable."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Hypothesis", "penalised"]


@dataclass(frozen=True)
class Hypothesis:
    """A token sequence that a model generated, and its score.

    `tokens` includes neither the start token nor the end token. The length in the formula of `score` counts the end
    token, so it is `len(tokens) + 1` for a finished hypothesis and `len(tokens)` for one that was cut off.
    """

    tokens: list[int]
    log_probability: float
    """Sum over the tokens, including the end, of the model's log p(token | tokens before it)."""
    score: float
    """The ranking criterion: `log_probability / length ** length_penalty`."""
    finished: bool
    """Whether the model ended the sequence; False if it was cut off at the maximum length."""


def penalised(
    log_probability: Float[Tensor, ...], length: int | Int[Tensor, ...], length_penalty: float
) -> Float[Tensor, ...]:
    """Return `log_probability / length ** length_penalty`, the score of a hypothesis of this length.

    With `length_penalty` 0, the score is the log-probability itself, which favours short outputs; with 1, it is the
    mean log-probability of a token; a negative value favours short outputs even more.
    """
    return log_probability / length ** float(length_penalty)
