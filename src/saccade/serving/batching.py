"""The threads of a model: they answer together what can be, by turns what cannot, and never more than they can.

A network answers ten texts in little more time than one, so inputs of several requests are joined. What is drawn at
random is not: which texts share a batch would change the draws.

Each model has two threads. One takes what is quick, a sentence or a few; the other what is long. So who asks for little
never waits for what takes minutes. In each, a turn is made so large that it should take ``Limits.turn`` seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any, NamedTuple, TypeVar

from torch import nn

from saccade.errors import SaccadeError
from saccade.serving.asked import Asked, client_address
from saccade.serving.costs import Cost, estimate
from saccade.serving.http.metrics import Histogram
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.turns import Job, Queue
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.predictor import Predictor

__all__ = ["Worker"]

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
#: Token steps a second that a model is taken to compute before it is known.
FIRST_SPEED = 50_000.0


class _Part(NamedTuple):
    """What is computed of a job in one turn."""

    job: Job
    taken: int  # of its next inputs; of a function none
    cost: int

    @classmethod
    def of(cls, job: Job, taken: int) -> _Part:
        return cls(job, taken, max(1, sum(cost.total for cost in job.costs[len(job.answers) :][:taken])))


class Worker:
    """A model and the threads that compute with it."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self._quick, self._long = lanes = _Lane(predictor, limits, "quick"), _Lane(predictor, limits, "long")
        self.lanes = {lane.name: lane for lane in lanes}
        for module in predictor.model.modules():
            if isinstance(module, nn.Linear):  # called at least once in each step of every network
                module.register_forward_pre_hook(self._check_time)

    @property
    def waiting(self) -> int:
        return sum(lane.waiting for lane in self.lanes.values())

    @property
    def batches(self) -> int:
        """How often the model was asked."""
        return sum(lane.batches for lane in self.lanes.values())

    @property
    def answered(self) -> int:
        """How many inputs it has answered."""
        return sum(lane.answered for lane in self.lanes.values())

    @property
    def busy_seconds(self) -> float:
        return sum(lane.busy_seconds for lane in self.lanes.values())

    def predict(self, inputs: Sequence[Any], options: dict[str, Any]) -> Asked[list[Answer]]:
        """The answers to inputs that were checked; with those of others, if their options are the same.

        Counts tokens: on long texts call it in a thread.
        """
        key = None if self.predictor.is_drawn(options) else repr(sorted(options.items()))
        costs = estimate(self.predictor, inputs, options)
        return self._put(Job(client_address.get(), costs, inputs=inputs, options=options, key=key))

    def run(
        self, function: Callable[[], Result], inputs: Sequence[Any] = (), options: dict[str, Any] | None = None
    ) -> Asked[Result]:
        """Something else that needs the model, about as much as answering these inputs does.

        A function that returns a generator gives up its turn from time to time, and has no result.
        """
        costs = estimate(self.predictor, inputs, options or {}) if inputs else [Cost(0, 1, 1)]
        return self._put(Job(client_address.get(), costs, function))

    def close(self) -> None:
        """Finish what is waiting, then end."""
        for lane in self.lanes.values():
            lane.close()

    def _put(self, job: Job) -> Asked[Any]:
        limits, total = self.limits, sum(cost.total for cost in job.costs)
        if total > limits.cost:
            raise Refused(
                413,
                f"This asks for up to {total:,} token steps (tokens read and written, times the beam or the tries); "
                f"{limits.cost:,} are taken in one request: send fewer or shorter texts, or lower the beam.",
            )
        is_quick = total <= limits.quick and all(cost.steps <= limits.quick_steps for cost in job.costs)
        (self._quick if is_quick else self._long).put(job)
        return job.asked

    def _check_time(self, *_: Any) -> None:
        """Asked before each linear layer: a computation that takes too long, or that nobody waits for, ends here."""
        for lane in self.lanes.values():
            lane.check_time()


