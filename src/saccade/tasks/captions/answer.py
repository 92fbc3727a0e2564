"""A caption for an image, and the patches of the image that the model looked at for each token of the caption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.lens.figures.overlays import overlays
from saccade.lens.images import Overlay
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View
from saccade.models.captioner import CaptionerConfig
from saccade.tasks.base.answer import WrittenAnswer
from saccade.tasks.base.image_input import InputImage, describe_image, drawable_pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CaptionsAnswer"]

SPACE = "▁"  # marks the space before a word in tokens


@dataclass(frozen=True)
class CaptionsAnswer(WrittenAnswer):
    """A caption for an image, and the patches that the model looked at for each token of the caption."""

    image: InputImage = field(repr=False)
    text: str
    score: float  # log-probability / length^penalty
    log_probability: float
    tokens: list[str]
    finished: bool  # False if the text was cut off at the maximum length
    ids: list[int] = field(repr=False)
    config: CaptionerConfig | None = field(repr=False)  # None if the network has no attention
    compute_attention: Callable[[], View] | None = field(repr=False)
    alternatives: list[CaptionsAnswer] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return {"image": self.image.where, **super().record()}

    def extras(self) -> dict[str, Any]:
        return {"image": describe_image(self.image.pixels, self.config)}

    def looked_at(self, layer: str | None = None) -> list[Overlay]:
        """Return, for each token of the caption, the attention to each patch when that token was generated: the mean
        over the heads of ``layer``, by default the last one.

        The list is empty if the network has no attention.
        """
        if self.config is None:
            return []
        first, grid = self.config.leading_tokens, self.config.grid
        # Row t belongs to the token that was read when token t was generated.
        weights = self.view.matrix(layer or self.layer)
        return [
            (token.removeprefix(SPACE) or token, row[first:].view(grid).numpy())
            for token, row in zip(self.tokens, weights, strict=False)
        ]

    def terminal(self) -> list[RenderableType]:
        images = TerminalImages([("image", drawable_pixels(self.image.pixels))], self.looked_at())
        return [Text(self.text), images]

    def figure(self, dark: bool) -> Figure:
        return overlays(drawable_pixels(self.image.pixels), self.looked_at(), title=self.text, dark=dark)
