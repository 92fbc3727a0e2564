"""The fields of a request that may come as JSON, as a form of two kinds, or in the query string."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from saccade.serving.asked import aside
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import parse_json

__all__ = ["read_fields"]

MOST_FIELDS = 1000
#: Parts of a form with boundaries; each of our requests has five fields.
MOST_PARTS = 100


async def read_fields(request: Request) -> dict[str, Any]:
    """The fields of the body over those of the query string. Twice the same name is a list.

    A large body is taken apart in a thread: whatever it is, others are answered meanwhile.
    """
    fields = _collected(request.query_params.multi_items())
    content = await request.body()
    if not content:
        return fields
    return fields | await aside(len(content), _read_body, request.headers.get("content-type", ""), content)


def _read_body(content_type: str, content: bytes) -> dict[str, Any]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        try:
            return _collected(
                parse_qsl(content.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
            )
        except UnicodeError:
            raise Refused(400, "The form is not text in UTF-8.") from None
        except ValueError:
            raise Refused(400, f"The form has more than {MOST_FIELDS} fields.") from None
    if kind == "multipart/form-data":
        return _collected(_Form(content_type).read(content))
    if kind not in ("application/json", ""):
        raise Refused(400, f"The request is JSON or a form; not {kind[:60]!r}.")
    value = parse_json(content)
    if not isinstance(value, dict):
        raise Refused(400, "The request is a JSON object with q, source and target.")
    return value


def _collected(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    every: dict[str, list[str]] = {}
    for name, value in pairs:
        every.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in every.items()}


class _Form:
    """The parts of a multipart form, collected while they are parsed."""

    def __init__(self, content_type: str) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise Refused(400, "The form has no boundary in its Content-Type.")
        self._pairs: list[tuple[str, bytearray]] = []
        self._field, self._value = bytearray(), bytearray()  # of the header that is being read
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                    "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                    "on_header_end": self._end_header,
                    "on_part_data": lambda data, start, end: self._pairs[-1][1].extend(data[start:end]),
                },
            )
        except FormParserError as error:
            raise _unreadable(error) from None

    def read(self, content: bytes) -> list[tuple[str, str]]:
        try:
            self._parser.write(content)
            self._parser.finalize()
            return [(name, bytes(value).decode("utf-8")) for name, value in self._pairs]
        except FormParserError as error:
            raise _unreadable(error) from None
        except UnicodeDecodeError:
            raise Refused(400, "The form is not text in UTF-8.") from None

    def _begin_part(self) -> None:
        if len(self._pairs) == MOST_PARTS:
            raise Refused(400, f"The form has more than {MOST_PARTS} parts.")
        self._pairs.append(("", bytearray()))

    def _end_header(self) -> None:
        header, value = bytes(self._field).decode("latin-1").lower(), bytes(self._value).decode("latin-1")
        self._field.clear()
        self._value.clear()
        kind, options = parse_options_header(value)
        if header == "content-type" and kind.startswith(b"multipart/"):
            raise Refused(400, "A part of the form is a form itself; send each field as a part of its own.")
        if header == "content-disposition":
            self._pairs[-1] = options.get(b"name", b"").decode("utf-8", "replace"), self._pairs[-1][1]


def _unreadable(error: FormParserError) -> Refused:
    return Refused(400, f"The form cannot be read: {' '.join(str(error).split())[:200]}.")
