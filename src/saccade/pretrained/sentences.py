"""Read from a sentence-transformers folder how its model pools the vectors of tokens, and how long texts may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saccade.errors import FileError
from saccade.pretrained.fields import read_fields, read_table

__all__ = ["sentence_fields"]

_POOLING = {"mean_tokens": "mean", "max_tokens": "max", "cls_token": "first"}


def sentence_fields(folder: Path) -> dict[str, Any]:
    """Return the fields of Saccade's `SentenceConfig` that a folder states: pooling, normalisation and longest text.

    A folder without modules.json specifies none of them, so the defaults apply, such as mean pooling.
    """
    if not (folder / "modules.json").exists():
        return {}
    found: dict[str, Any] = {}
    modules = read_table(folder / "modules.json", list)
    for module in modules:
        kind, path = (str(module.get(key, "")) if isinstance(module, dict) else "" for key in ("type", "path"))
        name = kind.rpartition(".")[2]
        if name == "Pooling":
            if path != Path(path).name:
                raise FileError(
                    f"{folder / 'modules.json'} has the path {str(path)[:60]!r}, which is not a folder beside it."
                )
            found["pooling"] = _pooling(folder / path / "config.json")
        elif name == "Normalize":
            found["normalised"] = True
        elif name != "Transformer":
            raise FileError(
                f"{folder / 'modules.json'} has a module of type {str(kind)[:60]!r}, which Saccade does not know."
            )
    if (folder / "sentence_bert_config.json").exists():
        fields = read_fields(folder / "sentence_bert_config.json")
        if fields.values.get("do_lower_case"):
            raise FileError(f"{fields.where}: do_lower_case is true; Saccade supports only false.")
        longest = fields.values.get("max_seq_length")
        found["longest_text"] = longest if type(longest) is int else None
    return found


def _pooling(path: Path) -> str:
    fields = read_fields(path)
    chosen = [name for name, value in fields.values.items() if name.startswith("pooling_mode_") and value is True]
    if isinstance(fields.values.get("pooling_mode"), str):
        chosen = [{"cls": "cls_token"}.get(fields.values["pooling_mode"], f"{fields.values['pooling_mode']}_tokens")]
    names = [name.removeprefix("pooling_mode_") for name in chosen]
    if len(names) != 1 or names[0] not in _POOLING:
        raise FileError(
            f"{path} requires {' and '.join(names) or 'no pooling'}; Saccade supports one of {', '.join(_POOLING)}."
        )
    return _POOLING[names[0]]
