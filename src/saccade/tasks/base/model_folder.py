"""Read and write model folders, each of which contains a complete model and no executable code.

A folder contains ``config.json``, ``model.safetensors``, ``tokenizer.json`` (or one tokenizer each for source and
target), ``recipe.toml``, ``README.md``, and ``manifest.json`` with the SHA-256 of every file.
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
from saccade.errors import DamagedError, FileError, OptionError, SaccadeError, UnsupportedError
from saccade.models import Block, TransformerConfig, VisionConfig, low_rank
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
from saccade.tasks.base.adopting import adopt, adopt_foreign
from saccade.tasks.base.engines import chosen_engine
from saccade.tasks.base.networks import read_network
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Bundle
from saccade.tasks.base.workers import Workers
from saccade.tasks.registry import TASKS, task_of_model

__all__ = [
    "bundle_identity",
    "bundle_recipe",
    "load_weights",
    "open_model",
    "read_bundle",
    "read_weights",
    "unshared",
    "write_bundle",
]

#: The format that is written; docs/reference/model-folder.md says what each number means.
FORMAT = 2
#: The file with LoRA's matrices, if they are saved separately from the weights.
ADAPTER = "adapter.safetensors"
#: The keys that ``config.json`` has for every task, besides its format and the state of the task.
KEYS = {"task": str, "metric": str, "model": dict, "decoding": dict}


def write_bundle(folder: Path, bundle: Bundle, *, recipe: str, readme: str, apart: bool = False) -> None:
    """Write a model folder. It is written completely or not at all.

    The matrices of LoRA are added to the saved weights or, with ``apart``, saved in a separate file.
    """
    weights, factors = low_rank.apart(bundle.model)
    tensors = {"model.safetensors": weights, ADAPTER: factors} if apart and factors else {}
    description = {
        "format": FORMAT,
        "task": bundle.task.name,
        "metric": bundle.task.metric,
        **bundle.task.state.description(),
        "model": {"kind": bundle.kind, **bundle.config.model_dump(mode="json", exclude=set(bundle.config.unused))},
        "decoding": bundle.decoding.model_dump(mode="json"),
    }
    write_folder(
        folder,
        {
            "config.json": json_bytes(description),
            **(tensors or {"model.safetensors": low_rank.join(weights, factors)}),
            "recipe.toml": recipe.encode(),
            "README.md": readme.encode(),
            **bundle.task.state.files(),
        },
    )


def read_bundle(path: Path) -> Bundle:
    """Read a model folder, the ``model`` folder of a run, or the folder of a pretrained model.

    In our own folders, the checksum of every file is verified first. The folders of other libraries have no checksums.
    """
    if _is_foreign(path):
        return adopt(path)
    folder = open_folder(_model_folder(path))
    verify_folder(folder)  # including files that are not used here: a damaged README means a damaged folder
    description, config_path = _read_description(folder), folder.path / "config.json"
    name = _task_name(description)
    if name not in TASKS:
        raise FileError(
            f"{config_path} belongs to a model for the task {name!r}, which is not installed; install the package "
            "that provides it."
        )
    entry = TASKS[name]
    try:
        state = entry.task.state_class.load(description, lambda file: read_bytes(folder, file), str(config_path))
        task = entry.task(state, metric=description["metric"])
    except SaccadeError:
        raise
    except KeyError as error:
        raise FileError(f"{config_path} has no valid {error}, which this version needs.") from None
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise FileError(f"{config_path} has a value of the wrong kind ({error}).") from None
    kind, config = read_network(description["model"], entry.task, str(config_path), saved=True)
    tensors, where = read_weights(folder), str(folder.path / "model.safetensors")
    with torch.device("meta"):  # compare shapes first: no memory is allocated for a network that does not fit
        shapes = task.build(kind, config)
        if description["format"] == 1:
            tensors = _from_format_1(tensors, shapes, name, folder.path)
        _check_weights(shapes, tensors, where)
    model = task.build(kind, config)
    load_weights(model, tensors, where)
    decoding = entry.predictor.options.read(description["decoding"], f"{config_path}: decoding")
    return Bundle(task, kind, config, model.eval(), decoding, _recipe(folder).get("data", {}))


def _read_description(folder: Folder) -> dict[str, Any]:
    """Return the content of config.json, and raise an error if its format is not one that this version reads."""
    if "config.json" not in folder.files:
        raise FileError(f"{folder.path} is not a model folder: its manifest does not list config.json.")
    found, path = read_json(folder, "config.json"), folder.path / "config.json"
    version = found.get("format") if isinstance(found, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise FileError(
            f"{path} has format {version}, and this version of Saccade reads formats up to {FORMAT}; "
            "upgrade it with: pip install --upgrade saccade"
        )
    if version not in (1, FORMAT):
        raise FileError(f"{path} does not describe a model that this version can read (format 1 or {FORMAT}).")
    description = cast(dict[str, Any], found)
    for key, expected in KEYS.items():
        if not isinstance(description.get(key), expected):
            raise FileError(f"{path} has no valid {key!r}, which this version needs.")
    return description


def read_weights(folder: Folder | Path, *, merged: bool = True) -> dict[str, Tensor]:
    """Return the weights in a Saccade model folder; LoRA's matrices are added to them only if ``merged`` is True."""
    folder = folder if isinstance(folder, Folder) else open_folder(folder)
    weights = read_tensors(folder, "model.safetensors")
    factors = read_tensors(folder, ADAPTER) if ADAPTER in folder.files else {}
    try:
        return low_rank.join(weights, factors) if merged else low_rank.as_trained(weights, factors)
    except (KeyError, RuntimeError) as error:
        raise DamagedError(f"{folder.path / ADAPTER} does not fit model.safetensors: {error}.") from None


