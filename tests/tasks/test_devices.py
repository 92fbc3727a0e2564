"""No device is hard-coded: every network's forward, loss and gradient also run on ``meta``, which has no numbers.

Tensors made on the CPU in between would be refused there as they would be on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_network import NETWORKS, drawn, make, write_files
from torch.fx.experimental import _config

from saccade.tasks.masked.task import MaskedBatch

#: Further configurations that have tensors of their own.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("translation transformer", fields)
        for fields in (
            *({"position": position} for position in ("none", "linear", "learned", "rotary", "alibi", "relative")),
            {"position_width": 4, "tied_output": False},
            {"one_hot": True, "tied_output": False, "width": 60},
            {"token_types": 2, "embedding_norm": True, "output_transform": True, "output_bias": True},
            {"weights": "sparsemax", "score": "cosine"},
            {"num_key_heads": 1, "norm": "rms", "gated": True, "dropout": 0.1, "attention_dropout": 0.1},
        )
    ),
    *(("translation recurrent", {"cell": cell}) for cell in ("rnn", "gru", "gru_torch", "mut1", "mut2", "mut3")),
    *(("translation recurrent", {"score": score}) for score in ("dot", "cosine", "bilinear", "mlp")),
    ("translation recurrent", {"weights": "hard"}),
    ("translation recurrent", {"attention": "state", "dropout": 0.1, "decoder_layers": 2}),
    ("tagging recurrent", {"spelling": "none", "word_dropout": 0.5, "dropout": 0.1}),
    ("classification window", {"one_hot": True, "embedding_width": 60, "pooling": "mean"}),
    ("language-model transformer", {"position": "alibi", "dropout": 0.1}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("networks")
    write_files(made)
    return made


@pytest.mark.parametrize(("name", "fields"), [*((name, {}) for name in NETWORKS), *VARIANTS])
def test_every_loss_runs_on_meta(folder: Path, name: str, fields: dict[str, Any]) -> None:
    case = make(folder, name, **fields)
    batch: Any = drawn(case, case.examples[:5])
    if isinstance(batch, MaskedBatch):  # and so must the targets
        batch = replace(batch, chosen=torch.ones_like(batch.chosen), truth=batch.tokens.flatten())
    model = case.model.to("meta")
    # How many positions a mask chooses is not known without numbers: torch shall take all of them.
    with _config.patch(meta_nonzero_assume_all_nonzero=True):
        loss = case.task.loss(model, batch.to("meta"))
    assert loss.total.device.type == "meta"
    assert loss.total.shape == ()
    loss.total.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None or parameter.grad.is_meta for parameter in model.parameters())


@pytest.mark.parametrize("mask", ["causal", "padding"])
def test_blocks_of_rows_run_on_meta(monkeypatch: pytest.MonkeyPatch, mask: str) -> None:
    """Long inputs are attended to in blocks, with a triangle that is made once."""
    import sys

    import saccade

    module = sys.modules["saccade.attention.attend"]
    monkeypatch.setattr(module, "LONG", 16)
    monkeypatch.setattr(module, "LONG_BLOCK", 2 * 40 * 10)
    query, key, value = torch.empty(3, 2, 1, 40, 8, device="meta").unbind(0)
    rule = saccade.causal if mask == "causal" else saccade.padding(torch.tensor([31, 40]))
    assert saccade.attend(query, key, value, mask=rule).is_meta
