"""Captions: generate a text for an image (one-to-many in lecture 002); each word attends to the image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.digits import Captioned
from saccade.data.images import Pixels, describe_shape
from saccade.decoding import Hypothesis, beam_search
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST, Config, Targets
from saccade.models.captioner import Captioner, CaptionerConfig
from saccade.models.recurrent_captioner import RecurrentCaptioner, RecurrentCaptionerConfig
from saccade.tasks.base.decoder_batch import DecoderBatch, decoder_tokens
from saccade.tasks.base.image_augmentation import ImageSettings
from saccade.tasks.base.image_task import ImageState, Spread, check_shape, measure_images, token_names
from saccade.tasks.base.settings import SearchTraining
from saccade.tasks.base.task import (
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
from saccade.text import END, SPECIAL_TOKENS, START, Tokenizer

__all__ = ["AT_ONCE", "CaptionBatch", "CaptionOptions", "Captions", "CaptionsState", "EncodedCaption", "view_caption"]

#: The number of images that are described at once.
AT_ONCE = 128


class CaptionOptions(Config):
    """How texts are generated: the ``[decoding]`` table of a recipe, and the options of ``saccade predict``."""

    beam: int = Field(3, ge=1, le=1000, description="Hypotheses kept at each step; 1 is greedy search")
    n_best: int = Field(1, ge=1, description="Number of texts to return; at most the beam size")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="Texts are ranked by log-probability / length^penalty; 0 favours short texts"
    )
    max_length: int = Field(40, ge=1, le=10_000, description="Longest text in tokens, including the end token")

    @model_validator(mode="after")
    def _check_beam(self) -> CaptionOptions:
        if self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        return self


@dataclass(frozen=True)
class EncodedCaption:
    """An image and the ids of its text, without START and END."""

    pixels: Pixels
    ids: list[int]
    text: str
    line: int


@dataclass(frozen=True)
class CaptionBatch(DecoderBatch):
    """Images and their captions."""

    images: Float[Tensor, "B C H W"]


@dataclass(frozen=True)
class CaptionsState(ImageState, TokenizerState):
    """The tokenizer, and the shape, mean and standard deviation of the training images."""

    tokenizer: Tokenizer
    shape: tuple[int, int, int]
    pixels: Spread

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[Captioned], tokenizer: Tokenizer | None = None
    ) -> Self:
        return cls(settings["text"].train([pair.text for pair in train]), *measure_images(train))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(read_tokenizer(read, where), *cls.load_images(description))

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"target": self.tokenizer}


def _build(config: CaptionerConfig, state: CaptionsState) -> nn.Module:
    state.check_size(config)
    return Captioner(config, state.tokenizer.vocabulary_size)


def _build_recurrent(config: RecurrentCaptionerConfig, state: CaptionsState) -> nn.Module:
    state.check_size(config)
    return RecurrentCaptioner(config, state.tokenizer.vocabulary_size)


class Captions(Task):
    """Trains with the cross-entropy of each token of a caption, and scores the captions that beam search finds."""

    name = "captions"
    about = "describes an image in words"
    metrics = ("exact", "bleu", "chrf", "loss")
    searches = True
    state_class = CaptionsState
    tables: ClassVar = {
        "text": TokenSettings,
        "images": ImageSettings,
        "training": SearchTraining,
        "decoding": CaptionOptions,
    }
    networks: ClassVar = {
        "transformer": Network(CaptionerConfig, _build),
        "recurrent": Network(RecurrentCaptionerConfig, _build_recurrent),
    }

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
        """Return the number of tokens in each caption, including the end token; images, which all have the same size,
        are not counted."""
        return np.array([[len(pair.ids) + 1] for pair in examples])

    def batch(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        """Return a batch to train on, with randomly changed images."""
        plain = self.plain_batch(examples)
        return replace(plain, images=self.state.augment(plain.images, self.settings["images"]))

    def plain_batch(self, examples: Sequence[EncodedCaption]) -> CaptionBatch:
        images = self.state.normalise([pair.pixels for pair in examples])
        lines = [pair.line for pair in examples]
        return CaptionBatch(*decoder_tokens([pair.ids for pair in examples]), lines, images)

    def loss(self, model: nn.Module, batch: CaptionBatch) -> Loss:
        words = batch.predicted[batch.real]
        total = model(batch.images, batch.read, targets=Targets(words, batch.real, self.smoothing(model)))
        return Loss(total, len(words))

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[EncodedCaption], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        loss = self.mean_loss(model, examples, self.training.batch_tokens, check_cancelled)
        if not math.isfinite(loss):  # a network with NaN weights cannot generate text
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

    def evaluation_effort(self, options: CaptionOptions) -> float:
        return (options.beam + 1) / 2  # validation searches greedily

    @torch.inference_mode()
    def describe(
        self,
        model: nn.Module,
        images: Sequence[Pixels],
        options: CaptionOptions,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> list[list[Hypothesis]]:
        """Return the best captions for each image, at most ``options.n_best``, found by beam search."""
        network = cast(Captioner, model)
        longest = options.max_length
        if isinstance(network.config, CaptionerConfig) and network.config.position == "learned":
            longest = min(longest, network.config.max_length - 1)  # START takes a position too
        found: list[list[Hypothesis]] = []
        for start in range(0, len(images), AT_ONCE):
            check_cancelled()
            batch = self.state.normalise(images[start : start + AT_ONCE]).to(device_of(model))
            found += beam_search(
                network,
                network.start(batch, longest),
                batch_size=len(batch),
                start_token=START,
                end_token=END,
                max_length=longest,
                beam=options.beam,
                n_best=options.n_best,
                length_penalty=options.length_penalty,
                device=device_of(model),
            )
        return found

    def source_and_truth(self, example: EncodedCaption) -> tuple[str, str]:
        return "", example.text

    def probe(self, model: nn.Module, example: EncodedCaption) -> Probe:
        ((best,),) = self.describe(model, [example.pixels], CaptionOptions(beam=1))
        if not isinstance(model.config, CaptionerConfig):
            tokens = self.state.tokenizer.tokens(best.tokens)
            return Probe([], tokens, self.state.tokenizer.decode(best.tokens), [])
        seen = view_caption(model, self, example.pixels, best.tokens)
        weights = seen.matrix(seen.names[-1])[: len(best.tokens)]
        return Probe(
            seen.columns[seen.names[-1]].tokens,
            self.state.tokenizer.tokens(best.tokens),
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
def view_caption(model: nn.Module, task: Captions, pixels: Pixels, ids: Sequence[int]) -> View:
    """Return the weights of every attention while the model reads one image and generates the text with these ids.

    The rows of a decoder's attention are the tokens that it reads, so the row of the start token shows what the model
    looked at when it chose the first token of the text.
    """
    if not isinstance(model.config, CaptionerConfig):
        raise OptionError("A recurrent network sees the image once, without attention, so there is nothing to view.")
    batch = task.plain_batch([EncodedCaption(pixels, list(ids), "", 1)]).to(device_of(model))
    with watch(model) as seen:
        model(batch.images, batch.read, at=LAST)
    tokens = [SPECIAL_TOKENS[START], *task.state.tokenizer.tokens(ids)]
    return view(seen, tokens, source_tokens=token_names(model.config))
