"""The description of the API, as an OpenAPI document and as a plain HTML page without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

__all__ = ["docs_page", "openapi_document"]

#: The statuses that any request may be refused with.
_REFUSALS = {
    "400": "The request is not valid.",
    "401": "The API key is missing.",
    "403": "The API key is wrong, or the request comes from a web page of another site.",
    "404": "There is no model, run or other resource with this name.",
    "413": "The request exceeds a limit.",
    "429": "Too many requests; Retry-After says when to try again.",
    "503": "The model took too long to answer, or is not available yet.",
}
_SENTENCE = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_OPENAI = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "properties": {"message": {"type": "string"}}}},
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return FastAPI's OpenAPI document, with the error responses that this server sends in place of FastAPI's."""
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
    """Return an HTML page that lists every path of the API and its parameters."""
    title = escape(str(document["info"]["title"]))
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: API</title>',
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/style.css">',
        '<link rel="stylesheet" href="/static/docs.css"><link rel="icon" href="/static/icon.svg"></head>',
        f"<body><main class=docs><h1>{title}: API</h1>",
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. The studio: <a href="/">/</a>.</p>',
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
        name = body.get("$ref", "").rpartition("/")[2]
        schema = document["components"]["schemas"][name] if name else body
        required = schema.get("required", [])
        rows += [_row(key, "body", one, key in required) for key, one in schema.get("properties", {}).items()]
    if rows:
        parts.append("<table><thead><tr><th>name</th><th>in</th><th>value</th></tr></thead><tbody>")
        parts += [*rows, "</tbody></table>"]
    return parts


def _row(name: str, place: str, schema: Mapping[str, Any], required: bool) -> str:
    kinds = [schema, *schema.get("anyOf", [])]
    said = " or ".join(str(one["type"]) for one in kinds if "type" in one and one["type"] != "null") or "anything"
    if schema.get("default") is not None:
        said += f", default {schema['default']!r}"
    said += ", required" if required else ""
    said += f": {schema['description']}" if "description" in schema else ""
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(place)}</td><td>{escape(said)}</td></tr>"
