"""An upper bound on the cost of computing an answer, which a server needs to know in advance."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MOST_OUTPUTS", "MOST_TOKENS", "TOKEN_STEPS", "Cost"]

#: The most outputs of one input, and the most tokens of one output, that a server computes for one request.
MOST_OUTPUTS, MOST_TOKENS = 32, 2048
#: The unit of ``Cost.total``, with its definition, for messages.
TOKEN_STEPS = "token steps (tokens read and written, times the beam size or the number of samples)"


class Cost(NamedTuple):
    """An upper bound on the cost of answering one input."""

    tokens: int  # tokens read
    steps: int  # consecutive calls of the network
    total: int  # in TOKEN_STEPS

    @classmethod
    def of(cls, tokens: int, written: int = 0, rows: int = 1) -> Cost:
        """Return the cost of reading ``tokens`` tokens at once, then writing ``written`` others one by one, in several
        rows (the hypotheses of a beam, or samples)."""
        return cls(tokens, 1 + written, rows * (tokens + written))
