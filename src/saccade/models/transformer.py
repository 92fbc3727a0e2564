"""The Transformer (Vaswani 2017; lectures 001-003) in three forms: encoder-decoder, encoder-only and decoder-only.

These are algorithms 8, 9 and 10 of Phuong & Hutter 2022. All three consist of the same blocks, which
``transformer_layers`` defines.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention import padding
from saccade.errors import OptionError
from saccade.models.layers import WordEmbedding
from saccade.models.state import TransformerState
from saccade.models.targets import Output, Positions, Seq2Seq, Targets, answer
from saccade.models.transformer_config import TransformerConfig
from saccade.models.transformer_layers import (
    InputLayer,
    OutputLayer,
    continue_blocks,
    decoder_blocks,
    decoder_masks,
    encoder_blocks,
    encoder_masks,
    final_norm,
    run_blocks,
)

__all__ = ["CrossDecoder", "DecoderOnly", "EncoderDecoder", "EncoderOnly"]


class EncoderOnly(nn.Module):
    """A Transformer that reads in both directions (Phuong & Hutter 2022, algorithm 9; BERT, Devlin 2019)."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = InputLayer(config, vocabulary)
        self.encoder = encoder_blocks(config)
        self.encoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.input.words)

    def features(
        self,
        tokens: Int[Tensor, "B N"],
        lengths: Int[Tensor, " B"] | None = None,
        types: Int[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """A vector for each token, which depends on all tokens of its sequence."""
        masks = encoder_masks(self.config, lengths)
        return run_blocks(self.encoder, self.encoder_norm, self.input(tokens, types), masks)

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        lengths: Int[Tensor, " B"] | None = None,
        types: Int[Tensor, "B N"] | None = None,
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, N, V) for the token at each position, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead.
        """
        return answer(self.output, self.features(tokens, lengths, types), targets, at)


class DecoderOnly(nn.Module):
    """A Transformer that predicts the next token (Phuong & Hutter 2022, algorithm 10; GPT-2, Radford 2019)."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = InputLayer(config, vocabulary)
        self.decoder = decoder_blocks(config)
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.input.words)

    def features(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """A vector for each token, from which the next token is predicted; it depends on the tokens up to this one."""
        return run_blocks(self.decoder, self.decoder_norm, self.input(tokens), decoder_masks(self.config))

    def forward(
        self, tokens: Int[Tensor, "B N"], *, targets: Targets | None = None, at: Positions | None = None
    ) -> Tensor:
        """Logits (B, N, V) of the token after each position, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead.
        """
        return answer(self.output, self.features(tokens), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> TransformerState:
        """The state after reading the prompt, which may be empty; `step` generates from it.

        ``max_length``, the longest text in tokens, lets steps write into caches of that size without copying them.
        """
        state = TransformerState.fresh(decoder_masks(self.config), len(prompt), max_length)
        if prompt.shape[1]:
            continue_blocks(self.decoder, self.decoder_norm, self.input(prompt), state)
        return state

    def step(self, tokens: Int[Tensor, " B"], state: TransformerState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """Read one more token per row; return the logits of the next one and the new state."""
        x = self.input(tokens.unsqueeze(1), first=state.length)
        logits: Tensor = self.output(continue_blocks(self.decoder, self.decoder_norm, x, state)[:, -1])
        return logits, state

    def reorder(self, state: TransformerState, index: Int[Tensor, "*N"]) -> TransformerState:
        return state.reorder(index)


class CrossDecoder(nn.Module):
    """A Transformer decoder that attends to the vectors of an encoder, which a subclass defines."""

    config: Any  # a TransformerConfig
    target: InputLayer
    decoder: nn.ModuleList
    decoder_norm: nn.Module | None
    output: Output

    def decode(
        self, target: Int[Tensor, "B T"], memory: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """A vector for each target token, from which the next token is predicted.

        ``memory`` are the encoder's vectors, and ``lengths`` the lengths of its sequences.
        """
        mask = None if lengths is None else padding(lengths)
        masks = decoder_masks(self.config)
        return run_blocks(self.decoder, self.decoder_norm, self.target(target), masks, memory, mask)

    def begin(
        self, memory: Float[Tensor, "B S D"], max_length: int | None, lengths: Int[Tensor, " B"] | None = None
    ) -> TransformerState:
        """The state before the first target token, with the keys and values of the encoder's vectors for each layer."""
        sources = [block.cross.project(memory) for block in self.decoder]  # type: ignore[union-attr, operator]
        return TransformerState.fresh(decoder_masks(self.config), len(memory), max_length, sources, lengths)

    def step(self, tokens: Int[Tensor, " B"], state: TransformerState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """Read one more token per row; return the logits of the next one and the new state."""
        x = self.target(tokens.unsqueeze(1), first=state.length)
        logits: Tensor = self.output(continue_blocks(self.decoder, self.decoder_norm, x, state)[:, -1])
        return logits, state

    def reorder(self, state: TransformerState, index: Int[Tensor, "*N"]) -> TransformerState:
        return state.reorder(index)


class EncoderDecoder(CrossDecoder, Seq2Seq):
    """The Transformer for translation (Vaswani 2017; Phuong & Hutter 2022, algorithm 8)."""

    def __init__(self, config: TransformerConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        if config.tied_embeddings and source_vocabulary != target_vocabulary:
            raise OptionError(
                f"tied_embeddings needs one vocabulary for both sides (text.shared = true in a recipe); "
                f"they have {source_vocabulary} and {target_vocabulary} words."
            )
        self.config = config
        self.source = InputLayer(config, source_vocabulary)
        shared = self.source.words if config.tied_embeddings and isinstance(self.source.words, WordEmbedding) else None
        self.target = InputLayer(config, target_vocabulary, shared)
        self.encoder = encoder_blocks(config)
        self.encoder_norm = final_norm(config)
        self.decoder = decoder_blocks(config, cross=True)
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, target_vocabulary, self.target.words)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B S D"]:
        """A vector for each source token: what the decoder attends to."""
        masks = encoder_masks(self.config, lengths)
        return run_blocks(self.encoder, self.encoder_norm, self.source(source), masks)

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """A vector for each target token, from which the next token is predicted."""
        return self.decode(target, self.encode(source, lengths), lengths)

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> TransformerState:
        """The state after reading the source, from which `step` generates.

        ``max_length``, the longest text in tokens, lets steps write into caches of that size without copying them.
        """
        return self.begin(self.encode(source, lengths), max_length, lengths)
