"""A sequence-to-sequence network of gated 1-D convolutions, with attention in every decoder layer (Gehring 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from saccade.attention import KeyValue, Learned, Mask, padding
from saccade.errors import ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.cross_attention import CrossAttention, ScoreName
from saccade.models.layers import TiedLinear, WordEmbedding, real_positions, without_padding
from saccade.models.stepped import SteppedLanguageModel
from saccade.models.targets import Seq2Seq
from saccade.recurrent import RecurrentState

__all__ = [
    "ConvolutionalConfig",
    "ConvolutionalEncoder",
    "ConvolutionalLanguageConfig",
    "ConvolutionalLanguageModel",
    "ConvolutionalSeq2Seq",
    "GatedConvolution",
    "OddKernel",
]

SQRT_HALF = math.sqrt(0.5)  # the sum of two vectors times this has the variance of one


def _require_odd(kernel: int) -> int:
    if kernel % 2 == 0:
        raise ValueError("must be odd, so that a kernel has a middle")
    return kernel


OddKernel = Annotated[int, AfterValidator(_require_odd)]


class ConvolutionalConfig(Config):
    """The settings of a convolutional network with attention."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    encoder_layers: int = Field(4, ge=1, description="Number of layers that read the source")
    decoder_layers: int = Field(4, ge=1, description="Number of layers that write the target")
    kernel: OddKernel = Field(3, ge=1, description="Number of positions that a layer sees at once; must be odd")
    max_length: int = Field(512, ge=1, description="Number of learned positions: the longest text, in tokens")
    score: ScoreName = Field(
        "dot", description="How queries and keys are compared: dot, scaled_dot, cosine, bilinear, additive or mlp"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on embeddings and on the input of each layer")
    tied_output: bool = Field(False, description="Use the target embedding as the output layer")


class GatedConvolution(nn.Module):
    """``A ⊙ σ(B)``, where [A; B] is a convolution of the input x (Dauphin 2017).

    If it is causal, the output at a position does not depend on later positions.
    """

    def __init__(self, width: int, kernel: int, *, is_causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.before = kernel - 1 if is_causal else kernel // 2
        self.after = kernel - 1 - self.before
        self.dropout = dropout
        self.convolution = nn.Conv1d(width, 2 * width, kernel)
        nn.init.normal_(self.convolution.weight, std=math.sqrt(4 * (1 - dropout) / (width * kernel)))
        assert self.convolution.bias is not None
        nn.init.zeros_(self.convolution.bias)

    def forward(self, x: Float[Tensor, "B N D"], past: Float[Tensor, "B P D"] | None = None) -> Float[Tensor, "B N D"]:
        """The output at each position of x. ``past`` are the inputs before x, which a causal layer needs when it runs
        step by step; without ``past``, they count as zeros."""
        inner = dropout(x, self.dropout, self.training)
        inner = F.pad(inner, (0, 0, self.before, self.after)) if past is None else torch.cat([past, inner], dim=1)
        # The convolution as a product over windows: the same sums, and ``training.precision = "bf16"`` applies to them.
        layer = self.convolution
        windows = inner.unfold(1, layer.kernel_size[0], 1).flatten(2)
        return F.glu(F.linear(windows, layer.weight.flatten(1), layer.bias), dim=-1)


class ConvolutionalEncoder(nn.Module):
    """Layers of gated convolutions over vectors; vectors of the padding count as zeros."""

    def __init__(self, width: int, layers: int, kernel: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GatedConvolution(width, kernel, is_causal=False, dropout=dropout) for _ in range(layers)
        )

    def forward(self, x: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B N D"]:
        real = real_positions(x, lengths)
        for layer in self.layers:
            x = without_padding(x, real)
            x = (x + layer(x)) * SQRT_HALF
        return without_padding(x, real)


@dataclass(frozen=True)
class ConvolutionalState:
    """What the decoder keeps between steps: the last inputs of each layer, and the source's keys and values."""

    past: list[Float[Tensor, "B P D"]]
    source: list[KeyValue]
    lengths: Int[Tensor, " B"] | None
    mask: Mask | None
    position: int = 0


class _DecoderLayer(nn.Module):
    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config.width, config.kernel, is_causal=True, dropout=config.dropout)
        self.cross = CrossAttention(config.width, config.width, config.width, config.score)
        self.output = nn.Linear(config.width, config.width)

    def forward(
        self, x: Tensor, words: Tensor, source: KeyValue, mask: Mask | None, past: Tensor | None, first_row: int
    ) -> Tensor:
        hidden = self.convolution(x, past)
        # The query combines the layer's state with the word just read (Gehring 2017, eq. 1).
        context = self.cross((hidden + words) * SQRT_HALF, source, mask=mask, first_row=first_row)
        hidden = (hidden + self.output(context)) * SQRT_HALF
        summed: Tensor = (x + hidden) * SQRT_HALF
        return summed


class ConvolutionalSeq2Seq(Seq2Seq):
    """An encoder and a decoder of gated convolutions; every decoder layer attends to the source."""

    def __init__(self, config: ConvolutionalConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.source = WordEmbedding(source_vocabulary, width, scaled=True)
        self.source_positions = Learned(width, config.max_length)
        self.target = WordEmbedding(target_vocabulary, width, scaled=True)
        self.target_positions = Learned(width, config.max_length)
        for positions in (self.source_positions, self.target_positions):
            # As large as the words (Gehring 2017, §3.5): a layer sees few words, so only positions say where it is.
            nn.init.normal_(positions.weight)
        self.encoder = ConvolutionalEncoder(width, config.encoder_layers, config.kernel, config.dropout)
        self.decoder = nn.ModuleList(_DecoderLayer(config) for _ in range(config.decoder_layers))
        tied = self.target.weight if config.tied_output else None
        self.output = TiedLinear(width, target_vocabulary, bias=True, tied=tied)

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        state = self.start(source, lengths)
        words = x = self._embed_target(target, 0)
        for layer, kept in zip(self.decoder, state.source, strict=True):
            x = layer(x, words, kept, state.mask, None, 0)
        return self._drop(x)

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> ConvolutionalState:
        """The state after reading the source, from which `step` writes. ``max_length`` is ignored, because the number
        of positions is limited by the configuration's ``max_length``."""
        if source.shape[1] == 0:
            raise ShapeError("A source must have at least 1 token; got 0.")
        words = self._drop(self.source_positions(self.source(source)))
        memory = self.encoder(words, lengths)
        # The values combine the encoder's states with their words (Gehring 2017, eq. 2).
        values = (memory + words) * SQRT_HALF
        kept = [layer.cross.project(memory, values) for layer in self.decoder]  # type: ignore[union-attr, operator]
        empty = words.new_zeros(len(source), self.config.kernel - 1, self.config.width)
        mask = None if lengths is None else padding(lengths)
        return ConvolutionalState([empty] * len(self.decoder), kept, lengths, mask)

    def step(
        self, tokens: Int[Tensor, " B"], state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B V"], ConvolutionalState]:
        """Read one more token in each row; return the logits of the token after it, and the new state."""
        words = x = self._embed_target(tokens.unsqueeze(1), state.position)
        past = []
        for layer, old, kept in zip(self.decoder, state.past, state.source, strict=True):
            past.append(torch.cat([old, x], dim=1)[:, 1:] if old.shape[1] else old)
            x = layer(x, words, kept, state.mask, old, state.position)
        logits: Tensor = self.output(self._drop(x)[:, -1])
        return logits, replace(state, past=past, position=state.position + 1)

    def reorder(self, state: ConvolutionalState, index: Int[Tensor, "*N"]) -> ConvolutionalState:
        index = index.flatten()
        lengths = None if state.lengths is None else state.lengths.index_select(0, index.to(state.lengths.device))
        return replace(
            state,
            past=[part.index_select(0, index) for part in state.past],
            source=[part.reorder(index) for part in state.source],
            lengths=lengths,
            mask=None if lengths is None else padding(lengths),
        )

    def _embed_target(self, tokens: Tensor, first: int) -> Tensor:
        return self._drop(self.target_positions(self.target(tokens), first))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)


class ConvolutionalLanguageConfig(Config):
    """The settings of a language model of causal convolutions."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    decoder_layers: int = Field(6, ge=1, description="Number of layers")
    kernel: int = Field(5, ge=1, description="Number of positions that a layer sees at once, counting back from itself")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on embeddings and on the input of each layer")
    tied_output: bool = Field(False, description="Use the embedding as the output layer")


class ConvolutionalLanguageModel(SteppedLanguageModel):
    """A language model of gated causal convolutions (Dauphin 2017).

    With L layers of kernel k, a prediction depends on the last L·(k-1) + 1 tokens and on no others.
    """

    def __init__(self, config: ConvolutionalLanguageConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = WordEmbedding(vocabulary, config.width, scaled=True)
        self.decoder = nn.ModuleList(
            GatedConvolution(config.width, config.kernel, is_causal=True, dropout=config.dropout)
            for _ in range(config.decoder_layers)
        )
        tied = self.input.weight if config.tied_output else None
        self.output = TiedLinear(config.width, vocabulary, bias=True, tied=tied)

    def initial(self, batch: int) -> RecurrentState:
        past = self.input.weight.new_zeros(batch, self.config.kernel - 1, self.config.width)
        return tuple((past,) for _ in self.decoder)

    def read(self, tokens: Int[Tensor, "B N"], state: RecurrentState) -> tuple[Float[Tensor, "B N D"], RecurrentState]:
        x, new = dropout(self.input(tokens), self.config.dropout, self.training), []
        for layer, (past,) in zip(self.decoder, state, strict=True):
            new.append((torch.cat([past, x], dim=1)[:, x.shape[1] :],))  # the inputs that the next token sees
            x = (x + layer(x, past)) * SQRT_HALF
        return x, tuple(new)
