"""The training loop: update, validate, save. A run that was stopped continues later with bit-identical results."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from saccade.errors import DivergedError, OptionError, counted
from saccade.kernels.precision import narrow_products
from saccade.models import hard_attention
from saccade.tasks.base.model_folder import unshared
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.task import Task
from saccade.training.checkpoint import (
    Checkpoint,
    load_optimizer,
    optimizer_tensors,
    rng_state,
    set_rng_state,
)
from saccade.training.distributed import Processes, part_like, whole
from saccade.training.fine_tuning import rate_share
from saccade.training.schedule import learning_rate

__all__ = ["Listener", "Progress", "Trainer"]

#: With a time limit: the number of updates between two looks at the clock; the updates after which there is an earlier
#: look, because even a few may take long; the fraction of the remaining updates by which the expected end must change
#: before it is moved; and the last fraction of the schedule, in which it is never moved.
SETTLED, EARLY, CLEARLY, TAIL = 20, (2, 5, 10), 0.05, 0.1
#: The number of examples that are scored before training, to see how long a validation will take, and the largest
#: fraction of the time to reserve for what follows the updates; an untrained network writes long texts, so the estimate
#: may be far too long.
TRIED, MOST_RESERVED = 16, 0.4


@dataclass
class Progress:
    """How far a run has come. A checkpoint stores this in addition to the tensors."""

    step: int = 0  # updates done
    epoch: int = 0
    position: int = 0  # updates done in this epoch
    validated: int = 0  # the step of the last validation
    best: float | None = None  # the best score so far; higher is better
    best_step: int = 0
    worse: int = 0  # validations since the best one
    seconds: float = 0.0  # spent so far, over all sessions
    finished: bool = False
    end: int | None = None  # the last step, if it is earlier than the recipe's because there is no time for all
    scores: dict[str, float] = field(default_factory=dict)  # the scores of the last validation


class Listener(Protocol):
    """Is called during training after each update and each validation, and whenever a checkpoint must be saved."""

    def updated(self, progress: Progress, loss: float, rate: float, tokens: int) -> None: ...

    def validated(self, progress: Progress, model: nn.Module, improved: bool) -> None: ...

    def save(self) -> None: ...


class Trainer:
    """Trains one model on encoded examples. ``run`` can be stopped whenever it calls ``check``, and continued later."""

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        train: Sequence[Any],
        validation: Sequence[Any],
        device: str = "cpu",
        processes: Processes | None = None,
    ) -> None:
        self.task = task
        self.processes = processes or Processes()
        if task.carries and self.processes.count > 1:
            raise OptionError(
                "training.truncate carries the state of the network from batch to batch, so only one process can train "
                "with it; leave it out, or start saccade without torchrun."
            )
        self.model = model.to(device)
        #: Whether the loss of a batch is a sum over its examples; in hard attention, it also compares the examples.
        self._divides = hard_attention(self.model) is None
        self.network, self._trained = self.processes.wrap(self.model)
        self.train = train
        self.validation = validation
        settings: TrainingSettings = task.training
        self.settings = settings
        self.device = device
        #: The examples that a validation scores. If scoring is slow, they are a sample that is drawn only once.
        self.sample = _validation_sample(validation, settings)
        #: How long everything after training takes, such as the final test, as a multiple of the time of a validation.
        self.closing = 0.0
        self._reserved = 0.0  # seconds for the last validation and what follows it
        self.progress = Progress()
        self._lengths = task.lengths(train)
        for part in (self._lengths, task.lengths(validation)):
            task.check_lengths(part)
        self._names = {name: one for name, one in self._trained.named_parameters() if one.requires_grad}
        self.optimizer = _optimizer(self._names, settings)
        self.ema = None
        if settings.final == "ema":
            self.ema = {name: tensor.clone() for name, tensor in unshared(self._trained).items()}

    def run(self, check: Callable[[], None], listener: Listener) -> None:
        """Train to the last step, until ``training.patience`` validations have brought no improvement, or until the
        time limit. ``check`` is called regularly, and may raise an exception to stop before that."""
        settings, progress = self.settings, self.progress
        progress.seconds = self._one_clock(progress.seconds)
        first, began_at = progress.step, progress.seconds
        began = time.monotonic() - progress.seconds
        groups = self.groups()
        while not progress.finished:
            due = progress.step % settings.validate_every == 0 or progress.step == self.last_step or self.is_late
            if due and progress.step > progress.validated:
                self._validate(check, listener, began)
                progress.seconds = self._one_clock(time.monotonic() - began)
                continue  # to see whether this was the last one
            check()
            loss, rate, tokens = self.update(next(groups))
            progress.seconds = self._one_clock(time.monotonic() - began)
            self._keep_time(first, began_at)
            listener.updated(progress, loss, rate, tokens)

    def _one_clock(self, seconds: float) -> float:
        """Return the elapsed seconds of the first process, which decide for all processes if there is a time limit."""
        return seconds if self.settings.minutes is None else self.processes.agreed(seconds)

    @property
    def _is_over(self) -> bool:
        """Whether training is over: all updates done, no patience left, or no time left."""
        out_of_patience = 0 < self.settings.patience <= self.progress.worse
        return self.progress.step >= self.last_step or out_of_patience or self.is_late

    @property
    def last_step(self) -> int:
        """The step at which the schedule ends: the recipe's last step, or an earlier one if there is not enough
        time."""
        return self.settings.steps if self.progress.end is None else self.progress.end

    def _keep_time(self, first: int, began: float) -> None:
        """Move the end of the schedule to the step that the clock allows, given the speed since step ``first``.

        The end is part of the progress, so a run that is continued keeps it.
        """
        progress, done = self.progress, self.progress.step - first
        remaining = self.last_step - progress.step
        is_time = done % SETTLED == 0 or done in EARLY
        if self.settings.minutes is None or not is_time or remaining <= TAIL * self.last_step:
            return
        left = 60 * self.settings.minutes - self._reserved - progress.seconds
        possible = max(1, int(left * done / (progress.seconds - began)))
        end = min(self.settings.steps, progress.step + possible)
        if abs(end - self.last_step) > CLEARLY * remaining:
            progress.end = end if end < self.settings.steps else None

    @property
    def is_late(self) -> bool:
        """Whether the time limit leaves only enough time for the last validation and the test."""
        minutes = self.settings.minutes
        return minutes is not None and self.progress.seconds >= 60 * minutes - self._reserved

    def reserve(self) -> None:
        """Estimate how long the last validation and the test will take; used until a validation has been timed.

        An untrained network writes long texts, so the estimate is not too short. Measuring does not change the state of
        the random generators.
        """
        if self.settings.minutes is None:
            return
        few = self.sample[:: max(1, len(self.sample) // TRIED)]
        numbers, began = rng_state(), time.monotonic()
        self.network.eval()
        self._collect()
        self.processes.lead(lambda: self.task.validate(self.model, few))
        set_rng_state(numbers)
        self._reserve((time.monotonic() - began) * len(self.sample) / len(few))

    def _reserve(self, validation: float) -> None:
        """Reserve time for the last validation and the test, if a validation takes this many seconds."""
        if self.settings.minutes is not None:
            needed = (1 + self.closing) * self._one_clock(validation)
            self._reserved = min(needed, MOST_RESERVED * 60 * self.settings.minutes)

    # --- one update ---

    def groups(self) -> Iterator[list[list[int]]]:
        """Yield the batches of each update, ``training.accumulate`` at a time, as lists of example indices, from the
        current position on and without end."""
        settings, progress = self.settings, self.progress
        while True:
            batches = self.task.plan(self._lengths, progress.epoch)
            size = settings.accumulate
            groups = [batches[i : i + size] for i in range(0, len(batches), size)]
            for group in groups[progress.position :]:
                progress.position += 1
                yield group
            progress.epoch, progress.position = progress.epoch + 1, 0

    def update(self, group: list[list[int]]) -> tuple[float, float, int]:
        """Take one optimizer step on these batches. Returns the mean loss per prediction, the learning rate and the
        number of predictions."""
        settings, step = self.settings, self.progress.step + 1
        if not self.network.training:  # train() visits every module, which is slow for a small model
            self.network.train()
        rate = learning_rate(settings, step, self.progress.end)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate * parameters["share"]
        # Every process makes all batches, so that random choices in them do not depend on the number of processes.
        parts = self.processes.divide(group) if self._divides else group
        batches = [self.task.batch([self.train[i] for i in part]) for part in parts]
        count = sum(batch.count for batch in batches)
        lines = [line for batch in batches for line in batch.lines]
        total = 0.0
        for batch, factor in self.processes.turns(batches, self.network, (settings.seed, step)):
            with narrow_products(self.device.partition(":")[0]) if settings.precision == "bf16" else nullcontext():
                loss = self.task.loss(self.network, batch.to(self.device))
            self.processes.ready()
            (loss.total * factor / count).backward()  # type: ignore[no-untyped-call]
            total += float(loss.total.detach()) if factor else 0.0
        total = self.processes.total(total)
        self._require_finite("loss", total, lines)
        norm = nn.utils.clip_grad_norm_(self._names.values(), settings.clip or math.inf)
        self._require_finite("gradient", float(whole(norm)), lines)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            for name, tensor in unshared(self._trained).items():
                if tensor.is_floating_point():
                    self.ema[name].lerp_(tensor, 1 - settings.ema)
                else:  # a buffer of integers, such as a counter
                    self.ema[name].copy_(tensor)
        self.progress.step = step
        return total / count, rate, count

    def _require_finite(self, what: str, value: float, lines: Sequence[int]) -> None:
        """Raise an error before an update that would make every weight NaN."""
        if math.isfinite(value):
            return
        self.optimizer.zero_grad(set_to_none=True)
        progress = self.progress
        shown = ", ".join(str(line) for line in sorted(lines)[:5])
        raise DivergedError(
            f"The {what} became {value} at step {progress.step + 1} (epoch {progress.epoch + 1}, update "
            f"{progress.position}; a batch of {counted(len(lines), 'example')}, lines {shown}, ...); no "
            "weights were updated in this step. "
            "Usually a lower training.lr or a longer training.warmup helps; start again in another folder (-o)."
        )

    # --- validation ---

    def _validate(self, check: Callable[[], None], listener: Listener, began: float) -> None:
        """Score the model, and decide whether training is over; ``began`` is when it began, by ``time.monotonic()``."""
        progress, before = self.progress, time.monotonic()
        self.network.eval()
        with self._validated_weights():
            scores = self.processes.lead(lambda: self.task.validate(self.model, self.sample, check))
            self._reserve(time.monotonic() - before)
            progress.seconds = self._one_clock(time.monotonic() - began)
            self._require_finite_scores(scores)
            value = scores[self.task.metric] * (-1 if self.task.metric_is_loss else 1)
            improved = progress.best is None or value > progress.best
            progress.validated = progress.step
            progress.scores = scores
            progress.worse = 0 if improved else progress.worse + 1
            if improved:
                progress.best, progress.best_step = value, progress.step
            progress.finished = self._is_over
            self.processes.lead(lambda: listener.validated(progress, self.model, improved))
        listener.save()  # with the weights that training continues with

    @contextmanager
    def _validated_weights(self) -> Iterator[None]:
        """A context in which the model has the weights to validate: their moving average, if that becomes the model."""
        weights = self._swap(self.ema) if self.ema is not None else None
        try:
            self._collect()
            yield
        finally:
            if weights is not None:
                self._swap(weights)

    def _collect(self) -> None:
        """Copy weights that are divided among the processes into the model of the first process."""
        if self._trained is self.model:
            return
        self.model.eval()
        ours = unshared(self.model)
        for name, tensor in unshared(self._trained).items():
            found = whole(tensor)
            if not ours[name].is_meta:
                ours[name].copy_(found)

    def settle(self) -> None:
        """At the end of training, put the last weights into the model, or their moving average if ``training.final`` is
        "ema"."""
        if self.ema is not None:
            self._swap(self.ema)
        self._collect()

    def _require_finite_scores(self, scores: dict[str, float]) -> None:
        """Raise an error before a model that produces NaN replaces a good one."""
        for name, value in scores.items():
            if not math.isfinite(value):
                raise DivergedError(
                    f"The validation score {name} became {value} at step {self.progress.step}; the earlier checkpoints "
                    "are kept. A lower training.lr or a longer training.warmup usually helps; start again in another "
                    "folder (-o)."
                )

    def _swap(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Put other weights and buffers into the model and return the previous ones."""
        tensors = unshared(self._trained)
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            tensor.copy_(weights[name])
        return before

    # --- what a checkpoint stores ---

    def tensors(self) -> dict[str, Tensor]:
        found = {f"model.{name}": tensor for name, tensor in unshared(self._trained).items()}
        found |= {f"ema.{name}": value for name, value in (self.ema or {}).items()}
        found |= {f"carried.{name}": value for name, value in self.task.carried().items()}
        return found | optimizer_tensors(self.optimizer, self._names) | rng_state()

    def state(self) -> dict[str, Any]:
        return vars(self.progress).copy()

    def restore(self, checkpoint: Checkpoint, extended: bool = False) -> None:
        """Set everything to its state when the checkpoint was saved. ``extended`` says whether the recipe now trains
        longer than it did then."""
        tensors = checkpoint.tensors
        ours = unshared(self._trained)
        self._swap({name: part_like(tensors[f"model.{name}"], like) for name, like in ours.items()})
        if self.ema is not None:
            self.ema = {name: part_like(tensors[f"ema.{name}"].to(self.device), like) for name, like in ours.items()}
        load_optimizer(self.optimizer, self._names, tensors)
        set_rng_state(tensors)
        carried = {name: value.to(self.device) for name, value in tensors.items() if name.startswith("carried.")}
        self.task.carry_on({name.removeprefix("carried."): value for name, value in carried.items()})
        self.progress = Progress(**checkpoint.state)  # type: ignore[arg-type]
        if extended:
            self.progress.end = None
            self.progress.finished = self._is_over


def _optimizer(names: dict[str, nn.Parameter], settings: TrainingSettings) -> torch.optim.AdamW:
    """AdamW (Loshchilov 2019); weight decay applies to matrices only, and lower blocks may have lower rates."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name, parameter in names.items():
        share = rate_share(name, names, settings.layer_decay)
        groups.setdefault((parameter.ndim < 2, share), []).append(parameter)
    return torch.optim.AdamW(
        [
            {
                "params": groups[is_vector, share],
                "weight_decay": 0.0 if is_vector else settings.weight_decay,
                "share": share,
            }
            for is_vector, share in sorted(groups, key=lambda group: (group[0], -group[1]))
        ],
        lr=settings.lr,
        betas=(settings.beta1, settings.beta2),
        eps=1e-9,
        fused=True,
    )


def _validation_sample(examples: Sequence[Any], settings: TrainingSettings) -> Sequence[Any]:
    """All examples, or a random sample of them in order; not the first ones, because files are often sorted."""
    count = min(getattr(settings, "validation_sample", len(examples)), len(examples))
    return [examples[i] for i in sorted(random.Random(settings.seed).sample(range(len(examples)), count))]
