"""Image autoencoder: compress an image into one small vector, and reconstruct it (lecture 004)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.images import LabelledImage, Pixels, describe_shape
from saccade.errors import DivergedError
from saccade.models.autoencoder import (
    DenseAutoencoder,
    DenseAutoencoderConfig,
    PatchAutoencoder,
    PatchAutoencoderConfig,
)
from saccade.tasks.base.image_augmentation import ImageSettings, augment
from saccade.tasks.base.image_task import ImageState, Spread, check_shape, measure_images
from saccade.tasks.base.neighbours import AT_ONCE, MOST_BYTES, MOST_SAVED, NeighbourIndex, evenly_spaced
from saccade.tasks.base.settings import ImageTraining
from saccade.tasks.base.task import Batch, CheckCancelled, Loss, Network, Probe, ReadFile, ScoredTask, device_of

__all__ = ["ImageAutoencoder", "ImageAutoencoderState"]


@dataclass(frozen=True)
class ImageAutoencoderBatch(Batch):
    """The input images, which may have noise, and the images to reconstruct."""

    read: Float[Tensor, "B C H W"]
    target: Float[Tensor, "B C H W"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return self.target.numel()


@dataclass(frozen=True)
class ImageAutoencoderState(ImageState):
    """The shape, mean and standard deviation of the training images and, after training, some of these images with
    their codes, among which the nearest neighbours of an input are found."""

    shape: tuple[int, int, int]
    pixels: Spread
    index: NeighbourIndex = field(default_factory=NeighbourIndex)

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledImage], tokenizer: Any = None) -> Self:
        return cls(*measure_images(train))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(*cls.load_images(description), NeighbourIndex.load(description, read, where))

    def description(self) -> dict[str, Any]:
        return {"neighbours": len(self.index.lines), **super().description()}

    def files(self) -> dict[str, bytes]:
        return self.index.files()


def _build(config: DenseAutoencoderConfig | PatchAutoencoderConfig, state: ImageAutoencoderState) -> nn.Module:
    state.check_size(config)
    return PatchAutoencoder(config) if isinstance(config, PatchAutoencoderConfig) else DenseAutoencoder(config)


class ImageAutoencoder(ScoredTask):
    """Trains with the mean squared error of the pixels, as a fraction of their variance."""

    name = "image-autoencoder"
    about = "compresses an image into one small vector and reconstructs it"
    metrics = ("loss",)
    state_class = ImageAutoencoderState
    tables: ClassVar = {"images": ImageSettings, "training": ImageTraining}
    networks: ClassVar = {
        "dense": Network(DenseAutoencoderConfig, _build),
        "patches": Network(PatchAutoencoderConfig, _build),
    }
    evaluation_size = AT_ONCE

    state: ImageAutoencoderState
    training: ImageTraining

    def encode(self, examples: Sequence[LabelledImage]) -> list[LabelledImage]:
        for image in examples:
            check_shape(image.pixels, self.state.shape, image.where)
        return list(examples)

    def lengths(self, examples: Sequence[LabelledImage]) -> Int[np.ndarray, "n 1"]:
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[LabelledImage]) -> ImageAutoencoderBatch:
        """Return a batch to train on. Noise and erased parts are only in the input, so that the model learns to undo
        them; other random changes, such as shifts, are in the image to reconstruct too."""
        plain = self.plain_batch(examples)
        changes: ImageSettings = self.settings["images"]
        mean, deviation = self.state.spread
        moved = augment(plain.target * deviation + mean, changes.model_copy(update={"noise": 0.0, "erase": 0.0}))
        hidden = augment(moved, ImageSettings(noise=changes.noise, erase=changes.erase))
        return replace(plain, read=(hidden - mean) / deviation, target=(moved - mean) / deviation)

    def plain_batch(self, examples: Sequence[LabelledImage]) -> ImageAutoencoderBatch:
        plain = self.state.normalise([image.pixels for image in examples])
        return ImageAutoencoderBatch(plain, plain, [image.line for image in examples])

    def loss(self, model: nn.Module, batch: ImageAutoencoderBatch) -> Loss:
        error = model(batch.read).float() - batch.target
        return Loss(error.square().sum(), batch.count)

    def scores(
        self, model: nn.Module, examples: Sequence[LabelledImage], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        return {"loss": self.mean_loss(model, examples, batch_size, check_cancelled)}

    def reconstruct(self, model: nn.Module, images: Sequence[Pixels]) -> list[Pixels]:
        """Reconstruct each image."""
        mean, deviation = self.state.spread
        found: list[Pixels] = []
        for read in self._batches(model, images):
            numbers = (model(read).float().cpu() * deviation + mean).permute(0, 2, 3, 1)
            if bool(numbers.isnan().any()):
                raise DivergedError.of_answer()
            found += list((numbers.clamp(0, 1) * 255).round().to(torch.uint8).numpy())
        return found

    def codes(self, model: nn.Module, images: Sequence[Pixels]) -> Float[Tensor, "n E"]:
        """Return the code of each image: the small vector that the network compresses it into."""
        network = cast(DenseAutoencoder | PatchAutoencoder, model)
        return torch.cat([network.code(read).cpu() for read in self._batches(model, images)])

    def _batches(self, model: nn.Module, images: Sequence[Pixels]) -> Iterator[Float[Tensor, "B C H W"]]:
        for start in range(0, len(images), AT_ONCE):
            yield self.state.normalise(images[start : start + AT_ONCE]).to(device_of(model))

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: LabelledImage) -> Probe:
        code = self.codes(model, [example.pixels])[0].tolist()
        return Probe([], [], " ".join(f"{number:+.2f}" for number in code), [])

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[LabelledImage]) -> ImageAutoencoderState:
        """Return the state with some training images and their codes, among which the nearest neighbours of later
        inputs are found."""
        most = max(1, min(MOST_SAVED, MOST_BYTES // math.prod(self.state.shape)))
        chosen = [examples[i] for i in evenly_spaced(len(examples), most)]
        pixels = [image.pixels for image in chosen]
        images = torch.from_numpy(np.stack(pixels))
        index = NeighbourIndex(self.codes(model, pixels), [image.line for image in chosen], [], images)
        return replace(self.state, index=index)

    def facts(self) -> list[str]:
        return [
            f"images: {describe_shape(self.state.shape)}",
            "score: `loss` is the fraction of variance that is lost",
            f"{len(self.state.index.lines):,} training images are saved with their codes (neighbours.*)",
        ]
