"""Several processes behind one port: they answer as one, and one that dies takes nobody with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import post
from test_load import SENTENCES
from typer.testing import CliRunner

from saccade.cli.main import app
from saccade.errors import OptionError, SaccadeError, StorageError
from saccade.serving.limits import Limits
from saccade.serving.processes.supervisor import _Supervisor
from saccade.serving.processes.worker import Settings, bind
from saccade.tasks.base.model_folder import open_model

COMMAND = [sys.executable, "-m", "saccade.cli", "serve", "--port", "0", "--no-browser"]


@contextlib.contextmanager
def serving(*options: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server with two processes."""
    command = [*COMMAND, "--processes", "2", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[3], process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The ids of the worker processes that there are now."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


@pytest.fixture(scope="module")
def pair(folders: dict[str, Path]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """One server with two processes for the tests that need no other options."""
    with serving(folders["tiny"], folders["writer"]) as made:
        yield made


def wait_for_both(client: httpx.Client) -> None:
    """Until both processes answer."""
    while True:
        with contextlib.suppress(httpx.RemoteProtocolError):
            if client.get("/metrics").text.count("saccade_requests_in_flight{") == 2:
                return
        threading.Event().wait(0.05)


def connect(url: str, **options: object) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=60, trust_env=False, **options)  # type: ignore[arg-type]


def test_two_processes_answer_as_one(folders: dict[str, Path], pair: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = pair
    expected = [answer.text for answer in open_model(folders["tiny"]).predict(SENTENCES[:8])]
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(connect(url)) for _ in range(4)]
        for number, client in enumerate(clients):  # each connection goes to the process that has fewest
            answers = post(client, "/api/models/tiny/predict", inputs=SENTENCES[:8])["answers"]
            assert [answer["text"] for answer in answers] == expected
            look = post(client, "/api/models/tiny/looks", input=SENTENCES[number])
            assert look["id"].startswith(f"{number % 2}-")
            for other in clients:  # whichever process gets the request
                query = {"name": look["layer"], "head": "0"}
                drawn = other.get(f"/api/looks/{look['id']}/matrix", params=query)
                assert (drawn.status_code, drawn.headers["x-rows"] == "0") == (200, False)
                walk = post(other, f"/api/looks/{look['id']}/walk", name="encoder.0.self", head=1)
                assert walk["inputs"] or walk["queries"]
            assert client.get(f"/api/looks/{1 - number % 2}-none/progress").status_code == 404
        text = clients[0].get("/metrics").text
        counts = re.findall(r'saccade_inputs_total\{model="tiny",process="(\d)"\} (\d+)', text)
        assert {number for number, _ in counts} == {"0", "1"}
        assert sum(int(count) for _, count in counts) == 32
        assert text.count("# TYPE saccade_inputs_total") == 1
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in workers(process)]
        shared = [set(re.findall(r"\S+/tiny-[0-9a-f]{64}\.safetensors", text)) for text in maps]
        assert len(shared) == 2
        assert shared[0] == shared[1]
        assert len(shared[0]) == 1


