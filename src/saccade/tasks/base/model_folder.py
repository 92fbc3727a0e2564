"""A model folder: the complete model in the usual layout, without any executable code.

``config.json``, ``model.safetensors``, ``tokenizer.json`` (two where source and target differ), ``recipe.toml``,
``README.md``, and ``manifest.json`` with the SHA-256 of each.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from saccade.attention import LinearPositions
from saccade.errors import DamagedError, FileError, OptionError, SaccadeError
from saccade.models.weights import unshared
from saccade.pretrained import is_pretrained, weights_checksum
from saccade.storage import (
    MANIFEST,
    Folder,
    foreign_format,
    json_bytes,
    open_folder,
    read_bytes,
    read_json,
    read_tensors,
    recover,
    verify_folder,
    write_folder,
)
from saccade.tasks.base.adopting import adopt
from saccade.tasks.base.networks import read_network
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Bundle, State, Task
from saccade.tasks.base.workers import Workers
from saccade.tasks.registry import TASKS

__all__ = [
    "bundle_identity",
    "bundle_recipe",
    "load_weights",
    "open_model",
    "read_bundle",
    "unshared",
    "write_bundle",
]

FORMAT = 1
#: The keys that ``config.json`` has for every task, besides its format and the task's own description.
KEYS = {"task": str, "metric": str, "model": dict, "decoding": dict}


def write_bundle(folder: Path, bundle: Bundle, *, recipe: str, readme: str) -> None:
    """Write a model folder, completely or not at all."""
    description = {
        "format": FORMAT,
        "task": bundle.task.name,
        "metric": bundle.task.metric,
        **bundle.task.state.description(),
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
            **bundle.task.state.files(),
        },
    )


def read_bundle(path: Path) -> Bundle:
    """Open a model folder, the ``model`` folder of a run, or the folder of a pretrained model.

    Every file of ours is verified by its checksum first; the files of others have none.
    """
    if _is_foreign(path):
        return adopt(path)
    folder = open_folder(_model_folder(path))
    verify_folder(folder)  # even files that are not read here: a damaged README means a damaged folder
    if "config.json" not in folder.files:
        raise FileError(f"{folder.path} is not a model folder: its manifest does not list config.json.")
    found = read_json(folder, "config.json")
    config_path = folder.path / "config.json"
    given = found.get("format") if isinstance(found, dict) else None
    if isinstance(given, int) and given > FORMAT:  # docs/reference/model-folder.md states the policy
        raise FileError(
            f"{config_path} has format {given}, and this version of Saccade reads formats up to {FORMAT}; "
            "upgrade it with: pip install --upgrade saccade"
        )
    if given != FORMAT:
        raise FileError(f"{config_path} is not a model that this version reads (format {FORMAT}).")
    description = cast(dict[str, Any], found)
    for key, expected in KEYS.items():
        if not isinstance(description.get(key), expected):
            raise FileError(f"{config_path} has no valid {key!r}, which this version needs.")
    name = _task_name(description)
    if name not in TASKS:
        raise FileError(
            f"{config_path} belongs to a model for the task {name!r}, which is not installed; install the package "
            "that provides it."
        )
    entry = TASKS[name]
    task = entry.task(_state(entry.task, folder, description), metric=description["metric"])
    kind, config = read_network(description["model"], entry.task, str(config_path))
    tensors, where = read_tensors(folder, "model.safetensors"), str(folder.path / "model.safetensors")
    with torch.device("meta"):  # shapes alone: whatever config.json says, no memory is taken before the weights agree
        shapes = task.build(kind, config)
        tensors = {**_older_positions(shapes, tensors), **tensors}
        _check_weights(shapes, tensors, where)
    model = task.build(kind, config)
    load_weights(model, tensors, where)
    decoding = entry.predictor.options.read(description["decoding"], f"{config_path}: decoding")
    return Bundle(task, kind, config, model.eval(), decoding, _recipe(folder).get("data", {}))


def _task_name(description: dict[str, Any]) -> str:
    name: str = description["task"]
    if name == "autoencoder":  # one task in earlier versions
        return "image-autoencoder" if description.get("medium") == "images" else "text-autoencoder"
    return name


def _state(task: type[Task], folder: Folder, description: dict[str, Any]) -> State:
    where = str(folder.path / "config.json")
    try:
        return task.state_class.load(description, lambda name: read_bytes(folder, name), where)
    except SaccadeError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a missing key, or one with a wrong value
        raise FileError(f"{where} has no valid {error}, which this version needs.") from None


def open_model(path: str | Path, device: str = "cpu", precision: str = "fp32", workers: int = 1) -> Predictor:
    """Open a model folder, or the folder of a run, to get answers from it; also available as ``saccade.open``.

    ``precision`` is that of matrix products: fp32, bf16 or int8. ``workers`` is the number of processes that share
    the texts of ``predict`` on the CPU; ``close()`` ends them.
    """
    bundle = read_bundle(Path(path))
    predictor = TASKS[bundle.task.name].predictor
    if workers == 1:
        return predictor(bundle, device, precision)
    if device != "cpu":
        raise OptionError(f"workers = {workers} only works on the CPU; on {device}, leave workers out.")
    if not predictor.takes_workers:
        raise OptionError(
            f"{bundle.task.name.capitalize()} models answer in one process; leave workers = {workers} out."
        )
    return predictor(bundle, device, precision, Workers(Path(path), workers, precision, read_bundle))


def bundle_recipe(path: Path) -> dict[str, Any]:
    """The tables of the recipe that a model was trained with; of a model that another library trained, the task."""
    if _is_foreign(path):
        return {"task": read_bundle(path).task.name, "data": {}}
    folder = open_folder(_model_folder(path))
    recipe = _recipe(folder)
    if recipe.get("task") == "autoencoder":  # one task in earlier versions
        recipe["task"] = _task_name(cast(dict[str, Any], read_json(folder, "config.json")))
    return recipe


def _recipe(folder: Folder) -> dict[str, Any]:
    path = folder.path / "recipe.toml"
    try:
        return tomllib.loads(read_bytes(folder, "recipe.toml").decode())
    except RecursionError:
        raise FileError(f"{path} nests brackets too deeply.") from None
    except ValueError as error:
        raise FileError(f"{path} is not TOML: {error}.") from None


def bundle_identity(path: Path) -> str:
    """A checksum that identifies a model: that of its weights."""
    if _is_foreign(path):
        return weights_checksum(path)
    folder = open_folder(_model_folder(path))
    if "model.safetensors" not in folder.files:
        raise FileError(f"{folder.path} is not a model folder: its manifest does not list model.safetensors.")
    return folder.files["model.safetensors"].sha256


def _older_positions(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Linear positions of earlier versions had no direction: their number was added to every dimension alike."""
    names = (f"{name}.direction" for name, part in model.named_modules() if isinstance(part, LinearPositions))
    needed = unshared(model)
    return {
        name: torch.ones(needed[name].shape, device="cpu") for name in names if name in needed and name not in tensors
    }


