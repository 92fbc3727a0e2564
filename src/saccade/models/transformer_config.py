"""The configuration of a Transformer.

Every difference between published models (GPT-2, BERT, Marian, ViT, Llama) is a field of the configuration, so no code
depends on the name of a model.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from saccade.models.config import Config
from saccade.models.layers import Activation, NormKind

__all__ = [
    "DecoderOnlyConfig",
    "EncoderDecoderConfig",
    "EncoderOnlyConfig",
    "PositionKind",
    "TransformerConfig",
]

PositionKind = Literal["none", "linear", "sinusoidal", "learned", "rotary", "alibi", "relative"]
#: Kinds of positions that have no table of vectors to combine with the input.
WITHOUT_TABLE = ("none", "rotary", "alibi", "relative")
#: Fields that only matter to networks with a decoder, with an input of words, or with an output of words.
OF_DECODER = frozenset({"decoder_layers", "attention_window"})
OF_WORD_INPUT = frozenset({"one_hot", "embedding_width", "scaled_embedding", "embedding_norm", "token_types"})
OF_WORD_OUTPUT = frozenset({"tied_output", "tied_embeddings", "output_bias", "scaled_output", "output_transform"})


class TransformerConfig(Config):
    """The settings of a Transformer."""

    width: int = Field(256, ge=1, description="Width of the vector at each position")
    num_heads: int = Field(4, ge=1, description="Number of attention heads in each layer")
    num_key_heads: int | None = Field(
        None,
        description="Number of key and value heads, if fewer than num_heads; each is then shared by a group of heads",
    )
    head_width: int | None = Field(None, description="Width of each head; width / num_heads if not given")
    encoder_layers: int = Field(0, ge=0, description="Number of blocks that read the source")
    decoder_layers: int = Field(0, ge=0, description="Number of blocks that write the target")
    feedforward_width: int = Field(
        1024, ge=1, description="Hidden width of the feed-forward layer, which is applied to each position separately"
    )
    activation: Activation = Field(
        "relu", description="Activation of the feed-forward layer: relu, gelu, gelu_tanh or silu"
    )
    gated: bool = Field(False, description="Multiply the activation by a gate")
    bias: bool = Field(True, description="Give projections, feed-forward layers and layer norms a bias")
    projection_bias: bool | None = Field(
        None, description="Give the projections of queries, keys and values a bias; by default only if bias is true"
    )
    parallel: bool = Field(
        False, description="Run attention and the feed-forward layer side by side (as GPT-NeoX does)"
    )
    shared_layers: bool = Field(False, description="Use the same weights in every block (as ALBERT does)")
    attention_window: int | tuple[int, ...] | None = Field(
        None,
        description="Number of tokens that each decoder token sees, counting back from itself, or a list with one "
        "number for each decoder layer; by default all",
    )
    encoder_window: int | tuple[int, ...] | None = Field(
        None,
        description="Number of neighbours on each side that each encoder token sees (local attention), or a list with "
        "one number for each encoder layer; by default all",
    )
    norm: NormKind = Field("layer", description="Kind of normalisation: layer or rms")
    norm_first: bool = Field(
        True,
        description="Normalise before each layer (pre-norm, now usual) instead of after it (as in the 2017 paper)",
    )
    norm_epsilon: float = Field(1e-5, gt=0, le=1, description="Small number that prevents division by 0 in norms")
    final_norm: bool | None = Field(
        None, description="Normalise after the last block; by default only if norm_first is true"
    )
    score: str = Field(
        "scaled_dot",
        description="How queries and keys are compared: dot, scaled_dot, cosine, bilinear, additive or mlp",
    )
    weights: str = Field("softmax", description="How scores become weights: softmax, relu, sparsemax or hard")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout on embeddings and on the output of each layer")
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on attention weights; the fast kernel is only used with 0"
    )
    feedforward_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout inside the feed-forward layer")
    position: PositionKind = Field(
        "sinusoidal",
        description="How positions are encoded: none, linear, sinusoidal, learned, rotary, alibi or relative",
    )
    position_width: int = Field(
        0, ge=0, description="If above 0, position vectors of this width are concatenated instead of added"
    )
    position_slope: float = Field(
        1.0, description="For linear positions: a in (a · position + b) · u, where u is a learned vector"
    )
    position_offset: float = Field(0.0, description="For linear positions: b in (a · position + b) · u")
    sines_first: bool = Field(False, description="In sinusoidal positions, put all sines before all cosines")
    max_length: int = Field(512, ge=1, description="Number of learned positions: the longest text, in tokens")
    skipped_positions: int = Field(
        0,
        ge=0,
        description="Unused rows at the start of the table of learned positions (2 in RoBERTa and BART)",
    )
    rotary_base: float = Field(
        10000.0, gt=0, description="Base of the rotary angles: the slowest one is about 1 / rotary_base per position"
    )
    rotary_width: int | None = Field(
        None, ge=2, description="How many numbers of each head's vectors are rotated; by default all"
    )
    rotary_interleaved: bool = Field(
        False, description="Rotate pairs of adjacent numbers instead of pairing the two halves of a vector"
    )
    rotary_factor: float = Field(
        1.0, gt=0, description="Divide the rotary angles by this, to read longer texts than the model was trained on"
    )
    rotary_bands: tuple[float, float] | None = Field(
        None,
        description="Divide only the slow angles (as Llama 3 does): angles that turn fewer times than the first "
        "number within rotary_trained_length positions are fully divided, those that turn more often than the "
        "second not at all",
    )
    rotary_trained_length: int = Field(
        8192, ge=1, description="For rotary_bands: the number of positions over which turns are counted"
    )
    relative_buckets: int = Field(
        32,
        ge=2,
        le=1 << 16,
        description="For relative positions: the number of distance ranges, each with a learned number",
    )
    relative_distance: int = Field(
        128,
        ge=2,
        le=1 << 24,
        description="For relative positions: all distances from this one on share the same learned number",
    )
    one_hot: bool = Field(False, description="Use one-hot vectors for words instead of learning an embedding")
    embedding_width: int | None = Field(
        None, ge=1, description="Width of the embeddings, which are then projected to width (as ALBERT does)"
    )
    scaled_embedding: bool = Field(False, description="Multiply embeddings by √width")
    embedding_norm: bool = Field(False, description="Normalise the embeddings")
    token_types: int = Field(
        0, ge=0, description="If above 0, learn a vector for each token type (such as sentence A or B)"
    )
    tied_output: bool = Field(True, description="Use the (target) embedding as the output layer")
    tied_embeddings: bool = Field(False, description="Share one embedding between source and target")
    output_bias: bool = Field(False, description="Learn a bias for each word in the output layer")
    scaled_output: bool = Field(False, description="Divide the last vectors by √width before the output layer (T5)")
    output_transform: bool = Field(
        False, description="Put a dense layer, an activation and a norm before the output layer (as BERT does)"
    )

    @model_validator(mode="after")
    def _consistent(self) -> TransformerConfig:
        if self.position_width and self.position in WITHOUT_TABLE:
            raise ValueError(
                f"position_width needs a table of positions, which position = {self.position!r} does not have"
            )
        if self.position == "linear" and self.position_slope == 0:
            raise ValueError("position_slope = 0 gives every position the same vector")
        if self.rotary_bands is not None and not 0 <= self.rotary_bands[0] < self.rotary_bands[1]:
            raise ValueError(f"rotary_bands must be two increasing numbers of at least 0, not {self.rotary_bands}")
        if self.parallel and not self.norm_first:
            raise ValueError("parallel needs norm_first = true")
        if self.embedding_width is not None and (self.position_width or self.one_hot or self.decoder_layers):
            raise ValueError("embedding_width needs decoder_layers = 0, one_hot = false and position_width = 0")
        if self.position_width and (self.tied_output or self.position_width >= self.width):
            raise ValueError("position_width must be below width and needs tied_output = false")
        self._check_window("encoder_window", "encoder_layers", 0)
        self._check_window("attention_window", "decoder_layers", 1)
        if self.one_hot and (self.tied_output or self.tied_embeddings):
            raise ValueError("one_hot learns no embedding, so tied_output and tied_embeddings must be false")
        return self

    def _check_window(self, name: str, layers: str, least: int) -> None:
        window, number = getattr(self, name), getattr(self, layers)
        if isinstance(window, tuple) and len(window) != number:
            raise ValueError(f"{name} must have one number for each layer: {layers} is {number}, not {len(window)}")
        sizes = window if isinstance(window, tuple) else (window,)
        if any(size is not None and size < least for size in sizes):
            raise ValueError(f"{name} must be at least {least}")


class EncoderOnlyConfig(TransformerConfig):
    """The settings of a Transformer that reads a text in both directions."""

    unused = OF_DECODER | {"tied_embeddings"}

    encoder_layers: int = Field(0, ge=0, description="Number of blocks")
    tied_output: bool = Field(True, description="Use the embedding as the output layer")


class DecoderOnlyConfig(TransformerConfig):
    """The settings of a Transformer that predicts the next token."""

    unused = frozenset({"encoder_layers", "encoder_window", "embedding_width", "tied_embeddings"})

    decoder_layers: int = Field(0, ge=0, description="Number of blocks")
    tied_output: bool = Field(True, description="Use the embedding as the output layer")


class EncoderDecoderConfig(TransformerConfig):
    """The settings of a Transformer that reads one text and writes another."""

    unused = frozenset({"embedding_width"})
