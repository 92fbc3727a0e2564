"""A recurrent network that describes an image in words: one input, many outputs (lecture 002, "one to many").

    h_0 = tanh(W_2 relu(W_1 x + b_1) + b_2),    h_t, o_t = f(h_{t-1}, word_{t-1})

Only the first state h_0 is computed from the image x. The `Captioner` instead attends to the image for every word.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.errors import ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.layers import TiedLinear, WordEmbedding
from saccade.models.recurrent import CELL_CHOICE
from saccade.models.targets import Positions, Targets, answer
from saccade.recurrent import Recurrent, RecurrentState, reorder

__all__ = ["RecurrentCaptioner", "RecurrentCaptionerConfig"]


class RecurrentCaptionerConfig(Config):
    """The settings of a recurrent network that describes an image in words."""

    image_size: tuple[int, int] = Field((28, 28), description="Height and width in pixels")
    channels: int = Field(1, ge=1, description="1 for grey images, 3 for colour")
    cell: str = Field("gru_torch", description=CELL_CHOICE)
    width: int = Field(
        128, ge=1, description="Width of the state, the word embeddings and the layer that reads the image"
    )
    decoder_layers: int = Field(1, ge=1, description="Number of recurrent layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on words, between layers and on the result")
    tied_output: bool = Field(True, description="Use the word embedding as the output layer")


class RecurrentCaptioner(nn.Module):
    """Turns an image into the first state of a recurrent network, which then writes one word per step."""

    def __init__(self, config: RecurrentCaptionerConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        width = config.width
        pixels = config.channels * config.image_size[0] * config.image_size[1]
        self.see = nn.Sequential(nn.Flatten(), nn.Linear(pixels, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh())
        self.target = WordEmbedding(vocabulary, width, scaled=True)
        self.decoder = Recurrent(config.cell, width, width, config.decoder_layers, dropout=config.dropout)
        self.output = TiedLinear(width, vocabulary, bias=True, tied=self.target.weight if config.tied_output else None)

    def features(self, images: Float[Tensor, "B C H W"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """A vector for each token of the text, from which the next token is predicted."""
        outputs: Tensor = self.decoder(self._embed(target), None, self.start(images))[0]
        return dropout(outputs, self.config.dropout, self.training)

    def forward(
        self,
        images: Float[Tensor, "B C H W"],
        target: Int[Tensor, "B T"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, T, V) for the token after each target token, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead.
        """
        return answer(self.output, self.features(images, target), targets, at)

    def start(self, images: Float[Tensor, "B C H W"], max_length: int | None = None) -> RecurrentState:
        """The first state, computed from the images: the same vector for every layer."""
        expected = (self.config.channels, *self.config.image_size)
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            sizes = ", ".join(str(size) for size in expected)
            raise ShapeError(
                f"This model takes images of shape (B, C, H, W) = (B, {sizes}); got {tuple(images.shape)}."
            )
        seen = self.see(images)
        return tuple((seen, *map(torch.zeros_like, parts[1:])) for parts in self.decoder.initial(len(images)))

    def step(self, tokens: Int[Tensor, " B"], state: RecurrentState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        output, state = self.decoder.step(self._embed(tokens), state)
        logits: Tensor = self.output(output)
        return logits, state

    def reorder(self, state: RecurrentState, index: Int[Tensor, "*N"]) -> RecurrentState:
        return reorder(state, index.flatten())

    def _embed(self, tokens: Tensor) -> Tensor:
        return dropout(self.target(tokens), self.config.dropout, self.training)
