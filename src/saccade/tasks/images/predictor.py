"""Classify images with a trained model: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention.watching.watch import RowProgress
from saccade.errors import OptionError
from saccade.lens.view import View
from saccade.models import VisionConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.data import part_to_score
from saccade.tasks.base.image_input import ImageInputPredictor, InputImage
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.images.answer import ImagesAnswer
from saccade.tasks.images.data import idx_files
from saccade.tasks.images.task import EncodedImage, Images, view_image

__all__ = ["ImagesPredictor"]


class ImagesPredictor(ImageInputPredictor):
    """An opened model that classifies images."""

    at_once = 256
    task: Images

    @property
    def plural(self) -> str:
        return "image classifiers"

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Read images from a file or folder. If a folder has idx files of several parts, only the test images are read,
        as in ``saccade evaluate``."""
        part, found = part_to_score(idx_files(path) if path.is_dir() else {})
        if not found:
            return super().read_file(path)
        inputs, how = super().read_file(Path(found["images"]))
        return inputs, f"{how} of {f'the {part} part, ' if part else ''}{found['images']}"

    def answer(self, inputs: Sequence[InputImage], options: Any, now: Snapshot) -> list[ImagesAnswer]:
        config = self.model.config if isinstance(self.model.config, VisionConfig) else None
        answers = []
        for image, row in zip(inputs, self._log_probabilities(inputs).exp().tolist(), strict=True):
            ranked = sorted(zip(self.task.labels, row, strict=True), key=lambda pair: -pair[1])
            compute_attention = None if config is None else now.later(self.view_input, image)
            answers.append(ImagesAnswer(image, *ranked[0], dict(ranked), config, compute_attention))
        return answers

    def _log_probabilities(self, images: Sequence[InputImage]) -> Float[Tensor, "n L"]:
        examples = [EncodedImage(image.pixels, 0) for image in images]
        return torch.cat(self.task.probabilities(self.model, examples))

    def view_input(self, given: Any, progress: RowProgress | None = None) -> View:
        if not isinstance(self.model.config, VisionConfig):
            raise OptionError("A convolutional network has no attention, so there is nothing to view.")
        return view_image(self.model, self.task.state.normalise([self.prepare(given).pixels]))

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        return [float(self._log_probabilities([self.prepare(given)])[0, self.task.labels.index(answer.text)])]

    def view_of(self, given: Any, answer: Answer) -> View:
        return self.view_input(given)
