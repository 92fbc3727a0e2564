"""Read the ``config.json`` of another library. If Saccade does not know a field, an error names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.errors import FileError, UnsupportedError
from saccade.models.layers import Activation

__all__ = ["ACTIVATIONS", "Fields", "read_fields", "read_table", "theirs"]

_LARGEST = 16 << 20  # bytes of a config.json
_MOST = 1 << 40  # the largest number in a config.json; torch cannot multiply larger sizes

#: Their names for activations, and ours. ``gelu_new``, ``gelu_fast`` and ``gelu_pytorch_tanh`` are the same function.
ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}

#: Fields of any model that do not change its logits: how it was made, named, initialised, stored or trained, or how it
#: writes text by default.
WITHOUT_EFFECT = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _name_or_path _num_labels architectures attn_implementation
    bad_words_ids bos_token_id classif_dropout classifier_dropout classifier_dropout_prob decoder_layerdrop
    decoder_start_token_id directionality diversity_penalty do_sample dtype early_stopping encoder_layerdrop
    encoder_no_repeat_ngram_size encoder_stride eos_token_id eos_token_ids exponential_decay_length_penalty
    finetuning_task force_bos_token_to_be_generated forced_bos_token_id forced_eos_token_id gradient_checkpointing
    id2label init_std initializer_factor initializer_range is_encoder_decoder label2id layerdrop length_penalty
    max_length min_length model_type n_ctx no_repeat_ngram_size num_beam_groups num_beams num_labels
    num_return_sequences output_attentions output_hidden_states output_past output_scores pad_token_id pooler_act
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_output_size pooler_size_per_head pooler_type
    prefix pretraining_tp problem_type qa_dropout remove_invalid_values repetition_penalty return_dict
    return_dict_in_generate save_step sep_token_id seq_classif_dropout summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_weights_ tokenizer_class top_k top_p torch_dtype torchscript transformers_version typical_p use_bfloat16
    use_cache
    """.split()  # noqa: SIM905 - a list of 90 lines says no more
)


def theirs(activation: Activation) -> str:
    """Return the usual Hugging Face name for one of Saccade's activations."""
    return next(name for name, ours in ACTIVATIONS.items() if ours == activation)


class Fields:
    """The fields of one ``config.json``.

    It records which fields were read, and `refuse_unknown` raises an error if there is another one that could matter.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where
        self._taken: set[str] = set()

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """Return the value of a field, or ``default`` if there is no such field.

        Raise an error if the value does not have this type, or if there is neither a field nor a default.
        """
        self._taken.add(name)
        value = self.values.get(name)
        if value is None:
            if default is None:
                raise FileError(f"{self.where} does not have the field {name!r}, which this model needs.")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FileError(f"{self.where}: {name} is {str(value)[:60]!r}, which does not have the right type.")
        if isinstance(value, int) and abs(value) > _MOST:
            raise FileError(f"{self.where}: {name} is {str(value)[:60]}; it can be at most {_MOST:,}.")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        value: int = self.take(name, int, default)
        if value < 0:
            raise FileError(f"{self.where}: {name} is {value}; it cannot be negative.")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        return float(self.take(name, (int, float), default))

    def flag(self, name: str, default: bool) -> bool:
        self._taken.add(name)
        return default if self.values.get(name) is None else bool(self.take(name, bool, default))

    def activation(self, name: str, default: str | None = None) -> Activation:
        value: str = self.take(name, str, default)
        if value not in ACTIVATIONS:
            raise UnsupportedError(
                f"{self.where}: {name} is {str(value)[:60]!r}; Saccade supports {', '.join(ACTIVATIONS)}."
            )
        return ACTIVATIONS[value]

    def expect(self, name: str, *allowed: Any) -> None:
        """Raise an error unless a field has one of the ``allowed`` values, which are those that Saccade supports. The
        first is the default, which is assumed if there is no such field."""
        self._taken.add(name)
        value = self.values.get(name, allowed[0])
        if value is not None and value not in allowed:
            said = " or ".join(json.dumps(one)[:60] for one in allowed)
            raise UnsupportedError(f"{self.where}: {name} is {json.dumps(value)[:60]}; Saccade supports only {said}.")

    def refuse_unknown(self, family: str) -> None:
        for name in self.values:
            if name not in self._taken and name not in WITHOUT_EFFECT:
                raise UnsupportedError(
                    f"{self.where} has the field {name[:60]!r}, which Saccade does not know for {family}; opening the "
                    "model without it could give wrong answers."
                )


def read_fields(path: Path) -> Fields:
    """Read a ``config.json``."""
    return Fields(read_table(path, dict), str(path))


def read_table(path: Path, kind: type) -> Any:
    """Return the object (``kind=dict``) or list (``kind=list``) that a JSON file contains."""
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(f"{path} has {path.stat().st_size:,} bytes; such a file may have at most {_LARGEST:,}.")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON ({error}).") from None
    if not isinstance(found, kind):
        raise FileError(f"{path} does not contain a JSON {'object' if kind is dict else 'list'}.")
    return found
