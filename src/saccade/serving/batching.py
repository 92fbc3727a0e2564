"""The threads of a model: they answer several requests in one batch if possible, otherwise in turns.

A network answers ten texts in little more time than one, so inputs of several requests share a batch. Sampled answers
do not share a batch: the other texts in a batch would change the random numbers.

Each model has two threads: one for quick requests (a sentence or a few), one for long ones. So a short request never
waits for one that takes minutes. In each thread, requests take turns; a turn gets as much work as can be done in about
``Limits.turn`` seconds (``Pace``).

Clients that were answered together usually ask again together, a moment later. So after a batch, a thread waits briefly
for them (``GATHER``); if it started at once with the few requests that were waiting, batches would only be half as
large.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any, NamedTuple, TypeVar

from torch import nn

from saccade.errors import SaccadeError
from saccade.serving.computation import Computation, client_address
from saccade.serving.http.metrics import Histogram
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.pace import Pace
from saccade.serving.turns import Job, Queue
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.cost import TOKEN_STEPS, Cost
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.snapshot import only_checks

__all__ = ["Batcher"]

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
#: How long to wait after a batch for the clients that it answered, as a fraction of the time that it took.
GATHER = 0.5


class _Part(NamedTuple):
    """The part of a job that one turn computes."""

    job: Job
    taken: int  # number of its next inputs; 0 for a function
    cost: int

    @classmethod
    def of(cls, job: Job, taken: int) -> _Part:
        return cls(job, taken, max(1, sum(cost.total for cost in job.costs[len(job.answers) :][:taken])))


class Batcher:
    """A model and the threads that compute with it."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor = predictor
        self.limits = limits
        self._quick, self._long = lanes = _Lane(predictor, limits, "quick"), _Lane(predictor, limits, "long")
        self.lanes = {lane.name: lane for lane in lanes}
        layers = _timed_layers(predictor.model)
        if isinstance(predictor.engine, nn.Module):  # it is called for each batch, and calls none of these layers
            layers.append(predictor.engine)
        for layer in layers:
            layer.register_forward_pre_hook(self._check_time)

    @property
    def waiting(self) -> int:
        return sum(lane.waiting for lane in self.lanes.values())

    @property
    def batches(self) -> int:
        """The number of turns so far; in each, a thread computes a batch or runs a function."""
        return sum(lane.batches for lane in self.lanes.values())

    @property
    def answered(self) -> int:
        """The number of inputs answered so far."""
        return sum(lane.answered for lane in self.lanes.values())

    @property
    def busy_seconds(self) -> float:
        return sum(lane.busy_seconds for lane in self.lanes.values())

    def predict(self, inputs: Sequence[Any], options: dict[str, Any]) -> Computation[list[Answer]]:
        """Queue inputs to be answered, in one batch with other requests that have the same options; return the pending
        answers. The inputs must already have been checked.

        This method counts the tokens, which takes time for long texts, so call it in a thread for them.
        """
        chosen = self.predictor.chosen(options)
        key = None if self.predictor.is_drawn(chosen) else repr(sorted(options.items()))
        costs = [self.predictor.cost(one, chosen) for one in inputs]
        return self._put(Job(client_address.get(), costs, inputs=inputs, options=options, key=key))

    def run(
        self,
        function: Callable[[], Result],
        inputs: Sequence[Any] = (),
        options: dict[str, Any] | None = None,
        tokens: int = 0,
    ) -> Computation[Result]:
        """Queue a function to be run in one of the model's threads; return its pending result.

        Which thread runs it depends on how long it is expected to take: as long as answering ``inputs`` or, if there
        are none, as reading ``tokens`` tokens.

        If the function returns a generator, other requests get their turn whenever it yields, and the result is the
        return value of the generator.
        """
        costs = [Cost.of(max(tokens, 1))]
        if inputs:
            chosen = self.predictor.chosen(options or {})
            costs = [self.predictor.cost(one, chosen) for one in inputs]
        return self._put(Job(client_address.get(), costs, function))

    def close(self) -> None:
        """Answer all requests that are waiting, then end the threads."""
        for lane in self.lanes.values():
            lane.close()

    def _put(self, job: Job) -> Computation[Any]:
        limits, total = self.limits, sum(cost.total for cost in job.costs)
        if total > limits.cost:
            raise Refused(
                413,
                f"This needs up to {total:,} {TOKEN_STEPS}; the limit is {limits.cost:,}: send fewer or shorter "
                "inputs, or ask for fewer or shorter answers.",
            )
        is_quick = total <= limits.quick and all(cost.steps <= limits.quick_steps for cost in job.costs)
        (self._quick if is_quick else self._long).put(job)
        return job.computation

    @only_checks
    def _check_time(self, *_: Any) -> None:
        """Stop a computation that takes too long or whose client has left. Called before each of the timed layers."""
        for lane in self.lanes.values():
            lane.check_time()


