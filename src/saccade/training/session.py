"""One run in one folder: started, watched, stopped, continued, finished.

::

    run/
      recipe.toml      the resolved recipe: the same one continues the run, another is refused
      task/            tokenizers and the fingerprint of the data
      checkpoints/     the last k, to go on from
      averages/        weights of the last validations, where they are averaged
      metrics.jsonl    loss, rate and scores as they came
      probes/          one sentence as the model saw it at each validation
      model/           the model folder: the best so far, in the end the final one
      result.json      the final scores; written last
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import DamagedError, FileError, OptionError, StorageError
from saccade.storage import JSON, json_bytes, open_folder, read_bytes, read_json, recover, write_folder
from saccade.storage.locks import lock
from saccade.storage.replacing import storage_errors
from saccade.tasks.base.data import Splits
from saccade.tasks.base.model_card import model_readme
from saccade.tasks.base.model_folder import bundle_identity, load_weights, read_bundle, unshared, write_bundle
from saccade.tasks.base.task import Bundle, Task
from saccade.training.checkpoint import CheckpointStore
from saccade.training.display import Display
from saccade.training.files import unfinished, write_text
from saccade.training.interrupt import Interrupt, Stopped
from saccade.training.metrics import MetricsLog
from saccade.training.recipe import Recipe, read_recipe
from saccade.training.trainer import Progress, Trainer

__all__ = ["Session"]

#: Seconds to wait for the lock of a run: whoever only asks whether somebody trains in it holds it for a moment.
LOCK_SECONDS = 0.2


class Session:
    """Trains a recipe in a folder, from the start or from where it stands."""

    def __init__(
        self, recipe: Recipe, folder: Path, display: Display, *, device: str = "cpu", init: Path | None = None
    ) -> None:
        self.recipe = recipe
        self.folder = folder
        self.display = display
        self.device = device
        self.init = init
        self.result_file = folder / "result.json"
        self._is_new = False  # whether this process made the run
        self._claim()
        self.checkpoints = CheckpointStore(folder / "checkpoints", recipe.training.keep)
        self.averages = CheckpointStore(folder / "averages", recipe.training.average)

    def _claim(self) -> None:
        """Make the folder ours, or find that it is; never touch one that holds something else."""
        file = self.folder / "recipe.toml"
        try:
            present = set(self.folder.iterdir())
        except FileNotFoundError:
            present = set()
        except NotADirectoryError:
            raise OptionError(f"{self.folder} is no folder; give a new or an empty one with -o.") from None
        except OSError as error:
            raise StorageError(f"Cannot reach {self.folder}: {error.strerror}.") from error
        if file in present:
            differences = self.recipe.differences(read_recipe(file))
            if differences:
                raise OptionError(
                    f"{self.folder} holds a run of another recipe ({'; '.join(differences[:3])}"
                    f"{'; ...' if len(differences) > 3 else ''}); give another folder with -o."
                )
            self._check_init()
            return
        if present - {unfinished(file)}:  # a kill may have left that one, and nothing else yet
            raise OptionError(f"{self.folder} exists and is no run of ours; give a new or an empty folder with -o.")
        write_text(file, self.recipe.toml())
        self._is_new = True

    def _check_init(self) -> None:
        """A run goes on from the model that it began from, or from none, as it began."""
        if not (self.folder / "task").exists():
            return
        about = read_json(open_folder(self.folder / "task"), "task.json")
        assert isinstance(about, dict)
        if about.get("init") != self._init_identity():
            raise OptionError(
                f"{self.folder} holds a run that began from another model than --init says, or from none; "
                "give another folder with -o, or the same --init as before."
            )

    def _init_identity(self) -> str | None:
        """The checksum of the model that --init names."""
        return None if self.init is None else bundle_identity(self.init)

    @property
    def finished(self) -> bool:
        return self.result_file.exists()

    def result(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.result_file.read_bytes())
        except ValueError as error:
            raise DamagedError(f"Damaged file {self.result_file}: it is not JSON ({error}).") from None
        return found

    def run(self) -> dict[str, Any]:
        """Train to the end; the final scores. ``Stopped`` if the user asked to stop: everything is saved then."""
        with self._alone(), Interrupt(self.display.abandoned) as interrupt:
            recipe = self.recipe
            splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed).require_some()
            self.display.data(splits)
            interrupt.check()
            task = self._task(splits)
            interrupt.check()
            train, validation = task.encode(splits.train), task.encode(splits.validation)
            test = task.encode(splits.test)  # now, so that what is wrong in it is told before hours of training
            interrupt.check()
            trainer = self._trainer(task, train, validation)
            listener = _Recorder(self, trainer, validation[0])
            self.display.model(trainer.model, self.recipe, trainer.progress.step)
            if len(trainer.sample) < len(validation):
                self.display.say(
                    f"While training, scores are on {len(trainer.sample):,} of the {len(validation):,} validation "
                    "examples, drawn once with training.seed (training.validation_sample says how many)."
                )
            try:
                trainer.run(interrupt.check, listener)
            except Stopped:
                listener.save()
                raise
            finally:
                listener.close()
            return self._finish(trainer, task, train, test, interrupt.check)

    # --- before training ---

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two processes in one run would write over each other."""
        file = self.folder / ".lock"
        with ExitStack() as held:
            with storage_errors(self.folder):
                file.touch()
                is_ours = held.enter_context(lock(file, seconds=LOCK_SECONDS))
            if not is_ours:
                raise OptionError(
                    f"Another process is training in {self.folder}; wait for it, or give another folder with -o."
                )
            try:
                yield
            except Stopped:
                raise
            except Exception:
                if self._is_new and not (self.folder / "metrics.jsonl").exists():
                    shutil.rmtree(self.folder)  # it never began to train: the corrected command can have the folder
                raise

    def _task(self, splits: Splits[Any]) -> Task:
        """The task with what it learned of the training data: made once, then kept with the run."""
        fingerprint = self._fingerprint(splits.train, splits.validation)
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
            raise FileError(
                f"The data has changed since the run in {self.folder} began; give another folder with -o to start anew."
            )
        description = about_kept.get("description")
        if not isinstance(description, dict):
            raise FileError(f"The run in {self.folder} was begun by an earlier version; give another folder with -o.")
        state = self.recipe.task.state_class.load(description, lambda name: read_bytes(kept, name), str(folder))
        return self.recipe.objective(state)

    def _fingerprint(self, *parts: Sequence[Any]) -> str:
        """Of the examples as they were read: a run continues only on the same ones."""
        digest = hashlib.sha256()
        for examples in parts:
            digest.update(f"{len(examples)}\n".encode())
            for example in examples:
                digest.update(self.recipe.entry.data.identity(example))
        return digest.hexdigest()

    def _trainer(self, task: Task, train: Sequence[Any], validation: Sequence[Any]) -> Trainer:
        torch.manual_seed(self.recipe.training.seed)
        model = task.build(self.recipe.kind, self.recipe.model)
        trainer = Trainer(task, model, train, validation, self.device)
        checkpoint = self.checkpoints.latest(self.display.warn)
        self.averages.drop_after(0 if checkpoint is None else checkpoint.step)
        if checkpoint is not None:
            trainer.restore(checkpoint)
        elif self.init is not None:
            self._begin_from(read_bundle(self.init), model)
        return trainer

    def _begin_from(self, other: Bundle, model: nn.Module) -> None:
        """The weights of another model: all of them for the same task; for another, those that both have."""
        weights = unshared(other.model)
        if not isinstance(other.task, self.recipe.task):
            ours = unshared(model)
            shared = {name for name in ours if name in weights and weights[name].shape == ours[name].shape}
            if not shared:
                raise OptionError(
                    f"{self.init} ({other.task.name}, {other.kind}) shares no weights with this recipe's "
                    f"{self.recipe.kind}; give the network the same shape."
                )
            self.display.say(f"Begins from {self.init}: {len(shared)} of {len(ours)} tensors are the same in both.")
            weights = ours | {name: weights[name] for name in shared}
        load_weights(model, weights, str(self.init))

    # --- after training ---

    def _finish(
        self,
        trainer: Trainer,
        task: Task,
        train: Sequence[Any],
        test: Sequence[Any],
        check: Callable[[], None],
    ) -> dict[str, Any]:
        """The final weights, the choices made on training data, the scores on held-out pairs; then the folder."""
        model = self._final_model(trainer)
        model.eval()
        task = self.recipe.objective(task.finish(model, train))
        check()
        held_out = test or trainer.validation
        found = task.evaluate(model, held_out, self.recipe.decoding, check)
        result = {
            "part": "test" if test else "validation",
            "examples": len(held_out),
            "of": len(held_out),
            "scores": found.scores,
            "kinds": found.kinds,
            "steps": trainer.progress.step,
            "best_step": trainer.progress.best_step,
            "seconds": round(trainer.progress.seconds, 1),
        }
        self.write_model(model, task, result)
        write_text(self.result_file, json.dumps(result, indent=2) + "\n")
        return result

    def _final_model(self, trainer: Trainer) -> nn.Module:
        final = self.recipe.training.final
        if final == "best":
            load_weights(trainer.model, unshared(read_bundle(self.folder / "model").model), str(self.folder / "model"))
        elif final == "ema" and trainer.ema is not None:
            load_weights(trainer.model, trainer.ema, "the moving average")
        elif final == "average":
            load_weights(trainer.model, _mean(self._kept_averages()), "the average")
        return trainer.model

    def _kept_averages(self) -> list[dict[str, Tensor]]:
        """The weights of the last validations; a damaged one is named and left out."""
        kept = []
        for step in self.averages.steps():
            try:
                kept.append(self.averages.load(step).tensors)
            except DamagedError as error:
                self.display.warn(f"The average is made without step {step}. {error}")
        if not kept:
            raise DamagedError(f"No weights in {self.averages.folder} can be read; there is nothing to average.")
        return kept

    def write_model(self, model: nn.Module, task: Task, result: dict[str, Any]) -> None:
        bundle = Bundle(task, self.recipe.kind, self.recipe.model, model, self.recipe.decoding)
        readme = model_readme(bundle, self.recipe.tables(), result)
        write_bundle(self.folder / "model", bundle, recipe=self.recipe.toml(), readme=readme)


