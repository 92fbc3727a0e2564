"""The supervisor: starts the workers, restarts those that die, and stops them all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from saccade.errors import OptionError, SaccadeError
from saccade.serving.http.connections import QUESTION, most_connections
from saccade.serving.http.server import BACKLOG, GRACE, accept_waiting, quieten
from saccade.serving.processes.relay import Relay, Upstream
from saccade.serving.processes.worker import Settings, socket_path

__all__ = ["supervise"]

Started = Callable[[socket.socket], None]
_log = logging.getLogger(__name__)
#: Seconds before a worker that died right after its start is started again; doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
#: Seconds between two questions whether a worker responds, and seconds within which it must. While it does not, new
#: connections go to other workers; one that has not responded to this many questions is ended and started again.
ASK_SECONDS, RESPONSE_SECONDS, MOST_UNANSWERED = 2.0, 5.0, 5
#: How many times as many connections the supervisor allows as all workers together. Only a worker knows whether a
#: request that has begun is complete, so the workers must reach their limit, and close connections, first.
SPARE = 1.25


def supervise(settings: Settings, listening: socket.socket, tls: ssl.SSLContext | None, started: Started) -> None:
    """Answer requests with several processes until SIGINT or SIGTERM; call ``started`` when all are ready."""
    if not hasattr(socket, "AF_UNIX"):
        raise OptionError(
            "--processes needs Unix sockets, which this system does not have; start the server without --processes."
        )
    quieten()
    with tempfile.TemporaryDirectory(prefix="saccade-", ignore_cleanup_errors=True) as folder:
        asyncio.run(_Supervisor(settings, Path(folder)).run(listening, tls, started))


class _Supervisor:
    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._upstreams: dict[int, Upstream] = {}
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._has_started = False
        self._failure: str | None = None  # why the first start failed
        self._stopping = asyncio.Event()

    async def run(
        self, listening: socket.socket, tls: ssl.SSLContext | None, started: Callable[[socket.socket], None]
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        limits = self._settings.limits
        sockets, at_once = most_connections(2 * round(SPARE * limits.connections))  # two for each connection
        relay = Relay(lambda: list(self._upstreams.values()), sockets // 2, limits.client_seconds, tls)
        share = max(1, int(relay.most / SPARE / self._settings.processes))
        self._settings = replace(self._settings, limits=replace(limits, connections=share))
        keepers = [asyncio.create_task(self._keep(number)) for number in range(self._settings.processes)]
        try:
            while not all(one.is_ready for one in self._upstreams.values()) or not self._upstreams:
                if self._failure is not None:
                    raise SaccadeError(self._failure)
                if self._stopping.is_set():
                    return
                await asyncio.sleep(0.02)
            self._has_started = True  # from here on, a worker that dies is started again
            server = await loop.create_server(relay.connection, sock=listening, backlog=at_once)
            listening.listen(BACKLOG)
            started(listening)
            await self._stopping.wait()
            relay.is_stopping = True
            waiting = list(accept_waiting(listening))
            server.close()
            for connection in waiting:
                await loop.connect_accepted_socket(relay.connection, connection)
            await asyncio.sleep(GRACE)
        finally:
            self._stopping.set()
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            await asyncio.gather(*keepers)

    def _stop(self) -> None:
        """Stop after all received requests are answered; at a second signal, stop immediately."""
        if self._stopping.is_set():
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        self._stopping.set()

    async def _keep(self, number: int) -> None:
        """Run one worker, again and again, until the supervisor stops."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._run_once(number)
            if self._stopping.is_set() or not self._has_started:
                return
            if time.monotonic() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            _log.error("worker %d stopped with status %s; starting it again", number, status)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause if time.monotonic() - began < 10 else 0)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_once(self, number: int) -> int:
        path = socket_path(self._folder, number)
        path.unlink(missing_ok=True)
        upstream = self._upstreams[number] = Upstream(path)
        command = [sys.executable, "-c", "from saccade.serving.processes.worker import work; work()"]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment(),
            start_new_session=True,  # Ctrl-C reaches the supervisor alone
        )
        self._processes[number] = process
        assert process.stdin is not None
        assert process.stdout is not None
        # The pipe stays open: a worker whose supervisor is gone sees its end and stops.
        process.stdin.write(self._settings.to_json(number, self._folder).encode() + b"\n")
        line = (await process.stdout.readline()).decode("utf-8", "replace")
        if line:
            failure = json.loads(line)["failure"]
            upstream.is_ready = failure is None
            if failure is not None and self._has_started:
                _log.error("worker %d cannot start: %s", number, failure)
            elif failure is not None:
                self._failure = failure
        asking = asyncio.create_task(self._ask_whether_it_responds(number, upstream, process))
        status = await process.wait()
        asking.cancel()
        if self._failure is None and not self._has_started:
            self._failure = f"A worker process stopped with status {status} before all of them were ready."
        upstream.died.set()
        upstream.is_ready = False
        return status

    async def _ask_whether_it_responds(
        self, number: int, upstream: Upstream, process: asyncio.subprocess.Process
    ) -> None:
        """Ask a worker again and again whether it responds, and end it if it has not responded for long."""
        unanswered = 0
        while not self._stopping.is_set():
            upstream.is_silent = upstream.is_ready and not await _responds(upstream.path)
            unanswered = unanswered + 1 if upstream.is_silent else 0
            if unanswered == MOST_UNANSWERED:
                _log.error("worker %d has not responded for %.0f seconds", number, unanswered * RESPONSE_SECONDS)
                process.kill()
                return
            await asyncio.sleep(ASK_SECONDS)

    def _environment(self) -> dict[str, str]:
        """The environment of a worker, which uses its share of the processors unless the user sets OMP_NUM_THREADS."""
        share = max(1, (os.cpu_count() or 1) // self._settings.processes)
        return {"OMP_NUM_THREADS": str(share), **os.environ}


async def _responds(path: Path) -> bool:
    """Return whether the worker that listens at this socket answers; one that is stopping, and refuses the connection,
    does too."""
    writer = None
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(QUESTION + b"\r\n")
            await reader.read(1)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        if writer is not None:
            writer.transport.abort()
    return True
