"""Strict parsing of JSON: no NaN, no deep nesting, no invalid text."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from saccade.serving.computation import offload
from saccade.serving.http.refusals import Refused

__all__ = ["StrictRoute", "parse_json"]


def parse_json(content: bytes) -> Any:
    """The value of a JSON text in UTF-8."""

    def refuse_constant(name: str) -> NoReturn:
        raise Refused(400, f"The request contains {name}, which is not valid JSON.")

    try:
        value = json.loads(content.decode("utf-8"), parse_constant=refuse_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # refuses lone surrogates
    except UnicodeError:
        raise Refused(400, "The request is not valid UTF-8.") from None
    except RecursionError:
        raise Refused(400, "The request is nested too deeply.") from None
    except ValueError as error:
        raise Refused(400, f"The request is not valid JSON: {error}.") from None
    return value


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            content = await self.body()
            self._json = await offload(len(content), parse_json, content)
        return self._json


class StrictRoute(APIRoute):
    """A route whose body is parsed by ``parse_json``."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if await strict.body() and strict.headers.get("content-type", "").startswith("application/json"):
                await strict.json()  # first, so that errors are in our words
            return await handler(strict)

        return handle
