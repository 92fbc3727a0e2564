"""The lab: each claim of the lectures as an experiment that can fail. One claim per file."""

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.registry import EXPERIMENTS, experiment_named
from saccade.lab.results import Results, Verdict, run_experiment

__all__ = ["EXPERIMENTS", "Experiment", "Results", "Trial", "Verdict", "experiment_named", "run_experiment"]
