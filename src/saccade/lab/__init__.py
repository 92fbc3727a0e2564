"""The lab: claims of the lectures (docs/lectures.md), each tested by an experiment that could refute it. One file has
one claim."""

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.registry import EXPERIMENTS, experiment_named
from saccade.lab.results import Results, Verdict, run_experiment

__all__ = ["EXPERIMENTS", "Experiment", "Results", "Trial", "Verdict", "experiment_named", "run_experiment"]
