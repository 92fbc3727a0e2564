"""Servers in threads of this process, and how they are asked."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from saccade.serving import Models, create_app, listen
from saccade.serving.http.guard import Guard
from saccade.serving.http.server import make_server


@dataclass
class Running:
    """A server that answers, and its insides to compare with."""

    url: str
    app: Guard
    client: httpx.Client

    @property
    def models(self) -> Models:
        return self.app.state.models


class Runner:
    """Starts servers in threads of this process, and ends them."""

    def __init__(self) -> None:
        self._ends: list[tuple[object, threading.Thread, httpx.Client, Models]] = []

    def start(
        self,
        models: Models,
        *,
        listening: socket.socket | None = None,
        tls: ssl.SSLContext | None = None,
        **options: object,
    ) -> Running:
        app = create_app(models, **options)  # type: ignore[arg-type]
        listening = listening or listen("127.0.0.1", 0)
        is_relayed = listening.family == socket.AF_UNIX
        name = "relayed" if is_relayed else f"127.0.0.1:{listening.getsockname()[1]}"
        url = f"{'http' if tls is None else 'https'}://{name}"
        server = make_server(app, tls=tls, is_relayed=is_relayed)
        server.config.timeout_graceful_shutdown = 10  # a page that is still open shall not hold up the tests' end
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        client = httpx.Client(base_url=url, timeout=60, trust_env=False)
        self._ends.append((server, thread, client, models))
        return Running(url, app, client)

    def close(self) -> None:
        for server, thread, client, models in self._ends:
            client.close()
            server.should_exit = True  # type: ignore[attr-defined]
            thread.join()
            models.close()


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def events(client: httpx.Client, path: str, **body: Any) -> Iterator[Any]:
    with client.stream("POST", path, json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line:
                assert line.startswith("data: ")
                yield json.loads(line.removeprefix("data: "))


def numbers(client: httpx.Client, path: str, **query: Any) -> np.ndarray:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    rows, columns = int(answer.headers["X-Rows"]), int(answer.headers["X-Columns"])
    found = np.frombuffer(answer.content, dtype="<f4")
    heads = answer.headers.get("X-Heads")
    return found.reshape(rows, columns) if heads is None else found.reshape(int(heads), rows, columns)
