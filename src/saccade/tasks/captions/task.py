"""Captions: a text for an image (002's one-to-many), each word by what it looks at in the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.digits import Captioned
from saccade.data.images import Pixels, describe_shape
from saccade.decoding import Hypothesis, beam_search
from saccade.lens.view import View, view
from saccade.models import LAST, Config, Targets
from saccade.models.captioner import Captioner, CaptionerConfig
from saccade.tasks.base.task import Batch, Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.captions.data import CaptionData, data_table, fitted, read_given, read_splits
from saccade.tasks.images.augment import ImageSettings, augment
from saccade.tasks.images.task import CLASS_TOKEN, as_tensor, check_image_size, check_shape, patch_names, spread
from saccade.tasks.translation.task import text_scores
from saccade.text import END, SPECIAL_TOKENS, START, Tokenizer, pad, plan_batches

__all__ = [
    "AT_ONCE",
    "CaptionBatch",
    "CaptionOptions",
    "Captions",
    "EncodedCaption",
    "describe_images",
    "watched_caption",
]

#: Images that are described at once.
AT_ONCE = 128
TOKENIZER = "tokenizer.json"


class CaptionOptions(Config):
    """How texts are found.

    The ``[decoding]`` table of a recipe, and the options of ``saccade predict``.
    """

    beam: int = Field(3, ge=1, le=1000, description="Hypotheses kept at each step; 1 is greedy")
    n_best: int = Field(1, ge=1, description="Texts returned, at most the beam")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="Score = log-probability / length^penalty; 0 favours short texts"
    )
    max_length: int = Field(40, ge=1, description="Longest text in tokens, including its end")

    @model_validator(mode="after")
    def _consistent(self) -> CaptionOptions:
        if self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} needs a beam of at least as many, not {self.beam}")
        return self


@dataclass(frozen=True)
class EncodedCaption:
    """An image and the ids of its text, without START and END."""

    pixels: Pixels
    ids: list[int]
    text: str
    line: int


@dataclass(frozen=True)
class CaptionBatch(Batch):
    """Images, what the decoder reads (START and the text) and predicts (the text and END)."""

    images: Float[Tensor, "B C H W"]
    read: Int[Tensor, "B T"]
    predicted: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.real.sum())


def _build(config: CaptionerConfig, task: Captions) -> nn.Module:
    check_image_size(config, task.shape)
    return Captioner(config, task.tokenizer.vocabulary_size)


class Captions(Task):
    """The task with its tokenizer, and the mean and standard deviation of the pixels it was trained on."""

    name = "captions"
    about = "an image gets a text"
    searches = True
    metrics = ("exact", "bleu", "chrf", "loss")
    settings: ClassVar = {
        "data": CaptionData,
        "text": TokenSettings,
        "images": ImageSettings,
        "decoding": CaptionOptions,
    }
    read_as = ("image_column", "text_column", "encoding")
    networks: ClassVar = {"transformer": Network(CaptionerConfig, _build)}

    def __init__(
        self,
        tokenizer: Tokenizer,
        shape: tuple[int, int, int],
        pixels: tuple[float, float],
        *,
        metric: str = "exact",
        changes: ImageSettings | None = None,
    ) -> None:
        self.check_metric(metric)
        self.tokenizer = tokenizer
        self.shape = shape  # height, width, channels
        self.pixels = pixels  # mean and standard deviation of numbers in 0..1
        self.metric = metric
        self.changes = changes or ImageSettings()

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return data_table(files, columns)

    @classmethod
    def read(cls, data: CaptionData, seed: int) -> Splits[Captioned]:
        return read_splits(data, seed)

    @classmethod
    def read_given(cls, data: CaptionData) -> list[Captioned]:
        return read_given(data)

    @classmethod
    def fitted(cls, splits: Splits[Captioned]) -> dict[str, Any]:
        return fitted(splits)

    @classmethod
    def identity(cls, example: Captioned) -> bytes:
        return f"{example.source}\t{example.text}\n".encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Captioned], metric: str = "exact") -> Self:
        tokenizer = settings["text"].train([pair.text for pair in train])
        shape = cast(tuple[int, int, int], train[0].pixels.shape)
        return cls(tokenizer, shape, spread(train), metric=metric, changes=settings["images"])

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        height, width, channels = description["shape"]
        mean, deviation = description["pixels"]
        tokenizer = Tokenizer.from_bytes(read(TOKENIZER), f"{where}: {TOKENIZER}")
        return cls(tokenizer, (height, width, channels), (mean, deviation), metric=description["metric"])

    def description(self) -> dict[str, Any]:
        return {"metric": self.metric, "shape": list(self.shape), "pixels": list(self.pixels)}

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.tokenizer.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"target": self.tokenizer}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.changes = settings["images"]
        return chosen

    # --- training ---

    def encode(self, examples: Sequence[Captioned]) -> list[EncodedCaption]:
        for pair in examples:
            check_shape(pair.pixels, self.shape, pair.where)
        found = self.tokenizer.encode_batch([pair.text for pair in examples])
        return [
            EncodedCaption(pair.pixels, encoding.ids, pair.text, pair.line)
            for pair, encoding in zip(examples, found, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedCaption]) -> Int[np.ndarray, "n 1"]:
        """The tokens of the text and its end; an image is of one size."""
        return np.array([[len(pair.ids) + 1] for pair in examples])

    def batch(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        """Images to train on, each changed a little."""
        plain = self.forced(examples)
        mean, deviation = self.pixels
        changed = augment(plain.images * deviation + mean, self.changes)
        return replace(plain, images=(changed - mean) / deviation)

    def forced(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        """Images as they are, for a forced pass: the decoder reads the text that is given."""
        read, lengths = pad([[START, *pair.ids] for pair in examples])
        predicted, _ = pad([[*pair.ids, END] for pair in examples])
        real = torch.arange(read.shape[1]) < lengths[:, None]
        images = as_tensor([pair.pixels for pair in examples], self.pixels)
        return CaptionBatch(images, read, predicted, real, [pair.line for pair in examples])

    def loss(self, model: nn.Module, batch: CaptionBatch, label_smoothing: float) -> Loss:
        words = batch.predicted[batch.real]
        total = model(batch.images, batch.read, targets=Targets(words, batch.real, label_smoothing))
        return Loss(total, len(words))

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[EncodedCaption], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        total, count = 0.0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
            tick()
            loss = self.loss(model, self.forced([examples[i] for i in part]).to(device_of(model)), 0.0)
            total, count = total + float(loss.total), count + loss.count
        if not math.isfinite(total):  # a network of NaN finds nothing
            return dict.fromkeys(self.metrics, math.nan)
        return {"loss": total / count} | self._text_scores(model, examples, CaptionOptions(beam=1), tick)

    def evaluate(
        self, model: nn.Module, examples: Sequence[EncodedCaption], options: CaptionOptions, *, tick: Tick
    ) -> Evaluation:
        return Evaluation(self._text_scores(model, examples, options, tick))

    def _text_scores(
        self, model: nn.Module, examples: Sequence[EncodedCaption], options: CaptionOptions, tick: Tick
    ) -> dict[str, float]:
        found = self.describe(model, [pair.pixels for pair in examples], options, tick)
        texts = [self.tokenizer.decode(best[0].tokens) for best in found]
        return text_scores(texts, [pair.text for pair in examples])

    def describe(
        self, model: nn.Module, images: Sequence[Pixels], options: CaptionOptions, tick: Tick = lambda: None
    ) -> list[list[Hypothesis]]:
        """The best texts for each image, found by beam search."""
        found: list[list[Hypothesis]] = []
        for start in range(0, len(images), AT_ONCE):
            tick()
            found += describe_images(model, as_tensor(images[start : start + AT_ONCE], self.pixels), options)
        return found

    def probe(self, model: nn.Module, example: EncodedCaption) -> Probe:
        ((best,),) = self.describe(model, [example.pixels], CaptionOptions(beam=1))
        seen = watched_caption(model, self, example.pixels, best.tokens)
        weights = seen.matrix(seen.names[-1])[: len(best.tokens)]
        return Probe(
            seen.columns[seen.names[-1]].tokens,
            [self.tokenizer.token(i) for i in best.tokens],
            self.tokenizer.decode(best.tokens),
            [[round(weight, 4) for weight in row] for row in weights.tolist()],
        )

    def facts(self) -> list[str]:
        return [
            f"images: {describe_shape(self.shape)}",
            f"text: {self.tokenizer.kind} tokens, {self.tokenizer.vocabulary_size:,} of them",
            "scores: `exact` is the share of texts that are exactly right, in percent; BLEU and chrF by sacrebleu",
        ]


@torch.inference_mode()
def describe_images(
    model: nn.Module, images: Float[Tensor, "B C H W"], options: CaptionOptions
) -> list[list[Hypothesis]]:
    network = cast(Captioner, model)
    longest = options.max_length
    if network.config.position == "learned":
        longest = min(longest, cast(CaptionerConfig, network.config).max_length - 1)  # START has a position too
    return beam_search(
        network,
        network.start(images.to(device_of(model)), longest),
        batch_size=len(images),
        start_token=START,
        end_token=END,
        max_length=longest,
        beam=options.beam,
        n_best=options.n_best,
        length_penalty=options.length_penalty,
        device=device_of(model),
    )


@torch.inference_mode()
def watched_caption(model: nn.Module, task: Captions, pixels: Pixels, ids: Sequence[int]) -> View:
    """Every attention of the model as it looks at one image and writes this text.

    The rows of the decoder are the tokens that it reads, first the start: what it looked at for the first word of
    the text is in the row of the start.
    """
    batch = task.forced([EncodedCaption(pixels, list(ids), "", 1)]).to(device_of(model))
    with watch(model) as seen:
        model(batch.images, batch.read, at=LAST)
    config = cast(CaptionerConfig, model.config)
    source = [*([CLASS_TOKEN] if config.pooling == "class" else []), *patch_names(config)]
    return view(seen, [SPECIAL_TOKENS[START], *(task.tokenizer.token(i) for i in ids)], source_tokens=source)
