"""Autoencoders (lecture 004) compress a text or an image into one small vector, the code, and reconstruct it.

    code = encode(x),   x' = decode(code),   trained so that x' equals x

In translation, attention was introduced to remove such a bottleneck; here the bottleneck is the purpose, because the
code has to describe the whole of x. If noise is added to the input x but not to the target, the network is a denoising
autoencoder (Vincent 2008).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.kernels.dropout import dropout
from saccade.models.classifier import AttentionPooling
from saccade.models.config import Config
from saccade.models.recurrent import CELL_CHOICE, RecurrentConfig, RecurrentSeq2Seq, RecurrentSeq2SeqState
from saccade.models.state import TransformerState
from saccade.models.transformer import EncoderDecoder
from saccade.models.transformer_config import EncoderDecoderConfig
from saccade.models.transformer_layers import Block, encoder_masks, final_norm, run_blocks
from saccade.models.vit import VisionConfig, VisionEncoder

__all__ = [
    "DenseAutoencoder",
    "DenseAutoencoderConfig",
    "PatchAutoencoder",
    "PatchAutoencoderConfig",
    "RecurrentAutoencoder",
    "RecurrentAutoencoderConfig",
    "TransformerAutoencoder",
    "TransformerAutoencoderConfig",
]


# --- text --------------------------------------------------------------------------------------------------


class RecurrentAutoencoderConfig(Config):
    """A recurrent network that reads a text, and another that reconstructs it."""

    cell: str = Field("lstm", description=CELL_CHOICE)
    width: int = Field(256, ge=1, description="Width of the decoder's state and of each direction of the encoder")
    embedding_width: int = Field(128, ge=1, description="Width of a word's embedding")
    encoder_layers: int = Field(1, ge=1, description="Number of encoder layers, which read the text")
    decoder_layers: int = Field(1, ge=1, description="Number of decoder layers, which reconstruct the text")
    bidirectional: bool = Field(True, description="Let the encoder read in both directions")
    code_width: int = Field(32, ge=1, description="Width of the code, the small vector in the middle")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on embeddings, between layers and before the output layer"
    )
    tied_output: bool = Field(False, description="Use the target embedding as the output layer")


class RecurrentAutoencoder(RecurrentSeq2Seq):
    """A recurrent autoencoder of texts.

    The code is computed from the encoder's last state, and the decoder's first state and context from the code alone.
    """

    def __init__(self, config: RecurrentAutoencoderConfig, vocabulary: int) -> None:
        shape = config.model_dump(exclude={"code_width"})
        super().__init__(RecurrentConfig(attention="none", **shape), vocabulary, vocabulary)
        width = self.encoder.output_width
        self.squeeze = nn.Linear(width, config.code_width)
        self.unfold = nn.Linear(config.code_width, width)

    def code(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B E"]:
        """The code of each text."""
        _, final = self.encoder(self.fit(self._embed(self.source, source)), lengths)
        last = torch.cat([part[0] for part in final[-self.encoder.directions :]], dim=-1)
        squeezed: Tensor = self.squeeze(last)
        return squeezed

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> RecurrentSeq2SeqState:
        context = self.unfold(self.code(source, lengths))
        only = context.unsqueeze(1)
        return self.decoder.begin(only, only, context, None)


class TransformerAutoencoderConfig(EncoderDecoderConfig):
    """A Transformer that reads a text, and another that reconstructs it."""

    encoder_layers: int = Field(2, ge=1, description="Number of encoder blocks, which read the text")
    decoder_layers: int = Field(2, ge=1, description="Number of decoder blocks, which reconstruct the text")
    code_width: int = Field(32, ge=1, description="Width of the code, the small vector in the middle")


class TransformerAutoencoder(EncoderDecoder):
    """An autoencoder of texts: attention pools all tokens into the code, and the decoder attends to the code alone."""

    def __init__(self, config: TransformerAutoencoderConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, vocabulary)
        self.pooling = AttentionPooling(config.width)
        self.squeeze = nn.Linear(config.width, config.code_width)
        self.unfold = nn.Linear(config.code_width, config.width)

    def code(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B E"]:
        """The code of each text."""
        if lengths is None:
            lengths = torch.full((len(source),), source.shape[1], device=source.device)
        x = run_blocks(self.encoder, self.encoder_norm, self.source(source), encoder_masks(self.config, lengths))
        squeezed: Tensor = self.squeeze(self.pooling(x, lengths))
        return squeezed

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B 1 D"]:
        """For each text, the single vector that the decoder attends to, which is computed from the code."""
        unfolded: Tensor = self.unfold(self.code(source, lengths))
        return unfolded.unsqueeze(1)

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        return self.decode(target, self.encode(source, lengths))

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> TransformerState:
        return self.begin(self.encode(source, lengths), max_length)


# --- images ------------------------------------------------------------------------------------------------


class DenseAutoencoderConfig(Config):
    """Fully connected layers that narrow to a small vector and widen again."""

    image_size: tuple[int, int] = Field((28, 28), description="Height and width in pixels")
    channels: int = Field(1, ge=1, description="1 for grey images, 3 for colour")
    width: int = Field(256, ge=1, description="Width of the layers between the image and the code")
    layers: int = Field(1, ge=1, description="Number of hidden layers on each side of the code")
    code_width: int = Field(16, ge=1, description="Width of the code, the small vector in the middle")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on the output of each layer")


class DenseAutoencoder(nn.Module):
    """Fully connected layers from the image to the code, and from the code back to the image, with ReLU between them
    (Hinton & Salakhutdinov 2006)."""

    def __init__(self, config: DenseAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        pixels = config.channels * config.image_size[0] * config.image_size[1]
        down = [pixels, *[config.width] * config.layers, config.code_width]
        self.down = nn.ModuleList(nn.Linear(below, above) for below, above in pairwise(down))
        up = down[::-1]
        self.up = nn.ModuleList(nn.Linear(below, above) for below, above in pairwise(up))

    def code(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E"]:
        """The code of each image."""
        return self._through(self.down, images.flatten(1))

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Each image, reconstructed from its code alone."""
        return self._through(self.up, self.code(images)).view(images.shape)

    def _through(self, layers: nn.ModuleList, x: Float[Tensor, "B D"]) -> Float[Tensor, "B E"]:
        for number, layer in enumerate(layers):
            x = layer(x)
            if number < len(layers) - 1:
                x = dropout(torch.relu(x), self.config.dropout, self.training)
        return x


