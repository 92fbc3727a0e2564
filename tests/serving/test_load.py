"""Many requests at once: what is taken is answered, the rest is told to come again, and nothing grows."""

from __future__ import annotations

import asyncio
import itertools
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from servers import Runner, post

from saccade.errors import OptionError
from saccade.serving import Limits, Models
from saccade.serving.batching import Batcher
from saccade.serving.http.events import Send, event_stream
from saccade.serving.http.refusals import Refused
from saccade.tasks.base.model_folder import open_model
from toy_language import toy_pairs

SENTENCES = [source for source, _ in toy_pairs(40, seed=11)]


def test_waiting_requests_are_answered_together(folders: dict[str, Path]) -> None:
    predictor = open_model(folders["tiny"])
    expected = [answer.text for answer in predictor.predict(SENTENCES)]
    batcher = Batcher(predictor, Limits(batch=16, turn=60))
    hold, begun = threading.Event(), threading.Event()
    first = batcher.run(lambda: (begun.set(), hold.wait())[1])
    begun.wait()
    waiting = [batcher.predict([sentence], {}) for sentence in SENTENCES]
    drawn = [batcher.predict([SENTENCES[0]], {"sample": True, "seed": 3}) for _ in range(2)]
    hold.set()
    assert first.result() is True
    assert [future.result()[0].text for future in waiting] == expected
    # What is drawn is drawn alone, so that a seed gives one answer whoever else asks.
    alone = predictor.predict([SENTENCES[0]], sample=True, seed=3)[0].text
    assert [future.result()[0].text for future in drawn] == [alone, alone]
    batcher.close()
    assert (batcher.batches, batcher.answered) == (1 + 3 + 2, 42)  # 40 sentences, 16 at a time


def test_one_bad_request_does_not_spoil_the_others(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["filler"]), Limits())
    hold, begun = threading.Event(), threading.Event()
    batcher.run(lambda: (begun.set(), hold.wait()))
    begun.wait()
    good, bad = batcher.predict(["the [MASK] sees"], {}), batcher.predict(["no mask"], {})
    hold.set()
    assert "MASK" not in good.result()[0].text
    with pytest.raises(OptionError, match="There is no"):
        bad.result()
    batcher.close()


def test_a_long_text_does_not_keep_others_waiting(folders: dict[str, Path]) -> None:
    models = Models()
    served = models.add(folders["tiny"])
    hold, begun = threading.Event(), threading.Event()
    served.reader.run(lambda: (begun.set(), hold.wait()))
    begun.wait()
    assert served.batcher.predict([SENTENCES[0]], {}).result()
    hold.set()
    models.close()


def test_a_long_computation_ends_at_its_limit(folders: dict[str, Path]) -> None:
    predictor = open_model(folders["writer"])
    batcher = Batcher(predictor, Limits(seconds=0.3))
    with pytest.raises(Refused, match=r"more than 0\.3 seconds") as ended:
        batcher.run(lambda: [predictor.predict(["the"], max_tokens=9) for _ in itertools.count()]).result()
    assert ended.value.status == 503
    assert batcher.predict(["the"], {"max_tokens": 2}).result()  # and the next is answered
    batcher.close()


def test_a_request_that_is_computed_in_parts_ends_at_its_limit_too(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["writer"]), Limits(seconds=0.5, batch=1))
    with pytest.raises(Refused, match=r"more than 0\.5 seconds"):
        batcher.predict(["the"] * 128, {"max_tokens": 20, "sample": False}).result()
    assert batcher.batches > 1
    batcher.close()


def test_what_nobody_waits_for_is_not_computed(folders: dict[str, Path]) -> None:
    predictor = open_model(folders["writer"])
    batcher = Batcher(predictor, Limits())
    begun = threading.Event()
    endless = batcher.run(lambda: [(predictor.predict(["the"], max_tokens=9), begun.set()) for _ in itertools.count()])
    waiting = batcher.predict(["the"], {})
    begun.wait()
    waiting.abandon()
    endless.abandon()
    assert batcher.predict(["the"], {"max_tokens": 2}).result()
    with pytest.raises(Refused, match="disconnected"):
        endless.result()
    assert waiting.cancelled()
    assert batcher.answered == 1
    batcher.close()


