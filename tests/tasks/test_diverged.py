"""A model that computes NaN refuses to answer, whatever its task."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import saccade
import untrained
from saccade.errors import DivergedError


@pytest.mark.parametrize("task", untrained.EVERY_TASK)
def test_nan_is_no_answer(task: str, tmp_path: Path) -> None:
    make, given = untrained.EVERY_TASK[task]
    predictor = saccade.open(make(tmp_path / "model"))
    with torch.no_grad():
        for parameter in predictor.model.parameters():
            parameter.fill_(torch.nan)
    with pytest.raises(DivergedError, match="computes NaN instead of an answer"):
        predictor.predict([given])
    if "sample" in predictor.options.model_fields:
        with pytest.raises(DivergedError):
            predictor.predict([given], sample=True)
    if predictor.streams:
        with pytest.raises(DivergedError):
            list(predictor.stream(given))
