"""An experiment: a claim, how it is measured, and the number that decides whether the claim holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["Experiment", "Trial"]


@dataclass(frozen=True)
class Trial:
    """One repetition of an experiment, with its own seed."""

    seed: int
    quick: bool  # whether to take a small fraction of the usual time, for a first impression

    def choose(self, usual: int, quick: int) -> int:
        """Return ``quick`` in a quick run, and otherwise ``usual``."""
        return quick if self.quick else usual


@dataclass(frozen=True)
class Experiment:
    """A claim of the lectures, with the result that would refute it, both stated before anything is measured."""

    name: str
    lecture: str  # where the claim is made, such as "002"
    claim: str
    method: str  # what is done, in a sentence or two
    measure: Callable[[Trial], Mapping[str, float]]  # numbers by name, for one seed
    decisive: str  # the name of the number that decides
    direction: Literal["at least", "at most"]
    bound: float
    draw: Callable[[Axes, Mapping[str, Interval]], None]

    @property
    def refuted_if(self) -> str:
        """A sentence that says which result would refute the claim."""
        side = "below" if self.direction == "at least" else "above"
        return f'The claim is refuted if the whole 95% interval of "{self.decisive}" is {side} {self.bound:g}.'
