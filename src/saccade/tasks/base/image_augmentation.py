"""Augment training images with small random changes, so that a model learns to ignore such changes.

All random numbers come from torch's generator, whose state is saved in checkpoints, so a run that is interrupted and
resumed sees the same images as one that is not.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from saccade.models import Config

__all__ = ["ImageSettings", "augment"]

ImageTensor = Float[Tensor, "B C H W"]


class ImageSettings(Config):
    """How training images are changed at random; pixels are numbers from 0 to 1."""

    shift: int = Field(
        0, ge=0, description="Shift by up to this many pixels in each direction; the uncovered edge is black"
    )
    flip: bool = Field(False, description="Mirror half of the images, left to right")
    rotate: float = Field(0.0, ge=0, le=180, description="Rotate by up to this many degrees in either direction")
    zoom: float = Field(0.0, ge=0, lt=1, description="Enlarge or shrink by up to this fraction")
    contrast: float = Field(0.0, ge=0, lt=1, description="Brighten or darken by up to this fraction")
    erase: float = Field(0.0, ge=0, lt=1, description="Blacken a rectangle of up to this fraction of each side")
    noise: float = Field(0.0, ge=0, description="Standard deviation of the noise added to each pixel")


def augment(images: ImageTensor, settings: ImageSettings) -> ImageTensor:
    """Change each image at random, independently of the others."""
    if settings.rotate or settings.zoom:
        images = _rotate(images, settings.rotate, settings.zoom)
    if settings.shift:
        images = _shift(images, settings.shift)
    if settings.flip:
        images = torch.where(_random(images) < 0.5, images.flip(3), images)
    if settings.contrast:
        images = images * (1 + settings.contrast * (2 * _random(images) - 1))
    if settings.erase:
        images = _erase(images, settings.erase)
    if settings.noise:
        images = images + settings.noise * torch.randn_like(images)
    return images


def _random(images: ImageTensor) -> Float[Tensor, "B 1 1 1"]:
    """Return a random number from 0 to 1 for each image."""
    return torch.rand(len(images), 1, 1, 1, device=images.device)


def _rotate(images: ImageTensor, degrees: float, zoom: float) -> ImageTensor:
    """Rotate each image about its centre and scale it; areas outside the original image are black."""
    angle = (2 * _random(images) - 1).flatten() * math.radians(degrees)
    scale = 1 / (1 + zoom * (2 * _random(images) - 1).flatten())
    height, width = images.shape[2:]
    cos, sin, zero = scale * angle.cos(), scale * angle.sin(), torch.zeros_like(angle)
    # affine_grid scales both axes to the range from -1 to 1, so rotating a non-square image needs its aspect ratio.
    rows = torch.stack([cos, -sin * height / width, zero, sin * width / height, cos, zero], dim=1)
    grid = F.affine_grid(rows.view(-1, 2, 3), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def _shift(images: ImageTensor, most: int) -> ImageTensor:
    count, _, height, width = images.shape
    padded = F.pad(images, (most, most, most, most))
    first = torch.randint(2 * most + 1, (2, count, 1), device=images.device)
    rows = first[0] + torch.arange(height, device=images.device)
    columns = first[1] + torch.arange(width, device=images.device)
    image = torch.arange(count, device=images.device)[:, None, None]
    # Because index tensors are on both sides of the slice, the channels come last.
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def _erase(images: ImageTensor, share: float) -> ImageTensor:
    inside = torch.ones(len(images), 1, 1, 1, dtype=torch.bool, device=images.device)
    for axis, length in ((2, images.shape[2]), (3, images.shape[3])):
        size = _random(images) * share * length
        first = _random(images) * (length - size)
        places = torch.arange(length, device=images.device).view(-1, *([1] * (3 - axis)))
        inside = inside & (places >= first) & (places < first + size)
    return images.masked_fill(inside, 0.0)