def test_who_waits_for_a_process_that_dies_is_told_to_come_again(pair: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = pair
    with connect(url) as idle, ThreadPoolExecutor(1) as pool:
        assert idle.get("/health").status_code == 200
        before = workers(process)
        body = {"inputs": ["the"] * 64, "options": {"max_tokens": 2048, "sample": True}}

        def ask() -> httpx.Response:
            with connect(url) as client:
                return client.post("/api/models/writer/predict", json=body)

        waiting = pool.submit(ask)
        while not re.search(r'saccade_batches_total\{model="writer".*\} [1-9]', idle.get("/metrics").text):
            assert not waiting.done()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        answer = waiting.result()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "send the request again" in answer.json()["error"]
        statuses = Counter[int]()
        while statuses[200] == 0:  # the connection from before may be used as if nothing had happened
            with contextlib.suppress(httpx.RemoteProtocolError), connect(url) as client:
                statuses[client.get("/health").status_code] += 1
            time.sleep(0.05)
        assert set(statuses) <= {200, 503}
        assert not set(before) & set(workers(process))


def test_an_idle_connection_does_not_notice_that_its_process_died(pair: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = pair
    with contextlib.ExitStack() as opened:
        wait_for_both(opened.enter_context(connect(url)))
        clients = [opened.enter_context(connect(url)) for _ in range(4)]
        for client in clients:
            assert client.get("/health").status_code == 200
        gone = workers(process)[0]
        os.kill(gone, signal.SIGKILL)
        while len(now := workers(process)) < 2 or gone in now:  # until the next one is being started
            threading.Event().wait(0.05)
        for client in clients:
            ports = {one.get_extra_info("client_addr") for one in streams(client)}
            assert client.get("/health").status_code == 200
            assert {one.get_extra_info("client_addr") for one in streams(client)} == ports  # the same connection


def streams(client: httpx.Client) -> list[Any]:
    """The network streams of the connections that a client keeps."""
    pool = client._transport._pool  # type: ignore[attr-defined]
    return [connection._connection._network_stream for connection in pool.connections]


def test_a_folder_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    async def start() -> None:
        supervisor = _Supervisor(Settings([(None, str(tmp_path / "none"))], Limits(), processes=1), tmp_path)
        await asyncio.wait_for(supervisor.run(listening, None, lambda _: None), 120)

    with socket.socket() as listening, pytest.raises(SaccadeError, match="There is no folder"):
        asyncio.run(start())


def test_a_worker_that_dies_while_others_are_still_starting_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker"  # the first is ready and dies; the second is never ready
    program.write_text(
        """#!/bin/sh
read given
case "$given" in *'"number": 0'*) echo '{"failure": null}'; exit 3;; *) exec cat;; esac
"""
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))

    async def start() -> None:
        supervisor = _Supervisor(Settings([], Limits(), processes=2), tmp_path)
        await asyncio.wait_for(supervisor.run(listening, None, lambda _: None), 60)

    with socket.socket() as listening, pytest.raises(SaccadeError, match="stopped with status 3 before all of them"):
        asyncio.run(start())


def test_a_folder_with_too_long_a_name_for_sockets_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    with pytest.raises(StorageError, match=r"Cannot make a socket in .* TMPDIR"):
        bind(folder, 0)


@pytest.mark.slow
def test_a_worker_that_hangs_is_left_out_and_then_replaced(folders: dict[str, Path]) -> None:
    with serving(folders["tiny"]) as (url, process):
        with connect(url) as client:
            wait_for_both(client)
        hung = workers(process)[0]
        os.kill(hung, signal.SIGSTOP)
        answered = []  # each time by a connection of its own
        while hung in workers(process):
            with connect(url) as other:
                other.timeout = 3
                try:
                    answered.append(other.get("/health").status_code == 200)
                except httpx.TransportError:
                    answered.append(False)
        noticed = answered.index(True, answered.index(False))
        assert all(answered[noticed:])
        with connect(url) as client:
            wait_for_both(client)


@pytest.mark.slow
def test_workers_whose_supervisor_was_killed_stop_and_tidy_up(folders: dict[str, Path], tmp_path: Path) -> None:
    command = [*COMMAND, "--processes", "2", str(folders["tiny"])]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        left = workers(process)
        assert len(list(tmp_path.iterdir())) == 1
        process.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in left):
        threading.Event().wait(0.05)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_https(processes: int, folders: dict[str, Path], certificate: tuple[Path, Path]) -> None:
    expected = open_model(folders["tiny"]).predict(SENTENCES[:1])[0].text
    tls = ("--tls-certificate", certificate[0], "--tls-key", certificate[1])
    with serving(folders["tiny"], "--processes", processes, *tls) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        with connect(url, verify=ssl.create_default_context(cafile=str(certificate[0]))) as client:
            answer = post(client, "/api/models/tiny/predict", inputs=SENTENCES[:1])
            assert answer["answers"][0]["text"] == expected
            assert client.get("/ask", headers={"origin": url.rstrip("/")}).status_code == 200
        with connect(url.replace("https", "http")) as client, pytest.raises(httpx.TransportError):
            client.get("/health")


def test_certificates_that_cannot_be_used_are_refused(certificate: tuple[Path, Path], folders: dict[str, Path]) -> None:
    for options, said in (
        (("--tls-certificate", certificate[0]), "needs both --tls-certificate and --tls-key"),
        (("--tls-certificate", certificate[0], "--tls-key", "none.pem"), "There is no file none.pem"),
        (("--tls-certificate", certificate[0], "--tls-key", certificate[0]), "are not a certificate and its key"),
    ):
        with pytest.raises(OptionError, match=said):
            CliRunner().invoke(app, ["serve", str(folders["tiny"]), *map(str, options)], catch_exceptions=False)


@pytest.mark.slow
def test_reloads_and_deaths_under_load(folders: dict[str, Path], tmp_path: Path) -> None:
    """20 of each: every answer is that of one of the two models, or a 503; none is lost."""
    folder, versions = tmp_path / "model", [folders["tiny"], folders["back"]]
    shutil.copytree(versions[0], folder)
    right = [{answer.text for answer in open_model(one).predict(SENTENCES)} for one in versions]
    assert not right[0] & right[1]
    seen, done = Counter[str](), threading.Event()

    def ask(url: str, number: int) -> None:
        with connect(url) as client:
            while not done.is_set():
                try:
                    answer = client.post("/api/models/model/predict", json={"inputs": [SENTENCES[number % 40]]})
                except httpx.TransportError as error:
                    seen[repr(error)] += 1
                    continue
                if answer.status_code == 200:
                    text = answer.json()["answers"][0]["text"]
                    seen["old" if text in right[0] else "new" if text in right[1] else f"wrong: {text}"] += 1
                else:
                    seen[str(answer.status_code)] += 1
                    assert answer.headers["retry-after"] == "1"

    with serving(f"model={folder}") as (url, process), ThreadPoolExecutor(16) as pool, connect(url) as own:
        asking = [pool.submit(ask, url, number) for number in range(16)]
        try:
            for turn in range(20):
                new = tmp_path / f"new-{turn}"
                shutil.copytree(versions[(turn + 1) % 2], new)
                folder.rename(tmp_path / f"old-{turn}")
                new.rename(folder)
                kind = "old" if turn % 2 else "new"
                count = seen[kind]
                while seen[kind] < count + 20:  # the new one has answered
                    assert not asking[0].done()
                    threading.Event().wait(0.05)
                os.kill(workers(process)[0], signal.SIGKILL)
                wait_for_both(own)
        finally:
            done.set()
        for one in asking:
            one.result(timeout=120)  # none hangs
    print(dict(seen))
    assert set(seen) <= {"old", "new", "503"}, seen
