"""A network that describes an image in words (lecture 002, one to many).

The decoder is the one used for translation (Vaswani 2017), but instead of words it attends to the patches of a Vision
Transformer (Dosovitskiy 2021), as in image captioning with attention (Xu 2015).
"""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from saccade.models.state import TransformerState
from saccade.models.targets import Positions, Targets, answer
from saccade.models.transformer import CrossDecoder
from saccade.models.transformer_layers import InputLayer, OutputLayer, decoder_blocks, final_norm
from saccade.models.vit import VisionConfig, VisionEncoder

__all__ = ["Captioner", "CaptionerConfig"]


class CaptionerConfig(VisionConfig):
    """A Transformer that reads patches and writes words."""

    #: Patches and words have separate positions, so that none can be concatenated.
    unused = frozenset({"embedding_width", "position_width", "tied_embeddings"})

    encoder_layers: int = Field(2, ge=0, description="Number of blocks that read the patches")
    decoder_layers: int = Field(2, ge=1, description="Number of blocks that write the text")
    pooling: Literal["class", "mean"] = Field(
        "mean", description="mean or class; with class, the decoder can also attend to a class token"
    )
    max_length: int = Field(64, ge=2, description="Number of learned positions: the longest text, in tokens")
    tied_output: bool = Field(True, description="Use the word embedding as the output layer")


class Captioner(VisionEncoder, CrossDecoder):
    """Reads patches and writes text, one token per step like any other decoder."""

    def __init__(self, config: CaptionerConfig, vocabulary: int) -> None:
        super().__init__(config)
        self.target = InputLayer(config, vocabulary)
        self.decoder = decoder_blocks(config, cross=True)
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.target.words)

    def features(self, images: Float[Tensor, "B C H W"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """A vector for each token of the text, from which the next token is predicted."""
        return self.decode(target, self.encode(images))

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

    def start(self, images: Float[Tensor, "B C H W"], max_length: int | None = None) -> TransformerState:
        """The state after seeing the images, from which `step` writes.

        ``max_length``, the longest text in tokens, lets steps write into caches of that size without copying them.
        """
        return self.begin(self.encode(images), max_length)
