"""GPT-2 (Radford 2019)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs

__all__ = ["GPT2"]


def _configure(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    for name in ("reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx", "add_cross_attention"):
        fields.expect(name, False)
    fields.expect("scale_attn_weights", True)
    fields.number("embd_pdrop", 0.1)  # Saccade uses the same dropout for embeddings as elsewhere
    width = fields.whole("n_embd")
    return TransformerConfig(
        width=width,
        num_heads=fields.whole("n_head"),
        decoder_layers=fields.whole("n_layer"),
        feedforward_width=fields.whole("n_inner", 4 * width),
        activation=fields.activation("activation_function"),
        norm_epsilon=fields.number("layer_norm_epsilon", 1e-5),
        dropout=fields.number("resid_pdrop", 0.1),
        attention_dropout=fields.number("attn_pdrop", 0.1),
        position="learned",
        max_length=fields.whole("n_positions"),
        tied_output=fields.flag("tie_word_embeddings", True),
    )


def _described(config: TransformerConfig) -> dict[str, Any]:
    return {
        "n_embd": config.width,
        "n_head": config.num_heads,
        "n_layer": config.decoder_layers,
        "n_inner": config.feedforward_width,
        "n_positions": config.max_length,
        "activation_function": theirs(config.activation),
        "layer_norm_epsilon": config.norm_epsilon,
        "resid_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": config.tied_output,
    }


_LAYER = "transformer.h.{n}"
GPT2 = Family(
    name="GPT-2",
    model_type="gpt2",
    architectures={"GPT2LMHeadModel": "continue", "GPT2Model": "continue"},
    configure=_configure,
    describe=_described,
    prefix="transformer.",
    rows=(
        Row("input.words.weight", "transformer.wte.weight"),
        Row("input.positions.weight", "transformer.wpe.weight"),
        Row("decoder.{n}.self_norm", f"{_LAYER}.ln_1"),
        Row(("decoder.{n}.self.query", "decoder.{n}.self.key_value"), f"{_LAYER}.attn.c_attn", transposed=True),
        Row("decoder.{n}.self.output", f"{_LAYER}.attn.c_proj", transposed=True),
        Row("decoder.{n}.feedforward_norm", f"{_LAYER}.ln_2"),
        Row("decoder.{n}.feedforward.inner", f"{_LAYER}.mlp.c_fc", transposed=True),
        Row("decoder.{n}.feedforward.outer", f"{_LAYER}.mlp.c_proj", transposed=True),
        Row("decoder_norm", "transformer.ln_f"),
        Row("output.words.weight", "lm_head.weight"),
    ),
    tied="lm_head.weight",
    unused=(r"transformer\.h\.\d+\.attn\.(masked_)?bias",),
)
