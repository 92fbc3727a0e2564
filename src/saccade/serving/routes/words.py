"""Routes for a model's word vectors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from saccade.serving.computation import Computation, wait_for
from saccade.serving.http.refusals import Refused
from saccade.serving.models import Served
from saccade.serving.state import state_of
from saccade.tasks.base.word_vectors import WordVectors

__all__ = ["router"]

router = APIRouter(prefix="/api/models/{name}/words", tags=["words"])

WordQuery = Annotated[str, Query(min_length=1, max_length=200)]
VectorSet = Annotated[
    str | None, Query(max_length=20, description="Which set of word vectors, such as source or target.")
]
#: The most words that can be chosen for a map, and the most other words on it.
MOST = 100


@router.get("")
async def related(
    request: Request,
    name: str,
    word: WordQuery,
    other: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    neighbours: Annotated[int, Query(ge=1, le=100)] = 10,
    side: VectorSet = None,
) -> dict[str, Any]:
    """The nearest neighbours of a word, and its similarity to another word, as printed by ``saccade words``."""
    state = state_of(request)
    served = state.models[name]

    def find(_: Computation[Any]) -> dict[str, Any]:
        vectors = _vectors(served, side)
        found: dict[str, Any] = {"word": word, "pieces": len(vectors.ids(word)), "sides": list(served.vectors)}
        found["neighbours"] = [one._asdict() for one in vectors.neighbours(word, neighbours)]
        if other is not None:
            related = {"cosine": vectors.cosine(word, other), "correlation": vectors.correlation(word, other)}
            found["other"] = {"word": other} | related
        return found

    return await wait_for(request, state.pool.run(find))


@router.get("/map")
async def word_map(
    request: Request,
    name: str,
    words: Annotated[str, Query(max_length=5000)] = "",
    others: Annotated[int, Query(ge=0, le=MOST)] = 0,
    fixed: Annotated[
        bool,
        Query(description="Whether frequent words stay at the same points of the plane when other words are chosen."),
    ] = False,
    side: VectorSet = None,
) -> dict[str, Any]:
    """Words (separated by commas), their neighbours and some of the most frequent words as points in a plane."""
    state = state_of(request)
    served = state.models[name]
    chosen = list(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if len(chosen) > MOST:
        raise Refused(413, f"The request has {len(chosen)} words; the limit for a map is {MOST}.")

    def draw(_: Computation[Any]) -> dict[str, Any]:
        vectors = _vectors(served, side)
        placed = vectors.map(chosen, others, fixed=fixed)
        points = zip(placed.words, placed.points.tolist(), strict=True)
        every = [{"word": word, "x": x, "y": y} for word, (x, y) in points]
        return {"words": every, "share": placed.share, "telling": vectors.with_near_neighbours() or placed.words[0]}

    return await wait_for(request, state.pool.run(draw))


def _vectors(served: Served, side: str | None) -> WordVectors:
    if not served.vectors:
        raise Refused(400, f"The model {served.name} has no word vectors.")
    chosen = side or next(iter(served.vectors))
    if chosen not in served.vectors:
        raise Refused(400, f"{served.name} has no word vectors named {chosen!r}, only: {', '.join(served.vectors)}.")
    return served.vectors[chosen]
