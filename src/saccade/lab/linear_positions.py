"""In a long text, linear positions of neighbouring words are too similar to tell the words apart."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from saccade.lab.earlier_word import accuracy_from, draw_texts, reader
from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import train
from saccade.models.transformer_config import PositionKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

LENGTHS = (8, 32, 64)
KINDS: tuple[PositionKind, ...] = ("linear", "sinusoidal")


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for length in LENGTHS:
        for kind in KINDS:
            model = reader(kind, length)
            train(model, partial(draw_texts, length=length), steps=trial.choose(600, 120), batch=32)
            found[f"{kind}, {length}"] = accuracy_from(model, draw_texts(100, length), 0)
    gap = found[f"sinusoidal, {LENGTHS[-1]}"] - found[f"linear, {LENGTHS[-1]}"]
    return found | {f"accuracy at {LENGTHS[-1]} words, sinusoidal minus linear": gap}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for kind in KINDS:
        axes.plot(LENGTHS, [found[f"{kind}, {length}"].mean for length in LENGTHS], marker="o", label=kind)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("words")
    axes.set_ylabel("correct words in percent")
    axes.set_ylim(0, 101)
    axes.legend()


EXPERIMENT = Experiment(
    name="linear-positions",
    lecture="002",
    claim="Linear positions work for short texts and fail for long texts, for which sinusoidal positions still work.",
    method="For each word of a text, two encoder blocks learn to predict the word two positions earlier, with linear "
    "and with sinusoidal positions. They are trained and tested on texts of the same length: 8, 32 or 64 words.",
    measure=measure,
    decisive=f"accuracy at {LENGTHS[-1]} words, sinusoidal minus linear",
    direction="at least",
    bound=20.0,
    draw=draw,
)