def _task_name(description: dict[str, Any]) -> str:
    name: str = description["task"]
    if name == "autoencoder":  # one task in format 1
        return "image-autoencoder" if description.get("medium") == "images" else "text-autoencoder"
    return name


def open_model(
    path: str | Path, device: str = "cpu", precision: str = "fp32", workers: int = 1, engine: str = "auto"
) -> Predictor:
    """Open a model folder, or the folder of a run, for prediction. Also available as ``saccade.open``.

    ``precision`` is the precision of matrix products: fp32, bf16 or int8. ``workers`` is the number of processes that
    share the inputs of ``predict`` on the CPU; ``close()`` ends them. ``engine`` is the library that computes answers:
    torch; ctranslate2, which translates several times as fast and uses threads as its ``workers``; or onnx, which
    encodes short texts faster. auto uses ctranslate2 only for int8. If Saccade's networks cannot express a model of
    another library, auto runs it with transformers.
    """
    by = chosen_engine(engine, precision)
    bundle = _read_for(Path(path), by if precision == "fp32" else by or "torch")
    predictor = task_of_model(bundle.task.name).predictor
    if bundle.engine == "transformers":
        if workers > 1:
            raise OptionError(f"Models that transformers runs only use one process; leave out workers = {workers}.")
        return predictor(bundle, device)
    if by in ("ctranslate2", "onnx"):
        return predictor(bundle, device, engine=predictor.open_engine(by, bundle, device, precision, workers))
    if workers == 1:
        return predictor(bundle, device, precision)
    if device != "cpu":
        raise OptionError(f"workers = {workers} only works on the CPU; on {device}, leave workers out.")
    if not predictor.takes_workers:
        raise OptionError(f"Models for {bundle.task.name} can only use one process; leave out workers = {workers}.")
    return predictor(bundle, device, precision, Workers(Path(path), workers, precision, read_bundle))


def _read_for(path: Path, engine: str | None) -> Bundle:
    """Read a model for an engine.

    If none is chosen, transformers runs models that Saccade's networks cannot express.
    """
    if engine == "transformers":
        if not _is_foreign(path):
            raise OptionError(f"--engine transformers runs folders of other libraries; {path} is a model of Saccade.")
        return adopt_foreign(path, "You chose this engine.")
    try:
        return read_bundle(path)
    except UnsupportedError as error:
        if engine is not None:
            raise
        return adopt_foreign(path, str(error))


