"""ViT (Dosovitskiy 2021), and DeiT (Touvron 2021), which has a second token that is trained to imitate a teacher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from saccade.models import VisionConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs

__all__ = ["DEIT", "VIT"]


def _vit(fields: Fields, use: Use, names: Collection[str], **more: Any) -> VisionConfig:
    side = fields.whole("image_size")
    return VisionConfig(
        image_size=(side, side),
        channels=fields.whole("num_channels", 3),
        patch=fields.whole("patch_size"),
        width=fields.whole("hidden_size"),
        num_heads=fields.whole("num_attention_heads"),
        encoder_layers=fields.whole("num_hidden_layers"),
        feedforward_width=fields.whole("intermediate_size"),
        activation=fields.activation("hidden_act"),
        projection_bias=fields.flag("qkv_bias", True),
        norm_epsilon=fields.number("layer_norm_eps", 1e-12),
        dropout=fields.number("hidden_dropout_prob", 0.0),
        attention_dropout=fields.number("attention_probs_dropout_prob", 0.0),
        **more,
    )


def _deit(fields: Fields, use: Use, names: Collection[str]) -> VisionConfig:
    is_averaged = fields.values["architectures"] == ["DeiTForImageClassificationWithTeacher"]
    return _vit(fields, use, names, distillation="output" if is_averaged else "token")


def _described(config: Any) -> dict[str, Any]:
    return {
        "image_size": config.image_size[0],
        "num_channels": config.channels,
        "patch_size": config.patch,
        "hidden_size": config.width,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": config.encoder_layers,
        "intermediate_size": config.feedforward_width,
        "hidden_act": theirs(config.activation),
        "qkv_bias": config.bias if config.projection_bias is None else config.projection_bias,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
    }


def _family(
    name: str,
    prefix: str,
    architectures: Mapping[str, Use],
    configure: Callable[[Fields, Use, Collection[str]], Any],
    *more: Row,
) -> Family:
    layer = prefix + ".encoder.layer.{n}"
    parts: dict[str, str | tuple[str, ...]] = {
        "self_norm": "layernorm_before",
        "self.query": "attention.attention.query",
        "self.key_value": ("attention.attention.key", "attention.attention.value"),
        "self.output": "attention.output.dense",
        "feedforward_norm": "layernorm_after",
        "feedforward.inner": "intermediate.dense",
        "feedforward.outer": "output.dense",
    }
    named = {
        ours: tuple(f"{layer}.{one}" for one in ([other] if isinstance(other, str) else other))
        for ours, other in parts.items()
    }
    return Family(
        name=name,
        model_type=prefix,
        architectures=architectures,
        configure=configure,
        describe=_described,
        rows=(
            Row("class_token", f"{prefix}.embeddings.cls_token"),
            Row("positions.weight", f"{prefix}.embeddings.position_embeddings", leading=1),
            Row("patches", f"{prefix}.embeddings.patch_embeddings.projection"),
            *(Row("encoder.{n}." + ours, other) for ours, other in named.items()),
            Row("encoder_norm", f"{prefix}.layernorm"),
            *more,
        ),
    )


VIT = _family("ViT", "vit", {"ViTForImageClassification": "label images"}, _vit, Row("output", "classifier"))
DEIT = _family(
    "DeiT",
    "deit",
    {"DeiTForImageClassification": "label images", "DeiTForImageClassificationWithTeacher": "label images"},
    _deit,
    Row("distillation_token", "deit.embeddings.distillation_token"),
    Row("output", "classifier", when=("distillation", "token")),
    Row("output", "cls_classifier", when=("distillation", "output")),
    Row("distilled_output", "distillation_classifier"),
)
