"""A text for an image (002's one-to-many): a decoder that looks at the patches by cross-attention.

The decoder is that of translation (Vaswani 2017); what it attends to are the patches of a Vision Transformer
(Dosovitskiy 2021) in the place of words, as in image captioning with attention (Xu 2015).
"""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import MultiHead, causal
from saccade.models.state import TransformerState
from saccade.models.targets import Positions, Targets, answer
from saccade.models.transformer import Block, InputLayer, OutputLayer, final_norm
from saccade.models.vit import VisionConfig, VisionEncoder

__all__ = ["Captioner", "CaptionerConfig"]


class CaptionerConfig(VisionConfig):
    """A Transformer that reads patches and writes words."""

    encoder_layers: int = Field(2, ge=0, description="Blocks that read the patches")
    decoder_layers: int = Field(2, ge=1, description="Blocks that write the text")
    pooling: Literal["class", "mean"] = Field(
        "mean", description="With class, the decoder can also attend to a class token"
    )
    max_length: int = Field(64, ge=2, description="Longest text in tokens: the number of learned positions")
    tied_output: bool = Field(True, description="Use the word embedding as the output layer")

    @model_validator(mode="after")
    def _words_fit(self) -> CaptionerConfig:
        if self.position_width:
            raise ValueError("position_width is not for captions: patches and words have positions of their own")
        return self


class Captioner(VisionEncoder):
    """Patches to text; it is stepped like any other decoder, so that all of decoding works with it."""

    def __init__(self, config: CaptionerConfig, vocabulary: int) -> None:
        super().__init__(config)
        self.target = InputLayer(config, vocabulary)
        self.decoder = nn.ModuleList(Block(config, cross=True) for _ in range(config.decoder_layers))
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.target.words)

    def features(self, images: Float[Tensor, "B C H W"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """A vector for each token of the text, from which the next one follows."""
        memory = self.encode(images)
        x = self.target(target)
        for block in self.decoder:
            x = block(x, mask=causal, source=memory)
        return self._final(x)

    def forward(
        self,
        images: Float[Tensor, "B C H W"],
        target: Int[Tensor, "B T"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of the target, or what else is asked for (see ``targets``)."""
        return answer(self.output, self.features(images, target), targets, at)

    def start(self, images: Float[Tensor, "B C H W"], max_length: int | None = None) -> TransformerState:
        """A state that has seen the images; a known ``max_length`` saves copies."""
        memory = self.encode(images)
        sources = [_cross(block).project(memory) for block in self.decoder]
        return TransformerState.fresh(len(self.decoder), len(images), max_length, sources)

    def step(self, tokens: Int[Tensor, " B"], state: TransformerState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """The scores of the token that follows, and the state after it was read."""
        first, mask = state.length, state.advance()
        x = self.target(tokens.unsqueeze(1), first=first)
        for block, cache, source in zip(self.decoder, state.caches, state.sources, strict=True):
            x = block(x, mask=mask, cache=cache, source=source, first_row=first)
        logits: Tensor = self.output(self._final(x)[:, -1])
        return logits, state

    def reorder(self, state: TransformerState, index: Int[Tensor, "*N"]) -> TransformerState:
        return state.reorder(index)

    def _final(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x if self.decoder_norm is None else self.decoder_norm(x)


def _cross(block: nn.Module) -> MultiHead:
    assert isinstance(block, Block)
    assert block.cross is not None
    return block.cross
