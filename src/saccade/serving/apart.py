"""Answer large requests that need no model in a separate process.

Python runs one thread at a time. A thread that reads and writes hundreds of thousands of numbers, which takes a second,
would delay each of the many short operations of an answer that a model computes meanwhile. A separate process does not.
Only bytes pass between the two processes, and they need no packing.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from pydantic import ValidationError

from saccade.errors import SaccadeError
from saccade.serving.http.refusals import Refused, invalid_sentence, sentence_of, status_of

__all__ = ["Apart"]

#: Seconds after which a process that does not answer is ended.
LONGEST = 60.0


class Apart:
    """A process that starts at the first request and answers one after another; a new one replaces it if it dies.

    The function turns the body of a request into the body of its answer. It must be defined at the top of a module,
    because the process imports it.
    """

    def __init__(self, function: Callable[[bytes], bytes]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._running: tuple[Connection, BaseProcess] | None = None

    def run(self, body: bytes) -> bytes:
        """Return the answer to a request; raises ``Refused`` if the function refuses it, or if the process dies."""
        with self._lock:
            try:
                connection = self._start()
                connection.send_bytes(body)
                if not connection.poll(LONGEST):
                    raise EOFError
                refused, answer = json.loads(connection.recv_bytes()), connection.recv_bytes()
            except (EOFError, OSError):
                self.close()
                raise Refused(
                    503, "The process that computed this has ended; send the request again.", retry_after=1
                ) from None
        if refused is not None:
            raise Refused(*refused)
        return answer

    def _start(self) -> Connection:
        """Start the process unless it runs, and return this end of its pipe."""
        if self._running is None:
            # Spawned, not forked: forking a process in which torch already has threads can hang.
            context = multiprocessing.get_context("spawn")
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, self._function), daemon=True)
            process.start()
            there.close()  # so that the pipe ends with the process
            self._running = here, process
        return self._running[0]

    def close(self) -> None:
        """End the process; the next request starts a new one."""
        if self._running is not None:
            connection, process = self._running
            process.kill()
            process.join()
            connection.close()
            self._running = None


def _work(connection: Connection, function: Callable[[bytes], bytes]) -> None:
    """Answer one request after another, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which closes the pipe
    try:
        while True:
            refused, answer = None, b""
            try:
                answer = function(connection.recv_bytes())
            except ValidationError as error:
                refused = 400, invalid_sentence(error.errors()[0])
            except (EOFError, OSError):
                raise
            except Exception as error:
                if not isinstance(error, Refused | SaccadeError):
                    traceback.print_exc()
                refused = status_of(error), sentence_of(error)
            connection.send_bytes(json.dumps(refused).encode())
            connection.send_bytes(answer)
    except (EOFError, OSError):
        return
