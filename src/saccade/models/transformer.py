"""The Transformer (Vaswani 2017; 001-003 of the lectures) in its three forms, from one block.

The formal algorithms are those of Phuong & Hutter 2022: encoder-decoder (algorithm 8), encoder-only (9) and
decoder-only (10). The configuration says everything by fields, so that published models (GPT-2, BERT, Marian, ViT,
Llama-like) are values of it, not cases in the code.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import (
    Cache,
    KeyValue,
    Learned,
    LinearPositions,
    Mask,
    MultiHead,
    PositionTable,
    Rotary,
    Sinusoidal,
    causal,
    padding,
)
from saccade.errors import OptionError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.layers import (
    ACTIVATIONS,
    NORMS,
    Activation,
    FeedForward,
    NormKind,
    OneHot,
    TiedLinear,
    WordEmbedding,
)
from saccade.models.state import TransformerState
from saccade.models.targets import Positions, Targets, answer

__all__ = [
    "Block",
    "DecoderOnly",
    "EncoderDecoder",
    "EncoderOnly",
    "InputLayer",
    "PositionKind",
    "TransformerConfig",
    "final_norm",
    "position_table",
    "run_blocks",
]

PositionKind = Literal["none", "linear", "sinusoidal", "learned", "rotary", "alibi"]


class TransformerConfig(Config):
    """A Transformer."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    num_heads: int = Field(4, ge=1, description="Heads of each attention")
    num_key_heads: int | None = Field(None, description="Fewer than num_heads: groups of heads share keys and values")
    head_width: int | None = Field(None, description="Width of a head; width / num_heads if not given")
    encoder_layers: int = Field(0, ge=0, description="Blocks that read the source")
    decoder_layers: int = Field(0, ge=0, description="Blocks that write the target")
    feedforward_width: int = Field(
        1024, ge=1, description="Width inside the feed-forward layer, which treats each position by itself"
    )
    activation: Activation = Field(
        "relu", description="Activation of the feed-forward layer: relu, gelu, gelu_tanh or silu"
    )
    gated: bool = Field(False, description="Multiply the activation by a gate")
    bias: bool = Field(True, description="Add learned vectors in projections, feed-forward layers and layer norms")
    norm: NormKind = Field("layer", description="Kind of normalisation: layer or rms")
    norm_first: bool = Field(
        True,
        description="Normalise before each layer (pre-norm, as today) instead of after it (as in 2017)",
    )
    norm_epsilon: float = Field(1e-5, gt=0, le=1, description="Small number that keeps a norm from dividing by 0")
    final_norm: bool | None = Field(
        None, description="Normalise after the last block; if not given, only with norm_first"
    )
    score: str = Field("scaled_dot", description="How queries and keys are compared: dot, scaled_dot or cosine")
    weights: str = Field("softmax", description="How scores become weights: softmax, relu, sparsemax or hard")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of embeddings and of what each layer adds")
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout of attention weights; 0 keeps the fast kernel"
    )
    feedforward_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout inside the feed-forward layer")
    position: PositionKind = Field(
        "sinusoidal", description="How positions are encoded: none, linear, sinusoidal, learned, rotary or alibi"
    )
    position_width: int = Field(
        0, ge=0, description="Above 0: concatenate positions of this width instead of adding them"
    )
    position_slope: float = Field(1.0, description="Linear positions: a in (a · position + b) · u, u a learned vector")
    position_offset: float = Field(0.0, description="Linear positions: b in the same")
    sines_first: bool = Field(False, description="Sinusoidal positions: all sines before all cosines")
    max_length: int = Field(512, ge=1, description="Number of learned positions, which limits the length of a text")
    rotary_base: float = Field(10000.0, gt=0, description="The slowest rotary angle is 1 / rotary_base")
    rotary_interleaved: bool = Field(
        False, description="Rotate neighbouring numbers in pairs, instead of the two halves of a vector"
    )
    one_hot: bool = Field(False, description="Use one-hot vectors for words, with nothing learned")
    scaled_embedding: bool = Field(False, description="Multiply embeddings by √width")
    embedding_norm: bool = Field(False, description="Normalise the embeddings")
    token_types: int = Field(0, ge=0, description="Above 0: learn a vector for each type of token (sentence A or B)")
    tied_output: bool = Field(True, description="Use the (target) embedding as the output layer")
    tied_embeddings: bool = Field(False, description="Share one embedding between source and target")
    output_bias: bool = Field(False, description="Learn a bias for each word of the output")
    output_transform: bool = Field(
        False, description="Put a dense layer, an activation and a norm before the output layer (as BERT does)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> TransformerConfig:
        if self.position_width and self.position in ("none", "rotary", "alibi"):
            raise ValueError(f"position_width goes with a table of positions, not with position = {self.position!r}")
        if self.position == "linear" and self.position_slope == 0:
            raise ValueError("position_slope = 0 gives every position the same vector")
        if self.position_width and (self.tied_output or self.position_width >= self.width):
            raise ValueError("position_width is below width, and needs tied_output = false")
        if self.one_hot and (self.tied_output or self.tied_embeddings):
            raise ValueError("one_hot learns no embedding, so nothing can be tied to it")
        return self


class Block(nn.Module):
    """Self-attention, cross-attention if there is a source, and a feed-forward layer, each with residual and norm."""

    def __init__(self, config: TransformerConfig, *, cross: bool = False) -> None:
        super().__init__()
        self.config = config
        self.self = _attention(config, cross=False)
        self.self_norm = _norm(config)
        self.cross = _attention(config, cross=True) if cross else None
        self.cross_norm = _norm(config) if cross else None
        self.feedforward = FeedForward(
            config.width, config.feedforward_width, config.activation, gated=config.gated, bias=config.bias
        )
        self.feedforward_norm = _norm(config)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        *,
        mask: Mask | None = None,
        source: Float[Tensor, "B S D"] | KeyValue | None = None,
        source_mask: Mask | None = None,
        cache: Cache | None = None,
        first_row: int = 0,
    ) -> Float[Tensor, "B N D"]:
        before, after = (_apply, _skip) if self.config.norm_first else (_skip, _apply)
        y = self.self(before(self.self_norm, x), mask=mask, cache=cache, first_row=first_row)
        x = after(self.self_norm, x + self._drop(y))
        if self.cross is not None and self.cross_norm is not None:
            y = self.cross(before(self.cross_norm, x), source, mask=source_mask, first_row=first_row)
            x = after(self.cross_norm, x + self._drop(y))
        y = self.feedforward(before(self.feedforward_norm, x), self.config.feedforward_dropout)
        return after(self.feedforward_norm, x + self._drop(y))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)


