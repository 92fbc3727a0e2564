"""The Vision Transformer, which treats an image as a sequence of patches (ViT, Dosovitskiy 2021)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.errors import ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.layers import Activation
from saccade.models.transformer_config import (
    OF_DECODER,
    OF_WORD_INPUT,
    OF_WORD_OUTPUT,
    PositionKind,
    TransformerConfig,
)
from saccade.models.transformer_layers import Block, encoder_masks, final_norm, position_table, run_blocks

__all__ = ["VisionConfig", "VisionEncoder", "VisionTransformer"]


class VisionConfig(TransformerConfig):
    """The settings of a Transformer over the patches of an image."""

    #: The image determines the number of positions, and blocks never share their weights.
    unused = OF_DECODER | OF_WORD_INPUT | OF_WORD_OUTPUT | {"max_length", "shared_layers"}

    image_size: tuple[int, int] = Field((28, 28), description="Height and width in pixels")
    channels: int = Field(1, ge=1, description="1 for grey images, 3 for colour")
    patch: int = Field(4, ge=1, description="Side of a patch in pixels; must divide both sides of the image")
    stem: Literal["patch", "convolution"] = Field(
        "patch", description="How a patch becomes a vector: patch (one projection) or convolution (several small ones)"
    )
    stem_layers: int = Field(
        1,
        ge=1,
        description="For stem = convolution: number of 3×3 convolutions at each size of the image; the first halves it",
    )
    stem_norm: bool = Field(
        False, description="For stem = convolution: normalise the feature maps of each image after every convolution"
    )
    pooling: Literal["class", "mean"] = Field(
        "class", description="Read the result from a class token (class), or from the mean of all patches (mean)"
    )
    distillation: Literal["none", "token", "output"] = Field(
        "none",
        description="A second token after the class token (DeiT): none; token, which only takes part in attention; or "
        "output, whose own output layer is averaged with that of the class token",
    )
    activation: Activation = Field(
        "gelu", description="Activation of the feed-forward layer: relu, gelu, gelu_tanh or silu"
    )
    position: PositionKind = Field(
        "learned",
        description="How positions are encoded: none, linear, sinusoidal, learned, rotary, alibi or relative",
    )
    tied_output: bool = Field(False, description="Use the word embedding as the output layer")

    @model_validator(mode="after")
    def _patches_fit(self) -> VisionConfig:
        if any(side < self.patch or side % self.patch for side in self.image_size):
            raise ValueError(f"patches of {self.patch} pixels do not divide an image of {self.image_size}")
        if self.stem == "convolution" and (self.patch < 2 or self.patch & (self.patch - 1)):
            raise ValueError(f"each convolution halves the image, so patch must be 2, 4, 8, ..., not {self.patch}")
        if self.stem == "patch" and (self.stem_layers > 1 or self.stem_norm):
            raise ValueError('stem_layers and stem_norm need stem = "convolution"')
        if self.distillation != "none" and self.pooling != "class":
            raise ValueError('distillation needs pooling = "class"')
        return self

    @property
    def leading_tokens(self) -> int:
        """The number of tokens before the patches: a class token and a distillation token, if the model has them."""
        return int(self.pooling == "class") + int(self.distillation != "none")

    @property
    def grid(self) -> tuple[int, int]:
        """The number of rows and columns of patches."""
        return self.image_size[0] // self.patch, self.image_size[1] // self.patch


class VisionEncoder(nn.Module):
    """Turns an image into vectors: it projects patches, adds a class token if configured and positions, and runs
    Transformer blocks."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width - config.position_width
        self.patches = _patch_layer(config, width)
        has_class = config.pooling == "class"
        self.class_token = nn.Parameter(torch.zeros(1, 1, width)) if has_class else None
        self.distillation_token = nn.Parameter(torch.zeros(1, 1, width)) if config.distillation != "none" else None
        rows, columns = config.grid
        length = rows * columns + config.leading_tokens
        self.positions = position_table(config.model_copy(update={"max_length": length}))
        self.encoder = nn.ModuleList(Block(config) for _ in range(config.encoder_layers))
        self.encoder_norm = final_norm(config)

    def encode(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        """A vector for the class token and one for the distillation token, if the model has them, then one for each
        patch, row by row."""
        expected = (self.config.channels, *self.config.image_size)
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            sizes = ", ".join(str(size) for size in expected)
            raise ShapeError(
                f"This model takes images of shape (B, C, H, W) = (B, {sizes}); got {tuple(images.shape)}."
            )
        x = self.patches(images).flatten(2).transpose(1, 2)
        first = [
            token.expand(x.shape[0], -1, -1)
            for token in (self.class_token, self.distillation_token)
            if token is not None
        ]
        x = torch.cat([*first, x], dim=1)
        if self.positions is not None:
            x = self.positions(x)
        x = dropout(x, self.config.dropout, self.training)
        return run_blocks(self.encoder, self.encoder_norm, x, encoder_masks(self.config, None))


class VisionTransformer(VisionEncoder):
    """Returns a logit for each class of an image, from the class token's vector or the mean of the patches' vectors."""

    def __init__(self, config: VisionConfig, classes: int) -> None:
        super().__init__(config)
        self.output = nn.Linear(config.width, classes)
        self.distilled_output = nn.Linear(config.width, classes) if config.distillation == "output" else None

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        """The same as ``encode``, under the name that all networks use for the input of their output layer."""
        return self.encode(images)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B classes"]:
        features = self.features(images)
        pooled = features[:, 0] if self.class_token is not None else features.mean(dim=1)
        logits: Tensor = self.output(pooled)
        return logits if self.distilled_output is None else (logits + self.distilled_output(features[:, 1])) / 2


def _patch_layer(config: VisionConfig, width: int) -> nn.Module:
    """The layer that turns pixels into one vector per patch.

    "patch" projects each patch once (Dosovitskiy 2021). "convolution" halves the image with 3×3 convolutions until each
    pixel stands for a patch; they also see across its edges, which works better with few images (Xiao 2021).
    """
    if config.stem == "patch":
        return nn.Conv2d(config.channels, width, config.patch, stride=config.patch)
    halvings = config.patch.bit_length() - 1
    channels = [config.channels, *(max(1, width >> (halvings - 1 - step)) for step in range(halvings))]
    layers: list[nn.Module] = []
    for below, above in pairwise(channels):
        for given, stride in [(below, 2), *[(above, 1)] * (config.stem_layers - 1)]:
            layers.append(nn.Conv2d(given, above, 3, stride=stride, padding=1))
            layers += [nn.GroupNorm(1, above)] if config.stem_norm else []
            layers.append(nn.GELU())
    return nn.Sequential(*layers, nn.Conv2d(width, width, 1))
