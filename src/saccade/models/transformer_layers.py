"""The layers of a Transformer (Vaswani 2017; lectures 001-003), as its configuration chooses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention import (
    Cache,
    KeyValue,
    Learned,
    LinearPositions,
    Mask,
    MultiHead,
    PositionTable,
    RelativePositions,
    Rotary,
    RotaryScaling,
    Sinusoidal,
    causal,
    padding,
    window,
)
from saccade.attention.scores import score_for_heads
from saccade.errors import OptionError
from saccade.kernels.dropout import dropout
from saccade.models.layers import (
    ACTIVATIONS,
    NORMS,
    FeedForward,
    OneHot,
    TiedLinear,
    WordEmbedding,
)
from saccade.models.state import TransformerState
from saccade.models.transformer_config import TransformerConfig

__all__ = [
    "Block",
    "InputLayer",
    "OutputLayer",
    "continue_blocks",
    "decoder_blocks",
    "decoder_masks",
    "encoder_blocks",
    "encoder_masks",
    "final_norm",
    "position_table",
    "run_blocks",
]

M = TypeVar("M")


class Block(nn.Module):
    """A Transformer block: self-attention, cross-attention to a source if ``cross`` is set, and a feed-forward layer.

    Each of these layers adds its result to its input (a residual connection) and has its own norm.
    """

    def __init__(self, config: TransformerConfig, *, cross: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.config = config
        self.self = _attention(config, cross=False, causal=causal)
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
        cross = self.cross
        if self.config.parallel:
            total = x + self._drop(self.self(self.self_norm(x), mask=mask, cache=cache, first_row=first_row))
            if cross is not None and self.cross_norm is not None:
                total = total + self._drop(cross(self.cross_norm(x), source, mask=source_mask, first_row=first_row))
            return total + self._drop(self.feedforward(self.feedforward_norm(x), self.config.feedforward_dropout))
        x = self._add(x, self.self_norm, lambda y: self.self(y, mask=mask, cache=cache, first_row=first_row))
        if cross is not None and self.cross_norm is not None:
            x = self._add(x, self.cross_norm, lambda y: cross(y, source, mask=source_mask, first_row=first_row))
        return self._add(x, self.feedforward_norm, lambda y: self.feedforward(y, self.config.feedforward_dropout))

    def _add(self, x: Tensor, norm: nn.Module, layer: Callable[[Tensor], Tensor]) -> Tensor:
        """``x + layer(x)``, normalised before the layer (pre-norm) or after the sum (post-norm)."""
        y = layer(norm(x) if self.config.norm_first else x)
        x = x + self._drop(y)
        return x if self.config.norm_first else norm(x)

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)


class InputLayer(nn.Module):
    """Turns tokens into vectors: embeddings or one-hot vectors, then positions, token types, norm and dropout."""

    def __init__(self, config: TransformerConfig, vocabulary: int, shared: WordEmbedding | None = None) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.dropout = config.dropout
        width = _embedding_width(config) - config.position_width
        if config.one_hot:
            self.words: WordEmbedding | OneHot = OneHot(vocabulary, width)
        else:
            self.words = shared or WordEmbedding(vocabulary, width, scaled=config.scaled_embedding)
        self.positions = position_table(config)
        self.types = WordEmbedding(config.token_types, _embedding_width(config)) if config.token_types else None
        self.norm = _norm(config, _embedding_width(config)) if config.embedding_norm else None
        self.widen = None if config.embedding_width is None else nn.Linear(config.embedding_width, config.width)

    def forward(
        self, tokens: Int[Tensor, "B N"], types: Int[Tensor, "B N"] | None = None, first: int = 0
    ) -> Float[Tensor, "B N D"]:
        x: Tensor = self.words(tokens)
        if self.positions is not None:
            x = self.positions(x, first)
        if self.types is None and types is not None:
            raise OptionError(
                "This model has no token types, but some were given; set token_types in its configuration."
            )
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens) if types is None else types)
        if self.norm is not None:
            x = self.norm(x)
        x = dropout(x, self.dropout, self.training)
        return x if self.widen is None else self.widen(x)


class OutputLayer(nn.Module):
    """Turns vectors into one logit for each word of the vocabulary."""

    def __init__(self, config: TransformerConfig, vocabulary: int, words: WordEmbedding | OneHot) -> None:
        super().__init__()
        width = _embedding_width(config)
        wanted = config.output_transform or config.embedding_width is not None
        self.transform = nn.Linear(config.width, width) if wanted else None
        self.transform_norm = _norm(config, width) if wanted else None
        self.activation = ACTIVATIONS[config.activation]
        self.scale = width**-0.5 if config.scaled_output else 1.0
        tied = words.weight if config.tied_output and isinstance(words, WordEmbedding) else None
        self.words = TiedLinear(width, vocabulary, bias=config.output_bias, tied=tied)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        logits: Tensor = self.words(self._transformed(x))
        return logits

    def loss(
        self, x: Float[Tensor, "N D"], targets: Int[Tensor, " N"], label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """The summed cross-entropy of the target words, without ever holding all logits in memory."""
        return self.words.loss(self._transformed(x), targets, label_smoothing)

    def _transformed(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        if self.transform is not None and self.transform_norm is not None:
            x = self.transform_norm(self.activation(self.transform(x)))
        return x if self.scale == 1.0 else x * self.scale


def run_blocks(
    blocks: nn.ModuleList,
    norm: nn.Module | None,
    x: Float[Tensor, "B N D"],
    masks: Sequence[Mask | None],
    source: Float[Tensor, "B S D"] | None = None,
    source_mask: Mask | None = None,
) -> Float[Tensor, "B N D"]:
    """Run the blocks one after another, each with its mask, then the final norm if there is one."""
    for block, mask in zip(blocks, masks, strict=True):
        x = block(x, mask=mask, source=source, source_mask=source_mask)
    return x if norm is None else norm(x)


def continue_blocks(
    blocks: nn.ModuleList, norm: nn.Module | None, x: Float[Tensor, "B N D"], state: TransformerState
) -> Float[Tensor, "B N D"]:
    """Like ``run_blocks``, for tokens that follow the tokens in the state's caches; it adds them to the caches."""
    first, masks = state.length, state.advance()
    for number, (block, mask, cache) in enumerate(zip(blocks, masks, state.caches, strict=True)):
        source = state.sources[number] if state.sources else None
        x = block(x, mask=mask, cache=cache, source=source, source_mask=state.source_mask, first_row=first)
    return x if norm is None else norm(x)


