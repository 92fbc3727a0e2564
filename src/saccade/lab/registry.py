"""The experiments, in the order of the lectures; the module of an experiment is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from saccade.errors import UnknownNameError
from saccade.lab.experiment import Experiment

__all__ = ["EXPERIMENTS", "experiment_named"]

#: The names of the experiments. Each is the name of a module in this package, with "-" instead of "_".
EXPERIMENTS = (
    "related-words",
    "fixed-context",
    "pronoun-link",
    "weights-and-effects",
    "vanishing-gradients",
    "three-ways",
    "cost",
    "linear-positions",
    "positions-beyond-training",
    "scaled-scores",
    "no-positions-no-order",
    "several-heads",
    "leaking-mask",
    "residuals-and-norms",
    "hard-and-soft",
    "sparse-weights",
    "masked-pretraining",
)


def experiment_named(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UnknownNameError("experiment", name, EXPERIMENTS)
    found: Experiment = import_module(f"saccade.lab.{name.replace('-', '_')}").EXPERIMENT
    return found
