"""The page with its files, and the addresses for monitoring."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from saccade.serving.http.docs import docs_page
from saccade.serving.http.guard import PAGES
from saccade.serving.http.metrics import Sample, counter, gauge, histogram, merge, render
from saccade.serving.http.refusals import Refused
from saccade.serving.state import ServerState, state_of

__all__ = ["router"]

router = APIRouter()

STUDIO = files("saccade.serving") / "studio"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


# These three need no thread, so they answer even when all threads are busy.
@router.get("/health", tags=["server"])
async def health() -> dict[str, str]:
    """Whether the server runs."""
    return {"status": "ok"}


@router.get("/ready", tags=["server"], responses={503: {"description": "Not ready yet, or shutting down."}})
async def ready(request: Request) -> JSONResponse:
    """Whether the server can answer: it has a model and is not shutting down.

    ``not_reloaded`` names the models whose folders were replaced but cannot be opened; the earlier ones still answer.
    """
    state = state_of(request)
    is_ready = bool(state.models) and not state.draining
    damaged = [name for name in state.models if name in state.models.not_reloaded]
    about = {"not_reloaded": damaged} if damaged else {}
    return JSONResponse({"ready": is_ready, **about}, 200 if is_ready else 503)


@router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
async def metrics(request: Request, own: bool = False) -> PlainTextResponse:
    """Metrics for Prometheus, from all processes, or only this one with ``own``."""
    state = state_of(request)
    samples = [*state.metrics.samples(), *_model_samples(state)]
    if state.neighbours is None:
        text = render(samples)
    else:
        text = render(samples, {"process": str(state.neighbours.number)})
        if not own:
            text = merge([text, *await state.neighbours.metrics(request.headers.raw)])
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """The API as a page."""
    return HTMLResponse(docs_page(request.app.openapi()))


def page() -> Response:
    return _file("index.html")


for _address in PAGES:
    router.get(_address, include_in_schema=False)(page)


@router.get("/static/{name:path}", include_in_schema=False)
def static(name: str) -> Response:
    return _file(name)


def _file(name: str) -> Response:
    """A file of the page, looked up by name among those that exist; a path from a request is never opened."""
    found = _listed().get(name)
    if found is None:
        raise Refused(404, "There is no such file.")
    suffix = "." + name.rpartition(".")[2]
    return Response(found.read_bytes(), media_type=MEDIA[suffix], headers={"Cache-Control": "no-cache"})


def _listed() -> dict[str, Any]:
    """Every file of the page by its path within the page's folder."""
    found: dict[str, Any] = {}
    waiting = [("", STUDIO)]
    while waiting:
        prefix, folder = waiting.pop()
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir():
                waiting.append((f"{prefix}{entry.name}/", entry))
            elif "." + entry.name.rpartition(".")[2] in MEDIA:
                found[prefix + entry.name] = entry
    return found


def _model_samples(state: ServerState) -> list[Sample]:
    batchers = [({"model": name}, served.batcher) for name, served in state.models.items()]
    lanes = [(labels | {"lane": lane.name}, lane) for labels, batcher in batchers for lane in batcher.lanes.values()]
    return [
        counter("saccade_batches_total", "Batches computed.", [(n, b.batches) for n, b in batchers]),
        counter("saccade_inputs_total", "Inputs answered.", [(n, b.answered) for n, b in batchers]),
        counter(
            "saccade_tokens_total", "Tokens read and written; its rate is tokens/s.", [(n, x.tokens) for n, x in lanes]
        ),
        counter("saccade_busy_seconds_total", "Time spent computing.", [(n, b.busy_seconds) for n, b in batchers]),
        gauge("saccade_queue", "Requests waiting for a model.", [(n, b.waiting) for n, b in batchers]),
        histogram("saccade_queue_seconds", "Time waiting for a model.", [(n, x.queue_seconds) for n, x in lanes]),
        histogram("saccade_compute_seconds", "Time computing requests.", [(n, x.compute_seconds) for n, x in lanes]),
        gauge("saccade_looks", "Looks in memory.", [({}, len(state.looks))]),
        gauge("saccade_look_bytes", "Memory used by looks.", [({}, state.looks.nbytes)]),
    ]
