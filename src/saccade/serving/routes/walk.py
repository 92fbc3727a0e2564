"""Attention number by number, with the same code as ``saccade explain``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.responses import Response

from saccade.lens import EXAMPLES, WalkDocument
from saccade.serving.computation import Computation, wait_for
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import StrictRoute
from saccade.serving.state import state_of
from saccade.serving.walks import head_document

__all__ = ["router"]

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["walkthrough"])


Position = Annotated[StrictInt, Field(ge=0, le=10**9)]


class HeadBody(BaseModel):
    """A head of a look (the recorded attention of one answer), and optionally a range of its rows."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr
    head: Position
    rows: tuple[Position, Position] | None = None


@router.get("/walkthroughs")
def presets() -> dict[str, Any]:
    """The lectures' worked examples, as input for /api/walkthrough."""
    return {name: document.model_dump(mode="json", exclude_none=True) for name, document in EXAMPLES.items()}


@router.post("/walkthrough")
async def walk(request: Request, document: WalkDocument) -> Response:
    """Every step of attention for these numbers, as printed by ``saccade explain --json``."""

    def compute(_: Computation[bytes]) -> bytes:
        return written(document.walkthrough().to_dict()).encode()

    return Response(await wait_for(request, state_of(request).pool.run(compute)), media_type="application/json")


def written(value: Any) -> str:
    """Write a value as JSON, one row of numbers after another.

    No other thread runs while ``json.dumps`` does, which takes a third of a second for the largest walkthrough.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple) and any(isinstance(one, list | tuple | dict) for one in value):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


@router.post("/looks/{id}/walk")
async def take_head(request: Request, id: str, body: HeadBody) -> dict[str, Any]:
    """The numbers of one head, as input for /api/walkthrough."""
    look = state_of(request).looks[id]
    heads, count = look.view.heads(body.name), len(look.view.rows[body.name])
    if body.head >= heads:
        raise Refused(400, f"{body.name} has no head {body.head}; its heads are 0 to {heads - 1}.")
    rows = None if body.rows is None else range(body.rows[0], min(body.rows[1], count))
    if rows is not None and not rows:
        raise Refused(
            400, f"rows = {list(body.rows or ())} is not a valid range; give a start and an end between 0 and {count}."
        )
    found = look.served.batcher.run(lambda: head_document(look, body.name, body.head, rows))
    return (await wait_for(request, found)).model_dump(mode="json", exclude_none=True)
