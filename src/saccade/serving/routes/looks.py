"""Routes for parts of a look (the recorded attention of one answer): exact weights, pooled pictures, and downloads.

Numbers are sent as float32, little endian, row by row; ``X-Rows`` and ``X-Columns`` give their shape.
"""

from __future__ import annotations

import math
import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response
from torch import Tensor

from saccade.attention import edit
from saccade.errors import TooLargeError
from saccade.lens.habits import habits
from saccade.lens.page import Lead
from saccade.lens.view import Head, View
from saccade.serving.computation import wait_for
from saccade.serving.http.refusals import Refused
from saccade.serving.looks import Look
from saccade.serving.state import state_of

__all__ = ["router"]

router = APIRouter(prefix="/api/looks", tags=["looks"])

#: The most rows and the most columns of weights in one answer.
MOST = 1024
_MEDIA = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "npy": "application/octet-stream",
}

#: One figure at a time, because matplotlib's font cache is not thread-safe.
_figures = threading.Lock()

LayerName = Annotated[str, Query(max_length=200, description="The name of an attention layer, such as encoder.0.self.")]
HeadName = Annotated[
    str,
    Query(
        pattern=r"^(\d{1,6}|mean|max)$",
        description="The number of a head, from 0, or mean or max of all heads.",
    ),
]
PositionRange = Annotated[
    str | None,
    Query(
        pattern=r"^\d{0,9}:\d{0,9}$",
        description="A range of positions, such as 100:356, from 0; the end is not included.",
    ),
]
Cells = Annotated[int, Query(ge=1, le=MOST)]
_BINARY: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.get("/{id}/tile", responses=_BINARY, response_class=Response)
async def tile(
    request: Request,
    id: str,
    name: LayerName,
    head: HeadName = "mean",
    rows: PositionRange = None,
    columns: PositionRange = None,
) -> Any:
    """The exact weights of a part of an attention matrix, at most 1024 by 1024, or of one row of any length."""

    def draw(look: Look) -> Response:
        row_part, column_part = _parts(look.view, name, rows, columns)
        if len(row_part) > 1:
            _check_size(len(row_part), len(column_part))
        return _numbers(look.view.tile(name, _head(head), row_part, column_part))

    return await _drawn(request, id, draw)


@router.get("/{id}/matrix", responses=_BINARY, response_class=Response)
async def matrix(request: Request, id: str, name: LayerName, head: HeadName = "mean", words: bool = False) -> Any:
    """All weights of one head, or the mean or maximum of all heads, between tokens or between words."""

    def draw(look: Look) -> Response:
        _check_size(*(len(axis) for axis in look.view.axes(name)))
        return _numbers(look.view.matrix(name, _head(head), words=words))

    return await _drawn(request, id, draw)


@router.get("/{id}/rollout", responses=_BINARY, response_class=Response)
async def rollout(
    request: Request,
    id: str,
    stack: Annotated[str | None, Query(max_length=200)] = None,
    heads: Literal["mean", "max"] = "mean",
    words: bool = False,
) -> Any:
    """Attention rollout (Abnar & Zuidema 2020), an estimate of how much of each token reaches each output of a stack
    of self-attention layers."""

    def draw(look: Look) -> Response:
        names = look.view.stacks.get(stack or next(iter(look.view.stacks), ""), [])
        for name in names:
            _check_size(*(len(axis) for axis in look.view.axes(name)))
        return _numbers(look.view.rollout(stack, heads, words=words))

    return await _drawn(request, id, draw)


@router.get("/{id}/heads", responses=_BINARY, response_class=Response)
async def heads(request: Request, id: str, name: LayerName, cells: Annotated[int, Query(ge=1, le=128)] = 32) -> Any:
    """A small picture of every head of an attention layer, at most ``cells`` by ``cells``: the largest weight in each
    cell."""

    def draw(look: Look) -> Response:
        values, first = look.pyramid.heads(name, cells)
        count, height, width = values.shape
        said = {"X-Heads": str(count), "X-Pool": "max" if first.exact else "max of one query per cell"}
        said |= {"X-Cell": f"{first.cell[0]}x{first.cell[1]}"}
        return _numbers(values.reshape(count * height, width), said | {"X-Rows": str(height)})

    return await _drawn(request, id, draw)


