"""LSTM variants and RWKV through the whole of a language model: a recipe's table, training, a folder, an answer."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import saccade
from saccade.data.documents import Document
from saccade.recurrent import CELLS
from saccade.tasks.base.model_folder import write_bundle
from saccade.tasks.base.networks import read_network
from saccade.tasks.base.task import Bundle
from saccade.tasks.language_model.data import TextData
from saccade.tasks.language_model.generation import GenerationOptions
from saccade.tasks.language_model.task import (
    LanguageModel,
    LanguageModelState,
    LanguageModelText,
    LanguageModelTraining,
)
from saccade.training.trainer import Trainer

TABLES: list[dict[str, Any]] = [
    {"kind": "convolutional", "width": 16, "decoder_layers": 3, "kernel": 3},
    {"kind": "rwkv", "width": 16, "feedforward_width": 24, "decoder_layers": 2},
    *(
        {"kind": "recurrent", "cell": cell, "width": 16, "embedding_width": 8}
        for cell in CELLS
        if cell.startswith("lstm_")
    ),
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.get("cell", table["kind"])))
def test_it_learns_a_text_and_goes_on_with_it(table: dict[str, Any], tmp_path: Path) -> None:
    settings = {
        "text": LanguageModelText(context=12),
        "data": TextData(text="text.txt"),
        "training": LanguageModelTraining(warmup=1, batch_tokens=96, lr=2e-2, steps=120, weight_decay=0.0),
    }
    documents = [Document("aabbccd" * 40, 1)]
    torch.manual_seed(2)
    task = LanguageModel(LanguageModelState.prepare(settings, documents), settings)
    kind, config = read_network(table, LanguageModel, "the model")
    trainer = Trainer(task, task.build(kind, config), task.encode(documents), task.encode(documents))
    for group in islice(trainer.groups(), 120):
        trainer.update(group)
    bundle = Bundle(task, kind, config, trainer.model.eval(), GenerationOptions(max_tokens=14, temperature=0))
    write_bundle(tmp_path / "model", bundle, recipe='task = "language-model"\n', readme="")
    (answer,) = saccade.open(tmp_path / "model").predict(["aabbccdaab"])
    assert answer.text.startswith("bccdaabbccdaab"), answer.text
