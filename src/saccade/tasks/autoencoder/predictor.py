"""An autoencoder that answers: a text or an image again, its small vector, and what it is near to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from pydantic import Field

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.causal import replace_word
from saccade.lens.view import View, view
from saccade.models import LAST, Config, Targets
from saccade.models.autoencoder import PatchAutoencoder
from saccade.tasks.autoencoder.answer import AutoencoderAnswer, ImageAutoencoderAnswer, TextAutoencoderAnswer
from saccade.tasks.autoencoder.data import Line
from saccade.tasks.autoencoder.media import EncodedLine, ImageMedium, TextMedium
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.tasks.base.neighbours import Neighbour
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.images.task import CLASS_TOKEN, as_tensor, patch_names
from saccade.text import END, SPECIAL_TOKENS, START

__all__ = ["AutoencoderPredictor", "NeighbourOptions"]

#: Where the code is read from all tokens.
POOLING = "pooling"
#: Inputs that are rebuilt between two reports of progress.
PIECE = 250


class NeighbourOptions(Config):
    """What an autoencoder shows with its answer."""

    neighbours: int = Field(5, ge=0, le=100, description="Nearest training examples shown")


class AutoencoderPredictor(ImageInputPredictor):
    """An opened autoencoder, of texts or of images."""

    options = NeighbourOptions

    @property
    def is_text(self) -> bool:
        return isinstance(self.task.medium, TextMedium)

    @property
    def takes_images(self) -> bool:
        return not self.is_text

    def parse(self, given: str) -> Any:
        return given if self.is_text else super().parse(given)

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        return Predictor.read_file(self, path) if self.is_text else super().read_file(path)

    def replaced(self, given: Any, old: str, new: str) -> Any:
        return replace_word(given, old, new) if self.is_text else super().replaced(given, old, new)

    @property
    def shape(self) -> tuple[int, int, int]:
        shape: tuple[int, int, int] = self.task.medium.shape
        return shape

    @torch.inference_mode()
    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[AutoencoderAnswer]:
        """Each text or image again; ``neighbours`` says how many training examples are shown with it."""
        chosen = self.chosen(options)
        if self.is_text:
            for number, text in enumerate(inputs, start=1):
                if not text.strip():
                    raise OptionError(f"Text {number} is empty: there is nothing that it could be rebuilt from.")
        answers: list[AutoencoderAnswer] = []
        for start in range(0, len(inputs), PIECE):
            some = inputs[start : start + PIECE]
            answers += self._texts(some, chosen.neighbours) if self.is_text else self._images(some, chosen.neighbours)
            if progress is not None:
                progress(len(answers))
        return answers

    def _texts(self, texts: Sequence[str], count: int) -> list[TextAutoencoderAnswer]:
        medium = cast(TextMedium, self.task.medium)
        lines = medium.encode([Line(text, number) for number, text in enumerate(texts, start=1)])
        answers = []
        for line, ids, code in zip(
            lines, medium.written(self.model, lines), medium.codes(self.model, lines), strict=True
        ):
            scores = self._scores(line, ids)
            answers.append(
                TextAutoencoderAnswer(
                    medium.tokenizer.decode(ids),
                    sum(scores) / len(scores),
                    code.tolist(),
                    self._near(code, count),
                    partial(self._look_at_text, line, ids),
                    line.text,
                    [medium.tokenizer.token(i) for i in ids],
                    ids,
                )
            )
        return answers

    def _images(self, given: Sequence[Any], count: int) -> list[ImageAutoencoderAnswer]:
        medium = cast(ImageMedium, self.task.medium)
        images = [self.given(one) for one in given]
        pixels = [image.pixels for image in images]
        codes = medium.codes(self.model, cast(Any, images))
        answers = []
        for image, again, code in zip(images, medium.rebuilt(self.model, pixels), codes, strict=True):
            error = float(np.square((image.pixels.astype(np.float64) - again) / 255).mean())
            said = f"{image.where} again, mean squared error {error:.4f}"
            near = self._near(code, count)
            answers.append(
                ImageAutoencoderAnswer(
                    said, -error, code.tolist(), near, partial(self._look_at_image, image), image, again
                )
            )
        return answers

    def _near(self, code: torch.Tensor, count: int) -> list[Neighbour]:
        return [] if self.task.kept is None or not count else self.task.kept.nearest(code, count)

    def _scores(self, line: EncodedLine, ids: list[int]) -> list[float]:
        """The log-probability of each token of a rebuilt text, and of its end."""
        medium = cast(TextMedium, self.task.medium)
        given = medium.batch([line], noisy=False).to(self.device)
        wanted = medium.batch([EncodedLine(ids, "", 1)], noisy=False).to(self.device)
        targets = Targets(wanted.predicted[0], summed=False)
        scores: list[float] = (-self.model(given.source, given.lengths, wanted.read, targets=targets)).tolist()
        return scores

    @torch.inference_mode()
    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        if not isinstance(answer, TextAutoencoderAnswer):
            raise OptionError("An image is rebuilt in numbers, which have no probabilities; compare its error instead.")
        medium = cast(TextMedium, self.task.medium)
        return self._scores(medium.encode([Line(given, 1)])[0], answer.ids)[:-1]

    def view_of(self, given: Any, answer: Answer) -> View:
        if not isinstance(answer, TextAutoencoderAnswer):
            return self._look_at_image(self.given(given))
        medium = cast(TextMedium, self.task.medium)
        return self._look_at_text(medium.encode([Line(given, 1)])[0], answer.ids)

    @torch.inference_mode()
    def _look_at_text(self, line: EncodedLine, ids: list[int]) -> View:
        medium = cast(TextMedium, self.task.medium)
        given = medium.batch([line], noisy=False).to(self.device)
        wanted = medium.batch([EncodedLine(ids, "", 1)], noisy=False).to(self.device)
        with watch(self.model) as seen:
            self.model(given.source, given.lengths, wanted.read, at=LAST)
        token = medium.tokenizer.token
        source = [*(token(i) for i in line.ids), SPECIAL_TOKENS[END]]
        target = [SPECIAL_TOKENS[START], *(token(i) for i in ids)]
        # What attends to the code alone has nothing to choose from.
        tokens = {name: trace for name, trace in seen.items() if trace.shape[2] > 1 and not name.endswith("cross")}
        if not tokens:
            raise OptionError("This model has no attention, so there is nothing to view.")
        whole = view(tokens, target, source_tokens=source)
        pooled = view({POOLING: seen[POOLING]}, ["code"], source_tokens=source)
        return View(
            {**whole.traces, **pooled.traces}, {**whole.rows, **pooled.rows}, {**whole.columns, **pooled.columns}
        )

    @torch.inference_mode()
    def _look_at_image(self, image: GivenImage) -> View:
        if not isinstance(self.model, PatchAutoencoder):
            raise OptionError('This model has no attention, so there is nothing to view; kind = "patches" has.')
        medium = cast(ImageMedium, self.task.medium)
        with watch(self.model) as seen:
            self.model(as_tensor([image.pixels], medium.pixels).to(self.device))
        config = self.model.config
        patches = patch_names(config)
        return view(seen, patches, source_tokens=[*([CLASS_TOKEN] if config.pooling == "class" else []), *patches])
