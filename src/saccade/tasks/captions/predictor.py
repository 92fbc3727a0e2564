"""A captioning model that answers: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from saccade.data.images import Pixels
from saccade.decoding import Hypothesis
from saccade.lens.view import View
from saccade.models import Targets
from saccade.models.captioner import CaptionerConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.captions.answer import CaptionsAnswer
from saccade.tasks.captions.data import CaptionData, CaptionsFiles
from saccade.tasks.captions.task import AT_ONCE, CaptionOptions, EncodedCaption, watched_caption

__all__ = ["CaptionsPredictor"]


class CaptionsPredictor(ImageInputPredictor):
    """An opened model that describes images in words."""

    options = CaptionOptions

    @property
    def plural(self) -> str:
        return "captioning models"

    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[CaptionsAnswer]:
        """The best text for each image; ``alternatives`` has the others. Options are those of ``saccade predict``
        (beam, n_best, length_penalty, max_length)."""
        chosen, now = self.chosen(options), Snapshot(self)
        images = [self.given(one) for one in inputs]
        answers: list[CaptionsAnswer] = []
        for start in range(0, len(images), AT_ONCE):
            part = images[start : start + AT_ONCE]
            found = self.task.describe(self.model, [image.pixels for image in part], chosen)
            answers += [self._answer(image, best, now) for image, best in zip(part, found, strict=True)]
            if progress is not None:
                progress(len(answers))
        return answers

    def _builtin(self) -> Sequence[Pixels]:
        """The test images of ``recipes/digit-captions.toml``; they do not depend on the number of training images."""
        return [pair.pixels for pair in CaptionsFiles.read_for_scoring(CaptionData(builtin="digits", count=100))]

    def _answer(self, image: GivenImage, hypotheses: Sequence[Hypothesis], now: Snapshot) -> CaptionsAnswer:
        tokenizer = self.task.state.tokenizer
        answers = [
            CaptionsAnswer(
                image,
                tokenizer.decode(found.tokens),
                found.score,
                found.log_probability,
                [tokenizer.token(i) for i in found.tokens],
                found.finished,
                found.tokens,
                cast(CaptionerConfig, self.model.config),
                now.later(self._look, image, found.tokens),
            )
            for found in hypotheses
        ]
        answers[0].alternatives.extend(answers[1:])
        return answers[0]

    @torch.inference_mode()
    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        assert isinstance(answer, CaptionsAnswer)
        batch = self.task.plain_batch([EncodedCaption(self.given(given).pixels, answer.ids, "", 1)]).to(self.device)
        losses = self.model(batch.images, batch.read, targets=Targets(batch.predicted[0], summed=False))
        scores: list[float] = (-losses).tolist()
        return scores if answer.finished else scores[:-1]

    def view_of(self, given: Any, answer: Answer) -> View:
        assert isinstance(answer, CaptionsAnswer)
        return self._look(self.given(given), answer.ids)

    def _look(self, image: GivenImage, ids: list[int]) -> View:
        return watched_caption(self.model, self.task, image.pixels, ids)
