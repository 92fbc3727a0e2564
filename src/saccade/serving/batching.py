"""One thread for each model: it takes what is waiting, answers together what can be, and never more than it can.

A network answers ten texts in little more time than one, so requests that came while it was busy are joined. What is
drawn at random is not: which texts share a batch would change the draws.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import nn

from saccade.errors import SaccadeError
from saccade.serving.asked import Asked
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.predictor import Predictor

__all__ = ["Worker"]

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Job:
    """Something to compute: inputs that may be answered with those of others, or a function of its own."""

    expires: float
    function: Callable[[], Any] | None = None
    inputs: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)
    key: Hashable = None  # jobs with the same key are answered together; None: alone
    asked: Asked[Any] = field(default_factory=Asked)


class Worker:
    """A model and the thread that computes with it."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self.batches = 0  # how often the model was asked,
        self.answered = 0  # and for how many inputs
        self.busy_seconds = 0.0
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._current: list[_Job] = []  # what is being computed,
        self._deadline = float("inf")  # and when it must be done
        for module in predictor.model.modules():
            if isinstance(module, nn.Linear):  # called at least once in each step of every network
                module.register_forward_pre_hook(self._check_time)
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def predict(self, inputs: Sequence[Any], options: dict[str, Any]) -> Asked[list[Answer]]:
        """The answers to inputs that were checked; with those of others, if their options are the same."""
        key = None if self.predictor.is_drawn(options) else repr(sorted(options.items()))
        return self._put(_Job(self._expiry(), inputs=inputs, options=options, key=key))

    def run(self, function: Callable[[], Result]) -> Asked[Result]:
        """Something else that needs the model."""
        return self._put(_Job(self._expiry(), function))

    def close(self) -> None:
        """Finish what is waiting, then end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    # --- in the thread of the request ---

    def _expiry(self) -> float:
        return time.monotonic() + self.limits.seconds

    def _put(self, job: _Job) -> Asked[Any]:
        with self._changed:
            if len(self._waiting) >= self.limits.queue:
                raise _busy(f"{len(self._waiting)} requests are waiting for this model already", self._patience())
            self._waiting.append(job)
            self._changed.notify()
        return job.asked

    def _patience(self) -> float:
        """Seconds until what is waiting will be done, as it has been so far."""
        return len(self._waiting) * self.busy_seconds / max(1, self.batches)

    # --- in the thread of the model ---

    def _work(self) -> None:
        while jobs := self._take():
            started = time.monotonic()
            self.batches += 1
            self.answered += sum(len(job.inputs) for job in jobs)
            self._answer(jobs)
            self.busy_seconds += time.monotonic() - started

    def _take(self) -> list[_Job]:
        """The job that has waited longest, and those that can be answered with it; none when all is done."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closing)
                if not self._waiting:
                    return []
                jobs = self._joined(self._waiting.popleft())
                alive = [job for job in jobs if job.asked.set_running_or_notify_cancel()]
                late = [job for job in alive if job.expires < time.monotonic()]
                for job in late:
                    said = f"The request waited for {self.limits.seconds:g} seconds"
                    job.asked.set_exception(_busy(said, self._patience()))
                if len(late) < len(alive):
                    return [job for job in alive if job not in late]

    def _joined(self, first: _Job) -> list[_Job]:
        jobs, count = [first], len(first.inputs)
        if first.key is not None:
            for job in list(self._waiting):
                if job.key == first.key and count + len(job.inputs) <= self.limits.batch:
                    self._waiting.remove(job)
                    jobs.append(job)
                    count += len(job.inputs)
        return jobs

    def _answer(self, jobs: list[_Job]) -> None:
        self._current, self._deadline = jobs, time.monotonic() + self.limits.seconds
        try:
            results = self._results(jobs)
        except BaseException as error:
            if len(jobs) == 1:
                jobs[0].asked.set_exception(self._told(error))
            else:  # what is wrong with one of them is not the others' fault
                for job in jobs:
                    self._answer([job])
        else:
            for job, result in zip(jobs, results, strict=True):
                job.asked.set_result(result)

    def _results(self, jobs: list[_Job]) -> list[Any]:
        first = jobs[0]
        if first.function is not None:
            return [first.function()]
        answers = list(self.predictor.predict([one for job in jobs for one in job.inputs], **first.options))
        results = []
        for job in jobs:
            results.append(answers[: len(job.inputs)])
            del answers[: len(job.inputs)]
        return results

    def _told(self, error: BaseException) -> BaseException:
        if isinstance(error, MemoryError | RuntimeError) and "can't allocate memory" in str(error):
            return Refused(413, "There is not enough memory for this; make the text shorter.")
        if not isinstance(error, SaccadeError | Refused):
            _log.error("a model failed", exc_info=error)
        return error

    def _check_time(self, *_: Any) -> None:
        """Asked before each linear layer: a computation that takes too long, or that nobody waits for, ends here."""
        if threading.current_thread() is not self._thread:
            return
        if all(job.asked.is_abandoned for job in self._current):
            raise Refused(499, "The client has left.")
        if time.monotonic() > self._deadline:
            raise Refused(503, f"This takes the model more than {self.limits.seconds:g} seconds; ask for less.")


def _busy(why: str, patience: float) -> Refused:
    return Refused(429, f"{why}; try again in a moment.", retry_after=patience)
