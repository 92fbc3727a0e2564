"""Image autoencoder: an image is compressed into one small vector and reconstructed (lecture 004)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.images import LabelledImage, Pixels, describe_shape
from saccade.models.autoencoder import (
    DenseAutoencoder,
    DenseAutoencoderConfig,
    PatchAutoencoder,
    PatchAutoencoderConfig,
)
from saccade.tasks.base.neighbours import AT_ONCE, MOST_BYTES, MOST_KEPT, Kept, evenly_spaced
from saccade.tasks.base.settings import ImageTraining
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Evaluation,
    Loss,
    Network,
    Probe,
    ReadFile,
    State,
    Task,
    device_of,
)
from saccade.tasks.images.augment import ImageSettings, augment
from saccade.tasks.images.task import as_tensor, check_image_size, check_shape, spread

__all__ = ["ImageAutoencoder", "ImageAutoencoderState"]


@dataclass(frozen=True)
class ImageAutoencoderBatch(Batch):
    """The input images, perhaps with noise, and the images to reconstruct."""

    read: Float[Tensor, "B C H W"]
    target: Float[Tensor, "B C H W"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return self.target.numel()


@dataclass(frozen=True)
class ImageAutoencoderState(State):
    """The images' shape, mean and standard deviation, and those saved with a trained model as neighbours."""

    shape: tuple[int, int, int]  # height, width, channels
    pixels: tuple[float, float]  # mean and standard deviation of numbers in 0..1
    kept: Kept | None = None

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledImage], tokenizer: Any = None) -> Self:
        return cls(cast(tuple[int, int, int], train[0].pixels.shape), spread(train))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        height, width, channels = description["shape"]
        mean, deviation = description["pixels"]
        return cls((height, width, channels), (mean, deviation), Kept.load(description, read, where))

    def description(self) -> dict[str, Any]:
        kept = 0 if self.kept is None else len(self.kept.lines)
        return {"neighbours": kept, "shape": list(self.shape), "pixels": list(self.pixels)}

    def files(self) -> dict[str, bytes]:
        return {} if self.kept is None else self.kept.files()


def _dense(config: DenseAutoencoderConfig, state: ImageAutoencoderState) -> nn.Module:
    check_image_size(cast(Any, config), state.shape)
    return DenseAutoencoder(config)


def _patches(config: PatchAutoencoderConfig, state: ImageAutoencoderState) -> nn.Module:
    check_image_size(config, state.shape)
    return PatchAutoencoder(config)


class ImageAutoencoder(Task):
    """The mean squared error of the pixels, as a share of their variance."""

    name = "image-autoencoder"
    about = "compresses an image into one small vector and reconstructs it"
    metrics = ("loss",)
    state_class = ImageAutoencoderState
    tables: ClassVar = {"images": ImageSettings, "training": ImageTraining}
    networks: ClassVar = {
        "dense": Network(DenseAutoencoderConfig, _dense),
        "patches": Network(PatchAutoencoderConfig, _patches),
    }

    state: ImageAutoencoderState
    training: ImageTraining

    def encode(self, examples: Sequence[LabelledImage]) -> list[LabelledImage]:
        for image in examples:
            check_shape(image.pixels, self.state.shape, image.where)
        return list(examples)

    def lengths(self, examples: Sequence[LabelledImage]) -> Int[np.ndarray, "n 1"]:
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[LabelledImage]) -> ImageAutoencoderBatch:
        """Images to train on. The model must reproduce changes that move the image, but not those that hide parts."""
        plain = self.plain_batch(examples)
        changes: ImageSettings = self.settings["images"]
        mean, deviation = self.state.pixels
        moved = augment(plain.target * deviation + mean, changes.model_copy(update={"noise": 0.0, "erase": 0.0}))
        hidden = augment(moved, ImageSettings(noise=changes.noise, erase=changes.erase))
        return replace(plain, read=(hidden - mean) / deviation, target=(moved - mean) / deviation)

    def plain_batch(self, examples: Sequence[LabelledImage]) -> ImageAutoencoderBatch:
        plain = as_tensor([image.pixels for image in examples], self.state.pixels)
        return ImageAutoencoderBatch(plain, plain, [image.line for image in examples])

    def loss(self, model: nn.Module, batch: ImageAutoencoderBatch) -> Loss:
        error = model(batch.read).float() - batch.target
        return Loss(error.square().sum(), batch.count)

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[LabelledImage], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        return {"loss": self.mean_loss(model, examples, self.training.batch_images, check_cancelled)}

    @torch.inference_mode()
    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[LabelledImage],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        return Evaluation({"loss": self.mean_loss(model, examples, AT_ONCE, check_cancelled)})

    def rebuilt(self, model: nn.Module, images: Sequence[Pixels]) -> list[Pixels]:
        """The reconstruction of each image."""
        mean, deviation = self.state.pixels
        found: list[Pixels] = []
        for start in range(0, len(images), AT_ONCE):
            read = as_tensor(images[start : start + AT_ONCE], self.state.pixels).to(device_of(model))
            numbers = (model(read).float().cpu() * deviation + mean).clamp(0, 1).permute(0, 2, 3, 1)
            found += list((numbers * 255).round().to(torch.uint8).numpy())
        return found

    def codes(self, model: nn.Module, images: Sequence[Pixels]) -> Float[Tensor, "n E"]:
        network = cast(DenseAutoencoder | PatchAutoencoder, model)
        found = []
        for start in range(0, len(images), AT_ONCE):
            part = as_tensor(images[start : start + AT_ONCE], self.state.pixels)
            found.append(network.code(part.to(device_of(model))).cpu())
        return torch.cat(found)

    @torch.inference_mode()
    def probe(self, model: nn.Module, example: LabelledImage) -> Probe:
        code = self.codes(model, [example.pixels])[0].tolist()
        return Probe([], [], " ".join(f"{number:+.2f}" for number in code), [])

    @torch.inference_mode()
    def finish(self, model: nn.Module, examples: Sequence[LabelledImage]) -> ImageAutoencoderState:
        """Save some training images with their codes, to show as neighbours of later inputs."""
        most = max(1, min(MOST_KEPT, MOST_BYTES // math.prod(self.state.shape)))
        chosen = [examples[i] for i in evenly_spaced(len(examples), most)]
        pixels = [image.pixels for image in chosen]
        images = torch.from_numpy(np.stack(pixels))
        kept = Kept(self.codes(model, pixels), [image.line for image in chosen], [], images)
        return replace(self.state, kept=kept)

    def facts(self) -> list[str]:
        kept = self.state.kept
        return [
            f"images: {describe_shape(self.state.shape)}",
            "score: `loss` is the share of variance that is lost",
            f"{0 if kept is None else len(kept.lines):,} training images are saved with their codes (neighbours.*)",
        ]
