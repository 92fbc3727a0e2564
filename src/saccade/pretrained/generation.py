"""Read the settings with which another library generates text by default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.errors import FileError, UnsupportedError
from saccade.pretrained.fields import read_fields

__all__ = ["read_generation", "unused_defaults"]

#: The ids that Saccade uses. Like transformers, it looks for them in generation_config.json, and then in config.json.
_IDS = ("bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id")
#: The settings that affect which text is generated, with the values that have no effect. Saccade ignores all of them.
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "bad_words_ids": (None,),
    "begin_suppress_tokens": (None,),
    "diversity_penalty": (None, 0),
    "do_sample": (None, False),
    "early_stopping": (None, False),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1),
    "exponential_decay_length_penalty": (None,),
    "forced_eos_token_id": (None,),
    "length_penalty": (None, 1),
    "max_length": (None, 20),
    "max_new_tokens": (None,),
    "min_length": (None, 0),
    "min_new_tokens": (None,),
    "no_repeat_ngram_size": (None, 0),
    "num_beam_groups": (None, 1),
    "num_beams": (None, 1),
    "penalty_alpha": (None,),
    "repetition_penalty": (None, 1),
    "sequence_bias": (None,),
    "suppress_tokens": (None,),
    "temperature": (None, 1),
    "top_k": (None, 50),
    "top_p": (None, 1),
    "typical_p": (None, 1),
}


def read_generation(path: Path, fields: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Return the settings with which the model in a folder generates text by default: those of generation_config.json
    and, where it gives no value, ``fields`` of config.json.

    Raise an error if the first token of an output is forced, such as the name of a language, or if an output starts
    from a token that is not in the vocabulary of the network.
    """
    file = path / "generation_config.json"
    given = read_fields(file).values if file.exists() else {}
    names = ("forced_bos_token_id", *_IDS, *_DEFAULTS)
    found = {name: fields.get(name) if given.get(name) is None else given[name] for name in names}
    if found["forced_bos_token_id"] is not None:
        raise UnsupportedError(
            f"{path}: forced_bos_token_id forces the first token of an output, which beam search cannot do yet."
        )
    start = found["decoder_start_token_id"]
    if start is not None and (type(start) is not int or not 0 <= start < vocabulary):
        raise FileError(
            f"{path}: decoder_start_token_id is {str(start)[:60]!r}; it must be a token id from 0 to {vocabulary - 1}."
        )
    return {name: value for name, value in found.items() if value is not None}


def unused_defaults(generation: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that affect what the other library generates, but that Saccade ignores."""
    found = [name for name, neutral in _DEFAULTS.items() if name in generation and generation[name] not in neutral]
    ends = generation.get("eos_token_id")
    return found + (["every eos_token_id but the first"] if isinstance(ends, list) and len(ends) > 1 else [])
