"""What an autoencoder is of: texts as tokens, or images as pixels. Each knows its batches, loss and scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.images import LabelledImage, Pixels, describe_shape
from saccade.models import Targets
from saccade.models.autoencoder import DenseAutoencoder, PatchAutoencoder, RecurrentAutoencoder, TransformerAutoencoder
from saccade.tasks.autoencoder.data import Line
from saccade.tasks.base.neighbours import MOST_BYTES, MOST_KEPT, Kept, evenly
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.task import Batch, Loss, Tick, device_of
from saccade.tasks.base.text_settings import TokenSettings
from saccade.tasks.images.augment import ImageSettings, augment
from saccade.tasks.images.task import as_tensor, check_shape
from saccade.tasks.translation.task import text_scores
from saccade.text import END, MASK, START, Tokenizer, pad, plan_batches

__all__ = ["EncodedLine", "ImageMedium", "Medium", "NoisyText", "TextMedium"]

#: Examples whose codes are computed at once.
AT_ONCE = 128
SEARCH_TOKENS = 4096
GREEDY = SearchOptions(beam=1, max_ratio=1.5)


class NoisyText(TokenSettings):
    """How text becomes tokens, and what is hidden from the encoder during training."""

    drop: float = Field(0.0, ge=0, lt=1, description="Share of tokens left out of the input")
    mask: float = Field(0.0, ge=0, lt=1, description="Share of tokens replaced by [MASK] in the input")


class Medium(ABC):
    """Texts or images."""

    kinds: tuple[str, ...]  # of network that can be used
    scores: tuple[str, ...]  # that are computed

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> Sequence[Any]: ...

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n 1"]: ...

    @abstractmethod
    def batch(self, examples: Sequence[Any], *, noisy: bool) -> Any: ...

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, label_smoothing: float) -> Loss: ...

    @abstractmethod
    def judge(self, model: nn.Module, examples: Sequence[Any], tick: Tick) -> dict[str, float]:
        """Scores beside the loss."""

    @abstractmethod
    def codes(self, model: nn.Module, examples: Sequence[Any]) -> Float[Tensor, "n E"]: ...

    @abstractmethod
    def keep(self, model: nn.Module, examples: Sequence[Any]) -> Kept:
        """Some examples with their codes."""

    def mean_loss(self, model: nn.Module, examples: Sequence[Any], batch_tokens: int, tick: Tick) -> float:
        total, count = 0.0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_tokens, seed=0, epoch=0, shuffle=False):
            tick()
            batch = self.batch([examples[i] for i in part], noisy=False).to(device_of(model))
            loss = self.loss(model, batch, 0.0)
            total, count = total + float(loss.total), count + loss.count
        return total / count


# --- texts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncodedLine:
    """A text as ids, without START and END."""

    ids: list[int]
    text: str
    line: int


@dataclass(frozen=True)
class TextBatch(Batch):
    """What is read, perhaps with noise; and what the decoder reads and predicts, always without."""

    source: Int[Tensor, "B S"]
    lengths: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    predicted: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.real.sum())


class TextMedium(Medium):
    """Texts of tokens."""

    kinds = ("transformer", "recurrent")
    scores = ("loss", "exact", "bleu", "chrf")

    def __init__(self, tokenizer: Tokenizer, noise: NoisyText | None = None) -> None:
        self.tokenizer = tokenizer
        self.noise = noise or NoisyText()

    def encode(self, examples: Sequence[Line]) -> list[EncodedLine]:
        found = self.tokenizer.encode_batch([one.source for one in examples])
        return [EncodedLine(one.ids, given.source, given.line) for one, given in zip(found, examples, strict=True)]

    def lengths(self, examples: Sequence[EncodedLine]) -> Int[np.ndarray, "n 1"]:
        return np.array([[len(one.ids) + 1] for one in examples])

    def batch(self, examples: Sequence[EncodedLine], *, noisy: bool) -> TextBatch:
        source, lengths = pad([[*(self._noisy(one.ids) if noisy else one.ids), END] for one in examples])
        read, read_lengths = pad([[START, *one.ids] for one in examples])
        predicted, _ = pad([[*one.ids, END] for one in examples])
        real = torch.arange(read.shape[1]) < read_lengths[:, None]
        return TextBatch(source, lengths, read, predicted, real, [one.line for one in examples])

    def _noisy(self, ids: list[int]) -> list[int]:
        if not self.noise.drop and not self.noise.mask:
            return ids
        drawn = torch.rand(2, len(ids)).tolist()
        hidden = [MASK if place < self.noise.mask else i for i, place in zip(ids, drawn[0], strict=True)]
        return [i for i, place in zip(hidden, drawn[1], strict=True) if place >= self.noise.drop]

    def loss(self, model: nn.Module, batch: TextBatch, label_smoothing: float) -> Loss:
        words = batch.predicted[batch.real]
        targets = Targets(words, batch.real, label_smoothing)
        return Loss(model(batch.source, batch.lengths, batch.read, targets=targets), len(words))

    def judge(self, model: nn.Module, examples: Sequence[EncodedLine], tick: Tick) -> dict[str, float]:
        return text_scores(self.rebuilt(model, examples, tick), [one.text for one in examples])

    def rebuilt(self, model: nn.Module, examples: Sequence[EncodedLine], tick: Tick = lambda: None) -> list[str]:
        """Each text again, greedily."""
        return [self.tokenizer.decode(ids) for ids in self.written(model, examples, tick)]

    def written(self, model: nn.Module, examples: Sequence[EncodedLine], tick: Tick = lambda: None) -> list[list[int]]:
        found = search(model, [[*one.ids, END] for one in examples], GREEDY, SEARCH_TOKENS, tick)
        return [best[0].tokens for best in found]

    def codes(self, model: nn.Module, examples: Sequence[EncodedLine]) -> Float[Tensor, "n E"]:
        network = cast(TransformerAutoencoder | RecurrentAutoencoder, model)
        found = []
        for start in range(0, len(examples), AT_ONCE):
            source, lengths = pad([[*one.ids, END] for one in examples[start : start + AT_ONCE]])
            found.append(network.code(source.to(device_of(model)), lengths.to(device_of(model))).cpu())
        return torch.cat(found)

    def keep(self, model: nn.Module, examples: Sequence[EncodedLine]) -> Kept:
        chosen = [examples[i] for i in evenly(len(examples), MOST_KEPT)]
        return Kept(self.codes(model, chosen), [one.line for one in chosen], [one.text for one in chosen], images=None)


# --- images ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PixelBatch(Batch):
    """What is read, perhaps with noise, and what is asked for."""

    read: Float[Tensor, "B C H W"]
    asked: Float[Tensor, "B C H W"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return self.asked.numel()


class ImageMedium(Medium):
    """Images of pixels; the loss is the mean squared error as a share of the pixels' variance."""

    kinds = ("dense", "patches")
    scores = ("loss",)

    def __init__(
        self, shape: tuple[int, int, int], pixels: tuple[float, float], changes: ImageSettings | None = None
    ) -> None:
        self.shape = shape
        self.pixels = pixels
        self.changes = changes or ImageSettings()

    def encode(self, examples: Sequence[LabelledImage]) -> list[LabelledImage]:
        for image in examples:
            check_shape(image.pixels, self.shape, image.where)
        return list(examples)

    def lengths(self, examples: Sequence[LabelledImage]) -> Int[np.ndarray, "n 1"]:
        """An image counts as one, so that ``batch_tokens`` is the number of images in a batch."""
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[LabelledImage], *, noisy: bool) -> PixelBatch:
        plain = as_tensor([image.pixels for image in examples], self.pixels)
        lines = [image.line for image in examples]
        if not noisy:
            return PixelBatch(plain, plain, lines)
        mean, deviation = self.pixels
        # What moves the image is asked for too; what hides a part of it is not.
        moved = augment(plain * deviation + mean, self.changes.model_copy(update={"noise": 0.0, "erase": 0.0}))
        hidden = augment(moved, ImageSettings(noise=self.changes.noise, erase=self.changes.erase))
        return PixelBatch((hidden - mean) / deviation, (moved - mean) / deviation, lines)

    def loss(self, model: nn.Module, batch: PixelBatch, label_smoothing: float) -> Loss:
        error = model(batch.read).float() - batch.asked
        return Loss(error.square().sum(), batch.count)

    def judge(self, model: nn.Module, examples: Sequence[LabelledImage], tick: Tick) -> dict[str, float]:
        return {}

    def rebuilt(self, model: nn.Module, images: Sequence[Pixels]) -> list[Pixels]:
        """Each image again."""
        mean, deviation = self.pixels
        found: list[Pixels] = []
        for start in range(0, len(images), AT_ONCE):
            read = as_tensor(images[start : start + AT_ONCE], self.pixels).to(device_of(model))
            numbers = (model(read).float().cpu() * deviation + mean).clamp(0, 1).permute(0, 2, 3, 1)
            found += list((numbers * 255).round().to(torch.uint8).numpy())
        return found

    def codes(self, model: nn.Module, examples: Sequence[LabelledImage]) -> Float[Tensor, "n E"]:
        network = cast(DenseAutoencoder | PatchAutoencoder, model)
        found = []
        for start in range(0, len(examples), AT_ONCE):
            part = [image.pixels for image in examples[start : start + AT_ONCE]]
            found.append(network.code(as_tensor(part, self.pixels).to(device_of(model))).cpu())
        return torch.cat(found)

    def keep(self, model: nn.Module, examples: Sequence[LabelledImage]) -> Kept:
        most = max(1, min(MOST_KEPT, MOST_BYTES // math.prod(self.shape)))
        chosen = [examples[i] for i in evenly(len(examples), most)]
        images = torch.from_numpy(np.stack([image.pixels for image in chosen]))
        return Kept(self.codes(model, chosen), [image.line for image in chosen], [], images)

    def describe(self) -> str:
        return describe_shape(self.shape)
