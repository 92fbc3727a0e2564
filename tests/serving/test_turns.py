"""Turns: nobody waits for what another asks for, and what is computed in parts is what is computed at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import Runner

import untrained
from saccade.serving import Limits, Models
from saccade.serving.batching import Batcher
from saccade.serving.computation import client_address
from saccade.serving.http.metrics import Histogram
from saccade.serving.http.refusals import Refused
from saccade.serving.pace import Pace
from saccade.serving.threads import parse_apart
from saccade.serving.turns import Job, Queue
from saccade.tasks.base.cost import Cost
from saccade.tasks.base.model_folder import open_model
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.language_model.generation import GenerationOptions
from toy_language import toy_pairs

SENTENCES = [source for source, _ in toy_pairs(40, seed=11)]


def job(client: str, *totals: int, steps: int = 1) -> Job:
    return Job(client, [Cost(1, steps, total) for total in totals or (1,)])


def served(queue: Queue, count: int, seconds: float = 1.0) -> list[str]:
    """Who has the next turns, each of so many seconds."""
    found = []
    for _ in range(count):
        first = queue.in_turn()[0]
        queue.charge(first, seconds)
        found.append(first.client)
    return found


@pytest.mark.parametrize("task", untrained.EVERY_TASK)
def test_every_network_can_be_stopped(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Batcher, *_: Any) -> None:
        raise Refused(499, "The client has disconnected.")

    monkeypatch.setattr(Batcher, "_check_time", stop)
    predictor, given = untrained.open_untrained(task, tmp_path / "model")
    Batcher(predictor, Limits())
    with pytest.raises(Refused):
        predictor.predict([given])


@pytest.mark.parametrize("task", ["translation", "language-model"])
def test_a_network_that_writes_can_be_stopped_in_each_step(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []
    monkeypatch.setattr(Batcher, "_check_time", lambda self, *_: checks.append(1))
    about = untrained.open_untrained(task, tmp_path / "model")[0].task
    for kind in about.networks:
        options = GenerationOptions(max_tokens=7) if task == "language-model" else SearchOptions(beam=1)
        fields = {"position": "rotary"} if (kind, task) == ("transformer", "language-model") else {}
        folder = untrained.write_untrained(tmp_path / kind, about, options, kind=kind, **fields)
        predictor = open_model(folder)
        Batcher(predictor, Limits())
        checks.clear()
        (answer,) = predictor.predict(["the cat sees"])
        assert len(checks) >= len(answer.scored_tokens) > 0, kind


def test_clients_take_turns_and_so_do_their_requests() -> None:
    queue = Queue(10)
    first, second, other = job("a"), job("a"), job("b")
    for one in (first, second, other):
        queue.put(one)
    assert served(queue, 6) == ["a", "b", "a", "b", "a", "b"]
    assert (first.used, second.used, other.used) == (2, 1, 3)


def test_a_newcomer_starts_level_with_who_was_served_last() -> None:
    queue = Queue(10)
    for client in "ab":
        queue.put(job(client))
    served(queue, 100)
    queue.put(job("c"))
    assert served(queue, 4)[0] == "c"  # it does not wait for all that the others have had,
    assert sorted(served(queue, 30)) == ["a"] * 10 + ["b"] * 10 + ["c"] * 10  # nor do they for it
    late = job("a")
    queue.put(late)
    assert late.used > 20


def test_in_a_full_queue_the_client_with_most_requests_loses_its_newest() -> None:
    queue = Queue(3)
    many = [job("a") for _ in range(4)]
    assert [queue.put(one) for one in many[:3]] == [None] * 3
    assert queue.put(many[3]) is many[3]
    other = job("b")
    assert queue.put(other) is many[2]
    one_more = job("b")
    assert queue.put(one_more) is one_more  # both have two then: who comes later loses
    assert queue.in_turn() == [many[0], many[1], other] or queue.in_turn() == [many[0], other, many[1]]
    assert len(queue) == 3


def test_clients_that_were_answered_together_share_the_next_batch_too(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.serving.batching.GATHER", 1e6)  # no clock decides this test
    worker = Batcher(open_model(folders["tiny"]), Limits(turn=60))
    for sentence in SENTENCES[:3]:  # alone: nobody is waited for
        assert worker.predict([sentence], {}).result()

    def together(sentences: list[str]) -> None:
        """Answer these in one batch, because they wait for something else."""
        hold, begun = threading.Event(), threading.Event()
        worker.run(lambda: (begun.set(), hold.wait()))
        begun.wait()
        waiting = [worker.predict([sentence], {}) for sentence in sentences]
        hold.set()
        assert all(one.result() for one in waiting)

    together(SENTENCES[:3])
    again = [worker.predict([sentence], {}) for sentence in SENTENCES[3:6]]  # one after another
    assert all(one.result() for one in again)
    assert worker.batches == 3 + 2 + 1
    for one in [worker.run(lambda: True) for _ in range(3)]:
        assert one.result()
    assert worker.predict([SENTENCES[0]], {}).result()  # after what is no batch, nobody is waited for either
    together(SENTENCES[:2])
    worker.predict([SENTENCES[0]], {})  # waits for one more
    worker.close()  # but not when the server stops
    assert worker.answered == 3 + 3 + 3 + 1 + 2 + 1


def test_a_job_is_cut_by_cost_number_and_steps() -> None:
    one = Job("a", [Cost(1, 5, 30), Cost(1, 5, 30), Cost(1, 11, 30)], inputs="xyz")
    assert [one.next_part(room, 9, 10) for room in (29, 30, 60, 1000)] == [0, 1, 2, 2]
    assert one.next_part(1000, 1, 10) == 1
    assert one.next_part(1000, 9, 11) == 3
    one.answers.append("")
    assert one.next_part(1000, 9, 11) == 2


def test_costs_are_tokens_times_beam(folders: dict[str, Path]) -> None:
    tiny, writer = open_model(folders["tiny"]), open_model(folders["writer"])
    text = "the cat sees"
    tokens = len(tiny.task.state.vocabularies()["source"].encode_ids([text])[0])  # type: ignore[attr-defined]
    cost = tiny.cost(text, tiny.chosen({"beam": 7, "max_ratio": 3.0}))
    assert cost == (tokens, 1 + 3 * tokens + 20, 7 * (4 * tokens + 20))
    assert writer.cost("abc", writer.chosen({"max_tokens": 11, "tries": 5})) == (3, 12, 5 * 14)
    tagger = open_model(folders["tagger"])
    cost = tagger.cost("a b c", tagger.chosen({}))
    assert (cost.steps, cost.total) == (1, cost.tokens)


def test_what_costs_too_much_is_refused_with_the_limit(folders: dict[str, Path], runner: Runner) -> None:
    models = Models(Limits(cost=10_000))
    models.add(folders["tiny"])
    client = runner.start(models).client
    answer = client.post("/api/models/tiny/predict", json={"inputs": [SENTENCES[0]] * 100, "options": {"beam": 32}})
    assert answer.status_code == 413
    assert "token steps (tokens read and written, times the beam size or the number of samples)" in answer.text
    assert "the limit is 10,000" in answer.text


def test_what_is_quick_does_not_wait_for_what_is_long(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["tiny"]), Limits(quick=1000))
    hold, begun = threading.Event(), threading.Event()
    long = batcher.run(lambda: (begun.set(), hold.wait()), [SENTENCES[0]] * 20, {"beam": 32})
    begun.wait()
    also_long = batcher.predict([SENTENCES[0]] * 20, {"beam": 32})
    assert batcher.predict([SENTENCES[0]], {}).result()
    assert not long.done()
    assert not also_long.done()
    assert batcher.waiting == 1
    hold.set()
    assert len(also_long.result()) == 20
    batcher.close()


def test_parts_are_answered_as_the_whole_is(folders: dict[str, Path]) -> None:
    predictor = open_model(folders["tiny"])
    expected = [answer.text for answer in predictor.predict(SENTENCES, beam=4)]
    batcher = Batcher(predictor, Limits(batch=1))  # one input a turn
    found = [batcher.predict(SENTENCES[start::2], {"beam": 4}) for start in (0, 1)]
    for start, asked in enumerate(found):
        assert [answer.text for answer in asked.result()] == expected[start::2]
    batcher.close()
    assert batcher.batches == batcher.answered == 40


def test_a_request_that_is_cut_leaves_others_their_turns(folders: dict[str, Path]) -> None:
    """Of two clients with much to do each, neither is done before the other has begun."""
    predictor = open_model(folders["tiny"])
    seen: list[str] = []
    predict = predictor.predict

    def noted(inputs: Any, **options: Any) -> Any:
        seen.extend(inputs)
        return predict(inputs, **options)

    predictor.predict = noted  # type: ignore[method-assign]
    batcher = Batcher(predictor, Limits(batch=1, quick=1))
    hold, begun = threading.Event(), threading.Event()
    batcher.run(lambda: (begun.set(), hold.wait()), SENTENCES[:1])
    begun.wait()
    asked = []
    for client, sentence in (("a", SENTENCES[0]), ("b", SENTENCES[1])):
        client_address.set(client)
        asked.append(batcher.predict([sentence] * 9, {}))
    client_address.set("")
    hold.set()
    for one in asked:
        one.result()
    batcher.close()
    assert seen.index(SENTENCES[1]) < 8
    assert seen[0] == SENTENCES[0]
    assert seen.count(SENTENCES[0]) == seen.count(SENTENCES[1]) == 9


def test_streams_take_turns(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["tiny"]), Limits(turn=1e-9))
    seen: list[str] = []

    def writing(name: str) -> Generator[None, None, str]:
        for _ in range(3):
            seen.append(name)
            yield
        return name

    hold, begun = threading.Event(), threading.Event()
    batcher.run(lambda: (begun.set(), hold.wait()))
    begun.wait()
    asked = []
    for name in "ab":
        client_address.set(name)
        asked.append(batcher.run(lambda name=name: writing(name)))  # type: ignore[misc]
    client_address.set("")
    hold.set()
    assert [one.result() for one in asked] == ["a", "b"]
    batcher.close()
    assert seen[:2] == ["a", "b"]  # how long a turn is measured decides the rest
    assert sorted(seen) == ["a"] * 3 + ["b"] * 3


def test_who_loses_its_place_to_another_client_is_told(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["tiny"]), Limits(queue=2))
    hold, begun = threading.Event(), threading.Event()
    batcher.run(lambda: (begun.set(), hold.wait()))
    begun.wait()
    client_address.set("a")
    many = [batcher.predict([SENTENCES[0]], {}) for _ in range(2)]
    with pytest.raises(Refused, match="2 requests are already waiting"):
        batcher.predict([SENTENCES[0]], {})
    client_address.set("b")
    other = batcher.predict([SENTENCES[1]], {})
    client_address.set("")
    with pytest.raises(Refused, match="2 requests are already waiting") as told:
        many[1].result()
    assert told.value.status == 429
    hold.set()
    assert many[0].result()
    assert other.result()
    batcher.close()


def test_one_client_cannot_take_all_places(folders: dict[str, Path], runner: Runner) -> None:
    """Endless streams of one address; another is answered."""
    models = Models(Limits(requests=5, address_requests=3))
    models.add(folders["tiny"])
    running = runner.start(models)
    hold = threading.Event()
    models["tiny"].batcher.run(hold.wait)  # so that nothing quick is answered until then

    def asking(source: str) -> tuple[httpx.Client, httpx.HTTPTransport]:
        transport = httpx.HTTPTransport(local_address=source)
        return httpx.Client(base_url=running.url, transport=transport, timeout=60), transport

    greedy, _ = asking("127.0.0.2")
    body = {"input": SENTENCES[0], "options": {}}
    streams = [greedy.stream("POST", "/api/models/tiny/stream", json=body) for _ in range(4)]
    opened = [one.__enter__() for one in streams]
    assert [one.status_code for one in opened] == [200, 200, 200, 429]
    other, _ = asking("127.0.0.3")
    assert other.get("/api/models").status_code == 200
    hold.set()
    for one in streams:
        one.__exit__(None, None, None)
    greedy.close()
    other.close()


def test_durations_are_counted_by_classes() -> None:
    histogram = Histogram()
    for seconds in (0.004, 0.005, 0.3, 100.0):
        histogram.add(seconds)
    values = {(suffix, labels.get("le")): value for suffix, labels, value in histogram.values({})}
    assert values["_bucket", "0.005"] == 2
    assert values["_bucket", "0.5"] == 3
    assert values["_bucket", "60"] == 3
    assert values["_bucket", "+Inf"] == values["_count", None] == 4
    assert values["_sum", None] == pytest.approx(100.309)


def paced(turns: list[tuple[float, float]]) -> Pace:
    pace = Pace()
    for cost, seconds in turns:
        pace.add(cost, seconds)
    return pace


def test_a_turn_is_as_large_as_its_time_allows() -> None:
    assert Pace().room(0.2) == 10_000  # before anything is known
    # 50 ms and 1 ms for 10 token steps: (200 - 50) ms are 1,500 steps.
    linear = [(cost, 0.05 + 0.0001 * cost) for cost in (100.0, 700.0, 300.0, 900.0, 500.0)]
    assert paced(linear).room(0.2) == pytest.approx(1500)
    # On a slow machine even the fixed part is longer than a turn: then as much again as it takes.
    slow = [(cost, 0.5 + 0.001 * cost) for cost in (100.0, 700.0, 300.0, 900.0, 500.0)]
    assert paced(slow).room(0.2) == pytest.approx(500)
    # Turns of one size say nothing of a fixed part.
    assert paced([(400.0, 0.1)] * 5).room(0.2) == pytest.approx(800)
    assert paced([(400.0, 0.3)] * 5).room(0.2) == pytest.approx(800)  # an experiment
    # What was never tried is approached step by step.
    assert paced([(1000.0, 0.001)] * 5).room(0.2) == pytest.approx(4000)


def test_small_turns_on_a_slow_machine_grow_again() -> None:
    """One text takes 350 ms there, and 32 take 400 ms."""
    pace, cost = Pace(), 100.0
    for _ in range(12):
        pace.add(cost, 0.348 + 0.0000165 * cost)
        cost = min(3200.0, max(100.0, pace.room(0.2)))
    assert cost == 3200.0


def test_large_bodies_are_parsed_apart_from_small_ones() -> None:
    async def threads() -> list[int]:
        return [await parse_apart(size, threading.get_ident) for size in (1024, 1025, 65_536, 65_537, 4 << 20)]

    here, page, longest_page, larger, largest = asyncio.run(threads())
    assert here == threading.get_ident()
    assert page == longest_page
    assert larger == largest
    assert len({here, page, larger}) == 3
