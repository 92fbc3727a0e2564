"""The predicted class of an image, and the patches that the model looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from saccade.lens.figures.overlays import images_side_by_side, overlays
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View
from saccade.models import VisionConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import InputImage, describe_image, drawable_pixels
from saccade.tasks.images.task import patch_flow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ImagesAnswer"]

#: The number of classes that are printed with their probabilities.
SHOWN = 5


@dataclass(frozen=True)
class ImagesAnswer(Answer):
    """The predicted class of an image, the probabilities of all classes, and what the model looked at."""

    image: InputImage = field(repr=False)
    text: str
    score: float  # the probability of the class
    probabilities: dict[str, float]  # of all classes, likeliest first
    config: VisionConfig | None = field(repr=False)  # None if the network has no patches, and so no attention
    compute_attention: Callable[[], View] | None = field(repr=False)

    @property
    def scored_tokens(self) -> list[str]:
        return [self.text]

    @property
    def certainty(self) -> str:
        return ", ".join(f"{name} {share:.1%}" for name, share in list(self.probabilities.items())[:SHOWN])

    def record(self) -> dict[str, Any]:
        return {"image": self.image.where, "label": self.text, "probabilities": self.probabilities}

    def extras(self) -> dict[str, Any]:
        return {"image": describe_image(self.image.pixels, self.config)}

    def terminal(self) -> list[RenderableType]:
        best = list(self.probabilities.items())[:SHOWN]
        lines = "\n".join(f"{label}  {probability:.3f}" for label, probability in best)
        pixels = drawable_pixels(self.image.pixels)
        if self.config is None:
            return [Text(lines), TerminalImages([("image", pixels)])]
        flow = patch_flow(self.view, self.config).numpy()
        return [Text(lines), TerminalImages([("image", pixels)], [("looked at", flow)])]

    def figure(self, dark: bool) -> Figure:
        """Draw the image and, if the network has attention, how much it attends to each patch, over all layers and in
        each layer."""
        title = f"{self.text}  {self.score:.3f}"
        if self.config is None:
            return images_side_by_side([("image", drawable_pixels(self.image.pixels))], title=title, dark=dark)
        first = self.config.leading_tokens
        shown = [("all layers (rollout)", patch_flow(self.view, self.config).numpy())]
        for name in self.view.names:
            weights = self.view.one_row(name, 0) if first else self.view.matrix(name).mean(dim=0)
            shown.append((name, weights[first:].view(self.config.grid).numpy()))
        return overlays(drawable_pixels(self.image.pixels), shown, title=title, dark=dark)
