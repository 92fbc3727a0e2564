"""Requests made up from the OpenAPI document, right and wrong ones: none of them may be a fault of the server."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from servers import Running, post

from saccade.serving import Models
from saccade.serving.http.app import inner_app
from saccade.serving.state import ServerState

#: Cases of each address in `make test`, and in `make test-slow`: there, more than 2,000 in all.
FEW, MANY = 10, 100
TEXT = "the black cat sees the dog."
_known: dict[str, str] = {}


SCHEMA = schemathesis.openapi.from_dict(inner_app(ServerState(Models())).openapi())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations()}


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any]) -> dict[str, Any]:
    """Names that are there, as often as not: else every request would end at its name."""
    found = dict(path_parameters or {})
    if "name" in found and len(str(found["name"])) % 2:
        found["name"] = ("tiny", "writer", "shapes", "filler")[len(str(found["name"])) // 2 % 4]
    if "id" in found and len(str(found["id"])) % 3:
        found["id"] = _known["look"]
    return found


@schemathesis.hook
def map_query(context: Any, query: dict[str, Any]) -> dict[str, Any]:
    found = dict(query or {})
    if "name" in found and len(str(found["name"])) % 2:
        found["name"] = ("encoder.0.self", "decoder.0.cross")[len(str(found["name"])) // 2 % 2]
    return found


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    if isinstance(body, dict):
        body = dict(body)
        if isinstance(body.get("model"), str):
            body["model"] = "writer"
        if isinstance(body.get("inputs"), list) and len(body["inputs"]) % 2:
            body["inputs"] = [TEXT]
        if "input" in body and body.get("which") in (0, None):
            body["input"] = TEXT
        if body.get("source") and body.get("target"):
            body |= {"source": "auto" if len(str(body["source"])) % 2 else "en", "target": "fr"}
        if isinstance(body.get("max_tokens"), int):
            body["max_tokens"] = body["max_tokens"] % 50
    return body


def ask(operation: Any, running: Running, count: int) -> None:
    """As many requests to one address, as its description has them and as it does not."""
    _known["look"] = post(running.client, "/api/models/tiny/looks", input=TEXT)["id"]
    strategies = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]

    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        derandomize=True,
        database=None,
    )
    @given(case=st.one_of(strategies))
    def try_one(case: Any) -> None:
        response = case.call(base_url=running.url, timeout=60)
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            assert response.json()["error"]

    try_one()


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_is_a_fault_of_the_server(name: str, running: Running) -> None:
    ask(OPERATIONS[name], running, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_no_request_of_thousands_is_a_fault_of_the_server(name: str, running: Running) -> None:
    ask(OPERATIONS[name], running, MANY)
