"""Autoencoder: a text or an image through one small vector, and back (004 of the lectures)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Int
from torch import nn

from saccade.errors import OptionError
from saccade.models import Config
from saccade.models.autoencoder import (
    DenseAutoencoder,
    DenseAutoencoderConfig,
    PatchAutoencoder,
    PatchAutoencoderConfig,
    RecurrentAutoencoder,
    RecurrentAutoencoderConfig,
    TransformerAutoencoder,
    TransformerAutoencoderConfig,
)
from saccade.tasks.autoencoder.data import AutoencoderData, Line, data_table, read_given, read_splits
from saccade.tasks.autoencoder.media import ImageMedium, Medium, NoisyText, TextMedium
from saccade.tasks.base.neighbours import Kept
from saccade.tasks.base.task import Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick
from saccade.tasks.images.augment import ImageSettings
from saccade.tasks.images.data import fitting_patch
from saccade.tasks.images.task import check_image_size, spread
from saccade.text import Tokenizer

__all__ = ["Autoencoder"]

TOKENIZER = "tokenizer.json"


def _text_network(network: type[nn.Module]) -> Any:
    def build(config: Config, task: Autoencoder) -> nn.Module:
        assert isinstance(task.medium, TextMedium)
        return cast(nn.Module, cast(Any, network)(config, task.medium.tokenizer.vocabulary_size))

    return build


def _image_network(network: type[nn.Module]) -> Any:
    def build(config: Any, task: Autoencoder) -> nn.Module:
        assert isinstance(task.medium, ImageMedium)
        check_image_size(config, task.medium.shape)
        return cast(nn.Module, cast(Any, network)(config))

    return build


class Autoencoder(Task):
    """The task with what its examples are of, and the training examples that are kept as neighbours."""

    name = "autoencoder"
    about = "a text or an image through one small vector, and back"
    metrics = ("loss", "exact", "bleu", "chrf")
    settings: ClassVar = {"data": AutoencoderData, "text": NoisyText, "images": ImageSettings}
    read_as = ("encoding",)
    networks: ClassVar = {
        "transformer": Network(TransformerAutoencoderConfig, _text_network(TransformerAutoencoder)),
        "recurrent": Network(RecurrentAutoencoderConfig, _text_network(RecurrentAutoencoder)),
        "dense": Network(DenseAutoencoderConfig, _image_network(DenseAutoencoder)),
        "patches": Network(PatchAutoencoderConfig, _image_network(PatchAutoencoder)),
    }

    def __init__(self, medium: Medium, *, metric: str = "loss", kept: Kept | None = None) -> None:
        self.check_metric(metric)
        if metric not in medium.scores:
            raise OptionError(f"metric = {metric!r} is of texts; of images there is {', '.join(medium.scores)}.")
        self.medium = medium
        self.searches = isinstance(medium, TextMedium)
        self.metric = metric
        self.kept = kept

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return data_table(files, columns)

    @classmethod
    def read(cls, data: AutoencoderData, seed: int) -> Splits[Any]:
        return read_splits(data, seed)

    @classmethod
    def read_given(cls, data: AutoencoderData) -> list[Any]:
        return read_given(data)

    @classmethod
    def fitted(cls, splits: Splits[Any]) -> dict[str, Any]:
        return _fitted_text(len(splits.train)) if isinstance(splits.train[0], Line) else _fitted_images(splits.train)

    @classmethod
    def identity(cls, example: Any) -> bytes:
        return f"{example.source}\n".encode()

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], metric: str = "loss") -> Self:
        if isinstance(train[0], Line):
            text: NoisyText = settings["text"]
            return cls(TextMedium(text.train([one.source for one in train]), text), metric=metric)
        return cls(ImageMedium(train[0].pixels.shape, spread(train), settings["images"]), metric=metric)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        medium: Medium
        if description["medium"] == "text":
            medium = TextMedium(Tokenizer.from_bytes(read(TOKENIZER), f"{where}: {TOKENIZER}"))
        else:
            height, width, channels = description["shape"]
            mean, deviation = description["pixels"]
            medium = ImageMedium((height, width, channels), (mean, deviation))
        kept = None
        if description["neighbours"]:
            kept = Kept.from_files(read("neighbours.safetensors"), read("neighbours.json"), where)
        return cls(medium, metric=description["metric"], kept=kept)

    def description(self) -> dict[str, Any]:
        about: dict[str, Any] = {"metric": self.metric, "neighbours": 0 if self.kept is None else len(self.kept.lines)}
        if isinstance(self.medium, ImageMedium):
            return about | {
                "medium": "images",
                "shape": list(self.medium.shape),
                "pixels": list(self.medium.pixels),
            }
        return about | {"medium": "text"}

    def files(self) -> dict[str, bytes]:
        own = {TOKENIZER: self.medium.tokenizer.to_bytes()} if isinstance(self.medium, TextMedium) else {}
        return own | ({} if self.kept is None else self.kept.files())

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return dict.fromkeys(("source", "target"), self.medium.tokenizer) if isinstance(self.medium, TextMedium) else {}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.medium = copy(self.medium)
        if isinstance(chosen.medium, TextMedium):
            chosen.medium.noise = settings["text"]
        elif isinstance(chosen.medium, ImageMedium):
            chosen.medium.changes = settings["images"]
        return chosen

    def build(self, kind: str, config: Config) -> nn.Module:
        if kind not in self.medium.kinds:
            what = "texts" if isinstance(self.medium, TextMedium) else "images"
            raise OptionError(
                f"model.kind = {kind!r}, but the examples are {what}; use {' or '.join(self.medium.kinds)}."
            )
        return super().build(kind, config)

    # --- training ---

    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        return self.medium.encode(examples)

    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n 1"]:
        return self.medium.lengths(examples)

    def batch(self, examples: Sequence[Any]) -> Any:
        return self.medium.batch(examples, noisy=True)

    def loss(self, model: nn.Module, batch: Any, label_smoothing: float) -> Loss:
        return self.medium.loss(model, batch, label_smoothing)

    @torch.inference_mode()
    def validate(self, model: nn.Module, examples: Sequence[Any], *, batch_tokens: int, tick: Tick) -> dict[str, float]:
        loss = self.medium.mean_loss(model, examples, batch_tokens, tick)
        if not math.isfinite(loss):  # a network of NaN finds nothing
            return dict.fromkeys(self.medium.scores, math.nan)
        return {"loss": loss, **self.medium.judge(model, examples, tick)}

    def evaluate(self, model: nn.Module, examples: Sequence[Any], options: Any, *, tick: Tick) -> Evaluation:
        longest = int(self.lengths(examples).max(initial=1))
        scores = self.validate(model, examples, batch_tokens=max(4096, longest), tick=tick)
        return Evaluation(scores)

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: Any) -> Probe:
        if isinstance(self.medium, TextMedium):
            tokenizer = self.medium.tokenizer
            (ids,) = self.medium.written(model, [example])
            return Probe(
                [tokenizer.token(i) for i in example.ids],
                [tokenizer.token(i) for i in ids],
                tokenizer.decode(ids),
                weights=[],
            )
        code = self.medium.codes(model, [example])[0].tolist()
        return Probe([], [], " ".join(f"{number:+.2f}" for number in code), weights=[])

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[Any]) -> None:
        """Keep some training examples with their codes, as neighbours of what will be asked."""
        self.kept = self.medium.keep(model, examples)

    def facts(self) -> list[str]:
        kept = 0 if self.kept is None else len(self.kept.lines)
        if isinstance(self.medium, ImageMedium):
            about = [f"images: {self.medium.describe()}", "score: `loss` is the share of variance that is lost"]
        else:
            assert isinstance(self.medium, TextMedium)
            tokenizer = self.medium.tokenizer
            about = [
                f"text: {tokenizer.kind} tokens, {tokenizer.vocabulary_size:,} of them",
                "scores: `exact` is the share of texts that come back exactly, in percent; BLEU, chrF by sacrebleu",
            ]
        return [*about, f"{kept:,} training examples are kept with their codes (neighbours.*)"]


def _fitted_text(count: int) -> dict[str, Any]:
    """Sizes that usually work for so many texts."""
    steps = 3000 if count <= 20_000 else 10_000
    return {
        "text": {"kind": "bpe", "vocabulary": max(300, min(8_000, 2 * count)), "mask": 0.1},
        "model": {
            "kind": "recurrent",
            "cell": "gru_torch",
            "width": 256,
            "embedding_width": 128,
            "code_width": 64,
            "dropout": 0.1,
        },
        "training": {
            "steps": steps,
            "warmup": steps // 20,
            "batch_tokens": 1024,
            "lr": 2e-3,
            "label_smoothing": 0.0,
            "validate_every": steps // 10,
        },
    }


def _fitted_images(images: Sequence[Any]) -> dict[str, Any]:
    """Sizes that usually work for so many images of this size."""
    height, width, channels = images[0].pixels.shape
    steps = max(1000, min(20_000, 20 * len(images) // 64))
    return {
        "images": {"noise": 0.1},
        "model": {
            "kind": "patches",
            "image_size": [height, width],
            "channels": channels,
            "patch": fitting_patch(height, width),
            "width": 64,
            "num_heads": 4,
            "feedforward_width": 128,
            "position": "sinusoidal",
            "code_width": 16,
        },
        "training": {
            "steps": steps,
            "warmup": steps // 20,
            "batch_tokens": 64,
            "lr": 2e-3,
            "validate_every": steps // 10,
        },
    }
