"""The threads that parse requests and draw pictures take turns between clients."""

from __future__ import annotations

import threading
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

import pytest

from saccade.serving.computation import Computation, client_address
from saccade.serving.http.refusals import Refused
from saccade.serving.threads import EACH, THREADS, Pool


def run_as(client: str, pool: Pool, work: Any) -> Computation[Any]:
    def call() -> Computation[Any]:
        client_address.set(client)
        return pool.run(work)

    return copy_context().run(call)


class Held:
    """A client whose pictures take all the threads that it may have, until the block ends."""

    def __init__(self, pool: Pool, pictures: int = EACH) -> None:
        self._begun, self._end = threading.Semaphore(0), threading.Event()
        self.pictures = [run_as("one", pool, self._draw) for _ in range(pictures)]

    def _draw(self, _: Computation[Any]) -> None:
        self._begun.release()
        assert self._end.wait(30)

    def __enter__(self) -> Held:
        for _ in range(EACH):
            assert self._begun.acquire(timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()


def test_one_client_leaves_threads_to_the_others() -> None:
    pool = Pool(64)
    with Held(pool, 2 * THREADS) as held:
        assert run_as("another", pool, lambda _: "drawn").result(timeout=30) == "drawn"
        assert sum(one.running() for one in held.pictures) == EACH
    for one in held.pictures:
        one.result(timeout=30)


def test_in_a_full_queue_the_client_with_most_pictures_loses_its_newest() -> None:
    pool = Pool(3)
    with Held(pool):
        waiting = [run_as("one", pool, lambda _: "late") for _ in range(3)]
        with pytest.raises(Refused, match="3 requests are already waiting"):
            run_as("one", pool, lambda _: None)
        assert run_as("another", pool, lambda _: "drawn").result(timeout=30) == "drawn"
        with pytest.raises(Refused):
            waiting[-1].result(timeout=30)
    assert [one.result(timeout=30) for one in waiting[:-1]] == ["late", "late"]


def test_pictures_that_nobody_waits_for_take_no_place() -> None:
    pool = Pool(2)
    with Held(pool):
        for _ in range(9):
            run_as("one", pool, lambda _: None).abandon()
        later = run_as("one", pool, lambda _: "drawn")
    assert later.result(timeout=30) == "drawn"


def test_a_client_gets_one_thread_and_pauses_only_while_others_send_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    now, is_shared = 0.0, True
    monkeypatch.setattr("saccade.serving.threads.time", SimpleNamespace(monotonic=lambda: now, thread_time=lambda: now))
    pool = Pool(64, rest=3.0, is_shared=lambda client: is_shared)

    def work() -> None:
        nonlocal now
        now += 2.0

    def stop(seconds: float | None) -> None:
        raise TimeoutError(seconds)

    monkeypatch.setattr(pool, "_start", lambda: None)  # this thread does the work
    monkeypatch.setattr(pool._changed, "wait", stop)
    for _ in range(4):
        run_as("one", pool, lambda _: work())
    first = pool._take()
    with pytest.raises(TimeoutError, match="None"):
        pool._take()  # one thread, and no other job
    pool._do(first)
    with pytest.raises(TimeoutError, match=r"1\.0"):
        pool._take()  # it pauses for six seconds, but perhaps the others leave before
    is_shared = False
    assert len({id(pool._take()), id(pool._take())}) == EACH == 2


def test_a_client_rests_three_times_as_long_as_its_request_took_and_others_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, waited = 0.0, list[float | None]()
    monkeypatch.setattr("saccade.serving.threads.time", SimpleNamespace(monotonic=lambda: now, thread_time=lambda: now))
    pool = Pool(64, threads=1, each=1, rest=3.0)

    def work(seconds: float) -> float:
        nonlocal now
        now += seconds
        return now

    def wait(seconds: float | None = None) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds or 0.0

    monkeypatch.setattr(pool, "_start", lambda: None)  # this thread does the work
    monkeypatch.setattr(pool._changed, "wait", wait)
    one = [run_as("one", pool, lambda _: work(2.0)) for _ in range(2)]
    another = run_as("another", pool, lambda _: work(1.0))
    for _ in range(3):
        pool._do(pool._take())
    assert (one[0].result(), another.result(), one[1].result()) == (2.0, 3.0, 10.0)
    assert waited == [5.0]  # until 8, six seconds after the first request of "one"


def test_an_error_reaches_the_client() -> None:
    def fail(_: Computation[Any]) -> None:
        raise Refused(400, "No.")

    with pytest.raises(Refused, match="No"):
        Pool(2).run(fail).result(timeout=30)
