"""What an autoencoder makes of its input: the same again, its code, and its nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.errors import OptionError
from saccade.lens.figures.bars import bars
from saccade.lens.figures.overlays import images_side_by_side
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, shown_pixels
from saccade.tasks.base.neighbours import Neighbour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AutoencoderAnswer", "ImageAutoencoderAnswer", "TextAutoencoderAnswer"]


@dataclass(frozen=True)
class AutoencoderAnswer(Answer):
    """What came back, the small vector that it came from, and what is near to it."""

    text: str
    score: float
    code: list[float]
    neighbours: list[Neighbour] = field(repr=False)
    look: Callable[[], View] = field(repr=False)

    @cached_property
    def view(self) -> View:
        return self.look()

    def _numbers(self) -> Text:
        return Text("code  " + " ".join(f"{number:+.2f}" for number in self.code))


@dataclass(frozen=True)
class TextAutoencoderAnswer(AutoencoderAnswer):
    """A text again; the score is the mean log-probability of its tokens."""

    given: str
    tokens: list[str]
    ids: list[int] = field(repr=False)

    def record(self) -> dict[str, Any]:
        near = [{"text": one.text, "line": one.line, "distance": one.distance} for one in self.neighbours]
        return {"given": self.given, "text": self.text, "score": self.score, "code": self.code, "neighbours": near}

    def terminal(self) -> list[RenderableType]:
        near = "\n".join(f"{one.distance:8.2f}  {one.text}" for one in self.neighbours)
        return [Text(self.text), self._numbers(), Text(near)]

    def figure(self, dark: bool) -> Figure:
        """How near the neighbours are: 1 is the same code, and half of it is as far as the farthest shown."""
        if not self.neighbours:
            raise OptionError("There are no neighbours to draw; ask for some, with neighbours = 5.")
        farthest = max(one.distance for one in self.neighbours) or 1.0
        near = [1 / (1 + one.distance / farthest) for one in self.neighbours]
        return bars([one.text for one in self.neighbours], near, title=self.text, caption="nearness", dark=dark)


@dataclass(frozen=True)
class ImageAutoencoderAnswer(AutoencoderAnswer):
    """An image again; the score is its mean squared error, from 0 to 1, below 0: higher is better."""

    given: GivenImage = field(repr=False)
    pixels: Any = field(repr=False)  # bytes (H, W, C)

    @property
    def tokens(self) -> list[str]:  # type: ignore[override]
        return []

    def record(self) -> dict[str, Any]:
        near = [{"line": one.line, "distance": one.distance} for one in self.neighbours]
        again = shown_pixels(self.pixels).tolist()
        shown = {"image": self.given.where, "score": self.score, "code": self.code, "neighbours": near}
        return shown | {"pixels": again}

    def terminal(self) -> list[RenderableType]:
        return [Text(self.text), self._numbers(), TerminalImages(self._images())]

    def figure(self, dark: bool) -> Figure:
        return images_side_by_side(self._images(), title=self.text, dark=dark)

    def _images(self) -> list[tuple[str, Any]]:
        shown = [("given", shown_pixels(self.given.pixels)), ("again", shown_pixels(self.pixels))]
        for one in self.neighbours:
            assert one.pixels is not None
            shown.append((f"{one.line}: {one.distance:.2f}", shown_pixels(one.pixels)))
        return shown
