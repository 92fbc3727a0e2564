"""What the tasks with images share: their state, how pixels become tensors, and the names of patches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.images import Pixels, Shape, describe_shape
from saccade.errors import FileError, OptionError
from saccade.models import VisionConfig
from saccade.tasks.base.image_augmentation import ImageSettings, augment
from saccade.tasks.base.task import TaskState

__all__ = ["ImageState", "Spread", "check_shape", "measure_images", "patch_names", "suggest_patch", "token_names"]

#: The mean and the standard deviation of pixels, as numbers from 0 to 1: one number for all, or one for each channel.
Spread = tuple[float, float] | tuple[tuple[float, ...], tuple[float, ...]]

#: A good number of patches: enough to look at, and few enough to be fast.
USUAL_PATCHES = 36


class ImageState(TaskState):
    """The state of an image task: the shape of the training images, and the mean and standard deviation of pixels."""

    shape: Shape
    pixels: Spread

    @staticmethod
    def load_images(description: Mapping[str, Any]) -> tuple[Shape, Spread]:
        """Return the shape, and the mean and standard deviation of pixels, that ``description`` contains."""
        height, width, channels = description["shape"]
        mean, deviation = (tuple(one) if isinstance(one, list) else one for one in description["pixels"])
        return (height, width, channels), (mean, deviation)

    def description(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "pixels": list(self.pixels)}

    def check_size(self, config: Any) -> None:
        """Raise an error unless a network with this configuration takes images of the shape of the training images."""
        if (*config.image_size, config.channels) != self.shape:
            height, width, channels = self.shape
            raise OptionError(
                f"model.image_size = {list(config.image_size)} and model.channels = {config.channels}, but the images "
                f"are {describe_shape(self.shape)}; set image_size = [{height}, {width}] and channels = {channels}."
            )

    @property
    def spread(self) -> tuple[Float[Tensor, "#C 1 1"], Float[Tensor, "#C 1 1"]]:
        """The mean and the standard deviation of the pixels, for each channel or for all channels together."""
        mean, deviation = (torch.tensor(one).view(-1, 1, 1) for one in self.pixels)
        return mean, deviation

    def normalise(self, images: Sequence[Pixels]) -> Float[Tensor, "B C H W"]:
        """Convert images to tensors whose pixels have mean 0 and standard deviation 1 over the training images."""
        mean, deviation = self.spread
        numbers = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
        return ((numbers - mean) / deviation).contiguous()

    def augment(self, images: Float[Tensor, "B C H W"], settings: ImageSettings) -> Float[Tensor, "B C H W"]:
        """Return normalised images with the random changes that ``settings`` describes."""
        mean, deviation = self.spread
        return (augment(images * deviation + mean, settings) - mean) / deviation


def measure_images(images: Sequence[Any]) -> tuple[Shape, Spread]:
    """Return the shape of the images, and the mean and standard deviation of all their pixels."""
    count, total, squares = 0, 0.0, 0.0
    for image in images:
        values = image.pixels.astype(np.float64) / 255
        count, total, squares = count + values.size, total + values.sum(), squares + (values**2).sum()
    mean = total / count
    deviation = math.sqrt(max(0.0, squares / count - mean**2))
    return cast(Shape, images[0].pixels.shape), (round(float(mean), 6), round(float(deviation), 6) or 1.0)


def check_shape(pixels: Pixels, expected: Shape, where: str) -> None:
    """Raise an error unless an image has the shape that the model takes."""
    if pixels.shape != expected:
        raise FileError(f"{where} is {describe_shape(pixels.shape)}; this model takes {describe_shape(expected)}.")


def patch_names(config: VisionConfig) -> list[str]:
    """Return the name of each patch: its row and column, counting from 1."""
    rows, columns = config.grid
    return [f"{row},{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]


def token_names(config: VisionConfig) -> list[str]:
    """Return the names of all tokens of an image: the class and distillation tokens, if any, and the patches."""
    return [*("[CLASS]", "[DISTILLATION]")[: config.leading_tokens], *patch_names(config)]


def suggest_patch(height: int, width: int) -> int:
    """Return the patch size that divides an image into about USUAL_PATCHES patches."""
    common = math.gcd(height, width)
    sides = [side for side in range(1, common + 1) if common % side == 0]
    return min(sides, key=lambda side: abs(math.log(height * width / side**2 / USUAL_PATCHES)))
