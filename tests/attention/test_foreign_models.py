"""Hugging Face models, watched while torch's fused attention runs: their own eager weights, and nothing changed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from foreign_models import NAMES, both, padded
from torch import Tensor

import saccade
from saccade.attention import Watch

INPUTS: dict[str, dict[str, Tensor]] = {
    "bert": padded([7], left=False),
    "bert padded": padded([7, 4, 5], left=False),
    "gpt2": padded([7], left=True),
    "gpt2 padded": padded([7, 4, 5], left=True),
    "llama": padded([7], left=True),
    "llama padded": padded([7, 4, 5], left=True),
    "marian": {**padded([7], left=False), "decoder_input_ids": torch.tensor([[0, 5, 9, 4, 8]])},
    "marian padded": {
        **padded([7, 4, 5], left=False),
        "decoder_input_ids": torch.arange(15).view(3, 5),
        "decoder_attention_mask": (torch.arange(5) < torch.tensor([[5], [3], [4]])).long(),
    },
    "t5 padded": {**padded([7, 4, 5], left=False), "decoder_input_ids": torch.arange(15).view(3, 5)},
    "vit": {"pixel_values": torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1))},
}


def assert_equal_outputs(unwatched: Any, watched: Any) -> None:
    assert list(unwatched) == list(watched)
    for name in unwatched:
        if isinstance(unwatched[name], Tensor):
            assert torch.equal(unwatched[name], watched[name]), name


def compare(name: str, seen: Watch, eager: Any, real_rows: dict[str, Tensor]) -> int:
    """Compare all weights of real queries; the number of traces. A row of padding has no weights to compare."""
    compared = 0
    for kind, pattern in NAMES[name].items():
        for layer, expected in enumerate(eager[kind]):
            found = seen[pattern.format(layer)].weights()
            assert found.shape == expected.shape
            rows = real_rows[kind][:, None, :, None]
            torch.testing.assert_close(found * rows, expected * rows, atol=1e-5, rtol=0)
            assert (found * rows).std() > 0.05  # no uniform weights, which would be right by chance
            compared += 1
    return compared


@pytest.mark.parametrize("case", INPUTS)
@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_traces_are_the_eager_weights(case: str, context: Any) -> None:
    name = case.split()[0]
    model, eager = both(name)
    with context():
        unwatched = model(**INPUTS[case])
        with saccade.watch(model) as seen:
            watched = model(**INPUTS[case])
    assert_equal_outputs(unwatched, watched)
    expected = eager(**INPUTS[case], output_attentions=True)
    source = INPUTS[case].get("attention_mask", torch.ones(2, 10))
    target = INPUTS[case].get("decoder_attention_mask", torch.ones(1, 5))
    rows = {kind: target if kind[:2] in ("de", "cr") else source for kind in NAMES[name]}
    assert compare(name, seen, expected, rows) == len(seen)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_training_is_unchanged(name: str) -> None:
    """Outputs and gradients, with dropout; the weights are those before it."""
    model, _ = both(name)
    model.train()
    inputs = padded([7, 4, 5], left=True)
    results = []
    with saccade.watch(model) as seen:
        pass
    for watcher in (nullcontext(), seen):
        torch.manual_seed(5)
        with watcher:
            output = model(**inputs)[0]
            results.append(
                [output, *torch.autograd.grad(output.square().sum(), list(model.parameters()), allow_unused=True)]
            )
    for unwatched, watched in zip(*results, strict=True):
        assert (unwatched is None and watched is None) or torch.equal(unwatched, watched)
    rows = seen[NAMES[name]["attentions"].format(1)].row(6).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))
