"""Language models that read a text at once or token by token, with a state of fixed size between the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.targets import Output, Positions, Targets, answer
from saccade.recurrent import RecurrentState, reorder

__all__ = ["SteppedLanguageModel"]


class SteppedLanguageModel(nn.Module, ABC):
    """Predicts the next token from a state; subclasses say how a state starts and how tokens change it."""

    output: Output

    @abstractmethod
    def initial(self, batch: int) -> RecurrentState:
        """The state before the first token."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, "B N"], state: RecurrentState) -> tuple[Float[Tensor, "B N D"], RecurrentState]:
        """A vector for each token, from which the next one is predicted, and the state after the last."""

    def features(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """A vector for each token that depends on it and the tokens before it."""
        return self.read(tokens, self.initial(len(tokens)))[0]

    def forward(
        self, tokens: Int[Tensor, "B N"], *, targets: Targets | None = None, at: Positions | None = None
    ) -> Tensor:
        """Logits (B, N, V) of the next token at each position; ``at``, ``targets`` as in ``saccade.models.targets``."""
        return answer(self.output, self.features(tokens), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> RecurrentState:
        """The state after reading the prompt, which may be empty."""
        state = self.initial(len(prompt))
        return self.read(prompt, state)[1] if prompt.shape[1] else state

    def step(self, tokens: Int[Tensor, " B"], state: RecurrentState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        """Read one more token per row; return the logits of the next one and the new state."""
        features, state = self.read(tokens.unsqueeze(1), state)
        logits: Tensor = self.output(features[:, 0])
        return logits, state

    def reorder(self, state: RecurrentState, index: Int[Tensor, "*N"]) -> RecurrentState:
        return reorder(state, index.flatten())
