"""Two replicas behind nginx, restarted one after the other under load: no request is lost."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from test_processes import COMMAND, SENTENCES, connect

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


def until_ready(port: int) -> None:
    for _ in range(1200):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(port)


def test_the_container_is_made_as_the_readme_says() -> None:
    """CI builds it and runs it; here: it copies what its installation needs, and installs as the README does."""
    made = (ROOT / "deploy" / "Dockerfile").read_text()
    assert "'.[plots,serving]'" in made
    assert "pip install '.[plots,serving]'" in (ROOT / "README.md").read_text()
    copied = made.partition("COPY ")[2].partition(" ./")[0].split()
    assert "constraints.txt" in copied
    assert all((ROOT / name).is_file() for name in copied)


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light")
def test_no_request_is_lost_when_replicas_are_restarted(folders: dict[str, Path], tmp_path: Path) -> None:
    ports, front = [free_port(), free_port()], free_port()
    text = CONFIGURATION.read_text().replace("listen 8080", f"listen 127.0.0.1:{front}")
    for name, port in zip(("saccade-1", "saccade-2"), ports, strict=True):
        text = text.replace(f"{name}:8420", f"127.0.0.1:{port}")
    (tmp_path / "nginx.conf").write_text(text.replace("/tmp/nginx.pid", str(tmp_path / "nginx.pid")))

    def start(port: int) -> subprocess.Popen[bytes]:
        command = [one if one != "0" else str(port) for one in COMMAND]
        command += [f"model={folders['tiny']}", "--trusted-proxy", "127.0.0.1"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    seen, done = Counter[str](), threading.Event()

    def ask(number: int) -> None:
        with connect(f"http://127.0.0.1:{front}") as client:
            while not done.is_set():
                try:
                    answer = client.post("/api/models/model/predict", json={"inputs": [SENTENCES[number]]})
                    seen[str(answer.status_code)] += 1
                except httpx.TransportError as error:
                    seen[repr(error)] += 1

    replicas = [start(port) for port in ports]
    command = [str(NGINX), "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path), "-g", "daemon off;"]
    proxy = subprocess.Popen(command)
    try:
        for port in (*ports, front):
            until_ready(port)
        with ThreadPoolExecutor(8) as pool:
            asking = [pool.submit(ask, number) for number in range(8)]
            try:
                for number, port in enumerate(ports):
                    count = seen["200"]
                    while seen["200"] < count + 100:
                        time.sleep(0.01)
                    replicas[number].send_signal(signal.SIGTERM)
                    assert replicas[number].wait(60) == 0
                    count = seen["200"]
                    while seen["200"] < count + 50:  # the other one answers alone
                        time.sleep(0.01)
                    replicas[number] = start(port)
                    until_ready(port)
            finally:
                done.set()
            for one in asking:
                one.result(timeout=60)
    finally:
        for process in (*replicas, proxy):
            process.terminate()
            process.wait(60)
    print(dict(seen))
    assert set(seen) == {"200"}, seen
