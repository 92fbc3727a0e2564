"""Routes that show how attention is computed, number by number, with the same code as ``saccade explain``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.responses import Response

from saccade.lens import EXAMPLES, WalkDocument
from saccade.serving.computation import wait_for
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import StrictRoute
from saccade.serving.state import state_of
from saccade.serving.walks import head_document, numbers_of, written

__all__ = ["router"]

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["walkthrough"])


#: Walkthroughs whose request has more bytes than this, or that show more numbers than this, are computed in another
#: process. Smaller ones take less than a tenth of a second.
LARGE_BYTES, LARGE_NUMBERS = 1 << 16, 20_000
Position = Annotated[StrictInt, Field(ge=0, le=10**9)]


class HeadBody(BaseModel):
    """A head of a look (the recorded attention of one answer), and optionally a range of its rows."""

    model_config = ConfigDict(extra="forbid")

    name: StrictStr
    head: Position
    rows: tuple[Position, Position] | None = None


@router.get("/walkthroughs")
def presets() -> dict[str, Any]:
    """The built-in examples of attention with small numbers, from lectures, as input for /api/walkthrough."""
    return {name: document.model_dump(mode="json", exclude_none=True) for name, document in EXAMPLES.items()}


class _WalkRoute(StrictRoute):
    """A walkthrough of many numbers is computed in another process: reading and writing them takes up to a second."""

    async def answer_apart(self, request: Request) -> Response | None:
        return await _computed_apart(request) if len(await request.body()) > LARGE_BYTES else None


async def _computed_apart(request: Request) -> Response:
    body, state = await request.body(), state_of(request)
    found = state.apart.run(lambda _: state.walks.run(body))
    return Response(await wait_for(request, found), media_type="application/json")


async def walk(request: Request, document: WalkDocument) -> Response:
    """Every step of attention for these numbers, as printed by ``saccade explain --json``."""
    if numbers_of(document) > LARGE_NUMBERS:
        return await _computed_apart(request)
    found = state_of(request).pool.run(lambda _: written(document))
    return Response(await wait_for(request, found), media_type="application/json")


router.add_api_route("/walkthrough", walk, methods=["POST"], route_class_override=_WalkRoute)


@router.post("/looks/{id}/walk")
async def take_head(request: Request, id: str, body: HeadBody) -> dict[str, Any]:
    """The numbers of one head of a look (the recorded attention of one answer), as input for /api/walkthrough."""
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