class PatchAutoencoderConfig(VisionConfig):
    """A Transformer that reads the patches of an image, and another that reconstructs them."""

    unused = VisionConfig.unused - {"decoder_layers"}

    encoder_layers: int = Field(2, ge=1, description="Number of encoder blocks, which read the patches")
    decoder_layers: int = Field(2, ge=1, description="Number of decoder blocks, which reconstruct the patches")
    code_width: int = Field(16, ge=1, description="Width of the code, the small vector in the middle")


class PatchAutoencoder(VisionEncoder):
    """An autoencoder of images: the code is computed from the class token, or from the mean of the patches' vectors.

    Each patch is reconstructed from the code and a learned vector for its position.
    """

    def __init__(self, config: PatchAutoencoderConfig) -> None:
        super().__init__(config)
        rows, columns = config.grid
        self.squeeze = nn.Linear(config.width, config.code_width)
        self.unfold = nn.Linear(config.code_width, config.width)
        self.places = nn.Parameter(torch.randn(rows * columns, config.width) * 0.5)
        self.decoder = nn.ModuleList(Block(config) for _ in range(config.decoder_layers))
        self.decoder_norm = final_norm(config)
        self.paint = nn.ConvTranspose2d(config.width, config.channels, config.patch, stride=config.patch)

    def code(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E"]:
        """The code of each image."""
        x = self.encode(images)
        pooled = x[:, 0] if self.class_token is not None else x.mean(dim=1)
        squeezed: Tensor = self.squeeze(pooled)
        return squeezed

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Each image, reconstructed from its code alone."""
        x = self.unfold(self.code(images)).unsqueeze(1) + self.places
        x = run_blocks(self.decoder, self.decoder_norm, x, [None] * len(self.decoder))
        rows, columns = self.config.grid
        painted: Tensor = self.paint(x.transpose(1, 2).reshape(len(x), -1, rows, columns))
        return painted
