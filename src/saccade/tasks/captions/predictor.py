"""A captioning model that answers: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import torch
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.text import Text

from saccade.data.images import Pixels
from saccade.decoding import Hypothesis, token_log_probabilities
from saccade.lens.figures.overlays import overlays
from saccade.lens.images import Overlay
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View
from saccade.models.captioner import Captioner, CaptionerConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.captions.data import CaptionData, read_given
from saccade.tasks.captions.task import AT_ONCE, CaptionOptions, EncodedCaption, watched_caption
from saccade.tasks.images.predictor import GivenImage, ImagePredictor, shown_pixels
from saccade.text import END, SPECIAL_TOKENS

__all__ = ["Described", "Describer"]

SPACE = "▁"  # before a word, as tokens show it


@dataclass(frozen=True)
class Described(Answer):
    """A text for an image, and what each of its tokens looked at."""

    image: GivenImage = field(repr=False)
    text: str
    score: float  # log-probability / length^penalty
    log_probability: float
    tokens: list[str]
    finished: bool  # False: cut off at the longest length
    ids: list[int] = field(repr=False)
    config: CaptionerConfig = field(repr=False)
    look: Callable[[], View] = field(repr=False)
    alternatives: list[Described] = field(default_factory=list)

    @cached_property
    def view(self) -> View:
        return self.look()

    @property
    def scored_tokens(self) -> list[str]:
        return [*self.tokens, *([SPECIAL_TOKENS[END]] if self.finished else [])]

    def record(self) -> dict[str, Any]:
        return {
            "image": self.image.where,
            "text": self.text,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": self.tokens,
            "finished": self.finished,
        }

    def looked_at(self, layer: str | None = None) -> list[Overlay]:
        """For each token, the weights of the patches when it was written: the mean over the heads of a layer."""
        first = int(self.config.pooling == "class")
        weights = self.view.matrix(layer or self.layer)  # row t is of what was read when token t was written
        return [
            (token.removeprefix(SPACE) or token, row[first:].view(self.config.grid).numpy())
            for token, row in zip(self.tokens, weights, strict=False)
        ]

    def terminal(self) -> list[RenderableType]:
        images = TerminalImages([("image", shown_pixels(self.image.pixels))], self.looked_at())
        return [Text(self.text), images]

    def figure(self, dark: bool) -> Figure:
        return overlays(shown_pixels(self.image.pixels), self.looked_at(), title=self.text, dark=dark)


class Describer(ImagePredictor):
    """An opened model that says in words what is in an image."""

    options = CaptionOptions

    def predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[Described]:
        """The best text for each image; ``alternatives`` holds the others. Options are those of ``saccade predict``
        (beam, n_best, length_penalty, max_length)."""
        chosen = self.chosen(options)
        images = [self.given(one) for one in inputs]
        answers: list[Described] = []
        for start in range(0, len(images), AT_ONCE):
            part = images[start : start + AT_ONCE]
            found = self.task.describe(self.model, [image.pixels for image in part], chosen)
            answers += [self._answer(image, best) for image, best in zip(part, found, strict=True)]
            if progress is not None:
                progress(len(answers))
        return answers

    def _builtin(self) -> Sequence[Pixels]:
        """The test images of ``recipes/digit-captions.toml``; they do not depend on how many are trained on."""
        return [pair.pixels for pair in read_given(CaptionData(builtin="digits", count=100))]

    def _answer(self, image: GivenImage, hypotheses: Sequence[Hypothesis]) -> Described:
        tokenizer = self.task.tokenizer
        answers = [
            Described(
                image,
                tokenizer.decode(found.tokens),
                found.score,
                found.log_probability,
                [tokenizer.token(i) for i in found.tokens],
                found.finished,
                found.tokens,
                cast(CaptionerConfig, self.model.config),
                partial(watched_caption, self.model, self.task, image.pixels, found.tokens),
            )
            for found in hypotheses
        ]
        answers[0].alternatives.extend(answers[1:])
        return answers[0]

    @torch.inference_mode()
    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        assert isinstance(answer, Described)
        batch = self.task.forced([EncodedCaption(self.given(given).pixels, answer.ids, "", 1)]).to(self.device)
        network = cast(Captioner, self.model)
        features = network.features(batch.images, batch.read)
        scores: list[float] = token_log_probabilities(network.output, features, batch.predicted)[0].tolist()
        return scores if answer.finished else scores[:-1]

    def view_of(self, given: Any, answer: Answer) -> View:
        assert isinstance(answer, Described)
        return watched_caption(self.model, self.task, self.given(given).pixels, answer.ids)
