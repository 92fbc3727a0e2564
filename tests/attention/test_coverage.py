"""What a watcher says that it saw, refused and did not see."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_models import both, padded
from timm_models import without_torchvision
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

INPUTS: dict[str, dict[str, Tensor]] = {
    "bert": padded([7, 4], left=False),
    "gpt2": padded([7], left=True),
    "marian": {**padded([7], left=False), "decoder_input_ids": torch.tensor([[0, 5, 9]])},
    "t5": {**padded([7], left=False), "decoder_input_ids": torch.tensor([[0, 5, 9]])},
    "vit": {"pixel_values": torch.randn(2, 3, 6, 6)},
}


@pytest.mark.parametrize("name", INPUTS)
def test_all_is_seen_with_sdpa_and_nothing_without(name: str) -> None:
    model, eager = both(name)
    with saccade.watch(model) as seen, torch.no_grad():
        model(**INPUTS[name])
    assert seen.coverage.is_complete
    assert seen.coverage.seen == tuple(seen)
    assert str(seen.coverage) == f"{len(seen)} attentions seen."
    with saccade.watch(eager) as blind, torch.no_grad():
        eager(**INPUTS[name])
    assert not blind
    assert set(blind.coverage.unseen) == set(seen)
    assert all('attn_implementation="sdpa"' in reason for reason in blind.coverage.unseen.values())
    with pytest.raises(OptionError, match=r"nothing to view.*not seen"):
        saccade.view(blind)


def test_a_family_without_sdpa_is_sent_to_its_weights() -> None:
    from transformers import DebertaV2Config, DebertaV2Model

    config = DebertaV2Config(
        vocab_size=31, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=8,
        relative_attention=True, pos_att_type=["p2c", "c2p"], max_position_embeddings=32,
    )  # fmt: skip
    model = DebertaV2Model(config).eval()
    with saccade.watch(model) as seen, torch.no_grad():
        model(**INPUTS["bert"])
    assert list(seen.coverage.unseen) == [f"encoder.layer.{layer}.attention.self" for layer in range(2)]
    assert all("saccade.view(outputs.attentions" in reason for reason in seen.coverage.unseen.values())


def test_cait_is_seen_in_part_and_says_so() -> None:
    with without_torchvision() as timm:
        model = timm.create_model("cait_xxs24_224", depth=5, img_size=64).eval()
    with saccade.watch(model) as seen, torch.no_grad():
        model(torch.randn(1, 3, 64, 64))
    coverage = saccade.view(seen).coverage
    assert coverage is not None
    assert len(coverage.seen) == 2
    assert list(coverage.unseen) == [f"blocks.{layer}.attn" for layer in range(5)]
    assert "5 not seen (blocks.0.attn, blocks.1.attn, blocks.2.attn and 2 more)" in str(coverage)


class OtherKernel(nn.Module):
    """Attention that neither calls torch's function nor a softmax."""

    def forward(self, x: Tensor) -> Tensor:
        weights = (x @ x.transpose(-2, -1)).exp()
        return weights / weights.sum(-1, keepdim=True) @ x


class LinearAttention(OtherKernel):
    pass


def test_modules_that_are_called_attention_are_named() -> None:
    model = nn.Sequential(LinearAttention(), OtherKernel())
    with saccade.watch(model) as seen:
        model(torch.randn(2, 5, 4))
    assert list(seen.coverage.unseen) == ["0"]
    assert "did not call any of torch's attention functions" in seen.coverage.unseen["0"]


class Calls(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


def test_a_skipped_module_is_not_missed() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts: Any = nn.ModuleList([LinearAttention(), Calls()])

        def forward(self, x: Tensor, part: int) -> Tensor:
            output: Tensor = self.parts[part](x)
            return output

    model = Half()
    with saccade.watch(model) as seen:
        model(torch.randn(2, 1, 5, 4), 0)
        assert list(seen.coverage.unseen) == ["parts.0"]
        model(torch.randn(2, 1, 5, 4), 1)
        assert seen.coverage.is_complete


def test_threads_and_deep_copies_are_named() -> None:
    model = nn.Sequential(Calls())
    x = torch.randn(2, 1, 5, 4)
    with saccade.watch(model) as seen:
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
        assert not seen
        assert seen.coverage.notes == (
            "the model also ran in another thread, which this watcher cannot see: watch in that thread",
        )
    with saccade.watch(model) as seen:
        copy.deepcopy(model)(x)
    assert not seen
    assert "in a deep copy or another model" in str(seen.coverage)


def test_nothing_ran() -> None:
    with saccade.watch(nn.Sequential(Calls())) as seen:
        pass
    assert str(seen.coverage) == "0 attentions seen."
