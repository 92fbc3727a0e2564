"""No client takes the event loop for itself."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from saccade.serving.http import shares
from saccade.serving.http.refusals import Refused
from saccade.serving.http.shares import MOST_WAITING, Shares, Timed


class Clock:
    """Time that passes only while somebody sleeps or works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        read = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.now)
        monkeypatch.setattr(shares, "time", read)
        monkeypatch.setattr(shares, "asyncio", SimpleNamespace(sleep=self.sleep, Lock=asyncio.Lock))

    async def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_alone_a_client_uses_all_the_time(clock: Clock) -> None:
    async def ask() -> None:
        shared = Shares()
        for _ in range(3):
            await shared.enter("one")
            shared.spend("one", 0.5)

    asyncio.run(ask())
    assert clock.now == 0.0


def test_beside_others_each_request_waits_twice_as_long_as_the_one_before_took(clock: Clock) -> None:
    begun: list[tuple[str, float]] = []

    async def ask() -> None:
        shared = Shares()

        async def request(address: str) -> None:
            await shared.enter(address)
            begun.append((address, clock.now))
            clock.now += 0.01
            shared.spend(address, 0.01)

        await request("another")
        await asyncio.gather(*(request("one") for _ in range(4)))
        await request("another")  # has rested meanwhile

    asyncio.run(ask())
    assert [address for address, _ in begun] == ["another", *["one"] * 4, "another"]
    assert [when for _, when in begun] == pytest.approx([0.0, 0.01, 0.04, 0.07, 0.10, 0.11])


def test_what_a_client_used_while_it_was_alone_is_not_held_against_it(clock: Clock) -> None:
    async def ask() -> None:
        shared = Shares()
        for _ in range(100):
            await shared.enter("one")
            clock.now += 0.5
            shared.spend("one", 0.5)
        await shared.enter("another")
        await shared.enter("one")

    asyncio.run(ask())
    assert clock.now == 51.0


def test_the_requests_of_one_client_that_wait_are_limited(clock: Clock) -> None:
    async def ask() -> list[BaseException | None]:
        shared = Shares()
        await shared.enter("another")
        shared.spend("one", 0.1)
        return await asyncio.gather(*(shared.enter("one") for _ in range(MOST_WAITING + 3)), return_exceptions=True)

    refused = [one for one in asyncio.run(ask()) if one is not None]
    assert len(refused) == 3
    assert all(isinstance(one, Refused) and one.status == 429 for one in refused)


def test_only_what_runs_on_the_event_loop_is_counted(clock: Clock) -> None:
    spent: list[float] = []

    async def request() -> None:
        clock.now += 2.0
        await asyncio.sleep(0)
        clock.now += 3.0

    async def ask() -> None:
        async def others() -> None:
            clock.now += 70.0

        await asyncio.gather(Timed(request(), spent.append), others())

    asyncio.run(ask())
    assert spent == [2.0, 3.0]


def test_a_request_that_is_cancelled_ends(clock: Clock) -> None:
    ended = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def ask() -> None:
        async def timed() -> None:
            await Timed(request(), lambda _: None)

        task = asyncio.create_task(timed())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(ask())
    assert ended == [True]
