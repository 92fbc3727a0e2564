"""An input of the wrong type is one sentence that says what a model takes, whatever the task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saccade.errors import InputTypeError
from untrained import EVERY_TASK, open_untrained

WRONG: list[Any] = [b"", None, 5, 2.5, {1}]


@pytest.mark.parametrize("task", [*EVERY_TASK, "sentence-similarity"])
def test_wrong_types_are_refused(task: str, tmp_path: Path) -> None:
    predictor, given = open_untrained(task, tmp_path / "model")
    for wrong in WRONG:
        with pytest.raises(InputTypeError, match=r"^Input 2 must be \S.*, not \S.*\.$") as error:
            predictor.predict([given, wrong])
        assert isinstance(error.value, TypeError)
    with pytest.raises(InputTypeError, match=r"^Input 1 must be"):
        predictor.compare(None, without_heads=["encoder.0.self:0"])
    for wrong in (None, 5, b"a text", {"text": "a text"}):
        with pytest.raises(InputTypeError, match=r"^The inputs must be a list, not "):
            predictor.predict(wrong)
    if task in ("tagging", "sentence-similarity"):
        with pytest.raises(InputTypeError, match=r"^Each (word|text) of input 1 must be a text, not int '5'"):
            predictor.predict([["the", 5]])
