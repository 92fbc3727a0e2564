"""The predicted label or labels of a text, and the words that mattered most for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.colours import ramp, theme
from saccade.lens.figures.bars import bars
from saccade.lens.view import View
from saccade.lens.words import visible
from saccade.tasks.base.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["POOLING", "ClassificationAnswer"]

#: The name of the attention in attention pooling: one row over all tokens.
POOLING = "pooling"

LEFT_OUT = "drop in log-odds without the word"

#: The number of words that are listed as most important, and the number that are drawn.
NAMED, DRAWN = 3, 40


@dataclass(frozen=True)
class ClassificationAnswer(Answer):
    """The predicted label of a text; ``score`` is the probability of the label. An empty text gets no label.

    If a text can have several labels, ``chosen`` are those with a probability of at least one half, and ``score`` is
    the probability of the most likely label, chosen or not.
    """

    source: str
    text: str  # the label, or the chosen labels
    score: float
    probabilities: dict[str, float]  # the probability of each label, likeliest first
    compute_attention: Callable[[], View] = field(repr=False)
    leave_out: Callable[[], list[tuple[str, float]]] = field(repr=False)
    chosen: tuple[str, ...] | None = None

    @property
    def scored_tokens(self) -> list[str]:
        if self.chosen is not None:
            return list(self.chosen)
        return [self.text] if self.text else []

    @property
    def certainty(self) -> str:
        return ", ".join(f"{name} {share:.1%}" for name, share in list(self.probabilities.items())[:3])

    def record(self) -> dict[str, Any]:
        probabilities = {name: round(one, 6) for name, one in self.probabilities.items()}
        several = {} if self.chosen is None else {"labels": list(self.chosen)}
        return {"source": self.source, "label": self.text, **several, "probabilities": probabilities}

    def extras(self) -> dict[str, Any]:
        """Return the words of the text, each with its attention weight or, if the model does not pool the words by
        attention, with its effect on the log-odds; if these cannot be computed, return the reason."""
        measure = "weight" if self.pools else "effect"
        try:
            return {"deciding": [{"word": word, measure: value} for word, value in self.deciding]}
        except OptionError as error:
            return {"deciding": [], "undecided": str(error)}

    @property
    def layer(self) -> str:
        names = self.view.names
        return POOLING if POOLING in names else names[-1]

    @cached_property
    def pools(self) -> bool:
        """Whether the words are pooled by attention, so that its weights are the words' shares in the decision."""
        try:
            return POOLING in self.view.names
        except OptionError:
            return False

    @cached_property
    def deciding(self) -> list[tuple[str, float]]:
        """Each word in order, with its weight in the attention that pools the words into one vector.

        If the model has no such attention, the number is how much the log-odds of the label fall when the word is left
        out.
        """
        if not self.pools:
            return self.leave_out()
        weights = self.view.matrix(POOLING, "mean", words=True)[0].tolist()
        return list(zip(self.view.columns[POOLING].joined, weights, strict=True))

    def terminal(self) -> Iterator[RenderableType]:
        for name, probability in self.probabilities.items():
            style = "bold" if name in self.scored_tokens else ""
            yield Text(f"{name}  {100 * probability:.1f}%", style=style)
        if not self.probabilities:
            return
        if self.chosen is not None:
            yield Text(f"labels: {self.text or 'none, because no label has a probability of at least one half'}")
        try:
            words = self.deciding
        except OptionError as error:
            yield Text(str(error))
            return
        yield _shade(words)
        strongest = sorted(words, key=lambda pair: -pair[1])[:NAMED]
        named = ", ".join(f"{visible(word)} {weight:.2f}" for word, weight in strongest)
        about = "" if self.chosen is None else f" for {next(iter(self.probabilities))}"
        yield Text(f"most important{about}: {named}" + ("" if self.pools else f" ({LEFT_OUT})"))

    def figure(self, dark: bool) -> Figure:
        """Draw a bar for each word, in order, that shows how much the word mattered. Of a long text, only the most
        important words are drawn."""
        words = self.deciding
        least = sorted((weight for _, weight in words), reverse=True)[:DRAWN][-1]
        shown = [(word, weight) for word, weight in words if weight >= least][:DRAWN]
        title = f"{next(iter(self.probabilities))}, {100 * self.score:.1f}%: the words that decided"
        most = 1.0 if self.pools else max(1e-9, *(weight for _, weight in shown), 0.0)
        values = [max(0.0, weight) / most for _, weight in shown]
        caption = None if self.pools else f"1 is {most:.2f}: {LEFT_OUT}"
        return bars([word for word, _ in shown], values, title=title, caption=caption, dark=dark)


def _shade(words: Sequence[tuple[str, float]]) -> Text:
    """Shade each word by its weight, and underline the strongest one."""
    highest = max(weight for _, weight in words)
    text = Text()
    for word, weight in words:
        share = 0.75 * max(0.0, weight) / highest if highest > 0 else 0.0
        red, green, blue = (round(255 * part) for part in ramp(share).tolist())
        ink = theme().background if share > 0.4 else theme().text
        style = f"{ink} on rgb({red},{green},{blue})" + (" underline bold" if weight == highest else "")
        text.append(visible(word), style=style).append(" ")
    return text
