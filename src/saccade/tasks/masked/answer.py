"""A text with its masks filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from rich.console import RenderableType
from rich.text import Text

from saccade.lens.terminal.heatmap import TerminalHeatmap
from saccade.lens.view import View
from saccade.lens.words import visible
from saccade.tasks.base.answer import Answer

__all__ = ["Candidate", "MaskedLanguageModelAnswer"]


class Candidate(NamedTuple):
    """A token that may fill in a mask."""

    id: int
    token: str
    probability: float


@dataclass(frozen=True)
class MaskedLanguageModelAnswer(Answer):
    """A text in which each mask is filled in with its most probable token, independently of the other masks."""

    given: str
    text: str
    score: float  # the mean log-probability of the chosen tokens
    tokens: list[str]  # the chosen tokens, one for each mask
    ids: list[int] = field(repr=False)
    candidates: list[list[Candidate]]  # the candidates for each mask, likeliest first
    compute_attention: Callable[[], View] = field(repr=False)
    places: list[int]  # the positions of the masks among the tokens
    alternatives: list[MaskedLanguageModelAnswer] = field(default_factory=list)

    @property
    def scored_tokens(self) -> list[str]:
        return self.tokens

    @property
    def certainty(self) -> str:
        return ", ".join(f"{best[0].token} {best[0].probability:.0%}" for best in self.candidates if best)

    def record(self) -> dict[str, Any]:
        return {
            "given": self.given,
            "text": self.text,
            "score": self.score,
            "masks": [
                [{"token": one.token, "probability": one.probability} for one in some] for some in self.candidates
            ],
        }

    def terminal(self) -> Iterator[RenderableType]:
        yield Text(self.text, style="bold")
        for number, some in enumerate(self.candidates, start=1):
            named = ", ".join(f"{visible(one.token)} {100 * one.probability:.1f}%" for one in some)
            yield Text(f"mask {number}: {named}")
        seen, name = self.view, self.layer
        rows, columns = (axis.labels(False) for axis in seen.axes(name))
        weights = torch.stack([seen.one_row(name, place) for place in self.places]).cpu()
        title = f"what the masks attend to: {name}, mean of {seen.heads(name)} heads"
        yield TerminalHeatmap(weights, [rows[place] for place in self.places], columns, title)
