"""Timing systems side by side: every round times each of them once, on the same work."""

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
    """A system's tokens a second in each round, and what there is to say beside."""

    speeds: list[float] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def speed(self) -> float:
        return statistics.median(self.speeds)

    def against(self, peer: Measured) -> list[float]:
        """How many times as fast as a peer, round by round: a machine that slows down slows both alike."""
        return [own / other for own, other in zip(self.speeds, peer.speeds, strict=True)]


def interleave(
    systems: Mapping[str, Callable[[int], float]], rounds: int, progress: Progress, what: str
) -> dict[str, Measured]:
    """Run each system once in each round, in an order drawn anew; a system is given the round and gives tokens/s."""
    measured = {name: Measured() for name in systems}
    bar = progress.add_task(what, total=rounds * len(systems))
    for number in range(rounds):
        for name in random.sample(list(systems), len(systems)):
            measured[name].speeds.append(systems[name](number))
            progress.advance(bar)
    return measured


def median_and_range(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
