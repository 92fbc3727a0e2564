"""A reconstructed image, the small vector that it was reconstructed from (its code), and the training images with the
nearest codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.lens.figures.overlays import images_side_by_side
from saccade.lens.terminal.images import TerminalImages
from saccade.models import VisionConfig
from saccade.tasks.base.image_input import InputImage, describe_image, drawable_pixels
from saccade.tasks.base.neighbours import CodeAnswer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ImageAutoencoderAnswer"]


@dataclass(frozen=True)
class ImageAutoencoderAnswer(CodeAnswer):
    """A reconstructed image. ``score`` is the negative mean squared error of its pixels, so higher is better."""

    given: InputImage = field(repr=False)
    pixels: Any = field(repr=False)  # bytes (H, W, C)
    patches: VisionConfig | None = field(repr=False)  # how the image is divided into patches; None if it is not

    def extras(self) -> dict[str, Any]:
        return {"image": describe_image(self.given.pixels, self.patches)}

    def record(self) -> dict[str, Any]:
        return {
            "image": self.given.where,
            "score": self.score,
            "code": self.code,
            "neighbours": [{"line": one.line, "distance": one.distance} for one in self.neighbours],
            "pixels": drawable_pixels(self.pixels).tolist(),
        }

    def terminal(self) -> list[RenderableType]:
        return [Text(self.text), self.code_line(), TerminalImages(self._images())]

    def figure(self, dark: bool) -> Figure:
        return images_side_by_side(self._images(), title=self.text, dark=dark)

    def _images(self) -> list[tuple[str, Any]]:
        images = [("input", drawable_pixels(self.given.pixels)), ("reconstructed", drawable_pixels(self.pixels))]
        for one in self.neighbours:
            assert one.pixels is not None
            images.append((f"{one.line}: {one.distance:.2f}", drawable_pixels(one.pixels)))
        return images