class _Lane:
    """A queue of requests, and the thread of the model that answers them."""

    def __init__(self, predictor: Predictor, limits: Limits, name: str) -> None:
        self.predictor, self.limits, self.name = predictor, limits, name
        self.batches = 0
        self.answered = 0
        self.tokens = 0  # read and written
        self.busy_seconds = 0.0
        self.queue_seconds, self.compute_seconds = Histogram(), Histogram()
        self._queue = Queue(limits.queue)
        self._changed = threading.Condition()
        self._closing = False
        self._pace = Pace()
        self._expected, self._until = 0, 0.0  # how many jobs to wait for after a batch, and until when; 0: any
        self._current: list[Job] = []  # the jobs of the current turn,
        self._deadline = float("inf")  # and when they must be done
        self._thread: threading.Thread
        self._start()

    def _start(self) -> None:
        self._has_ended = False
        self._thread = threading.Thread(target=self._work, name=f"model-{self.name}", daemon=True)
        self._thread.start()

    # --- in the thread of the request ---

    @property
    def waiting(self) -> int:
        with self._changed:
            return sum(1 for job in self._queue.in_turn() if not job.begun)

    def put(self, job: Job) -> None:
        with self._changed:
            lost = self._queue.put(job, len(self._current))
            if self._has_ended:  # the model was replaced while this request was read, but it still answers it
                self._start()
            if len(self._queue) >= self._expected:
                self._changed.notify()
        if lost is not None:
            error = _busy(f"{self.limits.queue} requests are already waiting for this model", self._patience())
            if lost is job:
                raise error
            if lost.computation.set_running_or_notify_cancel():
                lost.computation.set_exception(error)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _patience(self) -> float:
        """Estimated seconds until everything that is waiting now is done."""
        return len(self._queue) * self.busy_seconds / max(1, self.batches)

    def check_time(self) -> None:
        if threading.current_thread() is not self._thread:
            return
        if all(job.computation.is_abandoned for job in self._current):
            raise Refused(499, "The client has disconnected.")
        if time.monotonic() > self._deadline:
            raise Refused(
                503, f"This took the model more than {self.limits.seconds:g} seconds; send fewer or shorter inputs."
            )

    # --- in the thread of the model ---

    def _work(self) -> None:
        while turn := self._take():
            started = time.monotonic()
            self.batches += 1
            self._compute(turn)
            seconds, cost = time.monotonic() - started, sum(part.cost for part in turn)
            self.busy_seconds += seconds
            if turn[0].job.function is None:
                self._pace.add(cost, seconds)
            with self._changed:
                self._current = []
                for job, _, share in turn:
                    job.seconds += seconds
                    self._queue.charge(job, seconds * share / cost)
                    if job.computation.done():
                        self._queue.remove(job)
                        self.compute_seconds.add(job.seconds)
                        self.queue_seconds.add(max(0.0, time.monotonic() - job.since - job.seconds))
                self._until = time.monotonic() + GATHER * seconds

    def _take(self) -> list[_Part]:
        """The parts that make up the next turn; none once the queue is closed and empty."""
        with self._changed:
            while True:
                left = self._until - time.monotonic()
                if left > 0 and len(self._queue) < self._expected and not self._closing:
                    self._changed.wait(left)
                    continue
                self._expected = 0
                self._changed.wait_for(lambda: len(self._queue) > 0 or self._closing)
                if not len(self._queue):
                    self._has_ended = True
                    return []
                self._drop_late()
                turn = self._joined(self._queue.in_turn())
                if turn:
                    self._current = [part.job for part in turn]
                    return turn

    def _drop_late(self) -> None:
        """Drop jobs whose clients have left, and refuse those that have waited too long to start."""
        for job in self._queue.in_turn():
            if job.begun and job.computation.is_abandoned:
                job.computation.set_exception(Refused(499, "The client has disconnected."))
            elif not job.begun and time.monotonic() - job.since > self.limits.seconds and self._begin(job):
                why = f"The request waited for {self.limits.seconds:g} seconds"
                job.computation.set_exception(_busy(why, self._patience()))
            if job.computation.done():
                self._queue.remove(job)

    def _joined(self, jobs: list[Job]) -> list[_Part]:
        """The first job, or as much of it as fits in a turn, and parts of other jobs that can share its batch."""
        first = next((job for job in jobs if self._begin(job)), None)
        if first is None:
            return []
        if first.key is None:
            return [_Part.of(first, len(first.inputs))]
        room, count = self._pace.room(self.limits.turn), self.limits.batch
        steps = 2 * first.costs[len(first.answers)].steps  # a short input in a batch of long ones would wait for them
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
        """Start a job; False if its client has already left."""
        if not job.begun and not job.computation.cancelled():
            job.begun = job.computation.set_running_or_notify_cancel()
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
            if len(turn) > 1:  # one bad job must not fail the others
                for part in turn:
                    self._compute([part])
                return
            if isinstance(error, MemoryError | RuntimeError) and "can't allocate memory" in str(error):
                error = Refused(413, "There is not enough memory for this; make the text shorter.")
            if not isinstance(error, SaccadeError | Refused):
                _log.error("a model failed", exc_info=error)
            first.computation.set_exception(error)

    def _answer(self, turn: list[_Part]) -> None:
        inputs = [one for job, count, _ in turn for one in job.inputs[len(job.answers) :][:count]]
        answers = iter(list(self.predictor.predict(inputs, **turn[0].job.options)))
        with self._changed:  # before anyone is answered and can ask again
            self._expected = min(len(self._queue), self.limits.batch) if len(turn) > 1 else 0
        for job, count, _ in turn:
            self.tokens += sum(cost.tokens for cost in job.costs[len(job.answers) :][:count])
            found = [next(answers) for _ in range(count)]
            self.tokens += sum(len(answer.scored_tokens) for answer in found)
            self.answered += count
            job.answers += found
            if len(job.answers) == len(job.inputs):
                job.computation.set_result(job.answers)

    def _run(self, job: Job) -> None:
        if job.steps is None:
            assert job.function is not None
            found = job.function()
            if not isinstance(found, GeneratorType):
                job.computation.set_result(found)
                return
            job.steps = found
        ends = time.monotonic() + self.limits.turn
        try:
            while True:
                next(job.steps)
                if time.monotonic() > ends and len(self._queue) > 1:
                    return  # it continues in its next turn
        except StopIteration as end:
            job.computation.set_result(end.value)


def _timed_layers(model: nn.Module) -> list[nn.Module]:
    """The last layer with weights in each block, and those outside of blocks: every network calls some in each step.

    If every layer had a hook, short answers would take a tenth longer.
    """
    last: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            block = re.match(r"(.*?\.)?\d+\.", name)  # the path up to the first number, such as encoder.0.
            last[block[0] if block else name] = module
    return list(last.values())


def _busy(why: str, patience: float) -> Refused:
    return Refused(429, f"{why}; try again in a moment.", retry_after=patience)
