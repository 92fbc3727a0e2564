"""The folder of a run.

It contains:

    run/
      recipe.toml      the resolved recipe; only the same recipe can continue the run
      task/            tokenizers and the fingerprint of the data
      checkpoints/     the last few checkpoints, to continue from
      averages/        the weights at the last validations, if the final model averages them
      metrics.jsonl    loss, rate and scores over time
      probes/          the same example at each validation, with the model's answer and attention
      model/           the model folder: the best model so far, and finally the finished one
      result.json      the final scores; written last
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import DamagedError, FileError, OptionError, SaccadeError, StorageError
from saccade.storage import (
    JSON,
    json_bytes,
    open_folder,
    read_bytes,
    read_json,
    recover,
    seal,
    unfinished,
    write_file,
    write_folder,
)
from saccade.storage.locks import lock
from saccade.storage.replacing import storage_errors
from saccade.storage.run_log import METRICS
from saccade.tasks.base.data import Splits
from saccade.tasks.base.model_card import model_readme
from saccade.tasks.base.model_folder import bundle_identity, read_bundle, write_bundle
from saccade.tasks.base.task import Bundle, Probe, Task, TaskState
from saccade.training.checkpoint import CheckpointStore
from saccade.training.interrupt import Stopped
from saccade.training.recipe import Recipe, read_recipe

__all__ = ["RunFolder", "write_parts"]

#: Seconds to wait for the lock of a run: another process may hold it briefly, only to see whether the run is in use.
LOCK_SECONDS = 0.2


class RunFolder:
    """The files of a run. The constructor creates the run in a new or empty folder, or opens a run of the same recipe,
    whose steps and minutes may have been raised."""

    def __init__(self, recipe: Recipe, folder: Path, init: Path | None = None) -> None:
        self.recipe = recipe
        self.folder = folder
        self.init = init  # the model folder whose weights the run starts from
        self.model_folder = folder / "model"
        self.result_file = folder / "result.json"
        self._is_new = False  # whether this process created the run
        self.extended = False  # whether the recipe trains longer than the one in the folder
        self.unlimited = False  # whether it now has more updates, so that its time limit no longer applies
        self._claim()
        self.checkpoints = CheckpointStore(folder / "checkpoints", recipe.training.keep)
        self.averages = CheckpointStore(folder / "averages", recipe.training.average)

    def _claim(self) -> None:
        """Claim the folder, or verify that it contains this run; never touch a folder that contains anything else."""
        file = self.folder / "recipe.toml"
        try:
            present = set(self.folder.iterdir())
        except FileNotFoundError:
            present = set()
        except NotADirectoryError:
            raise OptionError(f"{self.folder} is not a folder; give a new or empty one with -o.") from None
        except OSError as error:
            raise StorageError(f"Cannot reach {self.folder}: {error.strerror}.") from error
        if file in present:
            kept = read_recipe(file, saved=True)
            self._drop_limit(kept)
            differences = self.recipe.differences(kept)
            self.extended = self.recipe.extends(kept)
            if differences and not self.extended:
                raise OptionError(
                    f"{self.folder} contains a run of a different recipe ({'; '.join(differences[:3])}"
                    f"{'; ...' if len(differences) > 3 else ''}). When a run is continued, only training.steps and "
                    "training.minutes can grow; for other changes, give another folder with -o."
                )
            self._check_init()
            return
        if present - {*self.folder.glob(unfinished(file))}:  # ignore leftovers of a killed process
            raise OptionError(f"{self.folder} exists but is not a Saccade run; give a new or empty folder with -o.")
        write_file(file, self.recipe.toml().encode())
        self._is_new = True

    def _drop_limit(self, kept: Recipe) -> None:
        """Drop the time limit if there are now more updates but no higher limit, because the run has used up its time.

        Once the limit is dropped, the same command continues the run, and more updates extend it.
        """
        ours, theirs = self.recipe.training, kept.training
        if ours.minutes is None or (theirs.minutes == ours.minutes and theirs.steps >= ours.steps):
            return
        settings = {**self.recipe.settings, "training": ours.model_copy(update={"minutes": None})}
        longer = replace(self.recipe, settings=settings)
        is_same = theirs.minutes is None and not longer.differences(kept)
        if is_same or (theirs.minutes in (None, ours.minutes) and longer.extends(kept)):
            self.recipe, self.unlimited = longer, True

    def _check_init(self) -> None:
        """Raise an error if a run continues with a different --init than it began with."""
        if not (self.folder / "task").exists():
            return
        about = read_json(open_folder(self.folder / "task"), "task.json")
        assert isinstance(about, dict)
        if about.get("init") != self._init_identity():
            raise OptionError(
                f"The run in {self.folder} began with a different --init, or without one; give the same --init as "
                "before, or another folder with -o."
            )

    def _init_identity(self) -> str | None:
        """The checksum of the model that --init names."""
        return None if self.init is None else bundle_identity(self.init)

    @property
    def finished(self) -> bool:
        return self.result_file.exists() and not self.extended

    def result(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.result_file.read_bytes())
        except ValueError as error:
            raise DamagedError(f"Damaged file {self.result_file}: it is not JSON ({error}).") from None
        return found

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A context in which no other process can train in this folder, because two processes would overwrite each
        other's files."""
        file = self.folder / ".lock"
        with ExitStack() as held:
            with storage_errors(self.folder):
                if not file.exists():  # touching it would change its time, even if the run is refused
                    file.touch()
                is_ours = held.enter_context(lock(file, seconds=LOCK_SECONDS))
            if not is_ours:
                raise OptionError(
                    f"Another process is training in {self.folder}; wait for it to finish, or give another folder "
                    "with -o."
                )
            for leftover in self.folder.rglob(unfinished("*")):  # left by a killed process
                if leftover.is_file():
                    leftover.unlink()
            if self.extended:
                self.result_file.unlink(missing_ok=True)  # first: a run without a result can always be extended
                write_file(self.folder / "recipe.toml", self.recipe.toml().encode())
            try:
                yield
            except Stopped:
                raise
            except Exception:
                if self._is_new and not (self.folder / METRICS).exists():
                    shutil.rmtree(self.folder)  # training never began, so a corrected command can use the folder
                raise

    def state(self, splits: Splits[Any]) -> TaskState:
        """Return what the task learns from the training data, such as tokenizers. It is computed and saved at the start
        of the run, and later loaded."""
        fingerprint = _fingerprint(self.recipe, splits)
        folder = self.folder / "task"
        recover(self.folder)
        if not folder.exists():
            initial = None if self.init is None else read_bundle(self.init).task
            state = self.recipe.task.prepare(self.recipe.settings, splits.train, initial)
            about: dict[str, JSON] = {
                "data": fingerprint,
                "init": self._init_identity(),
                "description": state.description(),
            }
            write_folder(folder, {"task.json": json_bytes(about), **state.files()})
        kept = open_folder(folder)
        about_kept = read_json(kept, "task.json")
        assert isinstance(about_kept, dict)
        if about_kept["data"] != fingerprint:
            raise FileError(f"{_changed(self.folder)}; give another folder with -o to start over.")
        description = about_kept.get("description")
        if not isinstance(description, dict):
            raise FileError(f"The run in {self.folder} was started by an earlier version; give another folder with -o.")
        return self.recipe.task.state_class.load(description, lambda name: read_bytes(kept, name), str(folder))

    def averaged(self, validations: Sequence[int], warn: Callable[[str], None]) -> dict[str, Tensor]:
        """Return the mean of the weights that were saved at the last ``training.average`` validations.

        Weights that are damaged or missing are taken from the checkpoint of the same step. ``validations`` are the
        steps of all validations in the log.
        """
        kept = []
        for step in sorted({*validations, *self.averages.steps()})[-self.averages.keep :]:
            try:
                kept.append(self.averages.load(step).tensors)
            except (DamagedError, FileError) as error:
                kept.append(self._checkpoint_weights(step, error))
                warn(f"{error} The weights of step {step} are taken from its checkpoint.")
        if not kept:
            raise DamagedError(f"No weights in {self.averages.folder} can be read; there is nothing to average.")
        return {
            name: torch.stack([part[name].double() for part in kept]).mean(dim=0).to(last.dtype)
            if last.is_floating_point()
            else last  # a buffer of integers, such as a counter
            for name, last in kept[-1].items()
        }

    def _checkpoint_weights(self, step: int, error: SaccadeError) -> dict[str, Tensor]:
        try:
            tensors = self.checkpoints.load(step).tensors
        except SaccadeError:
            raise DamagedError(
                f"{error} There is no undamaged checkpoint of step {step} either, and an average without it would be a "
                "different model; train again in another folder, perhaps with --set training.final=best."
            ) from None
        return {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}

    def write_probe(self, step: int, probe: Probe) -> None:
        write_file(self.folder / "probes" / f"step-{step:08d}.json", seal(probe._asdict()).encode())

    def write_model(self, model: nn.Module, task: Task, result: dict[str, Any]) -> None:
        bundle = Bundle(task, self.recipe.kind, self.recipe.model, model, self.recipe.decoding)
        readme = model_readme(bundle, self.recipe.tables(), result)
        is_apart = self.recipe.training.lora_saved == "apart"
        write_bundle(self.model_folder, bundle, recipe=self.recipe.toml(), readme=readme, apart=is_apart)

    def write_result(self, result: dict[str, Any]) -> None:
        write_file(self.result_file, json_bytes(result))


