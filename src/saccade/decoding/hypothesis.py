"""One generated sequence with its score, which makes sequences of different lengths comparable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, overload

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Hypothesis", "LateHypothesis", "penalised"]


class Hypothesis(NamedTuple):
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

    @property
    def is_scored(self) -> bool:
        """Whether the score is known; otherwise, reading it may take long."""
        return True


class LateHypothesis:
    """A generated sequence like a `Hypothesis`, whose score is computed when it is first read."""

    __slots__ = ("_compute", "_length_penalty", "_place", "_scored", "finished", "tokens")

    def __init__(
        self, tokens: list[int], finished: bool, length_penalty: float, compute: Callable[[], list[float]], place: int
    ) -> None:
        """``compute`` returns the log-probabilities of several sequences; that of this one is at ``place``."""
        self.tokens = tokens
        self.finished = finished
        self._length_penalty = length_penalty
        self._compute = compute
        self._place = place
        self._scored: Hypothesis | None = None

    @property
    def scored(self) -> Hypothesis:
        """The same sequence with its score."""
        if self._scored is None:
            log_probability = self._compute()[self._place]
            length = max(1, len(self.tokens) + self.finished)
            score = penalised(log_probability, length, self._length_penalty)
            self._scored = Hypothesis(self.tokens, log_probability, score, self.finished)
        return self._scored

    @property
    def is_scored(self) -> bool:
        return self._scored is not None

    @property
    def log_probability(self) -> float:
        return self.scored.log_probability

    @property
    def score(self) -> float:
        return self.scored.score

    def __eq__(self, other: object) -> bool:
        return self.scored == (other.scored if isinstance(other, LateHypothesis) else other)

    __hash__ = None  # type: ignore[assignment]  # like a hypothesis, whose tokens are a list

    def __deepcopy__(self, memo: dict[int, Any]) -> LateHypothesis:
        return self  # in the same process, the score can still be computed

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the sequence with its score, because another process cannot compute it."""
        return Hypothesis, (self.tokens, self.log_probability, self.score, self.finished)


@overload
def penalised(log_probability: float, length: int, length_penalty: float) -> float: ...
@overload
def penalised(
    log_probability: Float[Tensor, ...], length: int | Int[Tensor, ...], length_penalty: float
) -> Float[Tensor, ...]: ...
def penalised(
    log_probability: float | Float[Tensor, ...], length: int | Int[Tensor, ...], length_penalty: float
) -> float | Float[Tensor, ...]:
    """Return `log_probability / length ** length_penalty`, the score of a hypothesis of this length.

    With `length_penalty` 0, the score is the log-probability itself, which favours short outputs; with 1, it is the
    mean log-probability of a token; a negative value favours short outputs even more.
    """
    return log_probability / length ** float(length_penalty)
