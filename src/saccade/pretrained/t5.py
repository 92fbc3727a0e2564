"""T5 (Raffel 2020): an encoder and a decoder with the same vocabulary, and a learned attention bias per distance."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from saccade.errors import FileError
from saccade.models import TransformerConfig
from saccade.models.layers import Activation
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import ACTIVATIONS, Fields, theirs

__all__ = ["T5"]


def _configure(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    layers, tied = fields.whole("num_layers"), fields.flag("tie_word_embeddings", True)
    activation, gated = _feedforward(fields)
    fields.expect("is_decoder", False)
    fields.whole("n_positions", 0)  # distances have no limit
    return TransformerConfig(
        width=fields.whole("d_model"),
        num_heads=fields.whole("num_heads"),
        head_width=fields.whole("d_kv"),
        encoder_layers=layers,
        decoder_layers=fields.whole("num_decoder_layers", layers),
        feedforward_width=fields.whole("d_ff"),
        activation=activation,
        gated=gated,
        bias=False,
        norm="rms",
        norm_epsilon=fields.number("layer_norm_epsilon", 1e-6),
        score="dot",
        dropout=fields.number("dropout_rate", 0.1),
        attention_dropout=fields.number("dropout_rate", 0.1),
        feedforward_dropout=fields.number("dropout_rate", 0.1),
        position="relative",
        relative_buckets=fields.whole("relative_attention_num_buckets", 32),
        relative_distance=fields.whole("relative_attention_max_distance", 128),
        tied_embeddings=True,
        tied_output=tied,
        scaled_output=fields.flag("scale_decoder_outputs", tied),
    )


def _feedforward(fields: Fields) -> tuple[Activation, bool]:
    """Return the activation, and whether it is gated; "gated-gelu" always uses the tanh approximation of GELU."""
    name: str = fields.take("feed_forward_proj", str, "relu")
    gated = name.startswith("gated-")
    plain = "gelu_new" if name == "gated-gelu" else name.removeprefix("gated-")
    for key, value in (("dense_act_fn", plain), ("is_gated_act", gated)):  # newer files repeat these two
        fields.expect(key, value)
    if plain not in ACTIVATIONS:
        raise FileError(
            f"{fields.where}: feed_forward_proj is {name[:60]!r}; Saccade supports {', '.join(ACTIVATIONS)}, each also "
            "with the prefix 'gated-'."
        )
    return ACTIVATIONS[plain], gated


def _described(config: TransformerConfig) -> dict[str, Any]:
    plain = theirs(config.activation)
    gated = "gated-gelu" if plain == "gelu_new" else f"gated-{plain}"
    return {
        "d_model": config.width,
        "num_heads": config.num_heads,
        "d_kv": config.head_width or config.width // config.num_heads,
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "d_ff": config.feedforward_width,
        "feed_forward_proj": gated if config.gated else plain,
        "layer_norm_epsilon": config.norm_epsilon,
        "dropout_rate": config.dropout,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_distance,
        "tie_word_embeddings": config.tied_output,
        "is_encoder_decoder": True,
    }


def _rows() -> tuple[Row, ...]:
    rows = [Row("source.words.weight", "shared.weight"), Row("output.words.weight", "lm_head.weight")]
    for stack, parts in (("encoder", ("self", "")), ("decoder", ("self", "cross", ""))):
        for number, part in enumerate(parts):
            ours, theirs = stack + ".{n}.", f"{stack}.block." + "{n}" + f".layer.{number}."
            if part:
                other = theirs + ("SelfAttention" if part == "self" else "EncDecAttention")
                rows += [
                    Row(f"{ours}{part}.query", f"{other}.q"),
                    Row(f"{ours}{part}.key_value", (f"{other}.k", f"{other}.v")),
                    Row(f"{ours}{part}.output", f"{other}.o"),
                    Row(f"{ours}{part}.relative.weight", f"{other}.relative_attention_bias.weight"),
                ]
            else:
                dense = theirs + "DenseReluDense"
                rows += [
                    Row(f"{ours}feedforward.inner", f"{dense}.wi", when=("gated", False)),
                    Row(f"{ours}feedforward.inner", (f"{dense}.wi_0", f"{dense}.wi_1"), when=("gated", True)),
                    Row(f"{ours}feedforward.outer", f"{dense}.wo"),
                ]
            rows.append(Row(f"{ours}{part or 'feedforward'}_norm", f"{theirs}layer_norm"))
        rows.append(Row(f"{stack}_norm", f"{stack}.final_layer_norm"))
    return tuple(rows)


T5 = Family(
    name="T5",
    model_type="t5",
    architectures={"T5ForConditionalGeneration": "rewrite", "T5Model": "rewrite"},
    configure=_configure,
    describe=_described,
    rows=_rows(),
    tied="lm_head.weight",
    copies={f"{stack}.embed_tokens.weight": "shared.weight" for stack in ("encoder", "decoder")},
    unused=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),  # early versions
)
