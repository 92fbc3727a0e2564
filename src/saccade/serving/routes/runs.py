"""Running and finished trainings: metrics, and probes of one example's attention."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import StreamingResponse

from saccade.serving.http.events import EVENTS, event
from saccade.serving.http.refusals import Refused
from saccade.serving.runs import ServedRun, find_runs
from saccade.serving.state import ServerState, state_of

__all__ = ["router"]

router = APIRouter(prefix="/api/runs", tags=["runs"])

#: Seconds between two reads of a log.
INTERVAL = 0.5


@router.get("")
def list_runs(request: Request) -> list[dict[str, Any]]:
    """Every run with its progress and scores."""
    return [run.describe() for run in _runs(state_of(request)).values()]


@router.get("/{name}")
def one_run(request: Request, name: str) -> dict[str, Any]:
    """A run's metrics, and the steps that have a probe."""
    run = _run(state_of(request), name)
    metrics, place = run.metrics()
    return run.describe() | {"metrics": metrics, "place": place, "probes": run.probes()}


@router.get("/{name}/probes/{step}")
def one_probe(request: Request, name: str, step: Annotated[int, Path(ge=0, le=10**12)]) -> dict[str, Any]:
    """The probe at one step: an example with its inputs, outputs, text, and the attention weights between them."""
    return _run(state_of(request), name).probe(step)


@router.get("/{name}/events", response_class=StreamingResponse, responses=EVENTS)
async def run_events(
    request: Request, name: str, after: Annotated[int, Query(ge=0, le=10**12)] = 0
) -> StreamingResponse:
    """New metrics as events, from the position that /api/runs/{name} returns; the last one is {"finished": true}."""
    state = state_of(request)
    run = _run(state, name)

    async def pieces() -> AsyncIterator[bytes]:
        place = after
        while not state.draining:
            finished = run.finished  # before reading, so that the last lines are not missed
            lines, place = await asyncio.to_thread(run.metrics, place)
            for line in lines:
                yield event({"metric": line})
            if finished:
                yield event({"finished": True})
                return
            await asyncio.sleep(INTERVAL)
            yield b": still there\n\n"  # a comment, to notice that the client has left

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _runs(state: ServerState) -> dict[str, ServedRun]:
    folders = [(name, served.folder) for name, served in state.models.items()]
    folders += [(name, one.folder) for name, one in list(state.models.pending.items())]
    return find_runs([] if state.runs is None else [state.runs], folders)


def _run(state: ServerState, name: str) -> ServedRun:
    runs = _runs(state)
    if name not in runs:
        raise Refused(404, f"There is no run with this name; the runs are: {', '.join(runs) or 'none'}.")
    return runs[name]
