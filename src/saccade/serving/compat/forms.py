"""Read request fields from JSON, a form (URL-encoded or multipart) or the query string."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import parse_json
from saccade.serving.threads import parse_apart

__all__ = ["read_fields"]

MOST_FIELDS = 1000
#: Most parts of a multipart form; none of our requests has more than five fields.
MOST_PARTS = 100


async def read_fields(request: Request) -> dict[str, Any]:
    """Return the fields of the query string and the body; if both have a field, the one in the body is used.

    A field that is repeated becomes a list of its values.

    A large body is parsed in a thread, so that other requests are answered in the meantime.
    """
    fields = _collected(request.query_params.multi_items())
    content = await request.body()
    if not content:
        return fields
    kind = request.headers.get("content-type", "")
    return fields | await parse_apart(len(kind) + len(content), _read_body, kind, content)


def _read_body(content_type: str, content: bytes) -> dict[str, Any]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        try:
            return _collected(
                parse_qsl(content.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
            )
        except UnicodeError:
            raise Refused(400, "The form is not valid UTF-8.") from None
        except ValueError:
            raise Refused(400, f"The form has more than {MOST_FIELDS} fields.") from None
    if kind == "multipart/form-data":
        return _collected(_Form(content_type).read(content))
    if kind not in ("application/json", ""):
        raise Refused(400, f"The body must be JSON or a form, not {kind[:60]!r}.")
    value = parse_json(content)
    if not isinstance(value, dict):
        raise Refused(400, "The body must be a JSON object with q, source and target.")
    return value


def _collected(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    every: dict[str, list[str]] = {}
    for name, value in pairs:
        every.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in every.items()}


class _Form:
    """Collects the parts of a multipart form while it is parsed."""

    def __init__(self, content_type: str) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise Refused(400, "The Content-Type of the form has no boundary.")
        self._pairs: list[tuple[str, bytearray]] = []
        self._field, self._value = bytearray(), bytearray()  # of the current header
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
            raise Refused(400, "The form is not valid UTF-8.") from None

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
            raise Refused(400, "The form contains another form; send each field as a separate part.")
        if header == "content-disposition":
            self._pairs[-1] = options.get(b"name", b"").decode("utf-8", "replace"), self._pairs[-1][1]


def _unreadable(error: FormParserError) -> Refused:
    return Refused(400, f"The form cannot be read: {' '.join(str(error).split())[:200]}.")
