"""An image classifier that answers: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.text import Text

from saccade.attention.watching.watch import Rows
from saccade.data.digits import read_digits
from saccade.data.images import (
    IDX_IMAGES,
    PICTURES,
    Pixels,
    picture_files,
    read_idx_array,
    read_npz_arrays,
    read_picture,
)
from saccade.data.paths import resolve_path
from saccade.errors import FileError, OptionError
from saccade.lens.figures.overlays import overlays
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View
from saccade.models import VisionConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.images.task import as_tensor, check_shape, patch_flow, watched

__all__ = ["Classified", "GivenImage", "ImageClassifier", "ImagePredictor", "shown_pixels"]

#: Classes that are printed with their probabilities.
SHOWN = 5
_BUILTIN = "digits"
_NUMBERED = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class GivenImage:
    """An image that a model is asked about, and what it is called."""

    pixels: Pixels
    where: str


class ImagePredictor(Predictor):
    """What all models that look at images take: pictures, and images of idx and .npz files by their number."""

    @property
    def takes_images(self) -> bool:
        return True

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images that the model takes."""
        shape: tuple[int, int, int] = self.task.shape
        return shape

    @property
    def patches(self) -> VisionConfig | None:
        """How the model cuts an image into patches; None where it does not."""
        config = self.model.config
        return config if isinstance(config, VisionConfig) else None

    def parse(self, given: str) -> GivenImage:
        """``picture.png``, or one of many: ``images.npz:17``, ``t10k-images-idx3-ubyte.gz:17``, ``digits:17``,
        counted from 1."""
        numbered = _NUMBERED.fullmatch(given)
        path = resolve_path(given)
        if path.suffix.lower() in PICTURES and (numbered is None or path.exists()):
            return self._checked(GivenImage(read_picture(path), given))
        if numbered is None:
            raise FileError(
                f"{given} is no picture ({', '.join(PICTURES)}); an image of a file of many is asked for by its "
                f"number, as {given}:1."
            )
        every = self._many(numbered["file"])
        number = int(numbered["number"])
        if not 1 <= number <= len(every):
            raise OptionError(f"{given}: there are {len(every):,} images, counted from 1.")
        return self._checked(GivenImage(every[number - 1], given))

    def read_file(self, path: Path) -> list[GivenImage]:
        """A picture, all pictures of a folder, or all images of an idx or .npz file."""
        if path.is_dir():
            return [self._checked(GivenImage(read_picture(one), str(one))) for one in picture_files(path)]
        if path.suffix.lower() in PICTURES:
            return [self.parse(str(path))]
        every = self._many(str(path))
        return [self._checked(GivenImage(image, f"{path}:{number}")) for number, image in enumerate(every, start=1)]

    def replaced(self, given: Any, old: str, new: str) -> Any:
        raise OptionError("An image has no words to replace; switch heads off or forbid links.")

    def given(self, one: Any) -> GivenImage:
        """An input of ``predict``: an image that was read, the name of one, or bytes (H, W) or (H, W, C)."""
        if isinstance(one, GivenImage):
            return one
        if isinstance(one, np.ndarray):
            if one.dtype != np.uint8:
                raise OptionError(f"An image is an array of bytes (uint8); not of {one.dtype}.")
            return self._checked(GivenImage(one[..., None] if one.ndim == 2 else one, "the image"))
        return self.parse(str(one))

    def _checked(self, image: GivenImage) -> GivenImage:
        if image.pixels.ndim != 3:
            raise OptionError(f"An image has the shape (H, W), (H, W, 1) or (H, W, 3); not {image.pixels.shape}.")
        check_shape(image.pixels, self.shape, image.where)
        return image

    def _many(self, file: str) -> Sequence[Pixels]:
        if file == _BUILTIN:
            return self._builtin()
        path = resolve_path(file)
        if path.suffix.lower() == ".npz":
            return list(read_npz_arrays(path, None)[0])
        return list(read_idx_array(path, IDX_IMAGES, "images")[..., None])

    def _builtin(self) -> Sequence[Pixels]:
        """The images that ``digits:1`` counts."""
        return [image.pixels for image in read_digits()]


def shown_pixels(pixels: Pixels) -> Any:
    """As pictures take them: (H, W) where there is one channel."""
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


@dataclass(frozen=True)
class Classified(Answer):
    """A class, how sure the model is of each, and what it looked at."""

    image: GivenImage = field(repr=False)
    text: str
    score: float  # the probability of the class
    probabilities: dict[str, float]  # of all classes, the surest first
    config: VisionConfig = field(repr=False)
    look: Callable[[], View] = field(repr=False)

    @property
    def tokens(self) -> list[str]:  # type: ignore[override]
        return [self.text]

    @cached_property
    def view(self) -> View:
        return self.look()

    def record(self) -> dict[str, Any]:
        return {"image": self.image.where, "label": self.text, "probabilities": self.probabilities}

    def terminal(self) -> list[RenderableType]:
        surest = list(self.probabilities.items())[:SHOWN]
        lines = "\n".join(f"{label}  {probability:.3f}" for label, probability in surest)
        flow = patch_flow(self.view, self.config).numpy()
        pixels = shown_pixels(self.image.pixels)
        return [Text(lines), TerminalImages([("image", pixels)], [("looked at", flow)])]

    def figure(self, dark: bool) -> Figure:
        """The image, how much of each patch reached the answer, and each layer's attention to the patches."""
        first = int(self.config.pooling == "class")
        shown = [("all layers (rollout)", patch_flow(self.view, self.config).numpy())]
        for name in self.view.names:
            weights = self.view.one_row(name, 0) if first else self.view.matrix(name).mean(dim=0)
            shown.append((name, weights[first:].view(self.config.grid).numpy()))
        title = f"{self.text}  {self.score:.3f}"
        return overlays(shown_pixels(self.image.pixels), shown, title=title, dark=dark)


class ImageClassifier(ImagePredictor):
    """An opened model that says what is in an image."""

    def predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[Classified]:
        """The class of each image: paths, arrays of bytes, or what ``parse`` and ``read_file`` gave."""
        self.chosen(options)
        images = [self.given(one) for one in inputs]
        answers: list[Classified] = []
        for logits in self.task.answers(self.model, [image.pixels for image in images]):
            for row in logits.softmax(dim=1):
                answers.append(self._answer(images[len(answers)], row.tolist()))
            if progress is not None:
                progress(len(answers))
        return answers

    def _answer(self, image: GivenImage, row: list[float]) -> Classified:
        pairs = sorted(zip(self.task.classes, row, strict=True), key=lambda pair: -pair[1])
        label, probability = pairs[0]
        config = cast(VisionConfig, self.model.config)
        return Classified(image, label, probability, dict(pairs), config, partial(self.reading, image))

    def reading(self, given: Any, progress: Rows | None = None) -> View:
        image = self.given(given)
        return watched(self.model, as_tensor([image.pixels], self.task.pixels))

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        (logits,) = self.task.answers(self.model, [self.given(given).pixels])
        return [float(logits[0].log_softmax(dim=0)[self.task.classes.index(answer.text)])]

    def view_of(self, given: Any, answer: Answer) -> View:
        return self.reading(given)
