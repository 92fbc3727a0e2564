"""Routes for the scenes of the Learn page: numbers that need no trained model, and small models to train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from saccade.attention import Sinusoidal
from saccade.recurrent import gradient_flow
from saccade.serving.computation import wait_for
from saccade.serving.http.events import EVENTS, event_stream
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import StrictRoute
from saccade.serving.lessons import describe_lessons, train_lesson
from saccade.serving.looks import finite
from saccade.serving.state import state_of
from saccade.tasks.base.length_scores import by_length, can_be_measured

__all__ = ["router"]

router = APIRouter(prefix="/api/learn", route_class=StrictRoute, tags=["learn"])

#: The most steps of a recurrent network that are shown, and its largest width.
MOST_STEPS, MOST_WIDTH = 100, 64


@router.get("/recurrent")
async def recurrent(
    request: Request,
    cell: Literal["rnn", "lstm", "gru", "mut1", "mut2", "mut3"] = "rnn",
    steps: Annotated[int, Query(ge=1, le=MOST_STEPS)] = 24,
    width: Annotated[int, Query(ge=1, le=MOST_WIDTH)] = 12,
    spectral_radius: Annotated[float, Query(ge=0, le=4)] = 1.0,
    seed: Annotated[int, Query(ge=0, lt=2**32)] = 0,
) -> dict[str, Any]:
    """Run a random recurrent network on random inputs; return the state h after each step, and the norm of the gradient
    of the last state with respect to the state at each step."""
    work = state_of(request).pool.run(
        lambda _: gradient_flow(cell, steps, spectral_radius=spectral_radius, width=width, input_scale=1.0, seed=seed)
    )
    flow = await wait_for(request, work)
    found: dict[str, Any] = {"cell": flow.cell, "outputs": flow.outputs.tolist(), "gradient": flow.state.tolist()}
    found["cell_path"] = None if flow.cell_path is None else flow.cell_path.tolist()
    plain: dict[str, Any] = finite(found)
    return plain


@router.get("/positions", response_class=Response)
def positions(
    first: Annotated[int, Query(ge=0, le=10**6)] = 0,
    count: Annotated[int, Query(ge=1, le=1024)] = 48,
    width: Annotated[int, Query(ge=2, le=512, multiple_of=2)] = 64,
) -> Response:
    """The sinusoidal vectors of ``count`` positions from ``first``, as float32, little endian, row by row."""
    values = np.ascontiguousarray(Sinusoidal(width).table(first, count).float().numpy(), dtype="<f4")
    headers = {"X-Rows": str(count), "X-Columns": str(width)}
    return Response(values.tobytes(), media_type="application/octet-stream", headers=headers)


@router.get("/lessons")
def lessons(request: Request) -> dict[str, Any]:
    """The small models that scenes of the Learn page need, and how many minutes each takes to train."""
    return describe_lessons(state_of(request).models)


@router.post("/lessons/{name}", status_code=202)
def train(request: Request, name: str) -> dict[str, str]:
    """Train one of the small models in the background; /api/models shows its progress and, at the end, the model."""
    state = state_of(request)
    train_lesson(state.models, name, state.runs, alone=state.neighbours is None)
    return {"name": name}


@router.post("/lengths/{name}", response_class=StreamingResponse, responses=EVENTS)
async def lengths(request: Request, name: str) -> StreamingResponse:
    """How well a model translates held-out sentences of the built-in corpus: BLEU for each range of lengths, and how
    many sentences are exactly right."""
    served = state_of(request).models[name]
    if not can_be_measured(served.predictor):
        raise Refused(
            400,
            f"The model {name} was not trained on the built-in corpus, so its quality by sentence "
            f"length cannot be measured.",
        )

    def measure(send: Any) -> Iterator[None]:
        for record in by_length(served.predictor):
            send(finite(record))
            yield

    return event_stream(served.batcher, measure)
