"""BERT (Devlin 2019) and models with the same architecture: RoBERTa (Liu 2019), DistilBERT (Sanh 2019), ALBERT (Lan
2020), and sentence encoders such as MiniLM."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs

__all__ = ["ALBERT", "BERT", "DISTILBERT", "ROBERTA"]


def _encoder(use: Use, tied: bool, **fields: Any) -> TransformerConfig:
    return TransformerConfig(
        norm_first=False,
        position="learned",
        embedding_norm=True,
        tied_output=tied or use != "fill",
        output_bias=use == "fill",
        output_transform=use == "fill",
        **fields,
    )


def _bert(fields: Fields, use: Use, names: Collection[str], **more: Any) -> TransformerConfig:
    fields.expect("position_embedding_type", "absolute")
    fields.expect("is_decoder", False)
    fields.expect("add_cross_attention", False)
    sizes: dict[str, Any] = {
        "width": fields.whole("hidden_size"),
        "num_heads": fields.whole("num_attention_heads"),
        "encoder_layers": fields.whole("num_hidden_layers"),
        "feedforward_width": fields.whole("intermediate_size"),
        "activation": fields.activation("hidden_act"),
        "norm_epsilon": fields.number("layer_norm_eps", 1e-12),
        "dropout": fields.number("hidden_dropout_prob", 0.1),
        "attention_dropout": fields.number("attention_probs_dropout_prob", 0.1),
        "max_length": fields.whole("max_position_embeddings"),
        "token_types": fields.whole("type_vocab_size"),
    }
    return _encoder(use, fields.flag("tie_word_embeddings", True), **sizes | more)


def _roberta(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    skipped = fields.whole("pad_token_id", 1) + 1
    if use == "fill":  # the output layer of RoBERTa always uses GELU; in Saccade, it has the activation of the blocks
        fields.expect("hidden_act", "gelu", "gelu_python")
    return _bert(
        fields, use, names, skipped_positions=skipped, max_length=fields.whole("max_position_embeddings") - skipped
    )


def _distilbert(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    fields.flag("sinusoidal_pos_embds", False)  # only says how learned positions were initialised
    return _encoder(
        use,
        fields.flag("tie_word_embeddings", True),
        width=fields.whole("dim"),
        num_heads=fields.whole("n_heads"),
        encoder_layers=fields.whole("n_layers"),
        feedforward_width=fields.whole("hidden_dim"),
        activation=fields.activation("activation"),
        norm_epsilon=1e-12,
        dropout=fields.number("dropout", 0.1),
        attention_dropout=fields.number("attention_dropout", 0.1),
        max_length=fields.whole("max_position_embeddings"),
    )


def _albert(fields: Fields, use: Use, names: Collection[str]) -> TransformerConfig:
    fields.expect("num_hidden_groups", 1)
    fields.expect("inner_group_num", 1)
    for name, value in (("down_scale_factor", 1), ("gap_size", 0), ("net_structure_type", 0), ("num_memory_blocks", 0)):
        fields.expect(name, value)
    return _bert(fields, use, names, embedding_width=fields.whole("embedding_size"), shared_layers=True)


def _described(config: TransformerConfig) -> dict[str, Any]:
    return {
        "hidden_size": config.width,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.encoder_layers,
        "intermediate_size": config.feedforward_width,
        "hidden_act": theirs(config.activation),
        "layer_norm_eps": config.norm_epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": config.token_types,
        "tie_word_embeddings": config.tied_output,
    }


def _roberta_described(config: TransformerConfig) -> dict[str, Any]:
    skipped = config.skipped_positions
    more = {"pad_token_id": skipped - 1, "max_position_embeddings": config.max_length + skipped}
    return _described(config) | (more if skipped else {})


def _distilbert_described(config: TransformerConfig) -> dict[str, Any]:
    return {
        "dim": config.width,
        "n_heads": config.num_heads,
        "n_layers": config.encoder_layers,
        "hidden_dim": config.feedforward_width,
        "activation": theirs(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "max_position_embeddings": config.max_length,
        "tie_word_embeddings": config.tied_output,
    }


def _albert_described(config: TransformerConfig) -> dict[str, Any]:
    return _described(config) | {"embedding_size": config.embedding_width or config.width}


def _rows(prefix: str, layer: str, parts: dict[str, str | tuple[str, ...]]) -> tuple[Row, ...]:
    """Return the rows that all these models have; ``parts`` maps the names in a Saccade layer to those in ``layer``."""
    named = {
        ours: tuple(f"{layer}.{part}" for part in ([theirs] if isinstance(theirs, str) else theirs))
        for ours, theirs in parts.items()
    }
    return (
        Row("input.words.weight", f"{prefix}.embeddings.word_embeddings.weight"),
        Row("input.positions.weight", f"{prefix}.embeddings.position_embeddings.weight"),
        Row("input.types.weight", f"{prefix}.embeddings.token_type_embeddings.weight"),
        Row("input.norm", f"{prefix}.embeddings.LayerNorm"),
        *(Row("encoder.{n}." + ours, theirs) for ours, theirs in named.items()),
    )


def _labelling(start: str) -> dict[str, Use]:
    """Return the classes of ``transformers`` that label a text, or each of its words."""
    return {f"{start}ForSequenceClassification": "label texts", f"{start}ForTokenClassification": "label words"}


_BERT_LAYER: dict[str, str | tuple[str, ...]] = {
    "self.query": "attention.self.query",
    "self.key_value": ("attention.self.key", "attention.self.value"),
    "self.output": "attention.output.dense",
    "self_norm": "attention.output.LayerNorm",
    "feedforward.inner": "intermediate.dense",
    "feedforward.outer": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}

BERT = Family(
    name="BERT",
    model_type="bert",
    architectures={
        "BertForMaskedLM": "fill",
        "BertForPreTraining": "fill",
        "BertModel": "encode",
        **_labelling("Bert"),
    },
    configure=_bert,
    describe=_described,
    prefix="bert.",
    rows=(
        *_rows("bert", "bert.encoder.layer.{n}", _BERT_LAYER),
        Row("output.transform", "cls.predictions.transform.dense"),
        Row("output.transform_norm", "cls.predictions.transform.LayerNorm"),
        Row("output.words.weight", "cls.predictions.decoder.weight"),
        Row("output.words.bias", "cls.predictions.bias"),
        Row("pooled", "bert.pooler.dense"),
        Row("output", "classifier"),
    ),
    tied="cls.predictions.decoder.weight",
    copies={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    unused=(r"bert\.embeddings\.position_ids", r"bert\.pooler\..*", r"cls\.seq_relationship\..*"),
)

ROBERTA = Family(
    name="RoBERTa",
    model_type="roberta",
    architectures={
        "RobertaForMaskedLM": "fill",
        "RobertaModel": "encode",
        "RobertaForSequenceClassification": "label texts",
    },
    configure=_roberta,
    describe=_roberta_described,
    prefix="roberta.",
    rows=(
        *_rows("roberta", "roberta.encoder.layer.{n}", _BERT_LAYER),
        Row("output.transform", "lm_head.dense"),
        Row("output.transform_norm", "lm_head.layer_norm"),
        Row("output.words.weight", "lm_head.decoder.weight"),
        Row("output.words.bias", "lm_head.bias"),
        Row("pooled", "classifier.dense"),
        Row("output", "classifier.out_proj"),
    ),
    tied="lm_head.decoder.weight",
    copies={"lm_head.decoder.bias": "lm_head.bias"},
    unused=(r"roberta\.embeddings\.position_ids", r"roberta\.pooler\..*"),
)

DISTILBERT = Family(
    name="DistilBERT",
    model_type="distilbert",
    architectures={"DistilBertForMaskedLM": "fill", "DistilBertModel": "encode", **_labelling("DistilBert")},
    configure=_distilbert,
    describe=_distilbert_described,
    pooled_layer="relu",
    prefix="distilbert.",
    rows=(
        *_rows(
            "distilbert",
            "distilbert.transformer.layer.{n}",
            {
                "self.query": "attention.q_lin",
                "self.key_value": ("attention.k_lin", "attention.v_lin"),
                "self.output": "attention.out_lin",
                "self_norm": "sa_layer_norm",
                "feedforward.inner": "ffn.lin1",
                "feedforward.outer": "ffn.lin2",
                "feedforward_norm": "output_layer_norm",
            },
        ),
        Row("output.transform", "vocab_transform"),
        Row("output.transform_norm", "vocab_layer_norm"),
        Row("output.words.weight", "vocab_projector.weight"),
        Row("output.words.bias", "vocab_projector.bias"),
        Row("pooled", "pre_classifier"),
        Row("output", "classifier"),
    ),
    tied="vocab_projector.weight",
    unused=(r"distilbert\.embeddings\.position_ids",),
)

ALBERT = Family(
    name="ALBERT",
    model_type="albert",
    architectures={
        "AlbertForMaskedLM": "fill",
        "AlbertForPreTraining": "fill",
        "AlbertModel": "encode",
        **_labelling("Albert"),
    },
    configure=_albert,
    describe=_albert_described,
    prefix="albert.",
    rows=(
        *_rows(
            "albert",
            "albert.encoder.albert_layer_groups.0.albert_layers.0",
            {
                "self.query": "attention.query",
                "self.key_value": ("attention.key", "attention.value"),
                "self.output": "attention.dense",
                "self_norm": "attention.LayerNorm",
                "feedforward.inner": "ffn",
                "feedforward.outer": "ffn_output",
                "feedforward_norm": "full_layer_layer_norm",
            },
        ),
        Row("input.widen", "albert.encoder.embedding_hidden_mapping_in"),
        Row("output.transform", "predictions.dense"),
        Row("output.transform_norm", "predictions.LayerNorm"),
        Row("output.words.weight", "predictions.decoder.weight"),
        Row("output.words.bias", "predictions.bias"),
        Row("pooled", "albert.pooler"),
        Row("output", "classifier"),
    ),
    tied="predictions.decoder.weight",
    copies={"predictions.decoder.bias": "predictions.bias"},
    unused=(r"albert\.embeddings\.position_ids", r"albert\.pooler\..*", r"sop_classifier\..*"),
)