class _Recorder:
    """Writes down what happens: metrics, probes, checkpoints, the model so far."""

    def __init__(self, session: Session, trainer: Trainer, probe: Any) -> None:
        self.session = session
        self.trainer = trainer
        self.probe = probe
        progress, settings = trainer.progress, session.recipe.training
        self.log = MetricsLog(
            session.folder / "metrics.jsonl", progress.step, progress.validated, tensorboard=settings.tensorboard
        )

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None:
        self.session.display.updated(progress, loss, rate, tokens)
        if progress.step % self.session.recipe.training.log_every == 0:
            self.log.write(progress.step, loss=loss, rate=rate, seconds=round(progress.seconds, 2))

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None:
        session, task = self.session, self.trainer.task
        self.log.write(progress.step, validation=progress.scores, seconds=round(progress.seconds, 2))
        probe = task.probe(model, self.probe)
        write_text(session.folder / "probes" / f"step-{progress.step:08d}.json", json.dumps(probe._asdict()))
        if session.recipe.training.final == "average":
            session.averages.save(progress.step, unshared(model), {})
        if improved or session.recipe.training.final != "best":
            sizes = {"examples": len(self.trainer.sample), "of": len(self.trainer.validation)}
            result = {"part": "validation", **sizes, "scores": progress.scores, "steps": progress.step}
            session.write_model(model, task, result)
        session.display.validated(progress, improved, probe)

    def save(self) -> None:
        """Keep all that the run needs to go on from here."""
        self.log.sync()
        step = self.trainer.progress.step
        self.session.checkpoints.save(step, self.trainer.tensors(), self.trainer.state())

    def close(self) -> None:
        self.log.close()


def _mean(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {
        name: torch.stack([part[name].double() for part in parts]).mean(dim=0).to(parts[0][name].dtype)
        for name in parts[0]
    }
