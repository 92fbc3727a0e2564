"""The words that a model has learned vectors for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from saccade.serving.http.refusals import Refused
from saccade.serving.models import Served
from saccade.serving.state import state_of
from saccade.tasks.base.word_vectors import WordVectors

__all__ = ["router"]

router = APIRouter(prefix="/api/models/{name}/words", tags=["words"])

Word = Annotated[str, Query(min_length=1, max_length=200)]
Side = Annotated[str | None, Query(max_length=20, description="Of a translation: source or target.")]
#: Words of one map that may be named, and of others on it.
MOST = 100


@router.get("")
def related(
    request: Request,
    name: str,
    word: Word,
    other: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    neighbours: Annotated[int, Query(ge=1, le=100)] = 10,
    side: Side = None,
) -> dict[str, Any]:
    """The words that are most like a word, and how it is related to another, as ``saccade words`` tells it."""
    served = state_of(request).models[name]
    vectors = _vectors(served, side)
    found: dict[str, Any] = {"word": word, "pieces": len(vectors.ids(word)), "sides": list(served.vectors)}
    found["neighbours"] = [one._asdict() for one in vectors.neighbours(word, neighbours)]
    if other is not None:
        related = {"cosine": vectors.cosine(word, other), "correlation": vectors.correlation(word, other)}
        found["other"] = {"word": other} | related
    return found


@router.get("/map")
def word_map(
    request: Request,
    name: str,
    words: Annotated[str, Query(max_length=5000)] = "",
    others: Annotated[int, Query(ge=0, le=MOST)] = 0,
    side: Side = None,
) -> dict[str, Any]:
    """Words, separated by commas, with their neighbours and so many of the most frequent, as points of a plane."""
    vectors = _vectors(state_of(request).models[name], side)
    chosen = list(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if len(chosen) > MOST:
        raise Refused(413, f"There are {len(chosen)} words; a map takes at most {MOST}.")
    placed = vectors.map(chosen, others)
    points = zip(placed.words, placed.points.tolist(), strict=True)
    return {"words": [{"word": word, "x": x, "y": y} for word, (x, y) in points], "share": placed.share}


def _vectors(served: Served, side: str | None) -> WordVectors:
    if not served.vectors:
        raise Refused(400, f"The model {served.name} has no vectors for words.")
    chosen = side or next(iter(served.vectors))
    if chosen not in served.vectors:
        raise Refused(400, f"The model {served.name} has words of: {', '.join(served.vectors)}; not {chosen!r}.")
    return served.vectors[chosen]
