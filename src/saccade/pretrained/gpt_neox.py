"""GPT-NeoX (Black 2022) and Pythia (Biderman 2023)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs
from saccade.pretrained.llama import rotary_fields, rotary_table

__all__ = ["GPT_NEOX"]


def _configure(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    fields.expect("attention_bias", True)
    fields.expect("is_decoder", False, True)
    width, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    rotary, share = rotary_fields(fields, "rotary_emb_base", fields.number("rotary_pct", 0.25))
    fields.expect("rope_theta", rotary["rotary_base"])  # some files repeat it under this name
    fields.whole("max_position_embeddings", 0)  # rotary positions have no limit
    return TransformerConfig(
        width=width,
        num_heads=heads,
        decoder_layers=fields.whole("num_hidden_layers"),
        feedforward_width=fields.whole("intermediate_size"),
        activation=fields.activation("hidden_act"),
        norm_epsilon=fields.number("layer_norm_eps", 1e-5),
        dropout=fields.number("hidden_dropout", 0.0),
        attention_dropout=fields.number("attention_dropout", 0.0),
        parallel=fields.flag("use_parallel_residual", True),
        position="rotary",
        rotary_width=int(width // max(heads, 1) * share),
        **rotary,
        tied_output=fields.flag("tie_word_embeddings", False),
    )


def _described(config: TransformerConfig) -> dict[str, Any]:
    head = config.width // config.num_heads
    return {
        "hidden_size": config.width,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.decoder_layers,
        "intermediate_size": config.feedforward_width,
        "hidden_act": theirs(config.activation),
        "layer_norm_eps": config.norm_epsilon,
        "hidden_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "use_parallel_residual": config.parallel,
        "rope_parameters": rotary_table(config) | {"partial_rotary_factor": (config.rotary_width or head) / head},
        "tie_word_embeddings": config.tied_output,
    }


_LAYER = "gpt_neox.layers.{n}"
GPT_NEOX = Family(
    name="GPT-NeoX",
    model_type="gpt_neox",
    architectures={"GPTNeoXForCausalLM": "continue"},
    configure=_configure,
    describe=_described,
    rows=(
        Row("input.words.weight", "gpt_neox.embed_in.weight"),
        Row("decoder.{n}.self_norm", f"{_LAYER}.input_layernorm"),
        Row(
            ("decoder.{n}.self.query", "decoder.{n}.self.key_value"),
            f"{_LAYER}.attention.query_key_value",
            by_head=True,
        ),
        Row("decoder.{n}.self.output", f"{_LAYER}.attention.dense"),
        Row("decoder.{n}.feedforward_norm", f"{_LAYER}.post_attention_layernorm"),
        Row("decoder.{n}.feedforward.inner", f"{_LAYER}.mlp.dense_h_to_4h"),
        Row("decoder.{n}.feedforward.outer", f"{_LAYER}.mlp.dense_4h_to_h"),
        Row("decoder_norm", "gpt_neox.final_layer_norm"),
        Row("output.words.weight", "embed_out.weight"),
    ),
    tied="embed_out.weight",
    unused=(r"gpt_neox\.layers\.\d+\.attention\.(masked_bias|bias|rotary_emb\.inv_freq)",),
)
