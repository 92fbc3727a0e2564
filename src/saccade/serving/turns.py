"""Let the clients that wait for a model, and the requests of each client, take fair turns.

We count the seconds of computing that each client and each request has used; the client or request that has used the
least is next, so a large request waits for others as often as they wait for it. A new client starts with the same
count as the client served last. So new and old clients get equal shares, and nobody can save up time by staying away.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from saccade.serving.computation import Computation
from saccade.tasks.base.cost import Cost

__all__ = ["Job", "Queue"]

_numbers = itertools.count()


@dataclass(eq=False)
class Job:
    """A request that waits for a model: inputs to answer, perhaps in batches with other jobs, or a function to call."""

    client: str
    costs: Sequence[Cost]  # one per input
    function: Callable[[], Any] | None = None  # if it returns a generator, that runs in turns
    inputs: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)
    key: Hashable = None  # jobs with the same key share batches; None: all inputs in one batch, without other jobs
    computation: Computation[Any] = field(default_factory=Computation)
    number: int = field(default_factory=lambda: next(_numbers))
    since: float = field(default_factory=time.monotonic)
    answers: list[Any] = field(default_factory=list)  # to its first inputs
    steps: Iterator[Any] | None = None  # the rest of a generator
    begun: bool = False
    seconds: float = 0.0  # spent computing it, alone or with others
    used: float = 0.0  # its share of these, plus what it started with

    def next_part(self, most: float, count: int, steps: float) -> int:
        """Return how many of the next inputs fit into a turn: at most ``count`` inputs, which together cost at most
        ``most`` token steps, and none of which takes more than ``steps`` steps one after another."""
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
    used: float = 0.0
    level: float = 0.0  # how much its request that was served last had used


class Queue:
    """The jobs that wait for one thread, including jobs that have begun and wait for their next turn."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: dict[str, _Client] = {}
        self._level = 0.0  # how much the client that was served last had used

    def __len__(self) -> int:
        return sum(len(client.jobs) for client in self._clients.values())

    def put(self, job: Job, computing: int = 0) -> Job | None:
        """Add a job. If too many jobs wait, remove and return the newest job of the client with the most."""
        client = self._clients.get(job.client)
        if client is None:
            client = self._clients[job.client] = _Client(used=self._level)
        job.used = client.level
        client.jobs.append(job)
        if len(self) - computing <= self._most:
            return None
        waiting = {name: [one for one in other.jobs if not one.begun] for name, other in self._clients.items()}
        mine, longest = waiting[job.client], max(waiting.values(), key=len)
        lost = (mine if len(mine) == len(longest) else longest)[-1]
        self.remove(lost)
        return lost

    def in_turn(self) -> list[Job]:
        """Return all waiting jobs, in the order in which they will be served."""
        every = [(client.used, job.used, job.number, job) for client in self._clients.values() for job in client.jobs]
        return [job for *_, job in sorted(every, key=lambda one: one[:3])]

    def charge(self, job: Job, seconds: float) -> None:
        """Add seconds of computing to the counts of a job and its client."""
        client = self._clients[job.client]
        self._level, client.level = max(self._level, client.used), max(client.level, job.used)
        client.used += seconds
        job.used += seconds

    def remove(self, job: Job) -> None:
        client = self._clients[job.client]
        client.jobs.remove(job)
        if not client.jobs:
            del self._clients[job.client]
        if not self._clients:
            self._level = 0.0
