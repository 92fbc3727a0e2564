"""A reconstructed text, the small vector that it was reconstructed from (its code), and the training texts with the
nearest codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.figures.bars import bars
from saccade.tasks.base.neighbours import CodeAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TextAutoencoderAnswer"]


@dataclass(frozen=True)
class TextAutoencoderAnswer(CodeAnswer):
    """A reconstructed text. ``score`` is the mean log-probability of its tokens."""

    given: str
    tokens: list[str]
    ids: list[int] = field(repr=False)

    @property
    def scored_tokens(self) -> list[str]:
        return self.tokens

    def record(self) -> dict[str, Any]:
        near = [{"text": one.text, "line": one.line, "distance": one.distance} for one in self.neighbours]
        return {"given": self.given, "text": self.text, "score": self.score, "code": self.code, "neighbours": near}

    def terminal(self) -> list[RenderableType]:
        near = "\n".join(f"{one.distance:8.2f}  {one.text}" for one in self.neighbours)
        return [Text(self.text), self.code_line(), Text(near)]

    def figure(self, dark: bool) -> Figure:
        """Draw a bar for each neighbour that shows how close its code is: 1 means the same code, and 0.5 is the
        farthest neighbour shown."""
        if not self.neighbours:
            raise OptionError("There are no neighbours to draw; ask for some with neighbours = 5.")
        farthest = max(one.distance for one in self.neighbours) or 1.0
        near = [1 / (1 + one.distance / farthest) for one in self.neighbours]
        return bars([one.text for one in self.neighbours], near, title=self.text, caption="nearness", dark=dark)
