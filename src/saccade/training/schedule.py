"""Learning rate schedules: linear warm-up, then inverse square root, cosine or constant."""

from __future__ import annotations

import math
from collections.abc import Callable

from saccade.tasks.base.settings import TrainingSettings

__all__ = ["SCHEDULES", "learning_rate"]


def _inverse_sqrt(step: int, warmup: int, steps: int) -> float:
    """``√(warmup / step)`` (Vaswani 2017, eq. 3)."""
    return math.sqrt(max(warmup, 1) / step)


def _cosine(step: int, warmup: int, steps: int) -> float:
    """Half a cosine wave, which falls from 1 to 0 at the last step (Loshchilov 2017)."""
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(steps - warmup, 1)))


#: (step, warmup, steps) -> fraction of the highest learning rate, for steps after the warm-up.
SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "inverse_sqrt": _inverse_sqrt,
    "cosine": _cosine,
    "constant": lambda step, warmup, steps: 1.0,
}


def learning_rate(settings: TrainingSettings, step: int, end: int | None = None) -> float:
    """Return the learning rate of update ``step``, counting from 1.

    ``end`` is the step at which training will end if there is no time for all ``settings.steps``.
    """
    warmup = settings.warmup if end is None else min(settings.warmup, end // 5)
    if step <= warmup:
        return settings.lr * step / warmup
    share = SCHEDULES[settings.schedule](step, warmup, settings.steps if end is None else end)
    return settings.lr * (settings.lr_end + (1 - settings.lr_end) * share)