class _Lane:
    """A queue and the thread that serves it."""

    def __init__(self, predictor: Predictor, limits: Limits, name: str) -> None:
        self.predictor, self.limits, self.name = predictor, limits, name
        self.batches = 0
        self.answered = 0
        self.tokens = 0  # that were read and written
        self.busy_seconds = 0.0
        self.queue_seconds, self.compute_seconds = Histogram(), Histogram()
        self._queue = Queue(limits.queue)
        self._changed = threading.Condition()
        self._closing = False
        self._speed = FIRST_SPEED
        self._current: list[Job] = []  # what is being computed,
        self._deadline = float("inf")  # and when it must be done
        self._thread = threading.Thread(target=self._work, name=f"model-{name}", daemon=True)
        self._thread.start()

    # --- in the thread of the request ---

    @property
    def waiting(self) -> int:
        with self._changed:
            return sum(1 for job in self._queue.in_turn() if not job.begun)

    def put(self, job: Job) -> None:
        with self._changed:
            lost = self._queue.put(job, len(self._current))
            self._changed.notify()
        if lost is not None:
            error = _busy(f"{self.limits.queue} requests are waiting for this model already", self._patience())
            if lost is job:
                raise error
            if lost.asked.set_running_or_notify_cancel():
                lost.asked.set_exception(error)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _patience(self) -> float:
        """Seconds until what is waiting will be done, as it has been so far."""
        return len(self._queue) * self.busy_seconds / max(1, self.batches)

    def check_time(self) -> None:
        if threading.current_thread() is not self._thread:
            return
        if all(job.asked.is_abandoned for job in self._current):
            raise Refused(499, "The client has left.")
        if time.monotonic() > self._deadline:
            raise Refused(503, f"This takes the model more than {self.limits.seconds:g} seconds; ask for less.")

    # --- in the thread of the model ---

    def _work(self) -> None:
        while turn := self._take():
            started = time.monotonic()
            self.batches += 1
            self._compute(turn)
            seconds, cost = time.monotonic() - started, sum(part.cost for part in turn)
            self.busy_seconds += seconds
            if turn[0].job.function is None:
                self._speed += (cost / max(seconds, 1e-6) - self._speed) / 4
            with self._changed:
                self._current = []
                for part in turn:
                    self._end_turn(part.job, seconds, part.cost / cost)

    def _end_turn(self, job: Job, seconds: float, share: float) -> None:
        job.seconds += seconds
        self._queue.charge(job, seconds * share)
        if job.asked.done():
            self._queue.remove(job)
            self.compute_seconds.add(job.seconds)
            self.queue_seconds.add(max(0.0, time.monotonic() - job.since - job.seconds))

    def _take(self) -> list[_Part]:
        """What is computed in the next turn; nothing when all is done."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: len(self._queue) > 0 or self._closing)
                if not len(self._queue):
                    return []
                self._drop_late()
                turn = self._joined(self._queue.in_turn())
                if turn:
                    self._current = [part.job for part in turn]
                    return turn

    def _drop_late(self) -> None:
        """Forget what nobody waits for, and refuse what has waited too long to begin."""
        for job in self._queue.in_turn():
            if job.begun and job.asked.is_abandoned:
                job.asked.set_exception(Refused(499, "The client has left."))
            elif not job.begun and time.monotonic() - job.since > self.limits.seconds and self._begin(job):
                said = f"The request waited for {self.limits.seconds:g} seconds"
                job.asked.set_exception(_busy(said, self._patience()))
            if job.asked.done():
                self._queue.remove(job)

    def _joined(self, jobs: list[Job]) -> list[_Part]:
        """The first job, or as much of it as makes a turn, and of the others what can be answered with it."""
        first = next((job for job in jobs if self._begin(job)), None)
        if first is None:
            return []
        if first.key is None:
            return [_Part.of(first, len(first.inputs))]
        room, count = self._speed * self.limits.turn, self.limits.batch
        steps = 2 * first.costs[len(first.answers)].steps  # who is answered with longer ones waits for these
        turn = []
        for job in jobs:
            taken = job.next_part(room, count, steps) if job.key == first.key else 0
            taken = max(taken, int(job is first))
            if taken and self._begin(job):
                turn.append(_Part.of(job, taken))
                room -= turn[-1].cost
                count -= taken
        return turn

    def _begin(self, job: Job) -> bool:
        """Whether a job is computed: not if its client has left before."""
        if not job.begun and not job.asked.cancelled():
            job.begun = job.asked.set_running_or_notify_cancel()
        return job.begun

    def _compute(self, turn: list[_Part]) -> None:
        first = turn[0].job
        self._current = [part.job for part in turn]
        self._deadline = time.monotonic() + self.limits.seconds - max(job.seconds for job in self._current)
        try:
            if first.function is not None:
                self._run(first)
            else:
                self._answer(turn)
        except BaseException as error:
            if len(turn) == 1:
                first.asked.set_exception(self._told(error))
            else:  # what is wrong with one of them is not the others' fault
                for part in turn:
                    self._compute([part])

    def _answer(self, turn: list[_Part]) -> None:
        given = [one for job, count, _ in turn for one in job.inputs[len(job.answers) :][:count]]
        answers = iter(list(self.predictor.predict(given, **turn[0].job.options)))
        for job, count, _ in turn:
            self.tokens += sum(cost.tokens for cost in job.costs[len(job.answers) :][:count])
            found = [next(answers) for _ in range(count)]
            self.tokens += sum(len(answer.scored_tokens) for answer in found)
            self.answered += count
            job.answers += found
            if len(job.answers) == len(job.inputs):
                job.asked.set_result(job.answers)

    def _run(self, job: Job) -> None:
        if job.steps is None:
            assert job.function is not None
            found = job.function()
            if not isinstance(found, GeneratorType):
                job.asked.set_result(found)
                return
            job.steps = found
        ends = time.monotonic() + self.limits.turn
        for _ in job.steps:
            if time.monotonic() > ends and len(self._queue) > 1:
                return  # until its next turn
        job.asked.set_result(None)

    def _told(self, error: BaseException) -> BaseException:
        if isinstance(error, MemoryError | RuntimeError) and "can't allocate memory" in str(error):
            return Refused(413, "There is not enough memory for this; make the text shorter.")
        if not isinstance(error, SaccadeError | Refused):
            _log.error("a model failed", exc_info=error)
        return error


def _busy(why: str, patience: float) -> Refused:
    return Refused(429, f"{why}; try again in a moment.", retry_after=patience)
