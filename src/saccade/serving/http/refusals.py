"""Refuse a request, with a status and one sentence: ``{"error": "..."}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from saccade.errors import SaccadeError, TooLargeError, describe_invalid

__all__ = ["Refused", "invalid_sentence", "refusal", "sentence_of", "status_of"]


#: Parts of pydantic's error locations that are not field names.
_NOT_FIELDS = ("body", "query", "path", "header", "str", "list[str]", "list[constrained-str]")


#: The page that a browser shows if there is no page at an address.
_NO_PAGE = """<!doctype html>
<html lang="en"><title>There is no page here · Saccade</title>
<p>There is no page at this address. <a href="/">Open the studio</a></p></html>
"""


class Refused(Exception):
    """A refused request, with the status and the reason in one sentence."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        retry_after: float | None = None,
        asks_for: str | None = None,
        closes: bool = False,  # whether the connection must be closed, because its next bytes may be of this request
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after = retry_after
        self.asks_for = asks_for
        self.closes = closes

    @property
    def headers(self) -> dict[str, str]:
        found = {}
        if self.retry_after is not None:
            found["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        if self.asks_for is not None:
            found["WWW-Authenticate"] = self.asks_for
        if self.closes:
            found["Connection"] = "close"
        return found


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error; anything but Saccade's own errors is a bug and gets 500."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, TooLargeError):
        return 413
    return 400 if isinstance(error, SaccadeError) else 500


def sentence_of(error: Exception) -> str:
    """Return the sentence to send to the client; if the error is a bug, it gives no details."""
    if isinstance(error, Refused | SaccadeError):
        return " ".join(str(error).split())
    return "The server failed to answer this; see its log."


def refusal(path: str, status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the response to a refused request; for paths under /v1/, in OpenAI's format."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    openai = {"message": sentence, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": openai if path.startswith("/v1/") else sentence}, status, headers)


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    headers = error.headers if isinstance(error, Refused) else {}
    return refusal(request.url.path, status_of(error), sentence_of(error), headers)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Answer a request that the web framework refuses; a browser that opens an unknown path gets an HTML page."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and request.headers.get("sec-fetch-mode") == "navigate":
        return HTMLResponse(_NO_PAGE, 404)
    said = {404: "There is nothing at this address.", 405: "This address does not support this method."}
    headers = dict(error.headers) if error.headers else None
    return refusal(request.url.path, error.status_code, said.get(error.status_code, str(error.detail)), headers)


async def answer_invalid(request: Request, error: Exception) -> JSONResponse:
    """Return a refusal that names the first invalid field of a request and says what is wrong with it."""
    assert isinstance(error, RequestValidationError)
    return refusal(request.url.path, 400, invalid_sentence(error.errors()[0]))


def invalid_sentence(first: Mapping[str, Any]) -> str:
    """Return the sentence about an invalid field, given the details of pydantic's first error."""
    place = ".".join(str(part)[:60] for part in first["loc"] if part not in _NOT_FIELDS)
    given = first.get("input")
    if isinstance(given, bytes):  # a body that is not JSON
        given = given.decode("utf-8", "replace")
    said = describe_invalid({**first, "input": given}, place)
    return f"{'' if place else 'The request: '}{said}.".replace("..", ".")
