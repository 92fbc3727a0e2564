"""Images: assign each to a class, by attention over its patches (ViT; lecture 002)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.images import LabelledImage, Pixels, describe_shape, unseen_classes
from saccade.errors import FileError, OptionError
from saccade.lens.view import View, view
from saccade.models import VisionConfig, VisionTransformer
from saccade.tasks.base.label_scores import UNSEEN
from saccade.tasks.base.label_task import Judged, LabelTask, label_fact
from saccade.tasks.base.settings import ImageTraining
from saccade.tasks.base.task import Batch, Network, Probe, ReadFile, State, device_of
from saccade.tasks.images.augment import ImageSettings, augment

__all__ = [
    "CLASS_TOKEN",
    "EncodedImage",
    "ImageBatch",
    "Images",
    "ImagesState",
    "ImagesTraining",
    "as_tensor",
    "check_image_size",
    "check_shape",
    "patch_flow",
    "patch_names",
    "spread",
    "watched",
]

CLASS_TOKEN = "[CLASS]"


@dataclass(frozen=True)
class EncodedImage:
    """An image and the index of its class."""

    pixels: Pixels
    label: int  # UNSEEN if no training image has its class
    image: LabelledImage | None = None  # what was read, if it has a label


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images as normalised numbers, and their classes."""

    images: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.labels)


class ImagesTraining(ImageTraining):
    """How the model is trained."""

    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Share of the target probability spread over all other classes"
    )


@dataclass(frozen=True)
class ImagesState(State):
    """The classes, and the shape, mean and standard deviation of the images that were trained on."""

    labels: list[str]
    shape: tuple[int, int, int]  # height, width, channels
    pixels: tuple[float, float]  # mean and standard deviation of numbers in 0..1

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledImage], tokenizer: Any = None) -> Self:
        labels = sorted({image.label for image in train}, key=_by_number)
        return cls(labels, cast(tuple[int, int, int], train[0].pixels.shape), spread(train))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        height, width, channels = description["shape"]
        mean, deviation = description["pixels"]
        return cls(description["classes"], (height, width, channels), (mean, deviation))

    def description(self) -> dict[str, Any]:
        return {"classes": self.labels, "shape": list(self.shape), "pixels": list(self.pixels)}


def _build(config: VisionConfig, state: ImagesState) -> nn.Module:
    check_image_size(config, state.shape)
    return VisionTransformer(config, len(state.labels))


def check_image_size(config: VisionConfig, shape: tuple[int, int, int]) -> None:
    if (*config.image_size, config.channels) != shape:
        raise OptionError(
            f"model.image_size = {list(config.image_size)} and model.channels = {config.channels}, but the images are "
            f"{describe_shape(shape)}: set image_size = [{shape[0]}, {shape[1]}] and channels = {shape[2]}."
        )


