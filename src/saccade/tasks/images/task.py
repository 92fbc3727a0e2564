"""Images: which class each belongs to, by attention over its patches (ViT; 002 of the lectures)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.images import LabelledImage, Pixels, describe_shape
from saccade.errors import FileError, OptionError
from saccade.lens.view import View, view
from saccade.models import VisionConfig, VisionTransformer
from saccade.tasks.base.label_report import confusion_figure, confusion_lines, label_lines
from saccade.tasks.base.label_scores import accuracy, confusion, label_scores, macro_f1
from saccade.tasks.base.task import Batch, Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.images.augment import ImageSettings, augment
from saccade.tasks.images.data import ImageData, data_table, fitted, read_given, read_splits

__all__ = [
    "CLASS_TOKEN",
    "EncodedImage",
    "ImageBatch",
    "Images",
    "as_tensor",
    "build_vision",
    "check_image_size",
    "check_shape",
    "patch_flow",
    "patch_names",
    "spread",
    "watched",
]

#: Images that are answered at once.
AT_ONCE = 256
CLASS_TOKEN = "[CLASS]"


@dataclass(frozen=True)
class EncodedImage:
    """An image and the number of its class."""

    pixels: Pixels
    label: int
    line: int


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images as numbers about 0, and their classes."""

    images: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.labels)


def build_vision(config: VisionConfig, task: Any) -> nn.Module:
    """A Vision Transformer for the task's images and classes."""
    check_image_size(config, task.shape)
    return VisionTransformer(config, len(task.classes))


def check_image_size(config: VisionConfig, shape: tuple[int, int, int]) -> None:
    if (*config.image_size, config.channels) != shape:
        raise OptionError(
            f"model.image_size = {list(config.image_size)} and model.channels = {config.channels}, but the images are "
            f"{describe_shape(shape)}: set image_size = [{shape[0]}, {shape[1]}] and channels = {shape[2]}."
        )


