"""Checkpoints: everything a run needs to continue as if it had never stopped, safe even if the process is killed.

A checkpoint consists of a step, named tensors and a JSON state. One file holds the tensors of the model, the optimizer
and the random generators. The functions here prefix the names of the optimizer's tensors with `optimizer.`, and those
of the generators with `rng.`, so that names do not clash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from saccade.errors import DamagedError, OptionError, ShapeError
from saccade.storage import JSON, json_bytes, open_folder, read_json, read_tensors, recover, remove_folder, write_folder
from saccade.training.distributed import Processes, part_like, tensor_files

__all__ = ["Checkpoint", "CheckpointStore", "load_optimizer", "optimizer_tensors", "rng_state", "set_rng_state"]

STATE_FILE = "state.json"
STEP_NAME = re.compile(r"step-(\d{8,})")
#: What AdamW stores for a parameter (Loshchilov & Hutter 2019, algorithm 2): t, m and v.
ADAMW_STATE = frozenset({"step", "exp_avg", "exp_avg_sq"})


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at one step."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, JSON]


class CheckpointStore:
    """The last `keep` checkpoints of one run, each a folder `step-00001234` in `folder`."""

    def __init__(self, folder: Path | str, keep: int = 3) -> None:
        if keep < 1:
            raise OptionError(f"The number of checkpoints to keep must be at least 1, not {keep}.")
        self.folder = Path(folder)
        self.keep = keep
        self._damaged: set[int] = set()  # found by `latest`, deleted at the next save

    def save(
        self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, JSON], processes: Processes | None = None
    ) -> Path:
        """Write a checkpoint. Once it is safely on disk, delete all but the last `keep` checkpoints.

        If the tensors are divided among several processes, the first one calls this, while all others call
        `processes.contribute`.
        """
        if step < 0:
            raise OptionError(f"Step {step} cannot be saved; it must be 0 or more.")
        newer = [other for other in self.steps() if other > step and other not in self._damaged]
        if newer:
            raise OptionError(
                f"Step {step} cannot be saved in {self.folder}: it already contains the later step {newer[-1]}."
            )
        _check_json(dict(state), "state")
        path = self._path(step)
        if step in self._damaged and path.is_dir():
            remove_folder(path)  # not replaced, because even its manifest may be missing
        record: JSON = {"step": step, "state": dict(state)}
        files = (processes or Processes()).files(tensors)
        write_folder(path, {**files, STATE_FILE: json_bytes(record)})
        self._damaged.discard(step)
        good = [other for other in self.steps() if other not in self._damaged]
        for old in {*self.steps()} - {*good[-self.keep :]}:
            remove_folder(self._path(old))
        self._damaged.clear()
        return path

    def drop_after(self, step: int) -> None:
        """Delete the checkpoints of steps after `step`, because a run that continues from `step` will write them
        again."""
        for newer in [other for other in self.steps() if other > step]:
            remove_folder(self._path(newer))

    def load(self, step: int) -> Checkpoint:
        """Load the checkpoint of `step`; raises `DamagedError` if its files have changed since they were saved."""
        path = self._path(step)
        folder = open_folder(path)
        names = sorted(folder.files.keys() - {STATE_FILE})
        if STATE_FILE not in folder.files or names != tensor_files(len(names)):
            raise DamagedError(f"{path} is not a checkpoint: it contains {', '.join(folder.files) or 'nothing'}.")
        record = read_json(folder, STATE_FILE)
        match record:
            case {"step": int(saved), "state": dict(state)} if saved == step:
                parts = [read_tensors(folder, name) for name in names]
                return Checkpoint(step=step, tensors=_joined(parts), state=state)
        raise DamagedError(f"{path / STATE_FILE} is not the state of step {step}.")

    def latest(self, report: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest undamaged checkpoint, or None if there is none. `report` is called with a sentence about
        each damaged checkpoint that was skipped."""
        if self.folder.is_dir():
            recover(self.folder)
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except DamagedError as error:
                self._damaged.add(step)
                report(f"Skipped the checkpoint of step {step}. {error}")
        return None

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint folder, damaged or not, in ascending order."""
        if not self.folder.is_dir():
            return []
        folders = [path for path in self.folder.iterdir() if path.is_dir() and not path.is_symlink()]
        matches = [STEP_NAME.fullmatch(path.name) for path in folders]
        steps = sorted(int(match[1]) for match in matches if match)
        return [step for step in steps if self._path(step) in folders]  # `step-000000007` is not a name that we write

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"


def _joined(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Join the tensors from the files of several processes. Tensors that are not divided are only in the first file."""
    first, *others = parts
    return {
        name: torch.cat([tensor, *(part[name] for part in others)]) if others and name in others[0] else tensor
        for name, tensor in first.items()
    }