def _check_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse weights that do not fit the model: names, shapes and types must all be the same."""
    needed = unshared(model)
    for name in tensors:
        if name not in needed:
            raise DamagedError(f"{where} contains {name}, which the model in config.json does not have.")
    for name, tensor in needed.items():
        given = tensors.get(name)
        if given is None or given.shape != tensor.shape or given.dtype != tensor.dtype:
            found = "is missing" if given is None else f"is {_described(given)}"
            raise DamagedError(f"{where}: {name} {found}; the model in config.json needs {_described(tensor)}.")


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy weights by name; each must be present and have the right shape."""
    for name, parameter in unshared(model).items():
        given = tensors.get(name)
        if given is None or given.shape != parameter.shape:
            found = "is missing" if given is None else f"has shape {tuple(given.shape)}"
            raise DamagedError(f"{where}: {name} {found}; the model needs {tuple(parameter.shape)}.")
        if given.numel() and not all(math.isfinite(float(end)) for end in given.detach().aminmax()):  # makes no copy
            raise DamagedError(f"{where}: {name} contains NaN or infinity; weights must be finite.")
        with torch.no_grad():
            parameter.copy_(given)


def _is_ours(path: Path) -> bool:
    return any((path / name).exists() for name in (MANIFEST, "recipe.toml"))


def _is_foreign(path: Path) -> bool:
    """Whether another library wrote this model, in a layout that we read."""
    return not _is_ours(path) and is_pretrained(path)


def _model_folder(path: Path) -> Path:
    """The folder itself, or the model folder inside a run; the error says what anything else is."""
    if not _is_ours(path) and (other := foreign_format(path)) is not None:
        raise FileError(
            f"{path} is {other}, which Saccade does not open. To look at such a model, load it with its own library "
            "and use saccade.watch."
        )
    if not path.is_dir() or any((path / name).exists() for name in (MANIFEST, "config.json")):
        return path
    model = path / "model"
    if not model.is_dir():
        if not (path / "recipe.toml").exists():
            raise FileError(f"{path} is not a model folder: it contains neither a manifest.json nor a run.")
        recover(path)  # a killed process may have left it renamed
        if not model.is_dir():
            raise FileError(f"The run in {path} has no model yet; the first validation writes one.")
    return model
