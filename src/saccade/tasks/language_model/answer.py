"""A text that a language model generated to continue a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.terminal.heatmap import TerminalHeatmap
from saccade.lens.view import View
from saccade.tasks.base.answer import Answer

__all__ = ["LanguageModelAnswer"]

#: The number of rows in the terminal's heatmap, which shows the last tokens that were generated.
SHOWN_ROWS = 30


@dataclass(frozen=True)
class LanguageModelAnswer(Answer):
    """A text that a language model generated to continue a prompt."""

    prompt: str
    text: str  # without the prompt
    score: float  # the mean log-probability of a token
    tokens: list[str]
    log_probabilities: list[float]
    finished: bool  # True if the model or a stop string ended the text, False if it was cut off
    ids: list[int] = field(repr=False)
    compute_attention: Callable[[], View] = field(repr=False)
    ends: bool = False  # whether the last token is the end token, which is not part of the text
    alternatives: list[LanguageModelAnswer] = field(default_factory=list)

    @property
    def log_probability(self) -> float:
        """The log-probability of all generated tokens together."""
        return sum(self.log_probabilities)

    @property
    def scored_tokens(self) -> list[str]:
        return self.tokens

    @property
    def certainty(self) -> str:
        return f"mean probability of a token: {math.exp(self.score):.3g}"

    def record(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": self.tokens,
            "log_probabilities": self.log_probabilities,
            "finished": self.finished,
        }

    def terminal(self) -> Iterator[RenderableType]:
        yield Text.assemble((self.prompt, "bold"), self.text)
        mean = math.exp(-self.score) if self.tokens else math.nan
        yield Text(f"perplexity of the {len(self.tokens)} generated tokens: {mean:.2f}")
        try:
            seen, name = self.view, self.layer
        except OptionError as error:
            yield Text(str(error))
            return
        rows, columns = (axis.labels(False) for axis in seen.axes(name))
        first = max(0, len(rows) - SHOWN_ROWS)
        tile = seen.tile(name, "mean", range(first, len(rows)), range(len(columns)))
        title = f"{name}, mean of {seen.heads(name)} heads" + (f", the last {SHOWN_ROWS} tokens" if first else "")
        yield TerminalHeatmap(tile.cpu(), rows[first:], columns, title)
