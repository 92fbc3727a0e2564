"""Image classification: assign a class to each image, with attention over its patches (ViT; lecture 002), or with
convolutions alone (ConvNet)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.attention import watch
from saccade.data.images import LabelledImage, Pixels, describe_shape
from saccade.data.labels import note_unseen
from saccade.lens.view import View, view
from saccade.models import VisionConfig, VisionTransformer
from saccade.models.convnet import ConvNet, ConvNetConfig
from saccade.pretrained import Pretrained
from saccade.tasks.base.image_augmentation import ImageSettings
from saccade.tasks.base.image_task import ImageState, Spread, check_shape, measure_images, patch_names, token_names
from saccade.tasks.base.label_scores import UNSEEN
from saccade.tasks.base.label_task import LabelPredictions, LabelTask, label_fact
from saccade.tasks.base.settings import ImageTraining
from saccade.tasks.base.task import Batch, Network, Probe, ReadFile, device_of
from saccade.text import ForeignTokenizer

__all__ = ["EncodedImage", "ImageBatch", "Images", "ImagesState", "ImagesTraining", "patch_flow", "view_image"]


@dataclass(frozen=True)
class EncodedImage:
    """An image and the index of its class."""

    pixels: Pixels
    label: int  # UNSEEN if no training image has its class
    image: LabelledImage | None = None  # what was read, if it has a label


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Normalised images, and their classes."""

    images: Float[Tensor, "B C H W"]
    labels: Int[Tensor, " B"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.labels)


class ImagesTraining(ImageTraining):
    """How the model is trained."""

    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the target probability spread over all other classes"
    )


@dataclass(frozen=True)
class ImagesState(ImageState):
    """The classes, and the shape, mean and standard deviation of the training images."""

    labels: list[str]
    shape: tuple[int, int, int]
    pixels: Spread

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledImage], tokenizer: Any = None) -> Self:
        return cls(_labels(train), *measure_images(train))

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer | None) -> Self:
        config, found = cast(VisionConfig, model.config), model.preparation
        assert found is not None
        return cls(model.labels, (*config.image_size, config.channels), (found.mean, found.deviation))

    def continued(self, settings: Mapping[str, Any], train: Sequence[LabelledImage]) -> Self:
        labels = _labels(train)
        return self if set(labels) <= set(self.labels) else replace(self, labels=labels)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(description["classes"], *cls.load_images(description))

    def description(self) -> dict[str, Any]:
        return {"classes": self.labels, **super().description()}


def _build(config: VisionConfig, state: ImagesState) -> nn.Module:
    state.check_size(config)
    return VisionTransformer(config, len(state.labels))


def _build_convnet(config: ConvNetConfig, state: ImagesState) -> nn.Module:
    state.check_size(config)
    return ConvNet(config, len(state.labels))


class Images(LabelTask):
    """Assigns a class to each image."""

    name = "images"
    about = "assigns a class to an image"
    metrics = ("accuracy", "f1", "loss")
    state_class = ImagesState
    tables: ClassVar = {"images": ImageSettings, "training": ImagesTraining}
    networks: ClassVar = {
        "transformer": Network(VisionConfig, _build),
        "convolutional": Network(ConvNetConfig, _build_convnet),
    }
    model_defaults: ClassVar = {"transformer": {"encoder_layers": 4, "width": 96, "feedforward_width": 192}}
    evaluation_size = 256
    counted = "images"

    state: ImagesState
    training: ImagesTraining

    def encode(self, examples: Sequence[LabelledImage]) -> list[EncodedImage]:
        for image in examples:
            check_shape(image.pixels, self.state.shape, image.where)
        note_unseen(examples, self.labels)  # raises an error if most classes are unknown
        return [EncodedImage(image.pixels, self.label_ids.get(image.label, UNSEEN), image) for image in examples]

    def lengths(self, examples: Sequence[EncodedImage]) -> Int[np.ndarray, "n 1"]:
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        """Return a batch to train on, with randomly changed images."""
        plain = self.plain_batch(examples)
        return replace(plain, images=self.state.augment(plain.images, self.settings["images"]))

    def plain_batch(self, examples: Sequence[EncodedImage]) -> ImageBatch:
        images = self.state.normalise([image.pixels for image in examples])
        labels = torch.tensor([image.label for image in examples])
        return ImageBatch(images, labels, [one.image.line for one in examples if one.image])

    def logits(self, model: nn.Module, batch: ImageBatch) -> Float[Tensor, "B L"]:
        scores: Tensor = model(batch.images)
        return scores.float()

    def gold(self, example: EncodedImage) -> Sequence[str]:
        assert example.image is not None
        return (example.image.label,)

    def notes(self, examples: Sequence[EncodedImage]) -> list[str]:
        return note_unseen([one.image for one in examples if one.image is not None], self.labels)

    def percentages(self, predictions: LabelPredictions, examples: Sequence[EncodedImage]) -> dict[str, float]:
        return {"accuracy": predictions.accuracy, "f1": predictions.macro_f1}

    def more_scores(self, predictions: LabelPredictions, examples: Sequence[EncodedImage]) -> dict[str, float]:
        return {"loss": predictions.loss}

    def probe(self, model: nn.Module, example: EncodedImage) -> Probe:
        (found,) = self.probabilities(model, [example])
        label = self.labels[int(found.argmax())]
        if not isinstance(model.config, VisionConfig):
            return Probe([], [label], label, [])
        config = model.config
        flow = patch_flow(view_image(model, self.state.normalise([example.pixels])), config)
        return Probe(patch_names(config), [label], label, [[round(weight, 4) for weight in flow.flatten().tolist()]])

    def source_and_truth(self, example: EncodedImage) -> tuple[str, str]:
        return "", self.gold(example)[0]

    def facts(self) -> list[str]:
        return [
            f"images: {describe_shape(self.state.shape)}",
            label_fact(self.labels),
            "scores: `accuracy`, and `f1`, the mean F1 of all classes; both in percent",
        ]


def _labels(images: Sequence[LabelledImage]) -> list[str]:
    return sorted({image.label for image in images}, key=_by_number)


def _by_number(label: str) -> tuple[int, int, str]:
    """Return a sort key: whole numbers in numerical order, then names in alphabetical order."""
    return (0, int(label), label) if label.isascii() and label.isdigit() and len(label) < 10 else (1, 0, label)


# --- what the model looked at ------------------------------------------------------------------------------


@torch.inference_mode()
def view_image(model: nn.Module, image: Float[Tensor, "1 C H W"]) -> View:
    """Return the weights of every attention while the model reads one image."""
    with watch(model) as seen:
        model(image.to(device_of(model)))
    return view(seen, token_names(cast(VisionConfig, model.config)))


def patch_flow(seen: View, config: VisionConfig) -> Float[Tensor, "rows columns"]:
    """Return how much each patch contributes to the answer: the attention rollout over all layers (Abnar & Zuidema
    2020), from the class token or, if the answer is computed from the mean of all patches, from this mean."""
    flow = seen.rollout()
    first = config.leading_tokens
    answering = {"none": min(first, 1), "token": 1, "output": 2}[config.distillation]  # tokens with an output layer
    reached = flow[: answering or None].mean(dim=0)
    return reached[first:].view(config.grid)
