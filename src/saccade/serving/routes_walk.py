"""Attention number by number: the same walk as ``saccade explain``, computed by the same code."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from saccade.lens import EXAMPLES, Document
from saccade.serving.state import state_of
from saccade.serving.strict import StrictRoute

__all__ = ["router"]

router = APIRouter(prefix="/api", route_class=StrictRoute, tags=["walkthrough"])


@router.get("/walkthroughs")
def presets() -> dict[str, Any]:
    """The lectures' worked examples, each as /api/walkthrough takes it."""
    return {name: document.model_dump(mode="json", exclude_none=True) for name, document in EXAMPLES.items()}


@router.post("/walkthrough")
def walk(request: Request, document: Document) -> dict[str, Any]:
    """Every step of attention with these numbers: the form of ``saccade explain --json``."""
    state_of(request)
    return document.walkthrough().to_dict()