def encoder_blocks(config: TransformerConfig) -> nn.ModuleList:
    """The blocks of an encoder."""
    return _blocks(config, config.encoder_layers)


def decoder_blocks(config: TransformerConfig, *, cross: bool = False) -> nn.ModuleList:
    """The blocks of a decoder; there must be at least one, because its cache tells how many tokens have been read."""
    if not config.decoder_layers:
        raise OptionError("A decoder must have at least 1 layer, not decoder_layers = 0.")
    return _blocks(config, config.decoder_layers, cross=cross, causal=True)


def _blocks(config: TransformerConfig, number: int, *, cross: bool = False, causal: bool = False) -> nn.ModuleList:
    """Blocks with separate or shared weights; shared ones are still separate modules, so that each can be watched.

    Relative positions are always shared by all blocks, as in T5.
    """
    blocks = [Block(config, cross=cross, causal=causal) for _ in range(number)]
    for block in blocks[1:]:
        block.self.relative = blocks[0].self.relative
    for block in blocks[1:] if config.shared_layers else []:
        for path, module in block.named_modules():
            module._parameters = dict(blocks[0].get_submodule(path)._parameters)
    return nn.ModuleList(blocks)


def encoder_masks(config: TransformerConfig, lengths: Int[Tensor, " B"] | None) -> list[Mask | None]:
    """For each block of an encoder, the mask of the tokens that a token may attend to.

    They are all tokens of its sequence, or only its neighbours if the configuration sets ``encoder_window``.
    """
    real = None if lengths is None else padding(lengths)

    def mask(radius: int | None) -> Mask | None:
        if radius is None:
            return real
        return window(radius) if real is None else real & window(radius)

    return _for_each_layer(config.encoder_window, config.encoder_layers, mask)


def decoder_masks(config: TransformerConfig) -> list[Mask]:
    """For each block of a decoder, the mask of the tokens that a token may attend to.

    They are all tokens up to itself, or only the last few of these if the configuration sets ``attention_window``.
    """
    return _for_each_layer(
        config.attention_window,
        config.decoder_layers,
        lambda tokens: causal if tokens is None else causal & window(tokens - 1),
    )


def _for_each_layer(size: int | tuple[int, ...] | None, layers: int, make: Callable[[int | None], M]) -> list[M]:
    """Return one mask for each layer; layers with equal windows share a mask, whose tensor is then computed once."""
    sizes = size if isinstance(size, tuple) else (size,) * layers
    made = {one: make(one) for one in set(sizes)}
    return [made[one] for one in sizes]


def final_norm(config: TransformerConfig) -> nn.Module | None:
    """The norm after the last block; None if the configuration has no such norm."""
    wanted = config.norm_first if config.final_norm is None else config.final_norm
    return _norm(config) if wanted else None


def position_table(config: TransformerConfig) -> PositionTable | None:
    """The position vectors that are added to the input or concatenated with it.

    None if there are none, because positions enter in attention (such as rotary ones) or not at all.
    """
    width = config.position_width or _embedding_width(config)
    how: Literal["add", "concatenate"] = "concatenate" if config.position_width else "add"
    if config.position == "linear":
        return LinearPositions(width, how, config.position_slope, config.position_offset)
    if config.position == "sinusoidal":
        return Sinusoidal(width, how, interleaved=not config.sines_first)
    if config.position == "learned":
        return Learned(width, config.max_length, how, config.skipped_positions)
    return None


def _attention(config: TransformerConfig, *, cross: bool, causal: bool = False) -> MultiHead:
    width = config.head_width or config.width // config.num_heads
    rotary = None
    if config.position == "rotary" and not cross:  # positions in source and target cannot be compared
        scaling = RotaryScaling(config.rotary_factor, config.rotary_bands, config.rotary_trained_length)
        turned = config.rotary_width, scaling if config.rotary_factor != 1.0 else None
        rotary = Rotary(width, config.rotary_base, config.rotary_interleaved, *turned)
    relative = None
    if config.position == "relative" and not cross:
        relative = RelativePositions(config.num_heads, config.relative_buckets, config.relative_distance, causal)
    attention = MultiHead(
        config.width,
        config.num_heads,
        num_key_heads=config.num_key_heads,
        head_width=config.head_width,
        score=score_for_heads(config.score, width, config.num_heads),
        weights=config.weights,
        dropout=config.attention_dropout,
        rotary=rotary,
        alibi=config.position == "alibi" and not cross,
        relative=relative,
        bias=config.bias if config.projection_bias is None else config.projection_bias,
        output_bias=config.bias,
    )
    attention.mixes_alone = True
    return attention


def _norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    return NORMS[config.norm](width or config.width, config.norm_epsilon, config.bias)


def _embedding_width(config: TransformerConfig) -> int:
    return config.embedding_width or config.width
