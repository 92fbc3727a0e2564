"""A model folder: everything that a model is, in the field's layout, and nothing that could run.

``config.json``, ``model.safetensors``, ``tokenizer.json`` (two where source and target differ), ``recipe.toml``,
``README.md``, and ``manifest.json`` with the SHA-256 of each.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from saccade.errors import DamagedError, FileError, UnknownNameError
from saccade.lens.alignment import AlignmentChoice
from saccade.models import Config
from saccade.storage import (
    Folder,
    json_bytes,
    open_folder,
    read_bytes,
    read_json,
    read_tensors,
    recover,
    verify_folder,
    write_folder,
)
from saccade.tasks.networks import SEQ2SEQ, build_seq2seq, read_network
from saccade.tasks.search import SearchOptions
from saccade.tasks.translation import Translation
from saccade.text import Tokenizer

__all__ = ["Bundle", "bundle_identity", "bundle_recipe", "load_weights", "read_bundle", "unshared", "write_bundle"]

FORMAT = 1
#: What ``config.json`` says, beside its format.
KEYS = {"task": str, "metric": str, "shared": bool, "model": dict, "decoding": dict, "alignment": dict | None}


@dataclass(frozen=True)
class Bundle:
    """A task, its network, and how its outputs are looked for."""

    task: Translation
    kind: str  # of network
    config: Config
    model: nn.Module
    decoding: SearchOptions


def write_bundle(folder: Path, bundle: Bundle, *, recipe: str, readme: str) -> None:
    """Write a model folder, whole or not at all."""
    description = {
        "format": FORMAT,
        **bundle.task.description(),
        "model": {"kind": bundle.kind, **bundle.config.model_dump(mode="json")},
        "decoding": bundle.decoding.model_dump(mode="json"),
    }
    write_folder(
        folder,
        {
            "config.json": json_bytes(description),
            "model.safetensors": unshared(bundle.model),
            "recipe.toml": recipe.encode(),
            "README.md": readme.encode(),
            **bundle.task.files(),
        },
    )


def read_bundle(path: Path) -> Bundle:
    """Open a model folder, or the ``model`` folder of a run; every file is verified first."""
    folder = open_folder(_model_folder(path))
    verify_folder(folder)  # also what is not read here: a damaged recipe or README is a damaged model folder
    if "config.json" not in folder.files:
        raise FileError(f"{folder.path} is no model folder: its manifest lists no config.json.")
    found = read_json(folder, "config.json")
    config_path = folder.path / "config.json"
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FileError(f"{config_path} is not a model that this version reads (format {FORMAT}).")
    description = cast(dict[str, Any], found)
    for key, expected in KEYS.items():
        if not isinstance(description.get(key), expected):
            raise FileError(f"{config_path} does not say {key!r} as a model does that this version reads.")
    if description["task"] != Translation.name:
        raise UnknownNameError(f"task in {config_path}", description["task"], (Translation.name,))
    task = _task(folder, description)
    kind, config = read_network(description["model"], SEQ2SEQ, str(config_path))
    model = build_seq2seq(kind, config, task.source.vocabulary_size, task.target.vocabulary_size)
    load_weights(model, read_tensors(folder, "model.safetensors"), str(folder.path / "model.safetensors"))
    decoding = SearchOptions.read(description["decoding"], f"{config_path}: decoding")
    return Bundle(task, kind, config, model.eval(), decoding)


def bundle_recipe(path: Path) -> dict[str, Any]:
    """The tables of the recipe that a model was trained by."""
    return tomllib.loads(read_bytes(open_folder(_model_folder(path)), "recipe.toml").decode())


def bundle_identity(path: Path) -> str:
    """A checksum that no other model has: that of its weights."""
    folder = open_folder(_model_folder(path))
    if "model.safetensors" not in folder.files:
        raise FileError(f"{folder.path} is no model folder: its manifest lists no model.safetensors.")
    return folder.files["model.safetensors"].sha256


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy weights by name; each must be there, in its shape."""
    for name, parameter in unshared(model).items():
        given = tensors.get(name)
        if given is None or given.shape != parameter.shape:
            found = "is missing" if given is None else f"has shape {tuple(given.shape)}"
            raise DamagedError(f"{where}: {name} {found}; the model needs {tuple(parameter.shape)}.")
        if not bool(torch.isfinite(given).all()):
            raise DamagedError(f"{where}: {name} holds NaN or infinity; a model has finite weights.")
        with torch.no_grad():
            parameter.copy_(given)


def _task(folder: Folder, description: dict[str, Any]) -> Translation:
    chosen = description.get("alignment")
    alignment = None if chosen is None else AlignmentChoice.read(chosen, f"{folder.path}/config.json: alignment")
    names = ["tokenizer.json"] if description["shared"] else ["source.tokenizer.json", "target.tokenizer.json"]
    tokenizers = [Tokenizer.from_bytes(read_bytes(folder, name), str(folder.path / name)) for name in names]
    return Translation(tokenizers[0], tokenizers[-1], metric=description["metric"], alignment=alignment)


def _model_folder(path: Path) -> Path:
    """The folder itself, or the one that a run keeps its model in; anything else is named for what it is."""
    if not path.is_dir() or any((path / name).exists() for name in ("manifest.json", "config.json")):
        return path
    model = path / "model"
    if not model.is_dir():
        if not (path / "recipe.toml").exists():
            raise FileError(f"{path} is no model folder: it holds no manifest.json, and no run.")
        recover(path)  # a kill may have left it set aside
        if not model.is_dir():
            raise FileError(f"The run in {path} has no model yet; the first validation writes one.")
    return model


def unshared(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each once: tied weights stand under their first name."""
    seen: dict[int, str] = {}
    tensors = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen[id(tensor)] = name
            tensors[name] = tensor.data
    return tensors
