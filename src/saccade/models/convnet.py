"""A convolutional network for images, as a baseline for the Vision Transformer, which lecture 002 calls "more expensive
than ConvNets".

A convolution has the same few weights at every position, and sees only the neighbours of a position:

    y[c, i, j] = b[c] + Σ_{c', u, v} W[c, c', u, v] · x[c', i + u, j + v],    u, v = -k … k

Each stage has two convolutions and then halves the image in height and width. In a ConvNet the weights are the same for
every image; the Vision Transformer computes its attention weights from the image.
"""

from __future__ import annotations

from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.errors import ShapeError
from saccade.models.config import Config
from saccade.models.convolutional import OddKernel

__all__ = ["ConvNet", "ConvNetConfig"]


class ConvNetConfig(Config):
    """The settings of a convolutional network for images."""

    image_size: tuple[int, int] = Field((28, 28), description="Height and width in pixels")
    channels: int = Field(1, ge=1, description="1 for grey images, 3 for colour")
    width: int = Field(16, ge=1, description="Feature maps in the first stage; each later stage has twice as many")
    stages: int = Field(3, ge=1, le=8, description="Number of stages; each has two convolutions, then halves the image")
    kernel: OddKernel = Field(3, ge=1, description="Side of a convolution in pixels; must be odd")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the output layer")

    @model_validator(mode="after")
    def _image_is_large_enough(self) -> ConvNetConfig:
        if min(self.image_size) < 2**self.stages:
            raise ValueError(f"{self.stages} stages halve an image of {self.image_size} to less than one pixel")
        return self


class ConvNet(nn.Module):
    """Returns a logit for each class of an image: convolutions, the mean of each feature map, and a linear layer."""

    def __init__(self, config: ConvNetConfig, classes: int) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = []
        below = config.channels
        for stage in range(config.stages):
            above = config.width << stage
            layers += [*_convolution(below, above, config.kernel), *_convolution(above, above, config.kernel)]
            layers.append(nn.MaxPool2d(2))
            below = above
        self.stages = nn.Sequential(*layers)
        self.drop = nn.Dropout(config.dropout)
        self.output = nn.Linear(below, classes)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """For each image, the mean of each feature map of the last stage."""
        expected = (self.config.channels, *self.config.image_size)
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            sizes = ", ".join(str(size) for size in expected)
            raise ShapeError(
                f"This model takes images of shape (B, C, H, W) = (B, {sizes}); got {tuple(images.shape)}."
            )
        maps: Tensor = self.stages(images)
        return maps.mean(dim=(2, 3))

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        logits: Tensor = self.output(self.drop(self.features(images)))
        return logits


def _convolution(below: int, above: int, kernel: int) -> list[nn.Module]:
    """A convolution that keeps the size of the image. Each image is normalised separately from its batch."""
    return [nn.Conv2d(below, above, kernel, padding=kernel // 2), nn.GroupNorm(1, above), nn.ReLU()]
