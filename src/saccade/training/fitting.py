"""A recipe fitted to a person's data: sizes that usually work for so many pairs of such lengths."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saccade.errors import UnknownNameError
from saccade.tasks.networks import build_seq2seq
from saccade.tasks.translation import Translation
from saccade.tasks.translation_data import TranslationData, read_splits
from saccade.training.recipe import Recipe
from saccade.training.trainer import Trainer

__all__ = ["fitted_tables", "measured_minutes"]

#: (at most so many pairs, vocabulary, width, layers, dropout, updates): more data carries a larger model.
SIZES = (
    (5_000, 2_000, 128, 2, 0.3, 2_000),
    (50_000, 8_000, 256, 3, 0.3, 8_000),
    (500_000, 16_000, 256, 4, 0.1, 40_000),
    (None, 32_000, 512, 6, 0.1, 100_000),
)


def fitted_tables(task: str, data: dict[str, Any]) -> dict[str, Any]:
    """The tables of a recipe for this data."""
    if task != Translation.name:
        raise UnknownNameError("task", task, (Translation.name,))
    splits = read_splits(TranslationData.read(data, "the data"), seed=1)
    pairs = len(splits.train)
    limit, vocabulary, width, layers, dropout, steps = next(
        size for size in SIZES if size[0] is None or pairs <= size[0]
    )
    text = {"vocabulary": max(300, min(vocabulary, pairs * 2))}
    return {
        "task": task,
        "data": data,
        "text": text,
        "model": {
            "kind": "transformer",
            "width": width,
            "num_heads": width // 64 if width >= 256 else 4,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "feedforward_width": 2 * width,
            "dropout": dropout,
            "scaled_embedding": True,
            "tied_embeddings": True,
        },
        "training": {
            "steps": steps,
            "warmup": steps // 10,
            "batch_tokens": 2048 if limit is not None and limit <= 5_000 else 4096,
            "lr": 1e-3 if width <= 256 else 5e-4,
            "validate_every": max(100, steps // 20),
        },
    }


def measured_minutes(recipe: Recipe, say: Callable[[str], None], device: str) -> str:
    """How long the training will take on this machine, from a few updates made on the spot."""
    say("Measuring a few updates on this machine ...")
    splits = read_splits(recipe.data, recipe.training.seed)
    task = Translation.prepare(recipe.text, splits.train, recipe.metric)
    pairs = task.encode(splits.train)
    model = build_seq2seq(recipe.kind, recipe.model, task.source.vocabulary_size, task.target.vocabulary_size)
    trainer = Trainer(task, model, pairs, pairs[:1], recipe.training, device)
    groups = trainer.groups()
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        trainer.update(next(groups))
        seconds.append(time.perf_counter() - began)
    total = float(np.median(seconds[1:])) * recipe.training.steps * 1.1  # a tenth for validations
    return f"{total / 60:.0f} minutes" if total < 5400 else f"{total / 3600:.1f} hours"
