"""Threads for work that needs no model, such as pictures, with turns between clients."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from saccade.serving.computation import Computation, client_address
from saccade.serving.http.refusals import Refused
from saccade.serving.turns import Job, Queue

__all__ = ["Pool"]

Result = TypeVar("Result")
#: Threads of a pool, and most of them for one client: a picture may take minutes.
THREADS, EACH = 4, 2


class Pool:
    """A few threads with a bounded queue."""

    def __init__(self, waiting: int) -> None:
        self._most = waiting
        self._queue = Queue(waiting)
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()  # threads by client
        for number in range(THREADS):
            threading.Thread(target=self._work, name=f"pool-{number}", daemon=True).start()

    def run(self, work: Callable[[Computation[Result]], Result]) -> Computation[Result]:
        """Run a function in a thread.

        Its argument is its own computation, which says whether the client is still waiting.
        """
        computation = Computation[Result]()
        job = Job(client_address.get(), (), lambda: work(computation), computation=computation)
        with self._changed:
            for other in self._queue.in_turn():
                if other.computation.cancelled():  # its client has left
                    self._queue.remove(other)
            lost = self._queue.put(job, self._running.total())
            self._changed.notify()
        if lost is not None:
            error = Refused(429, f"{self._most} requests are already waiting; try again in a moment.", retry_after=1)
            if lost is job:
                raise error
            if lost.computation.set_running_or_notify_cancel():
                lost.computation.set_exception(error)
        return computation

    def _work(self) -> None:
        while True:
            job = self._take()
            began = time.monotonic()
            assert job.function is not None
            try:
                job.computation.set_result(job.function())
            except BaseException as error:
                job.computation.set_exception(error)
            with self._changed:
                self._queue.charge(job, time.monotonic() - began)
                self._queue.remove(job)
                self._running[job.client] -= 1
                self._running += Counter()  # drops clients that have none
                self._changed.notify_all()

    def _take(self) -> Job:
        """The next job; its thread waits while there is none."""
        with self._changed:
            while True:
                for job in self._queue.in_turn():
                    if job.begun or self._running[job.client] >= EACH:
                        continue
                    job.begun = job.computation.set_running_or_notify_cancel()
                    if job.begun:
                        self._running[job.client] += 1
                        return job
                    self._queue.remove(job)
                self._changed.wait()