def test_a_client_that_leaves_frees_the_model(folders: dict[str, Path], runner: Runner) -> None:
    models = Models()
    models.add(folders["writer"])
    running = runner.start(models)
    body = {"inputs": ["the"] * 128, "options": {"max_tokens": 2048}}
    with pytest.raises(httpx.ReadTimeout):
        running.client.post("/api/models/writer/predict", json=body, timeout=httpx.Timeout(60, read=0.3))
    assert post(running.client, "/api/models/writer/predict", inputs=["the"], options={"max_tokens": 2})
    assert 'predict",status="499"} 1' in running.client.get("/metrics").text


def test_a_stream_that_nobody_reads_is_stopped(folders: dict[str, Path]) -> None:
    batcher = Batcher(open_model(folders["tiny"]), Limits())

    def forever(send: Send) -> None:
        while True:
            send("more")

    async def read_one() -> bytes:
        pieces = event_stream(batcher, forever).body_iterator
        first = await anext(pieces)  # type: ignore[call-overload]
        await pieces.aclose()  # type: ignore[union-attr]
        return bytes(first)

    assert asyncio.run(read_one()) == b'data: "more"\n\n'
    assert batcher.run(lambda: True).result()
    batcher.close()


def test_overload_gives_answers_and_429_only(folders: dict[str, Path], runner: Runner) -> None:
    limits = Limits(queue=4, batch=4)
    models = Models(limits)
    models.add(folders["tiny"])
    running = runner.start(models)
    barrier = threading.Barrier(40)  # ten times the queue at once

    def ask(number: int) -> Counter[int]:
        with httpx.Client(base_url=running.url, timeout=120, trust_env=False) as client:
            barrier.wait()
            statuses = []
            for turn in range(3):
                body = {"inputs": [SENTENCES[number]], "options": {"beam": 5 + turn}}
                answer = client.post("/api/models/tiny/predict", json=body)
                statuses.append(answer.status_code)
                assert answer.status_code != 429 or int(answer.headers["Retry-After"]) >= 1
                assert models["tiny"].batcher.waiting <= limits.queue
        return Counter(statuses)

    with ThreadPoolExecutor(40) as pool:
        total: Counter[int] = sum(pool.map(ask, range(40)), Counter())
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        total += sum(pool.map(ask, range(40)), Counter())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most + 30_000  # kilobytes: a second wave needs no more
    assert set(total) == {200, 429}
    assert total.total() == 240
    assert total[200] >= 3 * limits.queue
    assert running.client.get("/ready").status_code == 200


@pytest.mark.parametrize(
    "is_kept",
    [
        pytest.param(True, id="kept connections"),
        pytest.param(False, id="a connection for each request", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_is_told_to_end_answers_what_it_took(folders: dict[str, Path], is_kept: bool) -> None:
    """Requests go on while the process is told to end: what is not answered found nobody who listens any more."""
    command = [sys.executable, "-m", "saccade.cli", "serve", str(folders["tiny"]), "--port", "0", "--no-browser"]
    with subprocess.Popen([*command, "--queue", "500"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        seen: Counter[str] = Counter()
        many = httpx.Limits(max_keepalive_connections=None if is_kept else 0)

        def ask(number: int) -> None:
            with httpx.Client(base_url=url, timeout=120, trust_env=False, limits=many) as client:
                while "ConnectError" not in seen:
                    try:
                        body = {"inputs": [SENTENCES[number]] * 4}
                        seen[str(client.post("/api/models/tiny/predict", json=body).status_code)] += 1
                    except httpx.TransportError as error:
                        seen[type(error).__name__] += 1

        with ThreadPoolExecutor(16) as pool:
            for number in range(16):
                pool.submit(ask, number)
            while seen.total() < 40:
                assert process.poll() is None
                threading.Event().wait(0.01)
            process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
    assert process.returncode == 0
    assert set(seen) == {"200", "ConnectError"}
    assert f"Stopped after answering {seen['200']:,} requests." in said


def test_a_request_that_is_not_whole_does_not_keep_the_server(folders: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "saccade.cli", "serve", str(folders["tiny"]), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = httpx.URL(process.stdout.readline().split()[3])
        with socket.create_connection((url.host, url.port)) as client, client.makefile("rb") as answer:
            client.sendall(b"POST /api/models/tiny/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
            client.sendall(b"Expect: 100-continue\r\n\r\n")
            assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"  # the server waits for the rest
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
