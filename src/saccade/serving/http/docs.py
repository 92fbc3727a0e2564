"""The OpenAPI document, and the same as a plain page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

__all__ = ["docs_page", "openapi_document"]

#: What any request may be refused with.
_REFUSALS = {
    "400": "Something in the request is wrong.",
    "401": "The server asks for its key.",
    "403": "Another page asks, or the key is not right.",
    "404": "There is nothing of this name.",
    "413": "It is more than is taken at once.",
    "429": "Too many ask; Retry-After says when to come again.",
    "503": "It takes too long, or the model is still being trained.",
}
_SENTENCE = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_OPENAI = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """What the framework knows of the addresses, with what they are refused with, in the form that it has here."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path, methods in document["paths"].items():
            content = {"application/json": {"schema": _OPENAI if path.startswith("/v1/") else _SENTENCE}}
            for operation in methods.values():
                responses = operation["responses"]
                responses.pop("422", None)
                for status, about in _REFUSALS.items():
                    responses.setdefault(status, {"description": about, "content": content})
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema


def docs_page(document: Mapping[str, Any]) -> str:
    """Every address with what it takes and gives."""
    title = escape(str(document["info"]["title"]))
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: the interface</title>',
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/style.css">',
        '<link rel="stylesheet" href="/static/docs.css"><link rel="icon" href="/static/icon.svg"></head>',
        f"<body><main class=docs><h1>{title}: the interface</h1>",
        '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>. ',
        'The page for people: <a href="/">/</a>.</p>',
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += _operation(path, method, operation, document)
    return "\n".join([*parts, "</main></body></html>"])


def _operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    parts = [f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"]
    parts.append(f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>")
    rows = [
        _row(one["name"], one["in"], one.get("schema", {}), one.get("required", False))
        for one in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        schema = _resolved(body, document)
        required = schema.get("required", [])
        rows += [_row(key, "body", one, key in required) for key, one in schema.get("properties", {}).items()]
    if rows:
        parts.append("<table><thead><tr><th>name</th><th>in</th><th>is</th></tr></thead><tbody>")
        parts += [*rows, "</tbody></table>"]
    return parts


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema itself, where it only names another."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _row(name: str, place: str, schema: Mapping[str, Any], required: bool) -> str:
    kinds = [schema, *schema.get("anyOf", [])]
    said = " or ".join(str(one["type"]) for one in kinds if "type" in one and one["type"] != "null") or "anything"
    if schema.get("default") is not None:
        said += f", {schema['default']!r} if not given"
    said += ", needed" if required else ""
    said += f": {schema['description']}" if "description" in schema else ""
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(place)}</td><td>{escape(said)}</td></tr>"
