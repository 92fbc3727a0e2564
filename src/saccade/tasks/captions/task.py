"""Captions: a text for an image (one-to-many in lecture 002); each word attends to the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from saccade.tasks.base.settings import SearchTraining
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Evaluation,
    Loss,
    Network,
    Probe,
    ReadFile,
    Task,
    TokenizerState,
    device_of,
    read_tokenizer,
)
from saccade.tasks.base.text_scores import text_scores
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.images.augment import ImageSettings, augment
from saccade.tasks.images.task import CLASS_TOKEN, as_tensor, check_image_size, check_shape, patch_names, spread
from saccade.text import END, SPECIAL_TOKENS, START, Tokenizer, pad

__all__ = [
    "AT_ONCE",
    "CaptionBatch",
    "CaptionOptions",
    "Captions",
    "CaptionsState",
    "EncodedCaption",
    "describe_images",
    "watched_caption",
]

#: How many images are described at once.
AT_ONCE = 128


class CaptionOptions(Config):
    """How texts are generated.

    The ``[decoding]`` table of a recipe, and the options of ``saccade predict``.
    """

    beam: int = Field(3, ge=1, le=1000, description="Hypotheses kept at each step; 1 is greedy")
    n_best: int = Field(1, ge=1, description="Texts returned, at most the beam")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="Score = log-probability / length^penalty; 0 favours short texts"
    )
    max_length: int = Field(40, ge=1, le=10_000, description="Longest text in tokens, including its end")

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


@dataclass(frozen=True)
class CaptionsState(TokenizerState):
    """The tokenizer, and the shape, mean and standard deviation of the images that were trained on."""

    tokenizer: Tokenizer
    shape: tuple[int, int, int]  # height, width, channels
    pixels: tuple[float, float]  # mean and standard deviation of numbers in 0..1

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[Captioned], tokenizer: Tokenizer | None = None
    ) -> Self:
        shape = cast(tuple[int, int, int], train[0].pixels.shape)
        return cls(settings["text"].train([pair.text for pair in train]), shape, spread(train))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        height, width, channels = description["shape"]
        mean, deviation = description["pixels"]
        return cls(read_tokenizer(read, where), (height, width, channels), (mean, deviation))

    def description(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "pixels": list(self.pixels)}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"target": self.tokenizer}


def _build(config: CaptionerConfig, state: CaptionsState) -> nn.Module:
    check_image_size(config, state.shape)
    return Captioner(config, state.tokenizer.vocabulary_size)


class Captions(Task):
    """Cross-entropy of each word of an image's text; scores by search."""

    name = "captions"
    about = "describes an image in words"
    metrics = ("exact", "bleu", "chrf", "loss")
    state_class = CaptionsState
    tables: ClassVar = {
        "text": TokenSettings,
        "images": ImageSettings,
        "training": SearchTraining,
        "decoding": CaptionOptions,
    }
    networks: ClassVar = {"transformer": Network(CaptionerConfig, _build)}

    state: CaptionsState
    training: SearchTraining

    def encode(self, examples: Sequence[Captioned]) -> list[EncodedCaption]:
        for pair in examples:
            check_shape(pair.pixels, self.state.shape, pair.where)
        found = self.state.tokenizer.encode_batch([pair.text for pair in examples])
        return [
            EncodedCaption(pair.pixels, encoding.ids, pair.text, pair.line)
            for pair, encoding in zip(examples, found, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedCaption]) -> Int[np.ndarray, "n 1"]:
        """The number of tokens of the text and its end; all images have the same size."""
        return np.array([[len(pair.ids) + 1] for pair in examples])

    def batch(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        """Images to train on, randomly varied."""
        plain = self.plain_batch(examples)
        mean, deviation = self.state.pixels
        changed = augment(plain.images * deviation + mean, self.settings["images"])
        return replace(plain, images=(changed - mean) / deviation)

    def plain_batch(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        """Unchanged images for a forced pass: the decoder reads the given text."""
        read, lengths = pad([[START, *pair.ids] for pair in examples])
        predicted, _ = pad([[*pair.ids, END] for pair in examples])
        real = torch.arange(read.shape[1]) < lengths[:, None]
        images = as_tensor([pair.pixels for pair in examples], self.state.pixels)
        return CaptionBatch(images, read, predicted, real, [pair.line for pair in examples])

    def loss(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        words = batch.predicted[batch.real]
        total = model(batch.images, batch.read, targets=Targets(words, batch.real, self.smoothing(model)))
        return Loss(total, len(words))

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[EncodedCaption], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        loss = self.mean_loss(model, examples, self.training.batch_tokens, check_cancelled)
        if not math.isfinite(loss):  # a network of NaNs generates nothing
            return dict.fromkeys(self.metrics, math.nan)
        return {"loss": loss} | self.evaluate(model, examples, CaptionOptions(beam=1), check_cancelled).scores

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[EncodedCaption],
        options: CaptionOptions | None = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        pixels = [pair.pixels for pair in examples]
        found = self.describe(model, pixels, options or CaptionOptions(), check_cancelled)
        texts = [self.state.tokenizer.decode(best[0].tokens) for best in found]
        return Evaluation(text_scores(texts, [pair.text for pair in examples]))

    def describe(
        self,
        model: nn.Module,
        images: Sequence[Pixels],
        options: CaptionOptions,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> list[list[Hypothesis]]:
        """The best texts for each image, found by beam search."""
        found: list[list[Hypothesis]] = []
        for start in range(0, len(images), AT_ONCE):
            check_cancelled()
            found += describe_images(model, as_tensor(images[start : start + AT_ONCE], self.state.pixels), options)
        return found

    def source_and_truth(self, example: EncodedCaption) -> tuple[str, str]:
        return "", example.text

    def probe(self, model: nn.Module, example: EncodedCaption) -> Probe:
        ((best,),) = self.describe(model, [example.pixels], CaptionOptions(beam=1))
        seen = watched_caption(model, self, example.pixels, best.tokens)
        weights = seen.matrix(seen.names[-1])[: len(best.tokens)]
        return Probe(
            seen.columns[seen.names[-1]].tokens,
            [self.state.tokenizer.token(i) for i in best.tokens],
            self.state.tokenizer.decode(best.tokens),
            [[round(weight, 4) for weight in row] for row in weights.tolist()],
        )

    def facts(self) -> list[str]:
        return [
            f"images: {describe_shape(self.state.shape)}",
            f"text: {self.state.tokenizer.kind} tokens, vocabulary of {self.state.tokenizer.vocabulary_size:,}",
            "scores: `exact` is the percentage of exact matches; BLEU and chrF by sacrebleu",
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

    The rows of the decoder are the tokens that it reads, starting with the start token: what it looked at for the
    first word of the text is in the row of the start token.
    """
    batch = task.plain_batch([EncodedCaption(pixels, list(ids), "", 1)]).to(device_of(model))
    with watch(model) as seen:
        model(batch.images, batch.read, at=LAST)
    config = cast(CaptionerConfig, model.config)
    source = [*([CLASS_TOKEN] if config.pooling == "class" else []), *patch_names(config)]
    return view(seen, [SPECIAL_TOKENS[START], *(task.state.tokenizer.token(i) for i in ids)], source_tokens=source)