def rng_state() -> dict[str, Tensor]:
    """Return the states of torch's default random generators for the CPU and each CUDA device, each as a vector of
    bytes (uint8)."""
    state = {"rng.cpu": torch.get_rng_state()}
    for index in range(torch.cuda.device_count()):
        state[f"rng.cuda.{index}"] = torch.cuda.get_rng_state(index)
    return state


def set_rng_state(tensors: Mapping[str, Tensor]) -> None:
    """Restore the random generators from what `rng_state` returned. Other tensors, and states of devices that this
    machine does not have, are ignored."""
    if "rng.cpu" not in tensors:
        raise OptionError("The tensors do not include 'rng.cpu', the state of the CPU's random generator.")
    torch.set_rng_state(tensors["rng.cpu"])
    for index in range(torch.cuda.device_count()):
        if f"rng.cuda.{index}" in tensors:
            torch.cuda.set_rng_state(tensors[f"rng.cuda.{index}"], index)


def optimizer_tensors(optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return AdamW's state under the names `optimizer.<parameter>.<step|exp_avg|exp_avg_sq>`.

    A parameter that was never updated has no state.

    `parameters` is `dict(model.named_parameters())`. The learning rate and other settings are not saved, because they
    follow from the recipe and the step.
    """
    tensors: dict[str, Tensor] = {}
    for name in _ordered_names(optimizer, parameters):
        state = optimizer.state.get(parameters[name], {})
        if state and state.keys() != ADAMW_STATE:
            odd = ", ".join(sorted(state.keys() ^ ADAMW_STATE))
            raise OptionError(
                f"The {type(optimizer).__name__} state of {name!r} cannot be saved: it must consist of step, exp_avg "
                f"and exp_avg_sq, as in AdamW, but differs in {odd}."
            )
        for key, value in state.items():
            if not isinstance(value, Tensor):
                raise OptionError(f"The optimizer state {key!r} of {name!r} is a {type(value).__name__}, not a tensor.")
            tensors[f"optimizer.{name}.{key}"] = value.detach()
    return tensors


def load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> None:
    """Set AdamW's state, bit for bit, from what `optimizer_tensors` returned; other tensors are ignored."""
    names = _ordered_names(optimizer, parameters)
    saved = {key for key in tensors if key.startswith("optimizer.")}
    state: dict[int, dict[str, Tensor]] = {}
    for index, name in enumerate(names):
        keys = {key: f"optimizer.{name}.{key}" for key in sorted(ADAMW_STATE)}
        if saved.isdisjoint(keys.values()):
            continue  # had never been updated when the checkpoint was saved
        missing = sorted(set(keys.values()) - saved)
        if missing:
            raise OptionError(f"The checkpoint lacks {missing[0]!r}, which the optimizer needs.")
        for key, full in keys.items():
            shape, expected = tuple(tensors[full].shape), () if key == "step" else tuple(parameters[name].shape)
            if shape != expected:
                raise ShapeError(f"The saved {key} of {name!r} has shape {shape}, expected {expected}.")
        # Copied, because the optimizer updates its state in place.
        like = parameters[name]
        state[index] = {
            key: (tensors[full] if key == "step" else part_like(tensors[full], like)).clone()
            for key, full in keys.items()
        }
        saved.difference_update(keys.values())
    if saved:
        raise OptionError(f"The checkpoint contains {min(saved)!r}, which belongs to no parameter of this optimizer.")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _ordered_names(optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> list[str]:
    """The names of the optimizer's parameters, in the order in which torch numbers them."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    unnamed = [parameter for parameter in held if id(parameter) not in names]
    if unnamed:
        raise OptionError(f"The optimizer updates a parameter of shape {tuple(unnamed[0].shape)} that has no name.")
    return [names[id(parameter)] for parameter in held]


def _check_json(value: object, where: str) -> None:
    """Refuse values that JSON would silently change: a tuple would become a list, the key 1 would become '1'."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise OptionError(f"A key of {where} is {key!r}; keys must be strings.")
            _check_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{where}[{index}]")
    elif not isinstance(value, str | int | float | None):
        raise OptionError(f"{where} is a {type(value).__name__}; the state may only contain JSON values.")
