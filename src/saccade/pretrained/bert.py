"""BERT (Devlin 2019), and the sentence encoders that have its shape, such as MiniLM."""

from __future__ import annotations

from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields

__all__ = ["BERT"]


def _configure(fields: Fields, use: Use) -> TransformerConfig:
    fields.expect("position_embedding_type", "absolute")
    fields.expect("is_decoder", False)
    fields.expect("add_cross_attention", False)
    return TransformerConfig(
        width=fields.whole("hidden_size"),
        num_heads=fields.whole("num_attention_heads"),
        encoder_layers=fields.whole("num_hidden_layers"),
        feedforward_width=fields.whole("intermediate_size"),
        activation=fields.activation("hidden_act"),
        norm_first=False,
        norm_epsilon=fields.number("layer_norm_eps", 1e-12),
        dropout=fields.number("hidden_dropout_prob", 0.1),
        attention_dropout=fields.number("attention_probs_dropout_prob", 0.1),
        position="learned",
        max_length=fields.whole("max_position_embeddings"),
        embedding_norm=True,
        token_types=fields.whole("type_vocab_size"),
        tied_output=fields.flag("tie_word_embeddings", True) or use != "fill",
        output_bias=use == "fill",
        output_transform=use == "fill",
    )


_LAYER = "bert.encoder.layer.{n}"
BERT = Family(
    name="BERT",
    model_type="bert",
    architectures={"BertForMaskedLM": "fill", "BertForPreTraining": "fill", "BertModel": "encode"},
    configure=_configure,
    prefix="bert.",
    rows=(
        Row("input.words.weight", "bert.embeddings.word_embeddings.weight"),
        Row("input.positions.weight", "bert.embeddings.position_embeddings.weight"),
        Row("input.types.weight", "bert.embeddings.token_type_embeddings.weight"),
        Row("input.norm", "bert.embeddings.LayerNorm"),
        Row("encoder.{n}.self.query", f"{_LAYER}.attention.self.query"),
        Row("encoder.{n}.self.key_value", (f"{_LAYER}.attention.self.key", f"{_LAYER}.attention.self.value")),
        Row("encoder.{n}.self.output", f"{_LAYER}.attention.output.dense"),
        Row("encoder.{n}.self_norm", f"{_LAYER}.attention.output.LayerNorm"),
        Row("encoder.{n}.feedforward.inner", f"{_LAYER}.intermediate.dense"),
        Row("encoder.{n}.feedforward.outer", f"{_LAYER}.output.dense"),
        Row("encoder.{n}.feedforward_norm", f"{_LAYER}.output.LayerNorm"),
        Row("output.transform", "cls.predictions.transform.dense"),
        Row("output.transform_norm", "cls.predictions.transform.LayerNorm"),
        Row("output.words.weight", "cls.predictions.decoder.weight"),
        Row("output.words.bias", "cls.predictions.bias"),
    ),
    tied="cls.predictions.decoder.weight",
    unused=(
        r"bert\.embeddings\.position_ids",
        r"bert\.pooler\..*",
        r"cls\.seq_relationship\..*",
        r"cls\.predictions\.decoder\.bias",  # the same as cls.predictions.bias
    ),
)
