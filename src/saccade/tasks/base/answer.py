"""What a model says to one input, whatever the task: text, numbers, and the attention behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from saccade.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Answer"]


class Answer(ABC):
    """An answer; its attention is computed when it is asked for."""

    text: str  # as it is printed
    score: float  # how sure the model is, or how good the answer by its own measure
    tokens: list[str]  # what the answer is made of, with a probability each: words, tags, one label
    alternatives: Sequence[Answer] = ()  # further answers to the same input, the best first

    @property
    def scored_tokens(self) -> list[str]:
        """The tokens that the model gives a probability to, as ``Predictor.token_scores`` does."""
        return self.tokens

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The answer in plain values, for JSON."""

    @property
    @abstractmethod
    def view(self) -> View:
        """Every attention of the model with its tokens; refused where a model has none."""

    @property
    def layer(self) -> str:
        """The attention that is shown where none is named: the last, nearest to the answer."""
        return self.view.names[-1]

    @abstractmethod
    def terminal(self) -> Iterable[RenderableType]:
        """The answer and what it rests on, as ``saccade look`` prints them."""

    @abstractmethod
    def figure(self, dark: bool) -> Figure | None:
        """The same as a picture; None where the model looks at nothing."""
