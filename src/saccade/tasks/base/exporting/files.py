"""The files of an exported model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from saccade.tasks.base.task import Bundle
from saccade.text import Tokenizer

__all__ = ["Export", "tokenizer_files", "vocabulary_files", "write_all"]


@dataclass(frozen=True)
class Export:
    """The files of a model in another format, and what was compared with Saccade's answers."""

    files: Mapping[str, bytes]
    checked: str  # a sentence about the comparison with Saccade
    use: str  # the Python code that opens the model in the other library
    notes: tuple[str, ...] = ()  # further lines of the model card


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Return the files of a tokenizer in Hugging Face's format, by name."""
    special, entries = tokenizer.special, tokenizer.entries()
    roles = ("pad", "unk", "bos", "eos", "mask")
    tokens = {f"{role}_token": entries[id] for role, id in zip(roles, special, strict=True) if id is not None}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    return {
        "tokenizer.json": tokenizer.to_bytes(),
        "tokenizer_config.json": (json.dumps(about, indent=2) + "\n").encode(),
    }


def vocabulary_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the files of a model's tokenizers, by name: one file, or one each for source and target."""
    words = bundle.task.state.vocabularies()
    found = {name: one for name, one in words.items() if isinstance(one, Tokenizer)}
    if len({id(one) for one in found.values()}) == 1:
        found = {"tokenizer": next(iter(found.values()))}
    names = {"tokenizer": "tokenizer.json", "target": "tokenizer.json", "pieces": "tokenizer.json"}
    return {names.get(name, f"{name}.tokenizer.json"): one.to_bytes() for name, one in found.items()}


def write_all(folder: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (Path(folder) / name).write_bytes(content)
