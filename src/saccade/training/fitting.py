"""A recipe that suits the user's data, and how long training will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saccade.tasks.registry import task_named
from saccade.training.recipe import Recipe
from saccade.training.trainer import Trainer

__all__ = ["estimated_duration", "recommended_tables"]


def recommended_tables(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """The tables of a recipe for this data: sizes that usually work for examples of this number and length."""
    reader = task_named(name).data
    splits = reader.read(reader.settings.read(data, "the data"), seed=1).require_some()
    return {"task": name, "data": data, **reader.recommend(splits)}


def estimated_duration(recipe: Recipe, say: Callable[[str], None], device: str) -> str:
    """How long the training will take on this machine, measured on a few updates."""
    say("Timing a few updates on this machine ...")
    splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed)
    task = recipe.objective(recipe.task.prepare(recipe.settings, splits.train))
    examples = task.encode(splits.train)
    trainer = Trainer(task, task.build(recipe.kind, recipe.model), examples, examples[:1], device)
    groups = trainer.groups()
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        trainer.update(next(groups))
        seconds.append(time.perf_counter() - began)
    total = float(np.median(seconds[1:])) * recipe.training.steps * 1.1  # a tenth for validations
    return f"{total / 60:.0f} minutes" if total < 5400 else f"{total / 3600:.1f} hours"
