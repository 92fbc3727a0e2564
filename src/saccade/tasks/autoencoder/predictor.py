"""An autoencoder that answers: a text or an image again, its small vector, and what it is near to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import Field
from rich.console import RenderableType
from rich.text import Text

from saccade.attention import watch
from saccade.decoding import token_log_probabilities
from saccade.errors import OptionError
from saccade.lens.causal import replace_word
from saccade.lens.figures.bars import bars
from saccade.lens.figures.overlays import images_side_by_side
from saccade.lens.terminal.images import TerminalImages
from saccade.lens.view import View, view
from saccade.models import Config
from saccade.models.autoencoder import PatchAutoencoder
from saccade.tasks.autoencoder.data import Line
from saccade.tasks.autoencoder.media import EncodedLine, ImageMedium, TextMedium
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.neighbours import Neighbour
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.images.predictor import GivenImage, ImagePredictor, shown_pixels
from saccade.tasks.images.task import CLASS_TOKEN, as_tensor, patch_names
from saccade.text import END, SPECIAL_TOKENS, START

__all__ = ["NeighbourOptions", "Rebuilder", "RebuiltImage", "RebuiltText"]

#: Where the code is read from all tokens.
POOLING = "pooling"
#: Inputs that are rebuilt between two reports of progress.
PIECE = 250


class NeighbourOptions(Config):
    """What an autoencoder shows with its answer."""

    neighbours: int = Field(5, ge=0, le=100, description="Nearest training examples shown")


@dataclass(frozen=True)
class Rebuilt(Answer):
    """What came back, the small vector that it came from, and what is near to it."""

    text: str
    score: float
    code: list[float]
    neighbours: list[Neighbour] = field(repr=False)
    look: Callable[[], View] = field(repr=False)

    @cached_property
    def view(self) -> View:
        return self.look()

    def _numbers(self) -> Text:
        return Text("code  " + " ".join(f"{number:+.2f}" for number in self.code))


@dataclass(frozen=True)
class RebuiltText(Rebuilt):
    """A text again; the score is the mean log-probability of its tokens."""

    given: str
    tokens: list[str]
    ids: list[int] = field(repr=False)

    def record(self) -> dict[str, Any]:
        near = [{"text": one.text, "line": one.line, "distance": one.distance} for one in self.neighbours]
        return {"given": self.given, "text": self.text, "score": self.score, "code": self.code, "neighbours": near}

    def terminal(self) -> list[RenderableType]:
        near = "\n".join(f"{one.distance:8.2f}  {one.text}" for one in self.neighbours)
        return [Text(self.text), self._numbers(), Text(near)]

    def figure(self, dark: bool) -> Figure:
        """How near the neighbours are: 1 is the same code, and half of it is as far as the farthest shown."""
        if not self.neighbours:
            raise OptionError("There are no neighbours to draw; ask for some, with neighbours = 5.")
        farthest = max(one.distance for one in self.neighbours) or 1.0
        near = [1 / (1 + one.distance / farthest) for one in self.neighbours]
        return bars([one.text for one in self.neighbours], near, title=self.text, caption="nearness", dark=dark)


@dataclass(frozen=True)
class RebuiltImage(Rebuilt):
    """An image again; the score is its mean squared error, from 0 to 1, below 0: higher is better."""

    given: GivenImage = field(repr=False)
    pixels: Any = field(repr=False)  # bytes (H, W, C)

    @property
    def tokens(self) -> list[str]:  # type: ignore[override]
        return []

    def record(self) -> dict[str, Any]:
        near = [{"line": one.line, "distance": one.distance} for one in self.neighbours]
        again = shown_pixels(self.pixels).tolist()
        shown = {"image": self.given.where, "score": self.score, "code": self.code, "neighbours": near}
        return shown | {"pixels": again}

    def terminal(self) -> list[RenderableType]:
        return [Text(self.text), self._numbers(), TerminalImages(self._images())]

    def figure(self, dark: bool) -> Figure:
        return images_side_by_side(self._images(), title=self.text, dark=dark)

    def _images(self) -> list[tuple[str, Any]]:
        shown = [("given", shown_pixels(self.given.pixels)), ("again", shown_pixels(self.pixels))]
        for one in self.neighbours:
            assert one.pixels is not None
            shown.append((f"{one.line}: {one.distance:.2f}", shown_pixels(one.pixels)))
        return shown


class Rebuilder(ImagePredictor):
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

    def read_file(self, path: Path) -> list[Any]:
        return Predictor.read_file(self, path) if self.is_text else super().read_file(path)

    def replaced(self, given: Any, old: str, new: str) -> Any:
        return replace_word(given, old, new) if self.is_text else super().replaced(given, old, new)

    @property
    def shape(self) -> tuple[int, int, int]:
        shape: tuple[int, int, int] = self.task.medium.shape
        return shape

    @torch.inference_mode()
    def predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Sequence[Rebuilt]:
        """Each text or image again; ``neighbours`` says how many training examples are shown with it."""
        chosen = self.chosen(options)
        if self.is_text:
            for number, text in enumerate(inputs, start=1):
                if not text.strip():
                    raise OptionError(f"Text {number} is empty: there is nothing that it could be rebuilt from.")
        answers: list[Rebuilt] = []
        for start in range(0, len(inputs), PIECE):
            some = inputs[start : start + PIECE]
            answers += self._texts(some, chosen.neighbours) if self.is_text else self._images(some, chosen.neighbours)
            if progress is not None:
                progress(len(answers))
        return answers

    def _texts(self, texts: Sequence[str], count: int) -> list[RebuiltText]:
        medium = cast(TextMedium, self.task.medium)
        lines = medium.encode([Line(text, number) for number, text in enumerate(texts, start=1)])
        answers = []
        for line, ids, code in zip(
            lines, medium.written(self.model, lines), medium.codes(self.model, lines), strict=True
        ):
            scores = self._scores(line, ids)
            answers.append(
                RebuiltText(
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

    def _images(self, given: Sequence[Any], count: int) -> list[RebuiltImage]:
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
                RebuiltImage(said, -error, code.tolist(), near, partial(self._look_at_image, image), image, again)
            )
        return answers

    def _near(self, code: torch.Tensor, count: int) -> list[Neighbour]:
        return [] if self.task.kept is None or not count else self.task.kept.nearest(code, count)

    def _scores(self, line: EncodedLine, ids: list[int]) -> list[float]:
        """The log-probability of each token of a rebuilt text, and of its end."""
        medium, network = cast(TextMedium, self.task.medium), cast(Any, self.model)
        given = medium.batch([line], noisy=False).to(self.device)
        wanted = medium.batch([EncodedLine(ids, "", 1)], noisy=False).to(self.device)
        features = network.features(given.source, given.lengths, wanted.read)
        scores: list[float] = token_log_probabilities(network.output, features, wanted.predicted)[0].tolist()
        return scores

    @torch.inference_mode()
    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        if not isinstance(answer, RebuiltText):
            raise OptionError("An image is rebuilt in numbers, which have no probabilities; compare its error instead.")
        medium = cast(TextMedium, self.task.medium)
        return self._scores(medium.encode([Line(given, 1)])[0], answer.ids)[:-1]

    def view_of(self, given: Any, answer: Answer) -> View:
        if not isinstance(answer, RebuiltText):
            return self._look_at_image(self.given(given))
        medium = cast(TextMedium, self.task.medium)
        return self._look_at_text(medium.encode([Line(given, 1)])[0], answer.ids)

    @torch.inference_mode()
    def _look_at_text(self, line: EncodedLine, ids: list[int]) -> View:
        medium, network = cast(TextMedium, self.task.medium), cast(Any, self.model)
        given = medium.batch([line], noisy=False).to(self.device)
        wanted = medium.batch([EncodedLine(ids, "", 1)], noisy=False).to(self.device)
        with watch(network) as seen:
            network.features(given.source, given.lengths, wanted.read)
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