def bundle_recipe(path: Path, *, any_engine: bool = False) -> dict[str, Any]:
    """Return the tables of the recipe that a model was trained with. For a model of another library, return tables with
    its task, network and maximum length; if only transformers can run it, this is an error unless ``any_engine``."""
    if _is_foreign(path):
        bundle = _read_for(path, None if any_engine else "torch")
        config = cast(TransformerConfig, bundle.config)
        model = {"kind": bundle.kind, **config.model_dump(mode="json", exclude_none=True)}
        is_text = not isinstance(config, VisionConfig)
        longest = config.max_length if config.position == "learned" and is_text else None
        text = {} if longest is None else {"longest": longest, "context": longest}
        return {"task": bundle.task.name, "data": dict(bundle.data), "text": text, "model": model}
    folder = open_folder(_model_folder(path))
    recipe = _recipe(folder)
    if recipe.get("task") == "autoencoder":  # one task in format 1
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
    """Return the checksum of a model's weights, which identifies the model."""
    if _is_foreign(path):
        return weights_checksum(path)
    folder = open_folder(_model_folder(path))
    if "model.safetensors" not in folder.files:
        raise FileError(f"{folder.path} is not a model folder: its manifest does not list model.safetensors.")
    return folder.files["model.safetensors"].sha256


def _from_format_1(tensors: Mapping[str, Tensor], model: nn.Module, task: str, where: Path) -> dict[str, Tensor]:
    """Convert the weights of format 1, in which linear positions had no direction: one number was added to every
    dimension. Raise an error for networks that cannot be converted: the first ones for trajectories, and decoders with
    parallel blocks, which did not attend to their source."""
    is_parallel = any(
        isinstance(part, Block) and part.config.parallel and part.cross is not None for part in model.modules()
    )
    if is_parallel or (task == "trajectories" and not any(name.startswith("own.") for name in tensors)):
        raise FileError(
            f"{where} contains a {task} model of an earlier version of Saccade, whose network was different; "
            f"train it again with: saccade train {where / 'recipe.toml'} -o FOLDER"
        )
    needed = unshared(model)
    names = (f"{name}.direction" for name, part in model.named_modules() if isinstance(part, LinearPositions))
    ones = {name: torch.ones(needed[name].shape, device="cpu") for name in names if name in needed}
    return {**ones, **tensors}


def _check_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise an error unless the names, shapes and types of all weights are those of the model."""
    needed = unshared(model)
    for name in tensors:
        if name not in needed:
            raise DamagedError(f"{where} contains {name}, which the model in config.json does not have.")
    for name, tensor in needed.items():
        given = tensors.get(name)
        if given is None or given.shape != tensor.shape or given.dtype != tensor.dtype:
            found = "is missing" if given is None else f"is {_describe(given)}"
            raise DamagedError(f"{where}: {name} {found}; the model in config.json needs {_describe(tensor)}.")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Copy weights into a model by name. Each weight must be present, have the right shape and be finite."""
    for name, parameter in unshared(model).items():
        given = tensors.get(name)
        if given is None or given.shape != parameter.shape:
            found = "is missing" if given is None else f"has shape {tuple(given.shape)}"
            raise DamagedError(f"{where}: {name} {found}; the model needs {tuple(parameter.shape)}.")
        if given.numel() and not all(math.isfinite(float(end)) for end in given.detach().aminmax()):  # without a copy
            raise DamagedError(f"{where}: {name} contains NaN or infinity; weights must be finite.")
        with torch.no_grad():
            parameter.copy_(given)


def _is_ours(path: Path) -> bool:
    return any((path / name).exists() for name in (MANIFEST, "recipe.toml"))


def _is_foreign(path: Path) -> bool:
    """Return whether another library wrote this model, in a layout that Saccade can read."""
    return not (path / "recipe.toml").exists() and is_pretrained(path)


def _model_folder(path: Path) -> Path:
    """Return the folder itself, or the model folder of a run. The error for any other folder says what it contains."""
    if not _is_ours(path) and (other := foreign_format(path)) is not None:
        raise FileError(
            f"{path} is {other}, which Saccade cannot open. To look inside the model, load it with its own library "
            f"and use saccade.watch."
        )
    if not path.is_dir() or any((path / name).exists() for name in (MANIFEST, "config.json")):
        return path
    model = path / "model"
    if not model.is_dir():
        if not (path / "recipe.toml").exists():
            raise FileError(f"{path} is not a model folder: it contains neither a manifest.json nor a run.")
        recover(path)  # a process that was killed may have left the folder under a temporary name
        if not model.is_dir():
            raise FileError(f"The run in {path} has no model yet; the first validation writes one.")
    return model
