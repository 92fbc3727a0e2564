"""Every task is laid out in the same way: who knows one finds the parts of all."""

import importlib

import pytest

from saccade.tasks.base.answer import Answer
from saccade.tasks.registry import TASKS


@pytest.mark.parametrize("name", list(TASKS))
def test_the_parts_of_a_task_are_named_after_it(name: str) -> None:
    task, predictor = TASKS[name]
    package = task.__module__.removesuffix(".task")
    assert (predictor.__module__, predictor.__name__) == (f"{package}.predictor", f"{task.__name__}Predictor")
    answer = getattr(importlib.import_module(f"{package}.answer"), f"{task.__name__}Answer")
    assert issubclass(answer, Answer)
