"""Sparsemax gives exact zeros without losing accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from saccade.attention import watch
from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import accuracy, train
from saccade.lab.retrieval import Retrieval, draw_questions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WEIGHTS = ("softmax", "sparsemax")
#: How many percentage points of accuracy may be lost for sparse weights to count as equally good.
ALLOWED_LOSS = 2.0


def measure(trial: Trial) -> Mapping[str, float]:
    found = {}
    for weights in WEIGHTS:
        model = Retrieval(4, weights)
        train(model, draw_questions, steps=trial.choose(2500, 400))
        found[f"accuracy, {weights}"] = accuracy(model, draw_questions(2000))
        with torch.inference_mode(), watch(model) as seen:
            model(draw_questions(200).inputs)
        trace = seen["attention"]
        every = torch.stack([trace.row(0, batch=number) for number in range(trace.shape[0])])
        found[f"zeros, {weights}"] = 100 * float((every == 0).float().mean())
    kept = found["accuracy, sparsemax"] >= found["accuracy, softmax"] - ALLOWED_LOSS
    return found | {"zeros at equal accuracy": found["zeros, sparsemax"] if kept else 0.0}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    places = range(len(WEIGHTS))
    for shift, what in ((-0.2, "accuracy"), (0.2, "zeros")):
        axes.bar(
            [place + shift for place in places], [found[f"{what}, {name}"].mean for name in WEIGHTS], 0.4, label=what
        )
    axes.set_xticks(list(places), WEIGHTS)
    axes.set_ylabel("percent")
    axes.legend()


EXPERIMENT = Experiment(
    name="sparse-weights",
    lecture="004",
    claim="Sparsemax makes most attention weights exactly zero without losing accuracy.",
    method="A network with 4 heads learns to find two values at once (as in several-heads), with softmax and with "
    "sparsemax. We measure the percentage of weights that are exactly zero; it only counts if the accuracy is at most "
    f"{ALLOWED_LOSS:g} points lower than with softmax.",
    measure=measure,
    decisive="zeros at equal accuracy",
    direction="at least",
    bound=50.0,
    draw=draw,
)
