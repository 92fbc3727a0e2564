"""Generate text of any length with a model that has a limited number of positions.

As long as the text fits into the model's positions, each step is an ordinary step of the model, with its cache. Beyond
that, the model reads only the last `limit` tokens. Their positions shift at each step, so the cached keys would be
wrong, and all of these tokens are read again for each new token.

Shapes: B rows of the batch, N chosen rows, T tokens so far, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.stepper import Stepper
from saccade.errors import OptionError
from saccade.models.targets import LAST, Positions

__all__ = ["Sliding", "SlidingState"]

State = TypeVar("State")


class Reader(Stepper[State], Protocol[State]):
    """A stepper that can also read a whole text in one call."""

    def __call__(self, tokens: Int[Tensor, "B T"], *, at: Positions | None = None) -> Tensor: ...

    def start(self, prompt: Int[Tensor, "B T"], max_length: int | None = None) -> State: ...


@dataclass(frozen=True)
class SlidingState(Generic[State]):
    """The last tokens of each row, at most ``limit`` of them, and the model's state, or None if the text is too long
    for the model to continue from its state."""

    tokens: Int[Tensor, "B T"]
    state: State | None


class Sliding(Generic[State]):
    """Wraps a model that has positions 0 to `limit` - 1, so that it can generate longer texts."""

    def __init__(self, model: Reader[State], limit: int) -> None:
        if limit < 1:
            raise OptionError(f"limit must be 1 or more, not {limit}.")
        self.model = model
        self.limit = limit

    def start(self, prompt: Int[Tensor, "B T"], max_length: int | None = None) -> SlidingState[State]:
        """Return the state after a prompt of any length."""
        if prompt.shape[1] >= self.limit:
            return SlidingState(prompt[:, -self.limit :], None)
        length = None if max_length is None else min(max_length, self.limit)
        return SlidingState(prompt, self.model.start(prompt, length))

    def step(
        self, tokens: Int[Tensor, " B"], state: SlidingState[State]
    ) -> tuple[Float[Tensor, "B V"], SlidingState[State]]:
        text = torch.cat([state.tokens, tokens.unsqueeze(1)], dim=1)
        if state.state is not None and text.shape[1] <= self.limit:
            logits, inner = self.model.step(tokens, state.state)
            return logits, SlidingState(text, inner)
        text = text[:, -self.limit :]
        return self.model(text, at=LAST), SlidingState(text, None)

    def reorder(self, state: SlidingState[State], index: Int[Tensor, "*N"]) -> SlidingState[State]:
        inner = None if state.state is None else self.model.reorder(state.state, index)
        return SlidingState(state.tokens.index_select(0, index.flatten()), inner)
