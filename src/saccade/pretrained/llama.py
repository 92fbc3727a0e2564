"""Llama (Touvron 2023) and models with the same architecture: Mistral (Jiang 2023) and Qwen2 (Yang 2024)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from saccade.errors import FileError, UnsupportedError
from saccade.models import TransformerConfig
from saccade.pretrained.family import Family, Row, Use
from saccade.pretrained.fields import Fields, theirs

__all__ = ["LLAMA", "MISTRAL", "QWEN2", "rotary_fields", "rotary_table"]


#: The window of Mistral models whose config.json does not mention one, as in transformers.
MISTRAL_WINDOW = 4096
#: The kinds of rotary positions that Saccade can express, and the fields that the table of each kind must have.
_KINDS: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


def rotary_fields(fields: Fields, base_name: str, share: float) -> tuple[dict[str, Any], float]:
    """Return the fields of Saccade's configuration for rotary positions, and the fraction of dimensions to rotate.

    They are read from ``rope_parameters`` in config.json, or in older files from ``rope_scaling`` and other fields.
    ``base_name`` is the older field for the base, and ``share`` the fraction if none is given.
    """
    newer = fields.take("rope_parameters", dict, {})
    older = fields.take("rope_scaling", dict, {})
    _check_table(fields, "rope_parameters", newer, {"rope_theta", "partial_rotary_factor"})
    _check_table(fields, "rope_scaling", older, set())
    if newer and older:
        raise UnsupportedError(
            f"{fields.where} has rope_parameters and rope_scaling; Saccade supports only one of them."
        )
    table = newer or older
    base = newer.get("rope_theta", fields.number(base_name, 10000.0))
    share = newer.get("partial_rotary_factor", share)
    numbers = [base, share, *(table[name] for name in _KINDS[_kind(table)])]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        raise FileError(f"{fields.where}: the values that describe rotary positions must be numbers.")
    found: dict[str, Any] = {"rotary_base": float(base)}
    if _kind(table) != "default":
        found["rotary_factor"] = float(table["factor"])
    if _kind(table) == "llama3":
        found["rotary_bands"] = (float(table["low_freq_factor"]), float(table["high_freq_factor"]))
        found["rotary_trained_length"] = int(table["original_max_position_embeddings"])
    return found, float(share)


def _kind(table: dict[str, Any]) -> str:
    return str(table.get("rope_type", table.get("type", "default")))


def _check_table(fields: Fields, name: str, table: dict[str, Any], more: set[str]) -> None:
    """Refuse a table of rotary positions that Saccade cannot express, or that lacks a field its kind needs."""
    needed = set(_KINDS.get(_kind(table), ()))
    if _kind(table) not in _KINDS or not needed <= set(table) <= needed | more | {"rope_type", "type"}:
        said = ", ".join(f"{key} = {value}" for key, value in table.items())
        kinds = "; ".join(", ".join((f"rope_type = {kind}", *names)) for kind, names in _KINDS.items())
        allowed = f", each also with {', '.join(sorted(more, reverse=True))}" if more else ""
        raise UnsupportedError(
            f"{fields.where}: {name} has {said[:200]}; Saccade supports these tables: {kinds}{allowed}."
        )


def rotary_table(config: TransformerConfig) -> dict[str, Any]:
    """Return the table ``rope_parameters`` for config.json that describes the rotary positions of a configuration."""
    table: dict[str, Any] = {"rope_type": "default", "rope_theta": config.rotary_base}
    if config.rotary_factor != 1.0:
        table |= {"rope_type": "linear", "factor": config.rotary_factor}
        if config.rotary_bands is not None:
            low, high = config.rotary_bands
            table |= {"rope_type": "llama3", "low_freq_factor": low, "high_freq_factor": high}
            table["original_max_position_embeddings"] = config.rotary_trained_length
    return table


def _no_window(fields: Fields) -> None:
    fields.expect("sliding_window", None)  # transformers ignores it


def _mistral_window(fields: Fields) -> int | None:
    if "sliding_window" not in fields.values:
        return MISTRAL_WINDOW
    return fields.whole("sliding_window", 0) or None


def _qwen2_window(fields: Fields) -> None:
    window = fields.whole("sliding_window", 0)
    fields.whole("max_window_layers", 0)
    kinds = fields.take("layer_types", list, ["full_attention"])
    is_used = fields.flag("use_sliding_window", False) and window > 0
    if is_used or not kinds or any(one != "full_attention" for one in kinds):
        raise UnsupportedError(
            f"{fields.where}: Saccade does not support sliding-window attention in only some of the layers."
        )


def _configure(
    fields: Fields,
    use: Use,
    names: Collection[str],
    *,
    window: Callable[[Fields], int | None],
    projection_bias: bool,
) -> TransformerConfig:
    width, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    bias = fields.flag("attention_bias", False)
    fields.expect("mlp_bias", False)
    if bias:  # in Saccade, a bias in the output projection implies one in every other layer
        raise UnsupportedError(f"{fields.where}: attention_bias is true; Saccade supports only false.")
    rotary, share = rotary_fields(fields, "rope_theta", 1.0)
    if share != 1.0:
        raise UnsupportedError(
            f"{fields.where}: partial_rotary_factor is {share:g}; for this model_type, Saccade supports only 1."
        )
    fields.whole("max_position_embeddings", 0)  # rotary positions have no limit
    return TransformerConfig(
        width=width,
        num_heads=heads,
        num_key_heads=fields.whole("num_key_value_heads", heads),
        head_width=fields.whole("head_dim", width // max(heads, 1)),
        decoder_layers=fields.whole("num_hidden_layers"),
        feedforward_width=fields.whole("intermediate_size"),
        activation=fields.activation("hidden_act"),
        gated=True,
        bias=False,
        projection_bias=projection_bias,
        attention_window=window(fields),
        norm="rms",
        norm_epsilon=fields.number("rms_norm_eps", 1e-6),
        attention_dropout=fields.number("attention_dropout", 0.0),
        position="rotary",
        **rotary,
        tied_output=fields.flag("tie_word_embeddings", False),
    )


def _described(config: TransformerConfig) -> dict[str, Any]:
    window = config.attention_window  # a tuple, with one window per layer, cannot be expressed in config.json
    return {
        "hidden_size": config.width,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_key_heads or config.num_heads,
        "head_dim": config.head_width or config.width // config.num_heads,
        "num_hidden_layers": config.decoder_layers,
        "intermediate_size": config.feedforward_width,
        "hidden_act": theirs(config.activation),
        "rms_norm_eps": config.norm_epsilon,
        "attention_dropout": config.attention_dropout,
        "rope_parameters": rotary_table(config),
        "tie_word_embeddings": config.tied_output,
        "sliding_window": None if isinstance(window, tuple) else window,
    }


def _family(
    name: str, model_type: str, start: str, window: Callable[[Fields], int | None], projection_bias: bool = False
) -> Family:
    """``window`` reads the fields for the attention window; the projections are those of query, key and value."""
    layer = "model.layers.{n}"
    return Family(
        name=name,
        model_type=model_type,
        architectures={f"{start}ForCausalLM": "continue"},
        configure=partial(_configure, window=window, projection_bias=projection_bias),
        describe=_described,
        rows=(
            Row("input.words.weight", "model.embed_tokens.weight"),
            Row("decoder.{n}.self_norm", f"{layer}.input_layernorm"),
            Row("decoder.{n}.self.query", f"{layer}.self_attn.q_proj"),
            Row("decoder.{n}.self.key_value", (f"{layer}.self_attn.k_proj", f"{layer}.self_attn.v_proj")),
            Row("decoder.{n}.self.output", f"{layer}.self_attn.o_proj"),
            Row("decoder.{n}.feedforward_norm", f"{layer}.post_attention_layernorm"),
            Row("decoder.{n}.feedforward.inner", (f"{layer}.mlp.gate_proj", f"{layer}.mlp.up_proj")),
            Row("decoder.{n}.feedforward.outer", f"{layer}.mlp.down_proj"),
            Row("decoder_norm", "model.norm"),
            Row("output.words.weight", "lm_head.weight"),
        ),
        tied="lm_head.weight",
        unused=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
    )


LLAMA = _family("Llama", "llama", "Llama", _no_window)
MISTRAL = _family("Mistral", "mistral", "Mistral", _mistral_window)
QWEN2 = _family("Qwen2", "qwen2", "Qwen2", _qwen2_window, projection_bias=True)
