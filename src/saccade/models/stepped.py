"""Language models that read a text at once or token by token, and keep a state of fixed size between tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.models.targets import Output, Positions, Targets, answer
from saccade.recurrent import RecurrentState, reorder

__all__ = ["SteppedLanguageModel"]


class SteppedLanguageModel(nn.Module, ABC):
    """Predicts the next token from a state; subclasses define the initial state and how tokens change it."""

    output: Output

    @abstractmethod
    def initial(self, batch: int) -> RecurrentState:
        """The state before the first token, for a batch of this size."""

    @abstractmethod
    def read(self, tokens: Int[Tensor, "B N"], state: RecurrentState) -> tuple[Float[Tensor, "B N D"], RecurrentState]:
        """A vector for each token, from which the next token is predicted, and the state after the last token."""

    def features(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """A vector for each token, from which the next token is predicted; it depends on the tokens up to this one."""
        return self.read(tokens, self.initial(len(tokens)))[0]

    def forward(
        self, tokens: Int[Tensor, "B N"], *, targets: Targets | None = None, at: Positions | None = None
    ) -> Tensor:
        """Logits (B, N, V) of the token after each position, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead.
        """
        return answer(self.output, self.features(tokens), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> RecurrentState:
        """The state after reading the prompt, which may be empty."""
        state = self.initial(len(prompt))
        return self.read(prompt, state)[1] if prompt.shape[1] else state

    def step(self, tokens: Int[Tensor, " B"], state: RecurrentState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        """Read one more token in each row; return the logits of the token after it, and the new state."""
        features, state = self.read(tokens.unsqueeze(1), state)
        logits: Tensor = self.output(features[:, 0])
        return logits, state

    def reorder(self, state: RecurrentState, index: Int[Tensor, "*N"]) -> RecurrentState:
        return reorder(state, index.flatten())
