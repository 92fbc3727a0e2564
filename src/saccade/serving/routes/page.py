"""Routes for the studio and its files, and for monitoring."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, FastAPI, Request
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
    """Return "ok" as long as the server is running."""
    return {"status": "ok"}


@router.get("/ready", tags=["server"], responses={503: {"description": "Not ready yet, or shutting down."}})
async def ready(request: Request) -> JSONResponse:
    """Return whether the server can answer, that is, whether it has a model and is not shutting down.

    ``not_reloaded`` names the models whose folders were replaced but cannot be opened; the server still uses the
    earlier models.
    """
    state = state_of(request)
    is_ready = bool(state.models) and not state.draining
    damaged = [name for name in state.models if name in state.models.not_reloaded]
    about = {"not_reloaded": damaged} if damaged else {}
    return JSONResponse({"ready": is_ready, **about}, 200 if is_ready else 503)


@router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
async def metrics(request: Request, own: bool = False) -> PlainTextResponse:
    """Metrics for Prometheus, from all processes; with ``own``, only from the process that answers."""
    state = state_of(request)
    samples = [*state.metrics.samples(), *_model_samples(state)]
    if state.neighbours is None:
        text = render(samples)
    else:
        text = render(samples, {"process": str(state.neighbours.number)})
        if not own:
            text = merge([text, *await state.neighbours.metrics(request.headers.raw)])
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The description of the API for programs, as an OpenAPI document."""
    return Response(_document(request.app)[0], media_type="application/json")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The description of the API as a web page."""
    return HTMLResponse(_document(request.app)[1])


@cache
def _document(app: FastAPI) -> tuple[bytes, bytes]:
    """The description of the API as JSON and as a page; it never changes."""
    document = app.openapi()
    return json.dumps(document, ensure_ascii=False).encode(), docs_page(document).encode()


async def page() -> Response:
    return _answer("index.html", "no-cache")


for _address in PAGES:
    router.get(_address, include_in_schema=False)(page)


@router.get("/static/{name:path}", include_in_schema=False)
async def static(name: str) -> Response:
    """Return a file of the studio.

    If the address contains the version of the files, as the links in the page do, browsers may cache the file for ever.
    """
    version, _, rest = name.partition("/")
    if version == _version():
        return _answer(rest, "public, max-age=31536000, immutable")
    return _answer(name, "no-cache")


def _answer(name: str, caching: str) -> Response:
    """Return a file of the studio. Its name is looked up in a list; a path from a request is never opened."""
    content = _contents().get(name)
    if content is None:
        raise Refused(404, "There is no such file.")
    return Response(content, media_type=MEDIA["." + name.rpartition(".")[2]], headers={"Cache-Control": caching})


@cache
def _contents() -> dict[str, bytes]:
    """Every file of the page by its path within the page's folder: half a megabyte, read once.

    The page is made of a hundred modules, which import each other. It names them all at its top, so that a browser
    fetches them together instead of finding them one after another.
    """
    found = dict(_files_under("", STUDIO))
    modules = [name for name in sorted(found) if name.endswith(".js")]
    preloads = "".join(f'<link rel="modulepreload" href="/static/{name}">\n' for name in modules)
    index = found["index.html"].decode().replace("</head>", preloads + "</head>")
    return {**found, "index.html": index.replace('"/static/', f'"/static/{_version()}/').encode()}


@cache
def _version() -> str:
    """Return a name for the current contents of the files; if a file changes, so does the name."""
    together = hashlib.sha256()
    for name, content in sorted(_files_under("", STUDIO)):
        together.update(f"{name} {len(content)}\n".encode() + content)
    return together.hexdigest()[:16]


def _files_under(prefix: str, folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_under(f"{prefix}{entry.name}/", entry)
        elif "." + entry.name.rpartition(".")[2] in MEDIA:
            yield prefix + entry.name, entry.read_bytes()


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
        histogram("saccade_queue_seconds", "Time that requests wait.", [(n, x.queue_seconds) for n, x in lanes]),
        histogram("saccade_compute_seconds", "Time computing requests.", [(n, x.compute_seconds) for n, x in lanes]),
        gauge("saccade_looks", "Looks (recorded attention of answers) in memory.", [({}, len(state.looks))]),
        gauge("saccade_look_bytes", "Memory used by looks (recorded attention), in bytes.", [({}, state.looks.nbytes)]),
    ]
