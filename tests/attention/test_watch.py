"""Watching: by name, without disturbing what is watched or others who watch."""

from __future__ import annotations

import threading

import pytest
import torch
from attention_cases import WEIGHTS_NAMES, Problem, distance_bias, make_weights
from torch import Tensor, nn

from saccade import MultiHead, attend, causal, padding, watch, window
from saccade.attention import Kernel, Mask, Watch
from saccade.errors import OptionError, UnknownNameError


class Pair(nn.Module):
    """Two layers, one within a list, as models hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([MultiHead(12, 3, dropout=0.3), MultiHead(12, 2, num_key_heads=1)])

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        for block in self.blocks:
            x = x + block(x, mask=mask)
        return x


def output_and_gradients(model: nn.Module, x: Tensor, mask: Mask) -> list[Tensor]:
    torch.manual_seed(1)  # dropout draws the same
    output = model(x, mask=mask)
    return [output, *torch.autograd.grad(output.square().sum(), list(model.parameters()))]


def test_names_are_places_in_the_model() -> None:
    torch.manual_seed(0)
    model = Pair()
    with watch(model) as seen:
        model(torch.randn(2, 5, 12))
    assert list(seen) == ["blocks.0", "blocks.1"]
    assert len(seen) == 2
    assert seen["blocks.0"].shape == (2, 3, 5, 5)
    assert seen["blocks.1"].shape == (2, 2, 5, 5)
    assert repr(seen) == "Watch(blocks.0: (2, 3, 5, 5), blocks.1: (2, 2, 5, 5))"
    with pytest.raises(UnknownNameError, match=r"'blocks.2'; allowed: blocks.0, blocks.1\. Did you mean 'blocks"):
        seen["blocks.2"]
    with pytest.raises(OptionError, match="takes a torch module, not str"):
        watch("model")  # type: ignore[arg-type]


def test_only_the_watched_model_is_seen() -> None:
    torch.manual_seed(0)
    model, other, x = Pair(), Pair(), torch.randn(2, 5, 12)
    with watch(model) as seen:
        other(x)
        assert len(seen) == 0
        model.blocks[1](x)
        assert list(seen) == ["blocks.1"]
    model(x)
    assert list(seen) == ["blocks.1"]  # it no longer watches


@pytest.mark.parametrize(
    "mask", [causal, window(2), padding(torch.tensor([5, 3])), causal & padding(torch.tensor([5, 3]))]
)
def test_watched_is_unwatched_bit_for_bit_in_a_model(mask: Mask) -> None:
    torch.manual_seed(0)
    model, x = Pair(), torch.randn(2, 5, 12)
    unwatched = output_and_gradients(model, x, mask)
    with watch(model) as seen:
        watched = output_and_gradients(model, x, mask)
        seen["blocks.0"].weights()  # reading changes nothing either
        again = output_and_gradients(model, x, mask)
    for before, during, after in zip(unwatched, watched, again, strict=True):
        assert torch.equal(before, during)
        assert torch.equal(before, after)


@pytest.mark.parametrize("weights", [*WEIGHTS_NAMES, "hard sample", "hard straight_through"])
@pytest.mark.parametrize("kernel", ["auto", "equation"])
def test_watched_is_unwatched_bit_for_bit(weights: str, kernel: Kernel) -> None:
    results = []
    for is_watched in (False, True):
        torch.manual_seed(0)
        inputs = tuple(tensor.requires_grad_() for tensor in Problem(heads=4, key_heads=2).tensors())
        options = {"weights": make_weights(weights), "mask": window(3), "bias": distance_bias(4), "kernel": kernel}
        if is_watched:
            with watch():
                output = attend(*inputs, **options)
        else:
            output = attend(*inputs, **options)
        found = torch.autograd.grad(output.square().sum(), inputs, allow_unused=True)
        results.append([output, *(gradient for gradient in found if gradient is not None)])
    for unwatched, watched in zip(*results, strict=True):
        assert torch.equal(unwatched, watched)


def test_weights_are_those_before_dropout() -> None:
    torch.manual_seed(0)
    model, x = Pair(), torch.randn(2, 5, 12)
    with watch(model) as seen:
        model.train()(x)
    torch.testing.assert_close(seen["blocks.0"].weights().sum(-1), torch.ones(2, 3, 5))


def test_a_new_forward_replaces_the_last() -> None:
    torch.manual_seed(0)
    model = Pair()
    with watch(model) as seen:
        model(torch.randn(2, 5, 12))
        first = seen["blocks.0"]
        model(torch.randn(3, 7, 12))
    assert seen["blocks.0"].shape == (3, 3, 7, 7)
    assert first.shape == (2, 3, 5, 5)  # who kept the old one still has it
    torch.testing.assert_close(first.row(0).sum(-1), torch.ones(2, 3))


def test_nested_watchers() -> None:
    torch.manual_seed(0)
    model, x = Pair(), torch.randn(2, 5, 12)
    with watch(model) as outer:
        with watch(model.blocks[1]) as inner, watch() as everything:
            model(x)
        assert list(inner) == ["attention"]
        assert everything["attention"].shape == (2, 2, 5, 5)
        kept = inner["attention"]
        model(torch.randn(1, 3, 12))
    assert inner["attention"] is kept
    assert outer["blocks.1"].shape == (1, 2, 3, 3)


def test_a_watcher_ends_with_its_block_also_after_an_error() -> None:
    model = Pair()
    with pytest.raises(ZeroDivisionError), watch(model) as seen:
        _ = 1 / 0
    model(torch.randn(2, 5, 12))
    assert len(seen) == 0


def test_threads_see_their_own_calls_only() -> None:
    """Two threads run one model at the same time, each with inputs of its own length."""
    torch.manual_seed(0)
    model = Pair().eval()
    both_watch = threading.Barrier(2, timeout=60)
    seen: dict[int, Watch] = {}

    def run(length: int) -> None:
        x = torch.randn(2, length, 12)
        with watch(model) as mine:
            seen[length] = mine
            for _ in range(20):
                both_watch.wait()
                model(x, mask=causal)
                assert mine["blocks.0"].shape == (2, 3, length, length)
            both_watch.wait()

    failures: list[BaseException] = []

    def guarded(length: int) -> None:
        try:
            run(length)
        except BaseException as failure:
            failures.append(failure)
            both_watch.abort()

    threads = [threading.Thread(target=guarded, args=(length,)) for length in (5, 9)]
    with watch(model) as elsewhere:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert len(elsewhere) == 0
    assert {length: mine["blocks.1"].shape[2] for length, mine in seen.items()} == {5: 5, 9: 9}


def test_values_are_kept_for_who_asks_for_them() -> None:
    layer = MultiHead(6, 4, num_key_heads=2, head_width=3).eval()
    x = torch.randn(2, 5, 6)
    plain = layer(x)
    with watch(layer) as weights_only, watch(layer, values=True) as seen:
        watched = layer(x)
    assert torch.equal(plain, watched)
    call = seen["attention"].only_call(head=3, batch=1)
    assert call is not None
    assert call.value is not None
    assert torch.equal(call.value[0, 0], layer.project(x).value[1, 1])  # heads 2 and 3 share key head 1
    without = weights_only["attention"].only_call(head=3, batch=1)
    assert without is not None
    assert without.value is None
    assert seen["attention"].nbytes - weights_only["attention"].nbytes == 4 * 2 * 2 * 5 * 3
