"""Send server-sent events from a model's thread: text as it is generated, or progress."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from starlette.responses import StreamingResponse

from saccade.serving.batching import Batcher
from saccade.serving.http.refusals import sentence_of, status_of

__all__ = ["EVENTS", "Send", "event", "event_stream"]

Send = Callable[[Any], None]
#: For the OpenAPI document.
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


class _DisconnectedError(Exception):
    """The client has disconnected."""


def event(value: Any) -> bytes:
    """Return a server-sent event whose data is this value as JSON."""
    return f"data: {json.dumps(value, ensure_ascii=False, allow_nan=False)}\n\n".encode()


def event_stream(
    batcher: Batcher,
    work: Callable[[Send], Iterator[None] | None],
    encode: Callable[[Any], bytes] = event,
    inputs: Sequence[Any] = (),
    options: dict[str, Any] | None = None,
) -> StreamingResponse:
    """Run ``work`` in the model's thread and stream what it sends to the client, until the client disconnects.

    Whenever ``work`` yields, other requests get their turn. ``inputs`` and ``options`` are used to estimate how long
    ``work`` takes: about as long as answering these inputs. ``work`` enters the queue of the model before the response
    starts, so if the queue is full, the request can still be refused with 429.
    """
    loop = asyncio.get_running_loop()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    disconnected = False

    def send(value: Any) -> None:
        if disconnected:
            raise _DisconnectedError
        loop.call_soon_threadsafe(sent.put_nowait, encode(value))

    def run() -> Iterator[None]:
        with contextlib.suppress(_DisconnectedError):
            yield from work(send) or ()

    computation = batcher.run(run, inputs, options)
    computation.add_done_callback(lambda done: loop.call_soon_threadsafe(sent.put_nowait, done))

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal disconnected
        try:
            while isinstance(piece := await sent.get(), bytes):
                yield piece
            error = None if piece.cancelled() else piece.exception()
            if isinstance(error, Exception):  # the status has already been sent
                yield event({"error": sentence_of(error), "status": status_of(error)})
        finally:
            disconnected = True
            computation.abandon()

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
