"""Run an experiment with several seeds, save the measurements, and decide whether its claim holds.

The numbers of each seed are saved as soon as they are measured, so that an experiment that was stopped continues with
the next seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from saccade.errors import FileError, counted
from saccade.extras import needs_extra
from saccade.lab.experiment import Experiment, Trial
from saccade.storage import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Interval", "Results", "Verdict", "run_experiment"]

Verdict = Literal["holds", "refuted", "undecided"]
#: Quantiles of Student's t for a 95% interval, by degrees of freedom; beyond them, the normal distribution's.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
)  # fmt: skip
_NORMAL = 1.96


class Interval(NamedTuple):
    """The mean of a number over seeds, and the 95% confidence interval of the mean."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        mean, count = fmean(values), len(values)
        if count < 2:
            return cls(mean, -math.inf, math.inf)
        quantile = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
        half = quantile * stdev(values) / math.sqrt(count)
        return cls(mean, mean - half, mean + half)

    def __str__(self) -> str:
        return f"{self.mean:.4g} (95% interval {self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True)
class Results:
    """The numbers that an experiment measured, for each seed."""

    experiment: Experiment
    quick: bool
    trials: Mapping[int, Mapping[str, float]]

    @property
    def intervals(self) -> dict[str, Interval]:
        names = next(iter(self.trials.values()))
        return {name: Interval.of([numbers[name] for numbers in self.trials.values()]) for name in names}

    @property
    def decisive(self) -> Interval:
        return self.intervals[self.experiment.decisive]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds (the whole interval of the decisive number is on the claimed side of the bound), is
        refuted (the whole interval is on the other side), or is undecided."""
        found, bound = self.decisive, self.experiment.bound
        if self.experiment.direction == "at most":
            found, bound = Interval(-found.mean, -found.high, -found.low), -bound
        return "holds" if found.low >= bound else "refuted" if found.high < bound else "undecided"

    def sentence(self) -> str:
        """Return a sentence with the verdict and the number that decided it."""
        one = self.experiment
        return (
            f'{self.verdict}: over {counted(len(self.trials), "seed")}, the mean of "{one.decisive}" is '
            f"{self.decisive}; for the claim to hold, it must be {one.direction} {one.bound:g}"
        )

    def record(self) -> dict[str, Any]:
        one = self.experiment
        return {
            "name": one.name,
            "lecture": one.lecture,
            "claim": one.claim,
            "method": one.method,
            "refuted_if": one.refuted_if,
            "quick": self.quick,
            "verdict": self.verdict,
            "decisive": {one.decisive: [number if math.isfinite(number) else None for number in self.decisive]},
            "trials": {str(seed): dict(numbers) for seed, numbers in self.trials.items()},
        }

    def figure(self) -> Figure:
        with needs_extra("plots", "Drawing a picture"):
            from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4), layout="constrained")
        axes = figure.subplots()
        self.experiment.draw(axes, self.intervals)
        axes.set_title(f"{self.experiment.claim}\nverdict: {self.verdict}", fontsize=9, loc="left", wrap=True)
        return figure


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    seeds: int = 3,
    quick: bool = False,
    progress: Callable[[], object] = lambda: None,
) -> Results:
    """Run the experiment for those seeds whose results the folder does not have yet, and write ``NAME.json`` and
    ``NAME.png`` into the folder (``NAME-quick.json`` and ``NAME-quick.png`` if ``quick``).

    ``progress`` is called after each seed.
    """
    path = folder / f"{experiment.name}{'-quick' if quick else ''}.json"
    trials = _read(path, experiment, quick)
    results = Results(experiment, quick, trials)
    for number in range(1, seeds + 1):
        if number not in trials:
            torch.manual_seed(number)
            trials[number] = dict(experiment.measure(Trial(number, quick)))
            write_file(path, json.dumps(results.record(), indent=1, allow_nan=False).encode())
        progress()
    results.figure().savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
    return results


def _read(path: Path, experiment: Experiment, quick: bool) -> dict[int, dict[str, float]]:
    """The seeds that were measured before, if they were measured by the same experiment."""
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        trials = {int(seed): {str(name): float(value) for name, value in numbers.items()}
                  for seed, numbers in kept["trials"].items()}  # fmt: skip
        if not all(math.isfinite(value) for numbers in trials.values() for value in numbers.values()):
            raise ValueError("a number is infinite or not a number")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        raise FileError(f"{path} is not a result of this experiment; delete it to measure again.") from None
    is_other = kept.get("method") != experiment.method or kept.get("quick") != quick
    differ = len({frozenset(numbers) for numbers in trials.values()}) > 1
    if is_other or differ or any(experiment.decisive not in numbers for numbers in trials.values()):
        raise FileError(f"{path} was measured by another version of the experiment; delete it to measure again.")
    return trials
