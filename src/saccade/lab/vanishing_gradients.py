"""Gradients through time shrink, more in a plain recurrent network than in an LSTM with a forget bias of 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from saccade.lab.experiment import Experiment, Trial
from saccade.recurrent.cells import LSTM, cell_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

STEPS, WIDTH = 50, 32
CELLS = ("rnn", "gru", "lstm")
RATIO = "powers of ten, lstm with forget bias 1 over rnn"


def first_gradient(cell_name: str, forget_bias: float = 0.0, steps: int = STEPS) -> float:
    """Return the norm of the gradient, with respect to the first input, of the sum of the last state's components."""
    cell = cell_named(cell_name)(WIDTH, WIDTH)
    if isinstance(cell, LSTM):
        with torch.no_grad():
            cell.bias[WIDTH : 2 * WIDTH] = forget_bias
    inputs = torch.randn(steps, 1, WIDTH).requires_grad_()
    state = None
    for x in inputs:
        state = cell(x, state)
    assert state is not None
    (gradient,) = torch.autograd.grad(state[0].sum(), inputs)
    return float(gradient[0].norm())


def measure(trial: Trial) -> Mapping[str, float]:
    found = {name: first_gradient(name) for name in CELLS}
    found["lstm, forget bias 1"] = first_gradient("lstm", 1.0)
    ratio = found["lstm, forget bias 1"] / max(found["rnn"], 1e-30)
    return found | {RATIO: math.log10(max(ratio, 1e-30))}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    names = [*CELLS, "lstm, forget bias 1"]
    axes.bar(names, [found[name].mean for name in names])
    axes.set_yscale("log")
    axes.set_ylabel(f"gradient at the first of {STEPS} steps")


EXPERIMENT = Experiment(
    name="vanishing-gradients",
    lecture="002",
    claim="Gradients through time vanish in a plain recurrent network; in an LSTM with a forget bias of 1, far more of "
    "the gradient remains.",
    method=f"Untrained cells read {STEPS} random inputs of width {WIDTH}. We measure the norm of the gradient of the "
    "last state with respect to the first input.",
    measure=measure,
    decisive=RATIO,
    direction="at least",
    bound=2.0,
    draw=draw,
)
