"""Learning rates at the places where they can be worked out by hand."""

from __future__ import annotations

import math

import pytest

from saccade.errors import OptionError
from saccade.tasks.base.settings import TrainingSettings
from saccade.training.schedule import SCHEDULES, learning_rate


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_rate_rises_in_a_line_to_its_highest(schedule: str) -> None:
    settings = TrainingSettings.read({"schedule": schedule, "lr": 0.5, "warmup": 4, "steps": 20}, "here")
    assert [learning_rate(settings, step) for step in (1, 2, 3, 4)] == [0.125, 0.25, 0.375, 0.5]


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("inverse_sqrt", 16, 0.25),  # √(4 / 16) = 1/2
        ("inverse_sqrt", 20, 0.5 / math.sqrt(5)),
        ("cosine", 12, 0.25),  # half way down
        ("cosine", 8, 0.25 * (1 + math.sqrt(0.5))),  # a quarter of the way: (1 + cos 45°) / 2
        ("cosine", 20, 0.0),
        ("constant", 5, 0.5),
        ("constant", 20, 0.5),
    ],
)
def test_the_way_down(schedule: str, step: int, rate: float) -> None:
    settings = TrainingSettings.read({"schedule": schedule, "lr": 0.5, "warmup": 4, "steps": 20}, "here")
    assert learning_rate(settings, step) == pytest.approx(rate, abs=1e-15)


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("cosine", 20, 0.1),  # a fifth of 0.5
        ("cosine", 12, 0.3),  # half way between 0.5 and 0.1
        ("inverse_sqrt", 16, 0.3),
        ("constant", 20, 0.5),
    ],
)
def test_the_rate_falls_towards_its_end(schedule: str, step: int, rate: float) -> None:
    values = {"schedule": schedule, "lr": 0.5, "lr_end": 0.2, "warmup": 4, "steps": 20}
    assert learning_rate(TrainingSettings.read(values, "here"), step) == pytest.approx(rate, abs=1e-15)


@pytest.mark.parametrize(("schedule", "first"), [("inverse_sqrt", 0.5), ("constant", 0.5)])
def test_without_warmup_the_first_rate_is_the_highest(schedule: str, first: float) -> None:
    settings = TrainingSettings.read({"schedule": schedule, "lr": 0.5, "warmup": 0, "steps": 20}, "here")
    assert learning_rate(settings, 1) == first


def test_a_warmup_as_long_as_the_run_is_refused() -> None:
    with pytest.raises(OptionError, match=r"here: warmup = 20 must be less than steps = 20\."):
        TrainingSettings.read({"warmup": 20, "steps": 20}, "here")
