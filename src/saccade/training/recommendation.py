"""Recommends a recipe that suits the user's data and the time available for training."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from saccade.errors import OptionError, UnknownNameError, counted
from saccade.kernels.precision import check_narrow_products
from saccade.tasks.base.data import SIZES, Say, Size, Splits
from saccade.tasks.registry import task_named
from saccade.training.recipe import Recipe, read_recipe, read_tables, tables_of_model
from saccade.training.threads import at_most_threads, thread_counts
from saccade.training.trainer import Trainer

__all__ = ["Request", "Speed", "duration", "measured_speed", "recipe_for_run", "recommended_recipe"]

#: The largest size to choose if the user gives neither a size nor a time: it takes half an hour or so on 2 cores.
DEFAULT_SIZE: Size = "small"
#: The fraction of the remaining time for updates; the rest is for validations and the final test. The trainer keeps to
#: the clock (``Trainer._keep_time``), so this only has to be about right.
FOR_UPDATES = 0.8
#: The fraction of its usual updates that a size needs in order to be better than the next smaller one.
ENOUGH = 0.4
#: The minimum number of updates when the time is limited.
FEWEST = 20
#: The limits of timing: the number of batches, the seconds, the fraction of the available time, the number of examples
#: that the batches are taken from, and that number per available minute.
TIMED_BATCHES, TIMED_SECONDS, FOR_TIMING, TIMED_EXAMPLES, EXAMPLES_PER_MINUTE = 12, 8.0, 0.02, 20_000, 2_000

#: The fraction of the time for validations, their maximum number, and how many examples are scored to time one.
FOR_VALIDATIONS, MOST_VALIDATIONS, TIMED_VALIDATION = 0.15, 10, 16

#: The fraction of the time that bf16 must save, compared with fp32, and several threads, compared with one, in order to
#: be chosen; the maximum number of seconds for timing each number of threads.
CLEARLY_FASTER, TIMED_THREADS = 0.05, 1.0
#: How many times as long as planned the timing may take on a busy machine.
MOST_TIMED = 4

#: A function that returns the recipe for a size, given training settings to change and the number of validations.
RecipeMaker = Callable[[Size, dict[str, Any], int], Recipe]


class Speed(NamedTuple):
    """How long an update takes on this machine with the settings that were chosen."""

    seconds: float
    precision: str = "fp32"
    threads: int = 1
    in_fp32: float | None = None  # the seconds that it would take in fp32, if another precision was chosen


class Timing(NamedTuple):
    """How long each part of training takes on this machine; all but ``speed`` in seconds."""

    speed: Speed
    validation: float = 0.0
    preparation: float = 0.0


@dataclass(frozen=True)
class Request:
    """What a user gives instead of a recipe: data files and, optionally, settings, a size or a number of minutes."""

    task: str
    data: dict[str, Any]  # the ``[data]`` table
    overrides: tuple[str, ...] = ()  # such as training.lr=3e-4
    init: Path | None = None  # the model folder whose weights, network and tokenizer the run starts from
    size: str | None = None
    minutes: float | None = None
    device: str = "cpu"
    where: str = "The command line"  # for error messages
    began: float = field(default_factory=time.monotonic)  # when the user started to wait

    def overridden(self, key: str) -> str | None:
        """Return the value that the overrides give to this key, or None."""
        values = [text.partition("=")[2].strip(" \"'") for text in self.overrides if text.startswith(f"{key}=")]
        return values[-1] if values else None


def recipe_for_run(request: Request, folder: Path, say: Say) -> Recipe:
    """Return the recipe for a run: a recommended recipe for a new run, otherwise the recipe saved in its folder."""
    data_overrides = [override for override in request.overrides if override.startswith("data.")]
    checked = read_tables({"task": request.task, "data": request.data}, request.where, data_overrides).settings["data"]
    data = checked.model_dump(exclude_defaults=True)
    kept = folder / "recipe.toml"
    if not kept.exists():
        return recommended_recipe(replace(request, data=data), say)[0]
    tables = read_recipe(kept, saved=True).tables()
    if tables["task"] != request.task:
        raise OptionError(
            f"{folder} contains a run of {tables['task']}, not of {request.task}; give another folder with -o."
        )
    planned = tables["training"].get("minutes")
    if request.minutes not in (None, planned):
        plan = "without --minutes" if planned is None else f"for {counted(planned, 'minute')}"
        longer = "" if planned is None else f" --set training.minutes={2 * planned:g}"
        raise OptionError(
            f"The run in {folder} was planned {plan}. To train it longer, use --set training.steps="
            f"{2 * tables['training']['steps']}{longer} (or another number); for a new plan, give another folder "
            f"with -o."
        )
    # If data or settings differ from the saved recipe, opening the run folder reports it.
    return read_tables({**tables, "data": data}, request.where, request.overrides)


def recommended_recipe(request: Request, say: Say) -> tuple[Recipe, Splits[Any]]:
    """Return a recipe whose network size suits the data and, if ``request.minutes`` is given, the available time; also
    return the data that was read to choose it."""
    size: Size | None = next((one for one in SIZES if one == request.size), None)
    if size != request.size:
        raise UnknownNameError("size", request.size, SIZES)
    steps_given, kind = request.overridden("training.steps"), request.overridden("model.kind")
    if request.minutes is not None and steps_given is not None:
        raise OptionError("--minutes determines training.steps; give only one of the two.")
    reader = task_named(request.task).data
    splits = reader.read(reader.settings.read(request.data, request.where), seed=1).require_some()
    theirs = {} if request.init is None else tables_of_model(request.task, request.init)

    def candidate(size: Size, chosen: dict[str, Any], validations: int = MOST_VALIDATIONS) -> Recipe:
        recommended = reader.recommend(splits, size)
        training = {**recommended["training"], **chosen}
        if steps_given is not None and steps_given.isdecimal():
            training["steps"] = int(steps_given)
        steps = training["steps"]
        training |= {"warmup": steps // 10, "validate_every": max(1, steps // validations)}
        if request.minutes is not None:
            training["minutes"] = request.minutes
        tables = {"task": request.task, **recommended, "training": training, **theirs}
        tables["data"] = {**request.data, **theirs.get("data", {})}
        if kind not in (None, tables["model"].get("kind")):
            tables["model"] = {}  # the recommended sizes are for another kind of network
        return read_tables(tables, request.where, request.overrides)

    suitable = reader.suitable(splits)
    if request.minutes is None:
        usual = min(suitable, DEFAULT_SIZE, key=SIZES.index)
        recipe = candidate(usual if size is None else size, {})
        if size is None and steps_given is None and recipe.training.steps > reader.most_updates:
            recipe = candidate(usual, {"steps": reader.most_updates})
        return recipe, splits
    sizes = SIZES[: SIZES.index(suitable) + 1] if size is None else (size,)
    return _fit_to_time(candidate, sizes, splits, request.minutes, request, say), splits


# --- time --------------------------------------------------------------------------------------------------


def _fit_to_time(
    candidate: RecipeMaker, sizes: Sequence[Size], splits: Splits[Any], minutes: float, request: Request, say: Say
) -> Recipe:
    """The recipe for the largest of these sizes that can learn enough in this many minutes on this machine."""
    say(f"Measuring this machine, to see what it can learn in {counted(minutes, 'minute')} ...")
    for size in reversed(sizes):
        usual = candidate(size, {}, MOST_VALIDATIONS)
        wanted = usual.training.steps
        timing = _timed(usual, splits, request, minutes)
        speed = timing.speed
        left = 60 * minutes - (time.monotonic() - request.began) - timing.preparation
        affordable = int(FOR_UPDATES * max(0.1 * 60 * minutes, left) / speed.seconds)
        say(f"  {size}: {_described(speed)}, time for {affordable:,}; it usually needs {wanted:,}.")
        if affordable >= ENOUGH * wanted:
            break
    steps = max(FEWEST, min(wanted, affordable))
    rest = f"{FOR_UPDATES:.0%} of the remaining time; the rest is for validations and the final test"
    say(f"Chose {size} with {counted(steps, 'update')} ({'it needs no more' if steps == wanted else rest}).")
    fitting = FOR_VALIDATIONS * 60 * minutes / max(timing.validation, 1e-9)
    chosen: dict[str, Any] = {"steps": steps, "precision": speed.precision}
    if request.device == "cpu":
        chosen["threads"] = speed.threads
    return candidate(size, chosen, int(max(1, min(MOST_VALIDATIONS, fitting))))


def _described(speed: Speed) -> str:
    """The seconds of an update, and what was chosen to make it fast."""
    threads = f" with {speed.threads} threads" if speed.threads > 1 else ""
    if speed.in_fp32 is None:
        return f"{speed.seconds:.3f} s per update{threads}"
    join = " and" if threads else " with"
    return f"{speed.seconds:.3f} s per update{threads}{join} matrix products in bf16 (in fp32 {speed.in_fp32:.3f} s)"


# --- measuring ---------------------------------------------------------------------------------------------


def measured_speed(recipe: Recipe, splits: Splits[Any], device: str) -> Speed:
    """Measure how long an update of this recipe takes on this machine, and with how many threads it is fastest."""
    fixed = (f"training.precision={recipe.training.precision}",)
    return _timed(recipe, splits, Request(recipe.task.name, {}, fixed, device=device)).speed


def _timed(recipe: Recipe, splits: Splits[Any], request: Request, minutes: float = math.inf) -> Timing:
    """Measure how long an update, a validation and the preparation take on this machine. If only a few ``minutes`` are
    available, fewer examples are measured.

    On the CPU, everything is measured as the processor time of one thread, which depends less on what else the
    machine does; the clock only measures how much faster several threads are. A validation is timed on a few
    examples. An untrained network writes long texts, so the estimate tends to be too long.
    """
    began = time.process_time()
    most = min(TIMED_EXAMPLES, max(EXAMPLES_PER_MINUTE, EXAMPLES_PER_MINUTE * minutes))
    drawn = random.Random(0).sample(splits.train, min(int(most), len(splits.train)))
    task = recipe.build_task(recipe.task.prepare(recipe.settings, drawn))
    examples = task.encode(drawn)
    trainer = Trainer(task, task.build(recipe.kind, recipe.model), examples, examples[:1], request.device)
    preparing = (time.process_time() - began) * len(splits.train) / len(drawn)
    speed = _speed(trainer, request, min(FOR_TIMING * 60 * minutes, TIMED_SECONDS))
    held_out = task.encode(random.Random(0).sample(splits.validation, min(500, len(splits.validation))))
    few = held_out[:: max(1, len(held_out) // TIMED_VALIDATION)]
    total = len(held_out) * len(splits.validation) / min(500, len(splits.validation))
    scored = min(getattr(recipe.training, "validation_sample", total), total)
    with at_most_threads(1):
        began = time.thread_time()
        task.validate(trainer.model.eval(), few)
        validating = (time.thread_time() - began) * scored / len(few)
    return Timing(speed, validating, preparing)


def _speed(trainer: Trainer, request: Request, limit: float) -> Speed:
    """Choose the precision and the number of threads with which an update takes the least time, unless the user chose
    them."""
    own, is_cpu = trainer.settings.precision, request.device == "cpu"
    precisions = [own]
    if request.overridden("training.precision") is None and own == "fp32":
        with suppress(OptionError):
            check_narrow_products()
            precisions.append("bf16")
    with at_most_threads(1 if is_cpu else None):
        seconds = _timed_precisions(trainer, precisions, limit)
    precision = min(seconds, key=lambda one: seconds[one] * (1 if one == own else 1 / (1 - CLEARLY_FASTER)))
    trainer.settings = trainer.settings.model_copy(update={"precision": precision})
    threads, factor = _fastest_threads(trainer, request, min(limit, TIMED_THREADS)) if is_cpu else (1, 1.0)
    in_fp32 = None if precision == own else seconds[own] / factor
    return Speed(seconds[precision] / factor, precision, threads, in_fp32)


def _timed_precisions(trainer: Trainer, precisions: Sequence[str], limit: float) -> dict[str, float]:
    """The mean seconds of an update in each precision.

    All are timed on the same batches in turn, each three times, and the shortest time counts, so that brief
    interruptions do not matter. On a busy machine, too, the time for measuring is processor time, so that as many
    batches are measured, unless that takes far too long.
    """
    of = {precision: trainer.settings.model_copy(update={"precision": precision}) for precision in precisions}
    seconds: dict[str, list[float]] = {precision: [] for precision in precisions}
    groups = trainer.groups()
    first = next(groups)
    for trainer.settings in of.values():
        trainer.update(first)  # the first also allocates memory
    began, began_computing = time.monotonic(), time.process_time()
    for group in islice(groups, TIMED_BATCHES):
        for precision, trainer.settings in of.items():
            seconds[precision].append(min(_seconds(trainer, group) for _ in range(3)))
        if time.process_time() - began_computing > limit or time.monotonic() - began > MOST_TIMED * limit:
            break
    return {precision: sum(some) / len(some) for precision, some in seconds.items()}


def _fastest_threads(trainer: Trainer, request: Request, limit: float) -> tuple[int, float]:
    """The number of threads with which updates take the least time, and how many times as fast they are as with one.

    On a busy machine, threads wait for each other, so several can be far slower than one. All numbers of threads are
    timed in turn, so that other work on the machine slows them equally.
    """
    counts, given = thread_counts(), request.overridden("training.threads")
    if given is not None and given.isdecimal():
        counts = tuple(sorted({1, min(int(given), counts[-1])}))
    if counts == (1,):
        return 1, 1.0
    group, seconds = next(trainer.groups()), dict.fromkeys(counts, 0.0)
    for count in counts:
        with at_most_threads(count):
            trainer.update(group)  # the first also prepares the threads
    began = time.monotonic()
    while seconds[1] == 0 or time.monotonic() - began < limit * len(counts):
        for count in counts:
            with at_most_threads(count):
                seconds[count] += _seconds(trainer, group, time.perf_counter)
    best = counts[-1]
    if given is None:
        best = min(counts, key=lambda count: seconds[count] * (1 if count == 1 else 1 / (1 - CLEARLY_FASTER)))
    return best, seconds[1] / seconds[best]


def _seconds(trainer: Trainer, group: list[list[int]], clock: Callable[[], float] | None = None) -> float:
    """The time of an update; by default the processor time of this thread on the CPU, or wall-clock time elsewhere."""
    clock = clock or (time.thread_time if trainer.device == "cpu" else time.perf_counter)
    began = clock()
    trainer.update(group)
    return clock() - began


def duration(recipe: Recipe, splits: Splits[Any], device: str) -> str:
    """Return how long training will take on this machine, in words, estimated from a few updates."""
    total = measured_speed(recipe, splits, device).seconds * recipe.training.steps / FOR_UPDATES
    return counted(max(1, round(total / 60)), "minute") if total < 5400 else f"{total / 3600:.1f} hours"
