"""An image classifier that answers: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from saccade.attention.watching.watch import Rows
from saccade.lens.view import View
from saccade.models import VisionConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.tasks.images.answer import ImagesAnswer
from saccade.tasks.images.task import as_tensor, watched

__all__ = ["ImagesPredictor"]


class ImagesPredictor(ImageInputPredictor):
    """An opened model that says what is in an image."""

    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[ImagesAnswer]:
        """The class of each image: paths, arrays of bytes, or what ``parse`` and ``read_file`` gave."""
        self.chosen(options)
        images = [self.given(one) for one in inputs]
        answers: list[ImagesAnswer] = []
        for logits in self.task.answers(self.model, [image.pixels for image in images]):
            for row in logits.softmax(dim=1):
                answers.append(self._answer(images[len(answers)], row.tolist()))
            if progress is not None:
                progress(len(answers))
        return answers

    def _answer(self, image: GivenImage, row: list[float]) -> ImagesAnswer:
        pairs = sorted(zip(self.task.classes, row, strict=True), key=lambda pair: -pair[1])
        label, probability = pairs[0]
        config = cast(VisionConfig, self.model.config)
        return ImagesAnswer(image, label, probability, dict(pairs), config, partial(self.reading, image))

    def reading(self, given: Any, progress: Rows | None = None) -> View:
        image = self.given(given)
        return watched(self.model, as_tensor([image.pixels], self.task.pixels))

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        (logits,) = self.task.answers(self.model, [self.given(given).pixels])
        return [float(logits[0].log_softmax(dim=0)[self.task.classes.index(answer.text)])]

    def view_of(self, given: Any, answer: Answer) -> View:
        return self.reading(given)
