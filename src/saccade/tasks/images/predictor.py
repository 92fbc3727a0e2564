"""An image classifier that answers: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention.watching.watch import Rows
from saccade.lens.view import View
from saccade.models import VisionConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.images.answer import ImagesAnswer
from saccade.tasks.images.task import EncodedImage, Images, as_tensor, watched

__all__ = ["ImagesPredictor"]

#: How many images are answered between two progress reports.
PIECE = 256


class ImagesPredictor(ImageInputPredictor):
    """An opened model that classifies images."""

    task: Images

    @property
    def plural(self) -> str:
        return "image classifiers"

    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[ImagesAnswer]:
        """The class of each image: paths, uint8 arrays, or what ``parse`` and ``read_file`` return."""
        self.chosen(options)
        now = Snapshot(self)
        images = [self.given(one) for one in inputs]
        answers: list[ImagesAnswer] = []
        for start in range(0, len(images), PIECE):
            some = images[start : start + PIECE]
            answers += [
                self._answer(*one, now) for one in zip(some, self._probabilities(some).exp().tolist(), strict=True)
            ]
            if progress is not None:
                progress(len(answers))
        return answers

    def _probabilities(self, images: Sequence[GivenImage]) -> Float[Tensor, "n L"]:
        examples = [EncodedImage(image.pixels, 0) for image in images]
        return torch.cat(self.task.probabilities(self.model, examples))

    def _answer(self, image: GivenImage, row: list[float], now: Snapshot) -> ImagesAnswer:
        pairs = sorted(zip(self.task.labels, row, strict=True), key=lambda pair: -pair[1])
        label, probability = pairs[0]
        config = cast(VisionConfig, self.model.config)
        return ImagesAnswer(image, label, probability, dict(pairs), config, now.later(self.view_input, image))

    def view_input(self, given: Any, progress: Rows | None = None) -> View:
        image = self.given(given)
        return watched(self.model, as_tensor([image.pixels], self.task.state.pixels))

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        return [float(self._probabilities([self.given(given)])[0, self.task.labels.index(answer.text)])]

    def view_of(self, given: Any, answer: Answer) -> View:
        return self.view_input(given)
