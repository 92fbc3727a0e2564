"""Torch's attention modules keep their fast path and their bits, however their forward pass is started."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import saccade
from saccade.errors import OptionError

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
]

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
PADDING = torch.tensor([[False] * 4 + [True] * 2, [False] * 6])


class Attention(nn.MultiheadAttention):
    """A subclass that adds nothing, and gives only the output."""

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


MODULES: dict[str, Callable[[], tuple[nn.Module, Callable[[Any], Tensor]]]] = {
    "encoder": lambda: (encoder(), lambda run: run(X, src_key_padding_mask=PADDING)),
    "layer": lambda: (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda run: run(X, src_key_padding_mask=PADDING),
    ),
    "attention": lambda: (
        nn.MultiheadAttention(8, 2, batch_first=True),
        lambda run: run(X, X, X, key_padding_mask=PADDING, need_weights=False)[0],
    ),
    "subclass": lambda: (Attention(8, 2, batch_first=True), lambda run: run(X, PADDING)),
}
WAYS: dict[str, Callable[[nn.Module], Callable[..., Any]]] = {
    "call": lambda module: module,
    "forward": lambda module: module.forward,
    "class": lambda module: partial(type(module).forward, module),
    "checkpoint": lambda module: partial(checkpoint, module.forward, use_reentrant=False),
}


class Beside(nn.Module):
    """One of torch's modules beside an attention that can be edited."""

    def __init__(self, module: nn.Module, start: Callable[[], Tensor]) -> None:
        super().__init__()
        self.module, self.edited, self.start = module, nn.MultiheadAttention(8, 2, batch_first=True), start

    def forward(self) -> Tensor:
        self.edited(X, X, X)
        return self.start()


def edited(model: nn.Module) -> AbstractContextManager[Any]:
    return saccade.edit(model, without_heads=["edited:0"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("start", [saccade.watch, edited], ids=["watch", "edit of another"])
def test_no_bit_changes(start: Callable[[nn.Module], Any], is_training: bool, kind: str, way: str) -> None:
    torch.manual_seed(0)
    module, run = MODULES[kind]()
    model = Beside(module, lambda: run(WAYS[way](module))).train(is_training)
    own = nn.TransformerEncoder.forward
    with torch.set_grad_enabled(is_training):
        torch.manual_seed(1)
        expected = model()
        torch.manual_seed(1)
        with start(model):
            assert torch.equal(model(), expected)
        torch.manual_seed(1)
        assert torch.equal(model(), expected)
    assert nn.TransformerEncoder.forward is own


@pytest.mark.parametrize("way", WAYS)
def test_a_direct_forward_is_seen_as_exactly_as_a_call(way: str) -> None:
    module = encoder().eval()
    with torch.no_grad():
        with saccade.watch(module) as called:
            module(X, src_key_padding_mask=PADDING)
        with saccade.watch(module) as seen:
            WAYS[way](module)(X, src_key_padding_mask=PADDING)
        assert seen.coverage.is_complete
        assert list(seen) == list(called) == ["layers.0.self_attn", "layers.1.self_attn"]
        for name, trace in seen.items():
            assert torch.equal(trace.weights(), called[name].weights())


@pytest.mark.parametrize("kind", ["encoder", "layer", "attention"])
def test_a_forward_that_was_stored_before_is_refused_where_it_would_lose_its_fast_path(kind: str) -> None:
    module, run = MODULES[kind]()
    module.eval()
    stored = module.forward
    with torch.no_grad():
        expected = run(stored)
        with pytest.raises(OptionError, match="was stored before the model was watched"), saccade.watch(module):
            run(stored)
        assert torch.equal(run(stored), expected)
    expected = run(stored)  # with gradients, torch has no fast path to lose
    with saccade.watch(module):
        assert torch.equal(run(stored), expected)


def test_a_direct_forward_is_edited_under_its_own_name() -> None:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True, bias=False).eval()

        def forward(self, x: Tensor) -> Tensor:
            return self.attend.forward(x, x, x, need_weights=False)[0]

    model = Calls()
    with torch.no_grad():
        with saccade.edit(model, without_heads=["attend:0", "attend:1"]):
            assert not model(X).any()
        whole = saccade.edit(model, without_heads=["attention:0"])
        with pytest.raises(OptionError, match="but attend, which runs inside it, does"), whole:
            model(X)


def test_a_failed_forward_leaves_nothing_behind() -> None:
    module = encoder().eval()
    with torch.no_grad(), saccade.watch(module) as seen:
        with pytest.raises(RuntimeError):
            module.forward(X[..., :3])
        module.forward(X)
    assert len(seen) == 2
    assert torch._C._len_torch_function_stack() == 0


def test_a_module_can_be_scripted_while_another_is_watched() -> None:
    with saccade.watch(encoder()):
        scripted = torch.jit.script(encoder().eval())
    assert scripted(X).shape == X.shape


def test_a_module_that_ran_while_another_thread_stopped_watching_leaves_nothing_behind() -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    class Slow(nn.MultiheadAttention):
        def forward(self, *arguments: Any, **named: Any) -> Any:
            has_begun.set()
            may_end.wait()
            return super().forward(*arguments, **named)

    def run() -> None:
        Slow(8, 2, batch_first=True)(X, X, X)
        model = encoder()
        with saccade.watch(model) as seen:
            model(X)
        stacks.update(saccade.view(seen).stacks)

    stacks: dict[str, list[str]] = {}
    thread = threading.Thread(target=run)
    with saccade.watch(encoder()):
        thread.start()
        has_begun.wait()
    may_end.set()
    thread.join()
    assert stacks == {"layers.*.self_attn": ["layers.0.self_attn", "layers.1.self_attn"]}
