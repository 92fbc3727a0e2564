"""A training run from start to finish: read the data, prepare the task, train, evaluate."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
from torch import nn

from saccade.errors import counted
from saccade.models.low_rank import merge
from saccade.storage.run_log import METRICS
from saccade.tasks.base.model_folder import load_weights, read_weights, unshared
from saccade.tasks.base.task import Task
from saccade.training.display import Display
from saccade.training.distributed import Processes
from saccade.training.fine_tuning import copy_initial_weights, prepare_layers
from saccade.training.interrupt import Interrupt, Stopped
from saccade.training.metrics import MetricsLog
from saccade.training.run_folder import RunFolder
from saccade.training.threads import at_most_threads
from saccade.training.trainer import Progress, Trainer

__all__ = ["train"]

#: The fraction of its updates below which a model has learned hardly anything.
HARDLY = 0.1


def train(
    run: RunFolder,
    display: Display,
    device: str = "cpu",
    began: float | None = None,
    processes: Processes | None = None,
) -> dict[str, Any]:
    """Train to the end, from the start or from where the run stopped, and return the final scores.

    If the user asks to stop, everything is saved and ``Stopped`` is raised. ``began`` is the value of
    ``time.monotonic()`` when the user started to wait, because a time limit includes the time before training starts.
    If there are several processes, each of them calls this function, and the first one writes the files.
    """
    recipe, processes = run.recipe, processes or Processes()
    began = time.monotonic() if began is None else began
    is_first = processes.rank == 0
    with (
        run.alone() if is_first else nullcontext(),
        at_most_threads(recipe.training.threads),
        Interrupt(display.abandoned) as interrupt,
    ):
        splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed).require_some()
        display.data(splits)
        _note_extension(run, display)
        interrupt.check()
        task = recipe.build_task(processes.in_turn(lambda: run.state(splits)))
        interrupt.check()
        examples, validation = task.encode(splits.train), task.encode(splits.validation)
        test = task.encode(splits.test)  # now, so that errors in it appear before hours of training
        interrupt.check()

        torch.manual_seed(recipe.training.seed)
        network = task.build(recipe.kind, recipe.model)
        copied, note = copy_initial_weights(run, network, task)
        prepare_layers(network, recipe.training, copied)
        checkpoint = processes.in_turn(lambda: run.checkpoints.latest(display.warn))
        trainer = Trainer(task, network, examples, validation, device, processes)
        if checkpoint is not None:
            trainer.restore(checkpoint, run.extended)
        elif note:
            display.say(note)
        _announce(run, trainer, display)
        effort = task.evaluation_effort(recipe.decoding)
        trainer.closing = effort * len(test or validation) / len(trainer.sample)
        trainer.reserve()
        trainer.progress.seconds += time.monotonic() - began
        recorder = _Recorder(run, trainer, display) if is_first else _Follower(trainer)
        check = processes.checking(interrupt)
        try:
            trainer.run(check, recorder)
            _note_early_end(run, trainer, display)
        except Stopped:
            recorder.save()
            raise
        finally:
            recorder.close()
        trainer.settle()
        return processes.lead(lambda: _finish(run, trainer, recorder.validations, test, display, check))


def _note_extension(run: RunFolder, display: Display) -> None:
    """Tell the user what happens because the run now trains longer."""
    if run.extended:
        display.say(
            "The run now trains longer; the learning rate follows the longer schedule, so it may rise at first."
        )
    if run.unlimited:
        display.say("The run has more updates than before, so training.minutes no longer limits it.")


def _announce(run: RunFolder, trainer: Trainer, display: Display) -> None:
    """Describe the model, and how training can be followed."""
    display.model(trainer.model, run.recipe, trainer.progress.step)
    serve = shlex.join(["saccade", "serve", str(run.folder), "--runs", str(run.folder.parent)])
    display.say(f"To watch it in the browser, after the first validation: {serve}")
    if len(trainer.sample) < len(trainer.validation):
        display.say(
            f"During training, only {len(trainer.sample):,} of the {len(trainer.validation):,} validation examples are "
            "scored: a sample drawn once with training.seed. Set training.validation_sample to change its size."
        )


def _note_early_end(run: RunFolder, trainer: Trainer, display: Display) -> None:
    """Tell the user if training ended before its last update because there was no time left, and whether the model can
    have learned anything."""
    planned, progress = run.recipe.training, trainer.progress
    if planned.minutes is None or progress.step >= planned.steps or (progress.end is None and not trainer.is_late):
        return
    display.say(
        f"The machine was slower than measured: training ended at step {progress.step:,}, not {planned.steps:,}, to "
        f"keep to {counted(planned.minutes, 'minute')}."
    )
    if progress.step < HARDLY * planned.steps:
        display.warn(
            f"After so few updates, the model has learned hardly anything. To train it longer, repeat the command with "
            f"--set training.minutes={4 * planned.minutes:g} (or another number)."
        )


class _Recorder:
    """Writes what happens during training to the run folder: metrics, probes, checkpoints, the best model so far."""

    def __init__(self, run: RunFolder, trainer: Trainer, display: Display) -> None:
        self.run = run
        self.trainer = trainer
        self.display = display
        progress, settings = trainer.progress, run.recipe.training
        run.averages.drop_after(progress.step)
        self.log = MetricsLog(run.folder / METRICS, progress.step, progress.validated, tensorboard=settings.tensorboard)
        self.validations = self.log.validations
        self._begin_interval()

    def _begin_interval(self) -> None:
        """Reset the counters for the speed in the next line of the log."""
        self._since, self._predictions = time.monotonic(), 0
        self._own_seconds: list[list[float]] = []

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None:
        self.display.updated(progress, loss, rate, tokens)
        self._predictions += tokens
        self._own_seconds.append(self.trainer.processes.own_seconds)
        if progress.step % self.run.recipe.training.log_every == 0:
            values = {"loss": loss, "rate": rate, "seconds": round(progress.seconds, 2)}
            self.log.write(progress.step, **values, **self._speed())
            self._begin_interval()

    def _speed(self) -> dict[str, dict[str, float]]:
        """Return the predictions per second of all processes since the last line, and the median seconds per update of
        each.

        The median ignores the few updates before which the first process saved a checkpoint.
        """
        each = self._predictions / (time.monotonic() - self._since)
        own = {str(rank): round(median(of), 6) for rank, of in enumerate(zip(*self._own_seconds, strict=True))}
        found = {"speed": {self.trainer.task.counted: round(each, 1)}}
        return found | {"processes": own} if own else found

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None:
        run, task, final = self.run, self.trainer.task, self.run.recipe.training.final
        self.log.write(progress.step, validation=progress.scores, seconds=round(progress.seconds, 2))
        probe = task.probe(model, self.trainer.validation[0])
        run.write_probe(progress.step, probe)
        if final == "average":
            run.averages.save(progress.step, unshared(model), {})
        if improved or final != "best":
            sizes = {"examples": len(self.trainer.sample), "of": len(self.trainer.validation)}
            search = {"beam": 1} if task.searches else {}
            result = {"part": "validation", **sizes, **search, "scores": progress.scores, "steps": progress.step}
            run.write_model(model, task, result)
        self.display.validated(progress, improved, probe, task.source_and_truth(self.trainer.validation[0]))
        self._begin_interval()

    def save(self) -> None:
        """Save everything that the run needs to continue from here."""
        self.log.sync()
        trainer = self.trainer
        self.run.checkpoints.save(trainer.progress.step, trainer.tensors(), trainer.state(), trainer.processes)

    def close(self) -> None:
        self.log.close()


class _Follower:
    """The listener of every process but the first: it writes no records, only its part of each checkpoint."""

    validations: Sequence[int] = ()

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None:
        pass

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None:
        pass

    def save(self) -> None:
        self.trainer.processes.contribute(self.trainer.tensors())

    def close(self) -> None:
        pass


def _finish(
    run: RunFolder,
    trainer: Trainer,
    validations: Sequence[int],
    test: Sequence[Any],
    display: Display,
    check: Callable[[], None],
) -> dict[str, Any]:
    """Choose the final weights, complete the task's state, score the test examples, and write the model folder."""
    model, final = trainer.model, run.recipe.training.final
    is_merged = run.recipe.training.lora_saved == "merged"
    if final == "best":
        if is_merged:
            merge(model)
        load_weights(model, read_weights(run.model_folder, merged=is_merged), str(run.model_folder))
    elif final == "average":
        load_weights(model, run.averaged(validations, display.warn), "the average")
    if is_merged:
        merge(model)
    model.eval()
    task: Task = run.recipe.build_task(trainer.task.finish(model, trainer.train))
    check()
    held_out = test or trainer.validation
    decoding: Any = run.recipe.decoding
    found = task.evaluate(model, held_out, decoding, check)
    result = {
        "part": "test" if test else "validation",
        "examples": len(held_out),
        "of": len(held_out),
        **({"beam": decoding.beam} if task.searches else {}),
        "scores": found.scores,
        "kinds": found.kinds,
        "steps": trainer.progress.step,
        "best_step": trainer.progress.best_step,
        "seconds": round(trainer.progress.seconds, 1),
    }
    run.write_model(model, task, result)
    run.write_result(result)
    return result
