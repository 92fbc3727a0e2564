"""A translator whose output has a fixed length, different from that of its input.

(Lecture 004, §4: the W^o that changes N to N'.)

Self-attention blocks turn the source into N vectors b. Then one layer turns these into N' rows, from each of which a
distribution over the words of the target is computed:

    b'[n'] = Σ_n W[n', n] b[n],    p[n'] = softmax(V b'[n'])

All words are chosen at once, each without knowing the others, so the model cannot make them agree with each other. The
number of its parameters grows with N · N'. Decoders that write one word after another do better; this network shows
why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from saccade.attention.heads import Resize
from saccade.errors import ShapeError
from saccade.models.config import Config
from saccade.models.layers import TiedLinear
from saccade.models.targets import Seq2Seq
from saccade.models.transformer_config import TransformerConfig
from saccade.models.transformer_layers import InputLayer, encoder_blocks, encoder_masks, final_norm, run_blocks

__all__ = ["ResizedConfig", "ResizedSeq2Seq"]


class ResizedConfig(Config):
    """The settings of a translator with an output of fixed length."""

    width: int = Field(64, ge=1, description="Width of the vector at each position")
    num_heads: int = Field(4, ge=1, description="Number of attention heads in each layer")
    encoder_layers: int = Field(2, ge=1, description="Number of blocks that read the source")
    feedforward_width: int = Field(128, ge=1, description="Hidden width of the feed-forward layer")
    source_length: int = Field(
        32, ge=2, description="Longest source in tokens, including its end token (N); longer ones are refused"
    )
    max_length: int = Field(
        32, ge=2, description="Number of rows of the output (N'): the longest target in tokens, including its end token"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on embeddings and on the output of each layer")


@dataclass(frozen=True)
class ResizedState:
    """The vectors of all words of the output, and how many of these words have been written so far."""

    rows: Float[Tensor, "B M D"]
    position: int = 0


class ResizedSeq2Seq(Seq2Seq):
    """Reads the source with self-attention, and predicts all words of the target at once."""

    def __init__(self, config: ResizedConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.config = config
        reader = TransformerConfig(
            width=config.width,
            num_heads=config.num_heads,
            encoder_layers=config.encoder_layers,
            feedforward_width=config.feedforward_width,
            dropout=config.dropout,
            position="sinusoidal",
            scaled_embedding=True,
        )
        self._reader = reader
        self.source = InputLayer(reader, source_vocabulary)
        self.encoder = encoder_blocks(reader)
        self.encoder_norm = final_norm(reader)
        self.resize = Resize(config.source_length, config.max_length, config.width, config.width)
        self.output = TiedLinear(config.width, target_vocabulary, bias=True)

    def rows(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None) -> Float[Tensor, "B M D"]:
        """``max_length`` vectors, one for each word of the output, whatever the length of the source."""
        if source.shape[1] > self.config.source_length:
            raise ShapeError(
                f"This model reads at most {self.config.source_length} tokens; got {source.shape[1]}. "
                "model.source_length sets this limit."
            )
        x = run_blocks(self.encoder, self.encoder_norm, self.source(source), encoder_masks(self._reader, lengths))
        if lengths is not None:  # missing inputs are zeros
            padded = torch.arange(x.shape[1], device=x.device) >= lengths.to(x.device)[:, None]
            x = x.masked_fill(padded.unsqueeze(-1), 0.0)
        resized: Tensor = self.resize(x)
        return resized

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """Return the first T vectors of the output; they depend on the number T of target tokens, not on the tokens."""
        if target.shape[1] > self.config.max_length:
            raise ShapeError(
                f"This model writes at most {self.config.max_length} tokens; the target has {target.shape[1]}. "
                "model.max_length sets this limit."
            )
        return self.rows(source, lengths)[:, : target.shape[1]]

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> ResizedState:
        return ResizedState(self.rows(source, lengths))

    def step(self, tokens: Int[Tensor, " B"], state: ResizedState) -> tuple[Float[Tensor, "B V"], ResizedState]:
        """Return the logits of the next word, which do not depend on ``tokens``, and the new state."""
        logits: Tensor = self.output(state.rows[:, state.position])
        return logits, replace(state, position=state.position + 1)

    def reorder(self, state: ResizedState, index: Int[Tensor, "*N"]) -> ResizedState:
        return replace(state, rows=state.rows.index_select(0, index.flatten()))
