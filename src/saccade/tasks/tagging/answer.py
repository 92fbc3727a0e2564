"""The words of a text with one label each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from saccade.errors import OptionError
from saccade.lens.figures.canvas import label
from saccade.lens.figures.matrix import Scale, draw_matrix, places
from saccade.lens.terminal import views as view_terminal
from saccade.lens.view import View
from saccade.lens.words import visible
from saccade.tasks.base.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TaggingAnswer"]

#: A label whose probability is below this for every word is left out of the figure.
LEAST_SHOWN = 0.01

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")


@dataclass(frozen=True)
class TaggingAnswer(Answer):
    """The words of a text with one label each; ``score`` is the log-probability of all labels together."""

    words: list[str]
    tokens: list[str]  # the label of each word
    probabilities: list[float]  # the probability of each of these labels
    score: float
    inventory: list[str] = field(repr=False)  # all labels that the model knows
    every: Float[Tensor, "N L"] = field(repr=False)  # the probabilities of all labels for each word
    compute_attention: Callable[[], View] = field(repr=False)

    @property
    def text(self) -> str:  # type: ignore[override]
        """The words, each followed by a slash and its label, such as "The/DET cat/NOUN"."""
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tokens, strict=True))

    @property
    def labels(self) -> list[str]:
        """The label of each word."""
        return self.tokens

    @property
    def scored_tokens(self) -> list[str]:
        return [f"{word}/{tag}" for word, tag in zip(self.words, self.tokens, strict=True)]

    @property
    def certainty(self) -> str:
        if not self.words:
            return ""
        least, word, tag = min(zip(self.probabilities, self.words, self.tokens, strict=True))
        mean = sum(self.probabilities) / len(self.words)
        return f"mean probability of a label: {mean:.1%}; the least certain is {word}/{tag} with {least:.1%}"

    def record(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "words": self.words,
            "labels": self.labels,
            "probabilities": [round(one, 6) for one in self.probabilities],
            "score": self.score,
        }

    def terminal(self) -> Iterator[RenderableType]:
        line = Text()
        for word, tag, probability in zip(self.words, self.tokens, self.probabilities, strict=True):
            style = _COLOURS[self.inventory.index(tag) % len(_COLOURS)]
            line.append(visible(word)).append(f"/{tag}", style=style)
            line.append(" " if probability >= 0.9 else f"({100 * probability:.0f}%) ")
        yield line if self.words else Text("There are no words.")
        if not self.words:
            return
        try:
            names = self.view.names
        except OptionError as error:
            yield Text(str(error))
        else:
            yield view_terminal.heatmap(self.view, names[-1], words=True)

    def figure(self, dark: bool) -> Figure:
        """Draw the probability of each label for each word."""
        if not self.words:
            raise OptionError("There are no words, so there is nothing to draw.")
        likely = (self.every >= LEAST_SHOWN).any(dim=0).nonzero().flatten().tolist()
        return draw_matrix(
            self.every[:, likely].double().numpy(),
            places([label(word) for word in self.words]),
            places([label(self.inventory[number]) for number in likely]),
            Scale(name="probability"),
            title="how likely each label is",
            dark=dark,
        )