def _changed(folder: Path) -> str:
    return f"The data has changed since the run in {folder} began"


def _fingerprint(recipe: Recipe, splits: Splits[Any]) -> str:
    """A checksum of the examples, because a run can only continue with the same ones."""
    digest = hashlib.sha256()
    for examples in (splits.train, splits.validation):
        digest.update(f"{len(examples)}\n".encode())
        for example in examples:
            digest.update(recipe.entry.data.identity(example))
    return digest.hexdigest()


def write_parts(run: Path, to: Path) -> dict[str, tuple[int, list[str]]]:
    """Write the training, validation and test examples of a run to files in a folder, as the run split them.

    For each part, returns its number of examples, and the options of ``saccade evaluate`` that read it. Existing files
    are never overwritten: if a file has the name of a part, nothing is written, and an error is raised.
    """
    if not (run / "recipe.toml").is_file() or not (run / "task").is_dir():
        raise FileError(f"{run} is not a run folder; give the folder that you passed to saccade train with -o.")
    recipe = read_recipe(run / "recipe.toml", saved=True)
    data = recipe.settings["data"]
    splits = recipe.entry.data.read(data, recipe.training.seed)
    about = read_json(open_folder(run / "task"), "task.json")
    assert isinstance(about, dict)
    if about["data"] != _fingerprint(recipe, splits):
        raise FileError(f"{_changed(run)}, so its training, validation and test parts cannot be reconstructed.")
    parts = {"train": splits.train, "validation": splits.validation, "test": splits.test}
    with storage_errors(to):
        to.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=to, prefix=".parts-") as made:
            written = {
                name: (len(examples), recipe.entry.data.write(data, examples, Path(made) / name))
                for name, examples in parts.items()
                if examples
            }
            files = sorted(Path(made).iterdir())
            if existing := [str(to / file.name) for file in files if os.path.lexists(to / file.name)]:
                raise FileError(
                    f"{existing[0]} already exists, and existing files are never overwritten; choose another folder "
                    "with --to."
                )
            for file in files:
                file.rename(to / file.name)
    made = str(Path(made))  # for the current folder it begins with "./", unlike the options
    return {
        name: (count, [one.replace(made, str(to)) for one in options]) for name, (count, options) in written.items()
    }
