"""Server-sent events from the thread of a model: text as it is written, progress while something is read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from starlette.responses import StreamingResponse

from saccade.serving.batching import Worker
from saccade.serving.http.refusals import sentence_of, status_of

__all__ = ["EVENTS", "Send", "event", "event_stream"]

Send = Callable[[Any], None]
#: For the OpenAPI document.
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


class _GoneError(Exception):
    """Nobody listens any more."""


def event(value: Any) -> bytes:
    """One event: a line of JSON."""
    return f"data: {json.dumps(value, ensure_ascii=False, allow_nan=False)}\n\n".encode()


def event_stream(
    worker: Worker,
    work: Callable[[Send], Iterator[None] | None],
    encode: Callable[[Any], bytes] = event,
    inputs: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
) -> StreamingResponse:
    """What ``work`` sends from the model's thread, as it sends it; when the listener leaves, it is stopped.

    Where ``work`` yields, others have their turn; it costs as much as answering the inputs. It is put in the queue
    here, so that a full queue is still answered by 429.
    """
    loop = asyncio.get_running_loop()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    gone = False

    def send(value: Any) -> None:
        if gone:
            raise _GoneError
        loop.call_soon_threadsafe(sent.put_nowait, encode(value))

    def run() -> Iterator[None]:
        with contextlib.suppress(_GoneError):
            yield from work(send) or ()

    asked = worker.run(run, inputs, options)
    asked.add_done_callback(lambda done: loop.call_soon_threadsafe(sent.put_nowait, done))

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal gone
        try:
            while isinstance(piece := await sent.get(), bytes):
                yield piece
            error = None if piece.cancelled() else piece.exception()
            if isinstance(error, Exception):  # the status is sent already
                yield event({"error": sentence_of(error), "status": status_of(error)})
        finally:
            gone = True
            asked.abandon()

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
