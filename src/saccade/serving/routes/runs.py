"""Running and finished trainings: curves, and how one example was seen as the model learned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import StreamingResponse

from saccade.serving.http.events import EVENTS, event
from saccade.serving.http.refusals import Refused
from saccade.serving.runs import Run, find_runs, read_metrics
from saccade.serving.state import State, state_of

__all__ = ["router"]

router = APIRouter(prefix="/api/runs", tags=["runs"])

#: Seconds between two looks at a log.
INTERVAL = 0.5


@router.get("")
def list_runs(request: Request) -> list[dict[str, Any]]:
    """Every run with how far it is and how good."""
    return [run.describe() for run in _runs(state_of(request)).values()]


@router.get("/{name}")
def one_run(request: Request, name: str) -> dict[str, Any]:
    """All that was measured, and after how many updates one example was looked at."""
    run = _run(state_of(request), name)
    metrics, place = run.metrics()
    return run.describe() | {"metrics": metrics, "place": place, "probes": run.probes()}


@router.get("/{name}/probes/{step}")
def one_probe(request: Request, name: str, step: Annotated[int, Path(ge=0, le=10**12)]) -> dict[str, Any]:
    """One example as the model saw it then: inputs, outputs, text, and weights between them."""
    return _run(state_of(request), name).probe(step)


@router.get("/{name}/events", response_class=StreamingResponse, responses=EVENTS)
async def run_events(
    request: Request, name: str, after: Annotated[int, Query(ge=0, le=10**12)] = 0
) -> StreamingResponse:
    """What is measured after a place in the log, which /api/runs/{name} gives: events, {"finished": true} the last."""
    state = state_of(request)
    run = _run(state, name)

    async def pieces() -> AsyncIterator[bytes]:
        place = after
        while not state.draining:
            finished = run.finished  # asked first: what is written before the end is then read below
            lines, place = await asyncio.to_thread(read_metrics, run.folder / "metrics.jsonl", place)
            for line in lines:
                yield event({"metric": line})
            if finished:
                yield event({"finished": True})
                return
            await asyncio.sleep(INTERVAL)
            yield b": still there\n\n"  # a comment, by which a listener that left is noticed

    return StreamingResponse(pieces(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _runs(state: State) -> dict[str, Run]:
    folders = [(name, served.folder) for name, served in state.models.items()]
    folders += [(name, one.folder) for name, one in list(state.models.pending.items())]
    return find_runs([] if state.runs is None else [state.runs], folders)


def _run(state: State, name: str) -> Run:
    runs = _runs(state)
    if name not in runs:
        raise Refused(404, f"There is no run of this name; there are: {', '.join(runs) or 'none'}.")
    return runs[name]
