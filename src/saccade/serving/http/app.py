"""Build the server as one ASGI application."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from saccade.errors import SaccadeError
from saccade.serving.compat import completions, translate
from saccade.serving.http.docs import openapi_document
from saccade.serving.http.guard import Guard
from saccade.serving.http.refusals import Refused, answer_error, answer_http_error, answer_invalid
from saccade.serving.models import Models
from saccade.serving.processes.neighbours import Neighbours
from saccade.serving.routes import learn, looks, models, page, runs, walk, words
from saccade.serving.state import ServerState

__all__ = ["create_app", "inner_app"]

HOSTS = ("localhost",)
ROUTERS = (models, looks, walk, learn, runs, words, translate, completions, page)


def create_app(
    models: Models,
    *,
    runs: Path | None = None,
    api_key: str | None = None,
    hosts: Collection[str] = (),
    neighbours: Neighbours | None = None,
    embedders: Collection[str] = (),
) -> Guard:
    """Create the ASGI application that serves these models.

    ``hosts`` are additional host names under which clients may reach the server. Web pages of the origins in
    ``embedders`` may show read-only views of the studio in a frame.
    """
    state = ServerState(models, runs, api_key, neighbours, tuple(embedders))
    inner = inner_app(state)
    return Guard(inner if neighbours is None else neighbours.passing_on(inner), state, (*HOSTS, *hosts))


def inner_app(state: ServerState) -> FastAPI:
    app = FastAPI(
        title="Saccade",
        description="Attention models that you can see through.",
        version=importlib.metadata.version("saccade"),
        docs_url=None,  # the usual pages load scripts from a CDN
        redoc_url=None,
        openapi_url=None,  # routes/page.py answers it
    )
    app.state.saccade = state
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    for module in ROUTERS:
        app.include_router(module.router)
    for kind in (SaccadeError, Refused, Exception):
        app.add_exception_handler(kind, answer_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    return app