class Images(LabelTask):
    """A class for each image."""

    name = "images"
    about = "assigns a class to an image"
    metrics = ("accuracy", "f1", "loss")
    state_class = ImagesState
    tables: ClassVar = {"images": ImageSettings, "training": ImagesTraining}
    networks: ClassVar = {"transformer": Network(VisionConfig, _build)}
    model_defaults: ClassVar = {"transformer": {"encoder_layers": 4, "width": 96, "feedforward_width": 192}}
    at_once = 256
    counted = "images"

    state: ImagesState
    training: ImagesTraining

    def encode(self, examples: Sequence[LabelledImage]) -> list[EncodedImage]:
        for image in examples:
            check_shape(image.pixels, self.state.shape, image.where)
        unseen_classes(examples, self.labels)  # raises an error if most classes are unknown
        return [EncodedImage(image.pixels, self.label_ids.get(image.label, UNSEEN), image) for image in examples]

    def lengths(self, examples: Sequence[EncodedImage]) -> Int[np.ndarray, "n 1"]:
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        """Images to train on, randomly varied."""
        plain = self.plain_batch(examples)
        mean, deviation = self.state.pixels
        changed = augment(plain.images * deviation + mean, self.settings["images"])
        return replace(plain, images=(changed - mean) / deviation)

    def plain_batch(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        labels = torch.tensor([image.label for image in examples])
        pixels = [image.pixels for image in examples]
        return ImageBatch(
            as_tensor(pixels, self.state.pixels), labels, [one.image.line for one in examples if one.image]
        )

    def logits(self, model: nn.Module, batch: ImageBatch) -> Float[Tensor, "B L"]:
        scores: Tensor = model(batch.images)
        return scores.float()

    def gold(self, example: EncodedImage) -> Sequence[str]:
        assert example.image is not None
        return (example.image.label,)

    def notes(self, examples: Sequence[EncodedImage]) -> list[str]:
        return unseen_classes([one.image for one in examples if one.image is not None], self.labels)

    def scores(self, judged: Judged, examples: Sequence[EncodedImage]) -> dict[str, float]:
        return {"accuracy": judged.accuracy, "f1": judged.macro_f1}

    def more_scores(self, judged: Judged, examples: Sequence[EncodedImage]) -> dict[str, float]:
        return {"loss": judged.loss}

    def probe(self, model: nn.Module, example: EncodedImage) -> Probe:
        (found,) = self.probabilities(model, [example])
        label = self.labels[int(found.argmax())]
        config = cast(VisionConfig, model.config)
        flow = patch_flow(watched(model, as_tensor([example.pixels], self.state.pixels)), config)
        return Probe(patch_names(config), [label], label, [[round(weight, 4) for weight in flow.flatten().tolist()]])

    def source_and_truth(self, example: EncodedImage) -> tuple[str, str]:
        return "", self.gold(example)[0]

    def facts(self) -> list[str]:
        return [
            f"images: {describe_shape(self.state.shape)}",
            label_fact(self.labels),
            "scores: `accuracy` and `f1`, the mean F1 of all classes, in percent",
        ]


def _by_number(label: str) -> tuple[int, int, str]:
    """A sort key: whole numbers in numerical order, then names in alphabetical order."""
    return (0, int(label), label) if label.isascii() and label.isdigit() else (1, 0, label)


def spread(images: Sequence[Any]) -> tuple[float, float]:
    """The mean and standard deviation of all pixels, as numbers in 0..1."""
    count, total, squares = 0, 0.0, 0.0
    for image in images:
        values = image.pixels.astype(np.float64) / 255
        count, total, squares = count + values.size, total + values.sum(), squares + (values**2).sum()
    mean = total / count
    deviation = math.sqrt(max(0.0, squares / count - mean**2))
    return round(float(mean), 6), round(float(deviation), 6) or 1.0


def as_tensor(images: Sequence[Pixels], pixels: tuple[float, float]) -> Float[Tensor, "B C H W"]:
    """Bytes as numbers, normalised to mean 0 and standard deviation 1 over the training images."""
    mean, deviation = pixels
    numbers = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    return ((numbers - mean) / deviation).contiguous()


def check_shape(pixels: Pixels, expected: tuple[int, int, int], where: str) -> None:
    if pixels.shape != expected:
        raise FileError(f"{where} is {describe_shape(pixels.shape)}; this model takes {describe_shape(expected)}.")


# --- what it looked at -------------------------------------------------------------------------------------


def patch_names(config: VisionConfig) -> list[str]:
    """The name of each patch: its row and column, counting from 1."""
    rows, columns = config.grid
    return [f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]


@torch.inference_mode()
def watched(model: nn.Module, image: Float[Tensor, "1 C H W"]) -> View:
    """Every attention of the model as it looks at one image."""
    with watch(model) as seen:
        model(image.to(device_of(model)))
    config = cast(VisionConfig, model.config)
    return view(seen, [*([CLASS_TOKEN] if config.pooling == "class" else []), *patch_names(config)])


def patch_flow(seen: View, config: VisionConfig) -> Float[Tensor, "rows columns"]:
    """How much of each patch reaches the answer: the rollout of all layers (Abnar & Zuidema 2020), starting from the
    class token, or from the mean of all patches if the answer is computed from that."""
    flow = seen.rollout()
    first = int(config.pooling == "class")
    reached = flow[0] if first else flow.mean(dim=0)
    return reached[first:].view(config.grid)
