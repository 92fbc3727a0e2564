"""Routes for training runs, running or finished: their metrics, and their probes, which record the attention for one
example."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from saccade.serving.computation import Computation, wait_for
from saccade.serving.http.events import EVENTS, event
from saccade.serving.http.refusals import Refused
from saccade.serving.runs import ServedRun, find_runs
from saccade.serving.state import ServerState, state_of

__all__ = ["router"]

router = APIRouter(prefix="/api/runs", tags=["runs"])

#: Seconds between two reads of a log, and the most bytes of each.
INTERVAL, PIECE_BYTES = 0.5, 1 << 20


@router.get("", response_model=list[dict[str, Any]])
async def list_runs(request: Request) -> Response:
    """Every run with its progress and scores."""
    return await _read(request, lambda runs: _json([run.describe() for run in runs.values()]))


@router.get("/{name}", response_model=dict[str, Any])
async def one_run(request: Request, name: str) -> Response:
    """A run's metrics, and the training steps that have a probe (the attention recorded for one example)."""

    def read(runs: dict[str, ServedRun]) -> str:
        run = _chosen(runs, name)
        metrics, place = run.metrics()
        about = _json(run.describe() | {"place": place, "probes": run.probes()})
        # Line by line, because nothing else runs in this process while a long list is written.
        return f'{about[:-1]}, "metrics": [{", ".join(map(_json, metrics))}]}}'

    return await _read(request, read)


@router.get("/{name}/probes/{step}", response_model=dict[str, Any])
async def one_probe(request: Request, name: str, step: Annotated[int, Path(ge=0, le=10**12)]) -> Response:
    """The probe at one step: an example with its inputs, outputs, text, and the attention weights between them."""
    return await _read(request, lambda runs: _json(_chosen(runs, name).probe(step)))


@router.get("/{name}/events", response_class=StreamingResponse, responses=EVENTS)
async def run_events(
    request: Request, name: str, after: Annotated[int, Query(ge=0, le=10**12)] = 0
) -> StreamingResponse:
    """The metrics logged after a position (``place`` in the answer of /api/runs/{name}), as events; when the run has
    finished, the last event is {"finished": true}."""
    state = state_of(request)
    run = await wait_for(request, state.pool.run(lambda _: _chosen(_runs(state), name)))

    async def pieces() -> AsyncIterator[bytes]:
        place = after
        while not state.draining:
            finished = run.finished  # before reading, so that the last lines are not missed
            before = place
            try:
                lines, place = await _lines(state, run, place)
            except Refused:  # too many requests are waiting; read again later
                finished = False
            if place > before:
                yield lines
                continue  # there may be more
            if finished:
                yield event({"finished": True})
                return
            await asyncio.sleep(INTERVAL)
            yield b": still there\n\n"  # a comment, to notice that the client has left

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _lines(state: ServerState, run: ServedRun, place: int) -> tuple[bytes, int]:
    """The lines of the log after a position, as events that a thread writes, and the position after these lines."""

    def read(_: Computation[Any]) -> tuple[bytes, int]:
        lines, end = run.metrics(place, PIECE_BYTES)
        return b"".join(event({"metric": line}) for line in lines), end

    return await asyncio.wrap_future(state.pool.run(read))


def _runs(state: ServerState) -> dict[str, ServedRun]:
    folders = [(name, served.folder) for name, served in state.models.items()]
    folders += [(name, one.folder) for name, one in list(state.models.pending.items())]
    return find_runs([] if state.runs is None else [state.runs], folders)


async def _read(request: Request, read: Callable[[dict[str, ServedRun]], str]) -> Response:
    """JSON about the runs, read and written in a thread, because logs may be long and disks slow."""
    state = state_of(request)
    found = await wait_for(request, state.pool.run(lambda _: read(_runs(state)).encode()))
    return Response(found, media_type="application/json")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)  # TOML has dates


def _chosen(runs: dict[str, ServedRun], name: str) -> ServedRun:
    if name not in runs:
        raise Refused(404, f"There is no run with this name; the runs are: {', '.join(runs) or 'none'}.")
    return runs[name]
