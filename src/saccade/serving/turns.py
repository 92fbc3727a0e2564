"""Whose turn it is: requests that wait for a model are served by turns, between clients and between their requests.

Each client has had so many seconds of computing, and each of its requests too. Whoever has had least is next, so that a
request for much waits for the others as often as they wait for it. Newcomers start level with whoever was served last:
they neither wait for all that was computed before, nor does a client that was away save up time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from saccade.serving.asked import Asked
from saccade.serving.costs import Cost

__all__ = ["Job", "Queue"]

_numbers = itertools.count()


@dataclass(eq=False)
class Job:
    """Something to compute: inputs that are answered part by part, with those of others; or a function of its own."""

    client: str
    costs: Sequence[Cost]  # of each input
    function: Callable[[], Any] | None = None  # what it gives may be a generator, which then is run by turns
    inputs: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)
    key: Hashable = None  # jobs with the same key are answered together; None: alone, and all of it at once
    asked: Asked[Any] = field(default_factory=Asked)
    number: int = field(default_factory=lambda: next(_numbers))
    since: float = field(default_factory=time.monotonic)
    answers: list[Any] = field(default_factory=list)  # of the first inputs
    steps: Iterator[Any] | None = None  # what is left of a generator
    begun: bool = False
    seconds: float = 0.0  # while it, alone or with others, was computed
    had: float = 0.0  # its share of these, and what it was let off when it came

    def next_part(self, most: float, count: int, steps: float) -> int:
        """How many further inputs cost at most so much together, none of them taking more than so many steps."""
        taken, start = 0, len(self.answers)
        for cost in self.costs[start : start + count]:
            most -= cost.total
            if most < 0 or cost.steps > steps:
                break
            taken += 1
        return taken


@dataclass
class _Client:
    jobs: list[Job] = field(default_factory=list)
    had: float = 0.0
    level: float = 0.0  # what its request that was served last had had


class Queue:
    """The jobs that wait, or wait again, for one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: dict[str, _Client] = {}
        self._level = 0.0  # what the client that was served last had had

    def __len__(self) -> int:
        return sum(len(client.jobs) for client in self._clients.values())

    def put(self, job: Job, computing: int = 0) -> Job | None:
        """Add a job. Where too many wait, the client with most of them loses its newest, which is returned."""
        client = self._clients.get(job.client)
        if client is None:
            client = self._clients[job.client] = _Client(had=self._level)
        job.had = client.level
        client.jobs.append(job)
        if len(self) - computing <= self._most:
            return None
        waiting = {name: [one for one in other.jobs if not one.begun] for name, other in self._clients.items()}
        mine, longest = waiting[job.client], max(waiting.values(), key=len)
        lost = (mine if len(mine) == len(longest) else longest)[-1]
        self.remove(lost)
        return lost

    def in_turn(self) -> list[Job]:
        """All that waits, in the order in which it is served."""
        every = [(client.had, job.had, job.number, job) for client in self._clients.values() for job in client.jobs]
        return [job for *_, job in sorted(every, key=lambda one: one[:3])]

    def charge(self, job: Job, seconds: float) -> None:
        """Count what a job has had."""
        client = self._clients[job.client]
        self._level, client.level = max(self._level, client.had), max(client.level, job.had)
        client.had += seconds
        job.had += seconds

    def remove(self, job: Job) -> None:
        client = self._clients[job.client]
        client.jobs.remove(job)
        if not client.jobs:
            del self._clients[job.client]
        if not self._clients:
            self._level = 0.0
