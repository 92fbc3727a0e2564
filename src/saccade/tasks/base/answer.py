"""A model's answer to one input, whatever the task: text, labels or numbers, and the attention behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Answer"]


class Answer(ABC):
    """An answer. Its attention is computed on demand, using the model as it was when it answered.

    An answer need not consist of tokens or words: all it must have is a text to print and a record of plain values.
    """

    text: str  # as it is printed
    score: float | None  # the model's confidence, or the task's own measure; None if unknown
    alternatives: Sequence[Answer] = ()  # other answers to the same input, best first

    @property
    def scored_tokens(self) -> list[str]:
        """The items that ``Predictor.token_scores`` gives a probability to: words, tags or a label.

        Empty if the answer consists of something else, such as numbers.
        """
        return []

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The answer as plain values, for JSON."""

    def extras(self) -> dict[str, Any]:
        """What the page shows besides the text and the attention, as plain values."""
        return {}

    @property
    def view(self) -> View:
        """Every attention of the model, with its tokens; an error if the model has none."""
        raise OptionError("This model has no attention, so there is nothing to view.")

    @property
    def layer(self) -> str:
        """The attention shown by default: the last one, closest to the answer."""
        return self.view.names[-1]

    def terminal(self) -> Iterable[RenderableType]:
        """The answer and what the model looked at, as ``saccade look`` prints them."""
        return [Text(self.text)]

    def figure(self, dark: bool) -> Figure | None:
        """The same as a picture; None if there is nothing to draw."""
        return None
