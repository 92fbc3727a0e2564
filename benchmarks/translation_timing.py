"""Times several systems in turn: every round times each of them once, on the same work."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.progress import Progress

__all__ = ["Measured", "interleave", "median_and_range"]


@dataclass
class Measured:
    """A system's tokens per second in each round, and a note about it."""

    speeds: list[float] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)

    def against(self, peer: Measured) -> list[float]:
        """The speed relative to another system, round by round: a slow moment of the machine affects both alike."""
        return [own / other for own, other in zip(self.speeds, peer.speeds, strict=True)]


def interleave(
    systems: Mapping[str, Callable[[int], float]], rounds: int, progress: Progress, what: str
) -> dict[str, Measured]:
    """Run each system once per round, in random order; a system gets the round's number and returns tokens/s."""
    measured = {name: Measured() for name in systems}
    bar = progress.add_task(what, total=rounds * len(systems))
    for number in range(rounds):
        for name in random.sample(list(systems), len(systems)):
            measured[name].speeds.append(systems[name](number))
            progress.advance(bar)
    return measured


def median_and_range(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
