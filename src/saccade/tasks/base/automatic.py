"""Choose CTranslate2 for a long file of inputs, if it is installed and a first check shows that it gives the same
answers as torch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from saccade.errors import SaccadeError
from saccade.tasks.base.predictor import Predictor

__all__ = ["CHECKED", "FEWEST", "faster"]

#: The number of inputs to which both engines must give the same answer, and the fewest inputs for which this is done.
CHECKED, FEWEST = 20, 200


def faster(opened: Predictor, inputs: Sequence[Any], options: dict[str, Any]) -> tuple[Predictor, str]:
    """Return the model, opened with CTranslate2 if that gives the same answers as torch, and a sentence on the choice.

    The sentence is empty if there is no choice, for example because CTranslate2 is not installed or the inputs are few.
    Both engines answer the first inputs with the same options; if any answer or its alternatives differ, torch answers
    all inputs.
    """
    if (
        len(inputs) < FEWEST
        or opened.engine_name != "torch"
        or opened.device.partition(":")[0] not in ("cpu", "cuda")
        or type(opened).open_engine.__func__ is Predictor.open_engine.__func__  # type: ignore[attr-defined]
        or getattr(opened.chosen(options), "sample", False)
        or find_spec("ctranslate2") is None
    ):
        return opened, ""
    try:
        engine = opened.open_engine("ctranslate2", opened.bundle, opened.device, "fp32", 1)
        other = type(opened)(opened.bundle, opened.device, engine=engine)
        theirs, ours = (_texts(one, inputs[:CHECKED], options) for one in (other, opened))
    except SaccadeError as error:  # it cannot express the network, or has no room for an input
        return opened, f"Computed by torch, because CTranslate2 cannot do it: {error}"
    differing = sum(one != their for one, their in zip(ours, theirs, strict=True))
    if differing:
        differ = f"CTranslate2 answers {differing} of the first {CHECKED} inputs differently"
        return opened, f"Computed by torch, because {differ}."
    return other, f"Computed by CTranslate2, which gave the same answers as torch to the first {CHECKED} inputs."


def _texts(opened: Predictor, inputs: Sequence[Any], options: dict[str, Any]) -> list[list[str]]:
    answers = opened.predict(inputs, **options)
    return [[answer.text, *(one.text for one in answer.alternatives)] for answer in answers]
