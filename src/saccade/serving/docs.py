"""The OpenAPI document as a plain page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

__all__ = ["docs_page"]


def docs_page(document: Mapping[str, Any]) -> str:
    """Every address with what it takes and gives."""
    title = escape(str(document["info"]["title"]))
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: the interface</title>',
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/static/style.css"></head>',
        f"<body><main><h1>{title}: the interface</h1>",
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
    said = " or ".join(str(one["type"]) for one in kinds if "type" in one) or "anything"
    if "default" in schema:
        said += f", {schema['default']!r} if not given"
    said += ", needed" if required else ""
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(place)}</td><td>{escape(said)}</td></tr>"
