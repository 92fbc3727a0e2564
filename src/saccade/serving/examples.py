"""A few inputs that a person can ask a model at once: the page is never empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.data.grammar import showcase
from saccade.data.images import Pixels
from saccade.errors import SaccadeError
from saccade.tasks.base.image_input import ImageInputPredictor
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.masked.predictor import HOLE, MaskedLanguageModelPredictor
from saccade.tasks.registry import task_named

__all__ = ["examples_of", "samples_of"]

_REVIEWS = ("The story was sad, but the film was excellent.", "The film was not good.")
#: Images of the model's own data that are offered.
SAMPLES = 24


def examples_of(predictor: Predictor, folder: Path, recipe: Mapping[str, Any]) -> list[Any]:
    """Sentences of the built-in corpus, or the one that the run was watched with."""
    if recipe.get("data", {}).get("builtin") == "grammar":
        shown = [sentence.source_text for sentence in showcase()]
        if isinstance(predictor, MaskedLanguageModelPredictor):
            return [sentence.replace("cat", HOLE, 1) for sentence in shown]
        return [*_REVIEWS, *shown] if predictor.task.name == "classification" else shown
    text = _probe_text(folder)
    return [] if text is None else [text]


def samples_of(predictor: ImageInputPredictor, recipe: Mapping[str, Any]) -> list[Pixels]:
    """The first images that the model was not trained on, if its data is here."""
    reader = task_named(predictor.task.name).data
    try:
        splits = reader.read(reader.settings.read(dict(recipe["data"]), "the recipe"), seed=1)
    except (SaccadeError, KeyError, OSError):
        return []
    images = (splits.test or splits.validation)[:SAMPLES]
    return [one.pixels for one in images if one.pixels.shape == predictor.shape]


def _probe_text(folder: Path) -> str | None:
    """The input of the last probe of a run, as a text again."""
    probes = sorted((folder / "probes").glob("step-*.json"))
    if not probes:
        return None
    try:
        tokens = json.loads(probes[-1].read_text(encoding="utf-8"))["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    kept = [str(token) for token in tokens if token not in ("</s>", "<s>")]
    joined = "".join(kept) if any("▁" in token for token in kept) else " ".join(kept)
    return joined.replace("▁", " ").replace("<mask>", f" {HOLE}").replace("  ", " ").strip() or None