class Images(Task):
    """The task with its classes, and the mean and standard deviation of the pixels it was trained on."""

    name = "images"
    about = "an image gets a class"
    metrics = ("accuracy", "f1", "loss")
    settings: ClassVar = {"data": ImageData, "images": ImageSettings}
    read_as = ("classes",)
    networks: ClassVar = {"transformer": Network(VisionConfig, build_vision)}
    model_defaults: ClassVar = {"transformer": {"encoder_layers": 4, "width": 96, "feedforward_width": 192}}
    training_defaults: ClassVar = {"batch_tokens": 64, "validation_sentences": 10_000}

    def __init__(
        self,
        classes: Sequence[str],
        shape: tuple[int, int, int],
        pixels: tuple[float, float],
        *,
        metric: str = "accuracy",
        changes: ImageSettings | None = None,
    ) -> None:
        self.check_metric(metric)
        self.classes = list(classes)
        self.shape = shape  # height, width, channels
        self.pixels = pixels  # mean and standard deviation of numbers in 0..1
        self.metric = metric
        self.changes = changes or ImageSettings()

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return data_table(files, columns)

    @classmethod
    def read(cls, data: ImageData, seed: int) -> Splits[LabelledImage]:
        return read_splits(data, seed)

    @classmethod
    def read_given(cls, data: ImageData) -> list[LabelledImage]:
        return read_given(data)

    @classmethod
    def fitted(cls, splits: Splits[LabelledImage]) -> dict[str, Any]:
        return fitted(splits)

    @classmethod
    def identity(cls, example: LabelledImage) -> bytes:
        return f"{example.source}\t{example.label}\n".encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledImage], metric: str = "accuracy") -> Self:
        classes = sorted({image.label for image in train}, key=_by_number)
        shape = cast(tuple[int, int, int], train[0].pixels.shape)
        return cls(classes, shape, spread(train), metric=metric, changes=settings["images"])

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        height, width, channels = description["shape"]
        mean, deviation = description["pixels"]
        return cls(description["classes"], (height, width, channels), (mean, deviation), metric=description["metric"])

    def description(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "classes": self.classes,
            "shape": list(self.shape),
            "pixels": list(self.pixels),
        }

    def files(self) -> dict[str, bytes]:
        return {}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.changes = settings["images"]
        return chosen

    # --- training ---

    def encode(self, examples: Sequence[LabelledImage]) -> list[EncodedImage]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        encoded = []
        for image in examples:
            check_shape(image.pixels, self.shape, image.where)
            if image.label not in numbers:
                raise FileError(
                    f"{image.where} has the label {image.label!r}, which no training image has; expected one of "
                    f"{', '.join(self.classes[:20])}{', ...' if len(self.classes) > 20 else ''}."
                )
            encoded.append(EncodedImage(image.pixels, numbers[image.label], image.line))
        return encoded

    def lengths(self, examples: Sequence[EncodedImage]) -> Int[np.ndarray, "n 1"]:
        """An image counts as one, so that ``batch_tokens`` is the number of images in a batch."""
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        """Images to train on, each changed a little."""
        plain = self.plain(examples)
        mean, deviation = self.pixels
        changed = augment(plain.images * deviation + mean, self.changes)
        return replace(plain, images=(changed - mean) / deviation)

    def plain(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        """Images as they are."""
        labels = torch.tensor([image.label for image in examples])
        pixels = [image.pixels for image in examples]
        return ImageBatch(as_tensor(pixels, self.pixels), labels, [image.line for image in examples])

    def loss(self, model: nn.Module, batch: ImageBatch, label_smoothing: float) -> Loss:
        logits = model(batch.images).float()
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=label_smoothing)
        return Loss(total, batch.count)

    def validate(
        self, model: nn.Module, examples: Sequence[EncodedImage], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        """On all images: no search makes them slow."""
        scores, _ = self._score(model, examples, tick)
        return scores

    def evaluate(self, model: nn.Module, examples: Sequence[EncodedImage], options: Any, *, tick: Tick) -> Evaluation:
        scores, table = self._score(model, examples, tick)
        lines = label_lines(label_scores(table, self.classes)) + confusion_lines(table, self.classes)
        return Evaluation(scores, {}, lines, {"confusion": partial(confusion_figure, table, self.classes)})

    def _score(
        self, model: nn.Module, examples: Sequence[EncodedImage], tick: Tick
    ) -> tuple[dict[str, float], Int[np.ndarray, "L L"]]:
        labels = torch.tensor([image.label for image in examples])
        logits = torch.cat(list(self.answers(model, [image.pixels for image in examples], tick)))
        total = float(F.cross_entropy(logits, labels))
        table = confusion(labels.tolist(), logits.argmax(dim=1).tolist(), len(self.classes))
        if not math.isfinite(total):  # a network of NaN finds nothing
            return dict.fromkeys(self.metrics, math.nan), table
        f1 = macro_f1(label_scores(table, self.classes))
        return {"accuracy": 100 * accuracy(table), "f1": 100 * f1, "loss": total}, table

    @torch.inference_mode()
    def answers(
        self, model: nn.Module, images: Sequence[Pixels], tick: Tick = lambda: None
    ) -> Iterator[Float[Tensor, "B L"]]:
        """The logits of the classes, some images at a time."""
        for start in range(0, len(images), AT_ONCE):
            tick()
            part = as_tensor(images[start : start + AT_ONCE], self.pixels)
            yield model(part.to(device_of(model))).float().cpu()

    def probe(self, model: nn.Module, example: EncodedImage) -> Probe:
        seen = watched(model, as_tensor([example.pixels], self.pixels))
        (logits,) = self.answers(model, [example.pixels])
        found = self.classes[int(logits.argmax())]
        config = cast(VisionConfig, model.config)
        flow = patch_flow(seen, config)
        return Probe(patch_names(config), [found], found, [[round(weight, 4) for weight in flow.flatten().tolist()]])

    def facts(self) -> list[str]:
        shown = ", ".join(self.classes[:20]) + (", ..." if len(self.classes) > 20 else "")
        return [
            f"images: {describe_shape(self.shape)}",
            f"classes: {len(self.classes)} ({shown})",
            "scores: `accuracy` and `f1`, the mean F1 of all classes, in percent",
        ]


def _by_number(label: str) -> tuple[int, int, str]:
    """Whole numbers in their order, then names in theirs."""
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
    """Bytes to numbers with mean 0 and standard deviation 1 over the training images."""
    mean, deviation = pixels
    numbers = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    return ((numbers - mean) / deviation).contiguous()


def check_shape(pixels: Pixels, expected: tuple[int, int, int], where: str) -> None:
    if pixels.shape != expected:
        raise FileError(f"{where} is {describe_shape(pixels.shape)}; this model takes {describe_shape(expected)}.")


# --- what it looked at -------------------------------------------------------------------------------------


def patch_names(config: VisionConfig) -> list[str]:
    """Each patch by its row and column, counted from 1."""
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
    """How much of each patch reaches the answer: the rollout of all layers (Abnar & Zuidema 2020), from the class
    token, or from the mean of all patches where that is what the answer is read from."""
    flow = seen.rollout()
    first = int(config.pooling == "class")
    reached = flow[0] if first else flow.mean(dim=0)
    return reached[first:].view(config.grid)
