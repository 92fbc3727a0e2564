"""A model's answer to one input, whatever the task: text, labels or numbers, and the attention behind it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.view import View
from saccade.text import END, SPECIAL_TOKENS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Answer", "WrittenAnswer"]


class Answer(ABC):
    """An answer of a model. Its attention is computed when it is first used, with the model as it was when it answered.

    An answer need not consist of tokens or words: it only needs a text to print and a record of plain values.
    """

    text: str  # as it is printed
    score: float | None  # the model's confidence, or another measure that the task defines; None if unknown
    alternatives: Sequence[Answer] = ()  # other answers to the same input, best first
    compute_attention: Callable[[], Any] | None = None  # None if the model has no attention

    def __getstate__(self) -> dict[str, Any]:
        """Pickle an answer without its attention, which belongs to the model."""
        cached = {name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)}
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    @property
    def is_diverged(self) -> bool:
        """Whether the model computed NaN instead of a score, so that the answer is worthless."""
        return self.score is not None and math.isnan(self.score)

    @property
    def scored_tokens(self) -> list[str]:
        """The parts of the answer to which ``Predictor.token_scores`` assigns probabilities: words, tags or a label.

        The list is empty if the answer consists of something else, such as numbers.
        """
        return []

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return the answer as a dictionary that can be written as JSON."""

    def extras(self) -> dict[str, Any]:
        """Return what the studio, the server's web page, shows besides the text and the attention, as JSON values."""
        return {}

    def between(self, first: int, second: int) -> list[dict[str, Any]]:
        """Return what the model looked at to decide whether two positions of the input belong together.

        Positions are counted from 1; two that belong together may be paired bases of an RNA sequence. Each record has
        the ``name`` of an attention layer and its ``weights``: for each head, a number for each position.
        """
        raise OptionError("This model does not predict which places of its input belong together.")

    @property
    def nbytes(self) -> int:
        """The number of bytes that the answer keeps in memory, not counting the attention in ``view``."""
        return 0

    @property
    def certainty(self) -> str:
        """A sentence that says how sure the model is of this answer; empty if the model gives no probability."""
        return ""

    @cached_property
    def view(self) -> View:
        """The attention of every layer for this input and answer, with the tokens.

        Raises an error if the model has no attention.
        """
        if self.compute_attention is None:
            raise OptionError("This model has no attention, so there is nothing to view.")
        seen: View = self.compute_attention()
        return seen

    @property
    def layer(self) -> str:
        """The name of the attention layer that is shown by default: the last one, which is closest to the answer."""
        return self.view.names[-1]

    def terminal(self) -> Iterable[RenderableType]:
        """Return what ``saccade look`` prints: the answer, and what the model looked at."""
        return [Text(self.text)]

    def figure(self, dark: bool) -> Figure | None:
        """Return a figure of the answer and what the model looked at, by default a heatmap; None without attention."""
        if self.compute_attention is None:
            return None
        drawn: Figure = self.view.figure("heatmap", name=self.layer, theme="dark" if dark else "light")
        return drawn


class WrittenAnswer(Answer):
    """An answer that the model wrote token by token."""

    score: float  # log-probability / length^penalty
    log_probability: float
    tokens: list[str]
    finished: bool  # False if the text was cut off at the maximum length

    @property
    def scored_tokens(self) -> list[str]:
        return [*self.tokens, *([SPECIAL_TOKENS[END]] if self.finished else [])]

    @property
    def certainty(self) -> str:
        return f"probability of the whole text: {math.exp(self.log_probability):.3g}"

    def record(self) -> dict[str, Any]:
        names = ("text", "score", "log_probability", "tokens", "finished")
        return {name: getattr(self, name) for name in names}
