"""BART (Lewis 2020) and Marian (Junczys-Dowmunt 2018): an encoder and a decoder with the same vocabulary."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs

__all__ = ["BART", "MARIAN"]


def _both(fields: Fields, names: Collection[str], **more: Any) -> TransformerConfig:
    """Return a configuration with the fields that BART and Marian share, plus ``more``. The encoder and the decoder
    must have the same number of heads and the same feed-forward width."""
    heads, hidden = fields.whole("encoder_attention_heads"), fields.whole("encoder_ffn_dim")
    fields.expect("decoder_attention_heads", heads)
    fields.expect("decoder_ffn_dim", hidden)
    fields.expect("is_decoder", False)
    for name in ("add_final_layer_norm", "add_bias_logits", "normalize_before"):
        fields.expect(name, False)
    fields.whole("num_hidden_layers", 0)  # the same as encoder_layers
    return TransformerConfig(
        width=fields.whole("d_model"),
        num_heads=heads,
        encoder_layers=fields.whole("encoder_layers"),
        decoder_layers=fields.whole("decoder_layers"),
        feedforward_width=hidden,
        activation=fields.activation("activation_function"),
        norm_first=False,
        dropout=fields.number("dropout", 0.1),
        attention_dropout=fields.number("attention_dropout", 0.0),
        feedforward_dropout=fields.number("activation_dropout", 0.0),
        scaled_embedding=fields.flag("scale_embedding", False),
        tied_embeddings=True,
        tied_output=fields.flag("tie_word_embeddings", True),
        output_bias="final_logits_bias" in names,
        **more,
    )


def _bart(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    fields.expect("static_position_embeddings", False)
    fields.expect("normalize_embedding", True)
    fields.expect("extra_pos_embeddings", 2)
    length = fields.whole("max_position_embeddings")
    return _both(fields, names, position="learned", max_length=length, skipped_positions=2, embedding_norm=True)


def _marian(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    fields.expect("share_encoder_decoder_embeddings", True)
    fields.expect("static_position_embeddings", True)
    fields.expect("normalize_embedding", False)
    fields.expect("decoder_vocab_size", fields.whole("vocab_size"))
    fields.whole("max_position_embeddings", 0)  # sinusoidal positions have no limit
    return _both(fields, names, position="sinusoidal", sines_first=True)


def _described(config: TransformerConfig) -> dict[str, Any]:
    stacks = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    return {
        "d_model": config.width,
        **{f"{stack}_layers": layers for stack, layers in stacks.items()},
        **{f"{stack}_attention_heads": config.num_heads for stack in stacks},
        **{f"{stack}_ffn_dim": config.feedforward_width for stack in stacks},
        "activation_function": theirs(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.feedforward_dropout,
        "scale_embedding": config.scaled_embedding,
        "max_position_embeddings": config.max_length,
        "tie_word_embeddings": config.tied_output,
        "forced_eos_token_id": None,
    }


def _rows() -> tuple[Row, ...]:
    rows = [
        Row("source.words.weight", "model.shared.weight"),
        Row("source.positions.weight", "model.encoder.embed_positions.weight"),
        Row("source.norm", "model.encoder.layernorm_embedding"),
        Row("target.positions.weight", "model.decoder.embed_positions.weight"),
        Row("target.norm", "model.decoder.layernorm_embedding"),
        Row("output.words.weight", "lm_head.weight"),
        Row("output.words.bias", "final_logits_bias", leading=1),
    ]
    for stack in ("encoder", "decoder"):
        ours, theirs = stack + ".{n}", f"model.{stack}.layers." + "{n}"
        attentions = {"self": "self_attn"} | ({"cross": "encoder_attn"} if stack == "decoder" else {})
        for own, other in attentions.items():
            rows += [
                Row(f"{ours}.{own}.query", f"{theirs}.{other}.q_proj"),
                Row(f"{ours}.{own}.key_value", (f"{theirs}.{other}.k_proj", f"{theirs}.{other}.v_proj")),
                Row(f"{ours}.{own}.output", f"{theirs}.{other}.out_proj"),
                Row(f"{ours}.{own}_norm", f"{theirs}.{other}_layer_norm"),
            ]
        rows += [
            Row(f"{ours}.feedforward.inner", f"{theirs}.fc1"),
            Row(f"{ours}.feedforward.outer", f"{theirs}.fc2"),
            Row(f"{ours}.feedforward_norm", f"{theirs}.final_layer_norm"),
        ]
    return tuple(rows)


_COPIES = {f"model.{stack}.embed_tokens.weight": "model.shared.weight" for stack in ("encoder", "decoder")}
BART = Family(
    name="BART",
    model_type="bart",
    architectures={"BartForConditionalGeneration": "rewrite", "BartModel": "rewrite"},
    configure=_bart,
    describe=_described,
    prefix="model.",
    rows=_rows(),
    tied="lm_head.weight",
    copies=_COPIES,
)
MARIAN = Family(
    name="Marian",
    model_type="marian",
    architectures={"MarianMTModel": "rewrite"},
    configure=_marian,
    describe=_described,
    prefix="model.",
    rows=_rows(),
    tied="lm_head.weight",
    copies=_COPIES,
    unused=(r"model\.(en|de)coder\.embed_positions\.weight",),  # Saccade computes them
)
