"""Predictors and answers are sent between processes, so both can be pickled, whatever the task."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import saccade
import untrained
from saccade.errors import StaleTraceError
from saccade.tasks.registry import TASKS
from untrained import EVERY_TASK, open_untrained


def test_every_task_is_tried() -> None:
    built_in = [name for name in TASKS if name != "extremes"]
    assert sorted(EVERY_TASK) == sorted(built_in)


@pytest.mark.parametrize("task", [*EVERY_TASK, "sentence-similarity"])
def test_a_predictor_and_its_answers_can_be_pickled(task: str, tmp_path: Path) -> None:
    predictor, given = open_untrained(task, tmp_path / "model")
    few = {"max_tokens": 5} if "max_tokens" in predictor.options.model_fields else {}
    answer = predictor.predict([given], **few)[0]
    there = pickle.loads(pickle.dumps(predictor))
    assert there.predict([given], **few)[0].record() == answer.record()
    answer.view  # noqa: B018
    sent = pickle.loads(pickle.dumps(answer))
    assert sent.record() == answer.record()
    with pytest.raises(StaleTraceError, match="pickled without its model"):
        sent.view  # noqa: B018
    assert copy.deepcopy(answer).view.names == answer.view.names  # a copy in the same process still has the model


def test_a_pickled_predictor_starts_workers_of_its_own(tmp_path: Path) -> None:
    """No process starts before the first search, so none is needed here."""
    path = untrained.translator(tmp_path / "model")
    with saccade.open(path, workers=2) as predictor, pickle.loads(pickle.dumps(predictor)) as there:
        assert there._workers is not predictor._workers
        assert there._workers._arguments == predictor._workers._arguments
