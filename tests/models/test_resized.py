"""The translator with an output of fixed length: its sum by hand, what it cannot see, and a training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import saccade
from saccade.attention.heads import Resize
from saccade.errors import ShapeError
from saccade.models.resized import ResizedConfig, ResizedSeq2Seq

CONFIG = ResizedConfig(width=12, num_heads=3, encoder_layers=1, feedforward_width=10, source_length=7, max_length=5)


def network() -> ResizedSeq2Seq:
    torch.manual_seed(0)
    return ResizedSeq2Seq(CONFIG, 11, 13).double().eval()


def test_a_row_is_the_sum_over_all_inputs() -> None:
    """Two inputs of width 1, three rows, W[n', n] = n' + n: rows 0·1 + 1·2, 1·1 + 2·2, 2·1 + 3·2."""
    layer = Resize(2, 3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]])[:, :, None, None])
    assert layer(torch.tensor([[[1.0], [2.0]]])).flatten().tolist() == [2.0, 5.0, 8.0]


def test_what_the_target_says_changes_nothing() -> None:
    source, lengths = torch.randint(5, 11, (2, 6)), torch.tensor([6, 4])
    one, other = torch.randint(5, 13, (2, 4)), torch.randint(5, 13, (2, 4))
    torch.testing.assert_close(network()(source, lengths, one), network()(source, lengths, other), rtol=0, atol=0)


def test_padding_changes_nothing() -> None:
    source = torch.randint(5, 11, (1, 4))
    padded = torch.cat([source, torch.zeros(1, 2, dtype=torch.long)], dim=1)
    target = torch.randint(5, 13, (1, 3))
    alone = network()(source, torch.tensor([4]), target)
    torch.testing.assert_close(network()(padded, torch.tensor([4]), target), alone)


def test_steps_give_the_rows_of_the_whole() -> None:
    model, source = network(), torch.randint(5, 11, (2, 6))
    target = torch.randint(5, 13, (2, 5))
    whole = model(source, None, target)
    state = model.start(source)
    for number in range(5):
        logits, state = model.step(target[:, number], state)
        torch.testing.assert_close(logits, whole[:, number])
    swapped = model.reorder(model.start(source), torch.tensor([1, 0]))
    torch.testing.assert_close(model.step(target[:, 0], swapped)[0], whole[[1, 0], 0])


def test_what_is_too_long_is_one_sentence() -> None:
    with pytest.raises(ShapeError, match="reads at most 7 tokens; got 8"):
        network()(torch.zeros(1, 8, dtype=torch.long), None, torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(ShapeError, match="writes at most 5 tokens; the target has 6"):
        network()(torch.zeros(1, 3, dtype=torch.long), None, torch.zeros(1, 6, dtype=torch.long))


def test_it_learns_to_reverse(tmp_path: Path, one_thread: None) -> None:
    """Each letter of a reversed text depends on one input alone, which is what this network can do."""
    tables = {
        "task": "translation",
        "metric": "exact",
        "data": {"builtin": "reverse", "sentences": 2000},
        "text": {"kind": "character", "vocabulary": 50, "shared": False},
        "model": {"kind": "resized", "width": 24, "encoder_layers": 1, "source_length": 8, "max_length": 8},
        "training": {
            "steps": 200,
            "warmup": 20,
            "lr": 5e-3,
            "batch_tokens": 512,
            "validate_every": 200,
            "validation_sample": 100,
        },
        "decoding": {"beam": 1},
    }
    run = saccade.train(tables, output=tmp_path / "run", quiet=True)
    assert run.scores["exact"] >= 95
    assert run.open().predict(["abcde"])[0].text == "edcba"