@router.get("/{id}/overview", responses=_BINARY, response_class=Response)
async def overview(
    request: Request,
    id: str,
    name: LayerName,
    head: HeadName = "0",
    pool: Literal["max", "mean"] = "max",
    rows: PositionRange = None,
    columns: PositionRange = None,
    cells: Cells = 256,
    cell: Annotated[
        int | None,
        Query(ge=1, le=4096, description="The side of a cell, in weights; if given, cells is not used."),
    ] = None,
    preview: Annotated[
        bool, Query(description="Compute a quick preview, from only one query for each row of cells.")
    ] = False,
) -> Any:
    """A part of an attention matrix, pooled into at most ``cells`` by ``cells`` numbers, each the maximum or mean of
    the weights in its cell."""

    def draw(look: Look) -> Response:
        if preview:
            first = look.pyramid.preview(name, _head(head), cells, pool)
            said = {"X-Pool": f"{pool} of one query per cell", "X-Cell": f"{first.cell[0]}x{first.cell[1]}"}
            return _numbers(first.values, said)
        row_part, column_part = _parts(look.view, name, rows, columns)
        if rows is None and columns is None and cell is None:
            found = look.pyramid.whole(name, _head(head), cells, pool)
        else:
            side = (cell, cell) if cell else (-(-len(row_part) // cells), -(-len(column_part) // cells))
            _check_size(-(-len(row_part) // side[0]), -(-len(column_part) // side[1]))
            found = look.pyramid.picture(name, _head(head), row_part, column_part, side, pool)
        return _numbers(found.values, {"X-Pool": pool, "X-Cell": f"{found.cell[0]}x{found.cell[1]}"})

    return await _drawn(request, id, draw)


@router.get("/{id}/measures")
async def measures(request: Request, id: str) -> dict[str, list[dict[str, float | None]]]:
    """For each head of each attention layer: its entropy in bits, and for self-attention also the mean distance between
    positions and the mean weights on the previous token, on other tokens with the same text, and on the token itself.
    """

    def measure(look: Look) -> dict[str, list[dict[str, float | None]]]:
        for name in look.view.names:
            _check_size(*(len(axis) for axis in look.view.axes(name)))
        return {name: [asdict(one) for one in habits(look.view, name)] for name in look.view.names}

    return await wait_for(request, state_of(request).looks.draw(id, measure))


@router.get("/{id}/candidates")
async def candidates(request: Request, id: str, number: Annotated[int, Query(ge=1, le=20)] = 5) -> list[dict[str, Any]]:
    """The most probable tokens at each step of the answer; empty if the answer was not written token by token."""
    look = state_of(request).looks[id]
    if look.answer is None:
        raise Refused(
            400,
            "This text was only read, for a map of its attention, so there is no answer with candidates.",
        )
    answer, edits = look.answer, look.edits

    def find() -> list[dict[str, Any]]:
        predictor = look.served.predictor
        with edit(predictor.model, without_heads=edits.without_heads, without_links=edits.without_links):
            found = predictor.likeliest(look.given, answer, number)
        return [
            {
                "token": token,
                "candidates": [{"token": name, "probability": math.exp(value)} for name, value in step],
            }
            for token, step in zip(answer.scored_tokens, found, strict=bool(found))
        ]

    tokens = sum(max(map(len, axes.values())) for axes in (look.view.rows, look.view.columns))
    return await wait_for(request, look.served.batcher.run(find, tokens=tokens))


@router.get("/{id}/between")
async def between(
    request: Request,
    id: str,
    first: Annotated[int, Query(ge=1, le=10**6)],
    second: Annotated[int, Query(ge=1, le=10**6)],
) -> list[dict[str, Any]]:
    """For each head, what the model looked at to decide whether two positions of the input, such as two bases of an RNA
    sequence, are paired; positions are counted from 1."""

    def find(look: Look) -> list[dict[str, Any]]:
        if look.answer is None:
            raise Refused(400, "This text was only read, for a map of its attention; the model did not answer it.")
        return look.answer.between(first, second)

    return await wait_for(request, state_of(request).looks.draw(id, find))


@router.get("/{id}/progress")
async def progress(request: Request, id: str) -> dict[str, float]:
    """The fraction, from 0 to 1, of the picture now being computed that is done."""
    return {"progress": state_of(request).looks[id].pyramid.share}


@router.get("/{id}/export", responses={200: {"content": {media: {} for media in _MEDIA.values()}}})
async def export(
    request: Request,
    id: str,
    name: LayerName,
    format: Literal["png", "svg", "html", "npy"] = "png",
    head: HeadName = "mean",
    words: bool = True,
    theme: Literal["light", "dark"] = "light",
    row: Annotated[
        int | None, Query(ge=0, le=10**9, description="The row that the interactive page shows first.")
    ] = None,
    column: Annotated[
        int | None, Query(ge=0, le=10**9, description="The column that the interactive page shows first.")
    ] = None,
    note: Annotated[
        str | None,
        Query(
            max_length=1000,
            description="What the interactive page says below the answer; by default, how certain the answer is.",
        ),
    ] = None,
) -> Response:
    """Download an attention matrix as a picture, as an interactive page, or as numbers."""

    def draw(look: Look) -> Response:
        with _figures, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"attention.{format}"
            if format in ("npy", "html"):
                _check_size(*(len(axis) for axis in look.view.axes(name)))
            if format == "npy":
                look.view.save_numbers(path, name, _head(head))
            elif format == "html":
                title = look.given if isinstance(look.given, str) else "Attention"
                lead = None if look.answer is None else Lead(look.answer.text, note or look.answer.certainty)
                chosen: dict[str, Any] = {"names": [name], "head": _head(head), "row": row, "column": column}
                look.view.save(path, title=title, lead=lead, words=words, **chosen)
            else:
                look.view.save(path, "heatmap", name=name, head=_head(head), words=words, theme=theme)
            content = path.read_bytes()
        stem = re.sub(r"[^\w.-]", "-", f"{name}-{head}")
        headers = {"Content-Disposition": f'attachment; filename="{stem}.{format}"'}
        return Response(content, media_type=_MEDIA[format], headers=headers)

    return await _drawn(request, id, draw)


async def _drawn(request: Request, id: str, draw: Callable[[Look], Response]) -> Response:
    return await wait_for(request, state_of(request).looks.draw(id, draw))


def _head(given: str) -> Head:
    return int(given) if given.isdecimal() else given  # type: ignore[return-value]


def _parts(view: View, name: str, rows: str | None, columns: str | None) -> tuple[range, range]:
    row_axis, column_axis = view.axes(name)
    return _part("rows", rows, len(row_axis)), _part("columns", columns, len(column_axis))


def _part(what: str, given: str | None, count: int) -> range:
    """Parse a range of positions such as ``100:356``; either end may be left out."""
    first, _, last = (given or ":").partition(":")
    start, stop = int(first or 0), min(int(last), count) if last else count
    if not 0 <= start < stop:
        raise Refused(400, f"{what} = {given} is not a valid range of the {count} {what}; try 0:{count}.")
    return range(start, stop)


def _check_size(rows: int, columns: int) -> None:
    if max(rows, columns) > MOST:
        raise TooLargeError(f"The request is for {rows:,} by {columns:,} weights; the limit is {MOST} by {MOST}.")


def _numbers(values: Tensor, headers: dict[str, str] | None = None) -> Response:
    content = np.ascontiguousarray(values.float().cpu().numpy(), dtype="<f4")
    said = {"X-Rows": str(values.shape[0]), "X-Columns": str(values.shape[1]), "Cache-Control": "private, max-age=3600"}
    return Response(content.tobytes(), media_type="application/octet-stream", headers=said | (headers or {}))