class InputLayer(nn.Module):
    """Tokens to vectors: embedding or one-hot, positions, token types, norm, dropout."""

    def __init__(self, config: TransformerConfig, vocabulary: int, shared: WordEmbedding | None = None) -> None:
        super().__init__()
        self.dropout = config.dropout
        width = config.width - config.position_width
        if config.one_hot:
            self.words: WordEmbedding | OneHot = OneHot(vocabulary, width)
        else:
            self.words = shared or WordEmbedding(vocabulary, width, scaled=config.scaled_embedding)
        self.positions = position_table(config)
        self.types = WordEmbedding(config.token_types, config.width) if config.token_types else None
        self.norm = _norm(config) if config.embedding_norm else None

    def forward(
        self, tokens: Int[Tensor, "B N"], types: Int[Tensor, "B N"] | None = None, first: int = 0
    ) -> Float[Tensor, "B N D"]:
        x: Tensor = self.words(tokens)
        if self.positions is not None:
            x = self.positions(x, first)
        if self.types is None and types is not None:
            raise OptionError("Token types are given, but this model has none; set token_types in its configuration.")
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens) if types is None else types)
        if self.norm is not None:
            x = self.norm(x)
        return dropout(x, self.dropout, self.training)


class OutputLayer(nn.Module):
    """Vectors to one number for each word of the vocabulary."""

    def __init__(self, config: TransformerConfig, vocabulary: int, words: WordEmbedding | OneHot) -> None:
        super().__init__()
        self.transform = nn.Linear(config.width, config.width) if config.output_transform else None
        self.transform_norm = _norm(config) if config.output_transform else None
        self.activation = ACTIVATIONS[config.activation]
        tied = words.weight if config.tied_output and isinstance(words, WordEmbedding) else None
        self.words = TiedLinear(config.width, vocabulary, bias=config.output_bias, tied=tied)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        logits: Tensor = self.words(self._transformed(x))
        return logits

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of these words, its logits never all in memory."""
        return self.words.loss(self._transformed(x), targets, label_smoothing)

    def _transformed(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        if self.transform is not None and self.transform_norm is not None:
            x = self.transform_norm(self.activation(self.transform(x)))
        return x


class EncoderOnly(nn.Module):
    """A Transformer that reads in both directions (Phuong & Hutter 2022, algorithm 9; BERT, Devlin 2019)."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = InputLayer(config, vocabulary)
        self.encoder = _stack(config, config.encoder_layers)
        self.encoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.input.words)

    def features(
        self,
        tokens: Int[Tensor, "B N"],
        lengths: Int[Tensor, " B"] | None = None,
        types: Int[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        """A vector for each token, in the light of all others."""
        mask = None if lengths is None else padding(lengths)
        return run_blocks(self.encoder, self.encoder_norm, self.input(tokens, types), mask)

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        lengths: Int[Tensor, " B"] | None = None,
        types: Int[Tensor, "B N"] | None = None,
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, N, V) of the token in each place, or what else is asked for (see ``targets``)."""
        return answer(self.output, self.features(tokens, lengths, types), targets, at)


class DecoderOnly(nn.Module):
    """A Transformer that predicts the next token (Phuong & Hutter 2022, algorithm 10; GPT-2, Radford 2019)."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = InputLayer(config, vocabulary)
        self.decoder = _decoder_stack(config)
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, vocabulary, self.input.words)

    def features(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """A vector for each token, in the light of those before it."""
        return run_blocks(self.decoder, self.decoder_norm, self.input(tokens), causal)

    def forward(
        self, tokens: Int[Tensor, "B N"], *, targets: Targets | None = None, at: Positions | None = None
    ) -> Tensor:
        """Logits (B, N, V) of the token after each, or what else is asked for (see ``targets``)."""
        return answer(self.output, self.features(tokens), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> TransformerState:
        """A state that has read the prompt, of any length, also 0; a known ``max_length`` saves copies."""
        state = TransformerState.fresh(len(self.decoder), len(prompt), max_length)
        if prompt.shape[1]:
            self._advance(prompt, state)
        return state

    def step(self, tokens: Int[Tensor, " B"], state: TransformerState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """The scores of the token that follows, and the state after it was read."""
        logits: Tensor = self.output(self._advance(tokens.unsqueeze(1), state)[:, -1])
        return logits, state

    def reorder(self, state: TransformerState, index: Int[Tensor, "*N"]) -> TransformerState:
        return state.reorder(index)

    def _advance(self, tokens: Int[Tensor, "B N"], state: TransformerState) -> Float[Tensor, "B N D"]:
        x = self.input(tokens, first=state.length)
        mask = state.advance()
        for block, cache in zip(self.decoder, state.caches, strict=True):
            x = block(x, mask=mask, cache=cache)
        return _final(self.decoder_norm, x)


class EncoderDecoder(nn.Module):
    """The Transformer of translation (Vaswani 2017; Phuong & Hutter 2022, algorithm 8)."""

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
        self.encoder = _stack(config, config.encoder_layers)
        self.encoder_norm = final_norm(config)
        self.decoder = _decoder_stack(config, cross=True)
        self.decoder_norm = final_norm(config)
        self.output = OutputLayer(config, target_vocabulary, self.target.words)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None) -> Float[Tensor, "B S D"]:
        mask = None if lengths is None else padding(lengths)
        return run_blocks(self.encoder, self.encoder_norm, self.source(source), mask)

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        """A vector for each target token, from which the next one follows."""
        memory = self.encode(source, lengths)
        mask = None if lengths is None else padding(lengths)
        x = self.target(target)
        for block in self.decoder:
            x = block(x, mask=causal, source=memory, source_mask=mask)
        return _final(self.decoder_norm, x)

    def forward(
        self,
        source: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"] | None,
        target: Int[Tensor, "B T"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of the target, or what else is asked for (see ``targets``)."""
        return answer(self.output, self.features(source, lengths, target), targets, at)

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> TransformerState:
        """A state that has read the source, its keys projected once for each layer; see ``DecoderOnly.start``."""
        memory = self.encode(source, lengths)
        sources = [_cross(block).project(memory) for block in self.decoder]
        return TransformerState.fresh(len(self.decoder), len(source), max_length, sources, lengths)

    def step(self, tokens: Int[Tensor, " B"], state: TransformerState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """The scores of the token that follows, and the state after it was read."""
        first, mask = state.length, state.advance()
        x = self.target(tokens.unsqueeze(1), first=first)
        for block, cache, source in zip(self.decoder, state.caches, state.sources, strict=True):
            x = block(x, mask=mask, cache=cache, source=source, source_mask=state.source_mask, first_row=first)
        logits: Tensor = self.output(_final(self.decoder_norm, x)[:, -1])
        return logits, state

    def reorder(self, state: TransformerState, index: Int[Tensor, "*N"]) -> TransformerState:
        return state.reorder(index)


def run_blocks(blocks: nn.ModuleList, norm: nn.Module | None, x: Tensor, mask: Mask | None) -> Tensor:
    """A chain of blocks, and the norm after it, if there is one."""
    for block in blocks:
        x = block(x, mask=mask)
    return _final(norm, x)


def _final(norm: nn.Module | None, x: Tensor) -> Tensor:
    return x if norm is None else _apply(norm, x)


def _cross(block: nn.Module) -> MultiHead:
    assert isinstance(block, Block)
    assert block.cross is not None
    return block.cross


def _stack(config: TransformerConfig, layers: int, *, cross: bool = False) -> nn.ModuleList:
    return nn.ModuleList(Block(config, cross=cross) for _ in range(layers))


def _decoder_stack(config: TransformerConfig, *, cross: bool = False) -> nn.ModuleList:
    if not config.decoder_layers:  # the caches know how many tokens have been read
        raise OptionError("A decoder has at least 1 layer; not decoder_layers = 0.")
    return _stack(config, config.decoder_layers, cross=cross)


def _attention(config: TransformerConfig, *, cross: bool) -> MultiHead:
    width = config.head_width or config.width // config.num_heads
    rotary = None
    if config.position == "rotary" and not cross:  # source and target have no common positions
        rotary = Rotary(width, config.rotary_base, config.rotary_interleaved)
    return MultiHead(
        config.width,
        config.num_heads,
        num_key_heads=config.num_key_heads,
        head_width=config.head_width,
        score=config.score,
        weights=config.weights,
        dropout=config.attention_dropout,
        rotary=rotary,
        alibi=config.position == "alibi" and not cross,
        bias=config.bias,
    )


def _norm(config: TransformerConfig) -> nn.Module:
    return NORMS[config.norm](config.width, config.norm_epsilon, config.bias)


def final_norm(config: TransformerConfig) -> nn.Module | None:
    """The norm after the last block, if the configuration has one."""
    wanted = config.norm_first if config.final_norm is None else config.final_norm
    return _norm(config) if wanted else None


def position_table(config: TransformerConfig) -> PositionTable | None:
    """The vectors of positions, where they are vectors beside the input."""
    width = config.position_width or config.width
    how: Literal["add", "concatenate"] = "concatenate" if config.position_width else "add"
    if config.position == "linear":
        return LinearPositions(width, how, config.position_slope, config.position_offset)
    if config.position == "sinusoidal":
        return Sinusoidal(width, how, interleaved=not config.sines_first)
    if config.position == "learned":
        return Learned(width, config.max_length, how)
    return None


def _apply(norm: nn.Module, x: Tensor) -> Tensor:
    normed: Tensor = norm(x)
    return normed


def _skip(norm: nn.Module, x: Tensor) -> Tensor:
    return x
