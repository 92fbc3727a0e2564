"""Parse JSON strictly: without NaN, repeated keys, deep nesting or invalid Unicode."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from saccade.serving.http.refusals import Refused
from saccade.serving.threads import parse_apart

__all__ = ["StrictRoute", "parse_json"]


#: The most lists and objects in one request, how deep they may be nested, and the most keys of one object. Python makes
#: an object for each, and no other request is answered in the meantime.
MOST_CONTAINERS, DEEPEST, MOST_KEYS = 100_000, 64, 1000
#: A string, up to the end of the text if nothing closes it.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^][{}]+")


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8; refuse NaN, repeated keys, deep nesting and invalid Unicode."""
    try:
        text = content.decode("utf-8-sig")
        _check_nesting(_NO_BRACKETS.sub("", _STRING.sub("", text)))
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_int=_whole_number, object_pairs_hook=_without_repetition
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # refuses lone surrogates
    except UnicodeError:
        raise Refused(400, "The request is not valid UTF-8.") from None
    except ValueError as error:
        raise Refused(400, f"The request is not valid JSON: {error}.") from None
    return value


def _check_nesting(brackets: str) -> None:
    """Refuse too many or too deeply nested lists and objects. ``brackets`` are all brackets outside strings."""
    if brackets.count("[") + brackets.count("{") > MOST_CONTAINERS:
        raise Refused(400, f"The request has more than {MOST_CONTAINERS:,} lists and objects, which is the limit.")
    depth = 0
    for one in brackets:
        depth += 1 if one in "[{" else -1
        if depth > DEEPEST:
            raise Refused(400, f"The request is nested more than {DEEPEST} levels deep, which is the limit.")


def _refuse_constant(name: str) -> NoReturn:
    raise Refused(400, f"The request contains {name}, which is not valid JSON.")


def _whole_number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python's limit; converting more digits would take too long
        raise Refused(400, f"The request contains a number of {len(digits):,} digits, which is too many.") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; refuse a repeated key, because it is not clear which of its values is meant."""
    if len(pairs) > MOST_KEYS:
        raise Refused(400, f"An object in the request has {len(pairs):,} keys; the limit is {MOST_KEYS:,}.")
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Refused(400, f"The request has the key {twice[:60]!r} more than once in one object.")
    return found


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            content = await self.body()
            self._json = await parse_apart(len(content), parse_json, content)
        return self._json


class StrictRoute(APIRoute):
    """A route whose body is parsed by ``parse_json``."""

    async def answer_apart(self, request: Request) -> Response | None:
        """Return the answer if this request should not be parsed in this process; None if it should."""
        return None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            kind = strict.headers.get("content-type", "").partition(";")[0].strip().lower()
            is_json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
            if self.body_field is not None and is_json and await strict.body():
                answer = await self.answer_apart(strict)
                if answer is not None:
                    return answer
                await strict.json()  # first, so that errors are in our words
            return await handler(strict)

        return handle
