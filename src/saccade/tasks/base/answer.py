"""What a model says to one input, whatever the task: text, labels or numbers, and the attention behind it."""

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
    """An answer; its attention is computed when it is asked for, by the model as it was when it answered.

    It need not be made of tokens or words: a text to print and a record of plain values are all that every answer has.
    """

    text: str  # as it is printed
    score: float | None  # how sure the model is, or how good the answer by its own measure; None: not known
    alternatives: Sequence[Answer] = ()  # further answers to the same input, the best first

    @property
    def scored_tokens(self) -> list[str]:
        """What the model gives a probability to, one by one, as ``Predictor.token_scores`` does: words, tags, a label.

        None where the answer is of something else, such as numbers.
        """
        return []

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The answer in plain values, for JSON."""

    def extras(self) -> dict[str, Any]:
        """What the page shows beside the text and the attention, in plain values."""
        return {}

    @property
    def view(self) -> View:
        """Every attention of the model with its tokens; refused where a model has none."""
        raise OptionError("This model has no attention, so there is nothing to view.")

    @property
    def layer(self) -> str:
        """The attention that is shown where none is named: the last, nearest to the answer."""
        return self.view.names[-1]

    def terminal(self) -> Iterable[RenderableType]:
        """The answer and what it rests on, as ``saccade look`` prints them."""
        return [Text(self.text)]

    def figure(self, dark: bool) -> Figure | None:
        """The same as a picture; None where there is nothing to draw."""
        return None
