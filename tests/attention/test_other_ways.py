"""Other ways to compute attention, and other ways to run a model: exact, refused, or named as unseen."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

import saccade
from saccade.attention.watching.foreign.call import SDPA
from saccade.errors import OptionError

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))
ATEN = torch.ops.aten


class Attends(nn.Module):
    """Attention by some function of queries, keys and values."""

    def __init__(self, function: Callable[..., Any] = F.scaled_dot_product_attention) -> None:
        super().__init__()
        self.function, self.given = function, nn.Linear(12, 36)

    def parts(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (3, 4)).transpose(-3, -2) for part in self.given(x).chunk(3, -1)]

    def weights(self, x: Tensor) -> Tensor:
        query, key, _ = self.parts(x)
        return (query @ key.mT / 2).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        output = self.function(*self.parts(x))
        output = output[0] if isinstance(output, tuple) else output
        return x + output.transpose(-3, -2).flatten(-2)


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def check(model: nn.Module, layers: list[Attends], run: Callable[[], Tensor] | None = None) -> saccade.Watch:
    """Watching changes no bit of the output, and the traces are the weights of these layers."""
    run = run or (lambda: model(X))
    unwatched = run()
    with saccade.watch(model) as seen:
        assert torch.equal(run(), unwatched)
    x = X
    assert len(seen) == len(layers)
    for layer, trace in zip(layers, seen.values(), strict=True):
        torch.testing.assert_close(trace.weights(), layer.weights(x), atol=1e-5, rtol=0)
        x = layer(x)
    return seen


@pytest.mark.parametrize(
    "function", [ATEN.scaled_dot_product_attention, ATEN.scaled_dot_product_attention.default], ids=str
)
def test_the_operator_is_the_function(function: Callable[..., Any]) -> None:
    with torch.no_grad():
        model = Attends(function)
        check(model, [model])
        with saccade.edit(model, without_heads=[f"attention:{head}" for head in range(3)]):
            assert torch.equal(model(X), X)


def flex(*parts: Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*parts)


KERNELS = (
    pytest.param(flex, marks=pytest.mark.slow),  # it imports the compiler
    pytest.param(torch._scaled_dot_product_attention_math, id="math"), ATEN._scaled_dot_product_attention_math,
    ATEN._scaled_dot_product_flash_attention_for_cpu, ATEN._scaled_dot_product_flash_attention_for_cpu.default,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize("function", KERNELS, ids=lambda function: getattr(function, "__name__", str(function)))
def test_other_kernels_are_refused(function: Callable[..., Any]) -> None:
    model = Stack(Attends(), Attends(function), Attends()).requires_grad_(False)
    unwatched = model(X)
    with saccade.watch(model) as seen:
        assert torch.equal(model(X), unwatched)
    assert list(seen) == ["layers.0", "layers.2"]
    assert "is computed by" in seen.refused["layers.1"]
    assert not saccade.view(seen).stacks  # no rollout without the one in the middle
    edit = saccade.edit(model, without_heads=["layers.1:0"])
    with pytest.raises(OptionError, match="did not call any of torch's attention functions"), edit:
        model(X)


@pytest.mark.filterwarnings("ignore:.torch.jit", "ignore::torch.jit.TracerWarning")
def test_a_traced_module_is_named_as_unseen() -> None:
    traced, plain = torch.jit.trace(Attends(), X), torch.jit.trace(nn.Linear(12, 12), X)
    model = Stack(Attends(), traced, plain)
    unwatched = model(X)
    with saccade.watch(model) as seen:
        assert torch.equal(model(X), unwatched)
    assert list(seen) == ["layers.0"]
    assert list(seen.coverage.unseen) == ["layers.1"]
    assert "TorchScript" in seen.coverage.unseen["layers.1"]


def twice(query: Tensor, *arguments: Any, **options: Any) -> Tensor:
    return SDPA(query * 2, *arguments, **options)


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("need_weights", [False, True])
def test_a_replaced_function(need_weights: bool, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's module calls it in some of its ways and not in others."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", twice)
    torch.manual_seed(0)
    model = nn.MultiheadAttention(12, 3, batch_first=True, bias=False).eval()
    model.out_proj.weight.data = torch.eye(12)
    with context():
        unwatched = model(X, X, X, need_weights=need_weights)[0]
        with saccade.watch(model, values=True) as seen:
            assert torch.equal(model(X, X, X, need_weights=need_weights)[0], unwatched)
    assert len(seen) + len(seen.refused) == 1
    for trace in seen.values():
        torch.testing.assert_close(trace.outputs().transpose(1, 2).flatten(2), unwatched, atol=1e-5, rtol=0)
    plain = Attends(lambda *parts: F.scaled_dot_product_attention(*parts))
    with saccade.watch(plain) as seen:
        plain(X)
    query, key, _ = plain.parts(X)
    torch.testing.assert_close(seen["attention"].weights(), (query @ key.mT).softmax(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("is_training", [False, True])
def test_a_replaced_multi_head_function(need_weights: bool, is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = F.multi_head_attention_forward

    def changed(query: Tensor, *arguments: Any, **options: Any) -> Any:
        return original(query * 3, *arguments, **options)

    monkeypatch.setattr(F, "multi_head_attention_forward", changed)
    model = nn.MultiheadAttention(12, 3, batch_first=True).train(is_training)
    unwatched = model(X, X, X, need_weights=need_weights)[0]
    expected = model(X, X, X, average_attn_weights=False)[1]
    with saccade.watch(model) as seen:
        assert torch.equal(model(X, X, X, need_weights=need_weights)[0], unwatched)
    if need_weights:  # torch writes out the softmax
        assert "changed version" in seen.refused["attention"]
    else:
        torch.testing.assert_close(seen["attention"].weights(), expected, atol=1e-5, rtol=0)
    edit = saccade.edit(model, without_heads=["attention:0"])
    with pytest.raises(OptionError, match="did not call any of torch's attention functions"), edit:
        model(X, X, X)


def shift(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (arguments[0] * 2, *arguments[1:])


def forbid(module: nn.Module, arguments: Any, named: dict[str, Any]) -> Any:
    return arguments, {**named, "attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)}


def changes(kind: str, model: nn.MultiheadAttention) -> None:
    if kind == "hook":
        model.register_forward_pre_hook(shift)
    elif kind == "named":
        model.register_forward_pre_hook(forbid, with_kwargs=True)
    elif kind == "pruned":
        prune.random_unstructured(model, "in_proj_weight", 0.5)
    elif kind == "normed":
        torch.nn.utils.weight_norm(model, "in_proj_weight")


@pytest.mark.filterwarnings("ignore:.*weight_norm")
@pytest.mark.parametrize("kind", ["hook", "named", "pruned", "normed"])
def test_hooks_on_torchs_module(kind: str) -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    changes(kind, model)
    expected = model(X, X, X, average_attn_weights=False)[1]
    with saccade.watch(model) as seen:
        model(X, X, X)
    torch.testing.assert_close(seen["attention"].weights(), expected, atol=1e-5, rtol=0)


class Swaps(nn.Module):
    """Puts other weights into a module for the time of the call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.other = nn.MultiheadAttention(12, 3, batch_first=True), nn.Parameter(torch.randn(36, 12))

    def forward(self, x: Tensor) -> Tensor:
        before = self.inner.in_proj_weight.data
        self.inner.in_proj_weight.data = before + self.other
        weights: Tensor = self.inner(x, x, x, average_attn_weights=False)[1]
        self.inner.in_proj_weight.data = before
        return weights


def test_weights_that_are_swapped_around_a_call() -> None:
    model = Swaps().eval()
    with saccade.watch(model) as seen:
        expected = model(X)
    torch.testing.assert_close(seen["inner"].weights(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_layers_that_are_computed_again_in_the_backward_pass(use_reentrant: bool) -> None:
    class Again(Stack):
        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=use_reentrant)
            return x

    layers = [Attends(), Attends(), Attends()]
    model = Again(*layers)

    def run() -> Tensor:
        output = model(X.clone().requires_grad_())
        output.sum().backward()
        return output.detach()

    seen = check(model, layers, run)
    assert list(seen) == ["layers.0", "layers.1", "layers.2"]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_other_ways_to_run_a_model() -> None:
    layers = [Attends(), Attends()]
    model = Stack(*layers).eval().requires_grad_(False)
    check(nn.DataParallel(model), layers)
    parameters = {name: value * 2 for name, value in model.named_parameters()}
    other = copy.deepcopy(model)
    for name, value in other.named_parameters():
        value.copy_(parameters[name])
    with saccade.watch(model) as seen:
        torch.func.functional_call(model, parameters, (X,))
    assert isinstance(other.layers[0], Attends)
    torch.testing.assert_close(seen["layers.0"].weights(), other.layers[0].weights(X), atol=1e-5, rtol=0)
    runs = (lambda: torch.func.vmap(model)(X[None]), lambda: torch.func.grad(lambda x: model(x).sum())(X))
    for run in runs:
        with saccade.watch(model) as seen:
            run()
        assert not seen
        assert all("torch.func" in reason for reason in seen.refused.values())
        assert len(seen.refused) == 2


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("has_more_keys", [False, True])
def test_a_causal_hint_that_contradicts_the_mask(has_more_keys: bool, is_training: bool) -> None:
    """Torch believes the hint on one path and the mask on another: only what is certain is shown."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 3, batch_first=True, add_bias_kv=has_more_keys).train(is_training)
    mask = torch.zeros(5, 5, dtype=torch.bool)
    mask[4, 0] = True
    for options in ({}, {"is_causal": True}, {"is_causal": True, "need_weights": False}):
        with saccade.watch(module, values=True) as seen:
            output, _ = module(X, X, X, attn_mask=mask, **options)
        if options.get("need_weights", True) or has_more_keys:
            heads = seen["attention"].outputs().transpose(1, 2).flatten(2)
            torch.testing.assert_close(module.out_proj(heads), output, atol=1e-5, rtol=0)
        else:
            assert "is_causal=True and a mask that is not causal" in seen.refused["attention"]
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with saccade.watch(module, values=True) as seen:
        output, _ = module(X, X, X, attn_mask=causal, is_causal=True, need_weights=False)
    heads = seen["attention"].outputs().transpose(1, 2).flatten(2)
    torch.testing.assert_close(module.out_proj(heads), output, atol=1e-5, rtol=0)


def test_an_edit_keeps_what_a_causal_hint_does() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 3, batch_first=True)
    mask = torch.zeros(5, 5, dtype=torch.bool)
    mask[4, 0] = True
    plain, _ = module(X, X, X, attn_mask=mask, is_causal=True, need_weights=False)
    with saccade.edit(module, without_links=[("attention", 3, 1)]):
        edited, _ = module(X, X, X, attn_mask=mask, is_causal=True, need_weights=False)
    rows = [0, 1, 2, 4]
    torch.testing.assert_close(edited[:, rows], plain[:, rows], atol=1e-6, rtol=0)
    assert (edited[:, 3] - plain[:, 3]).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore:.torch.jit", "ignore::torch.jit.TracerWarning")
def test_tracing_a_watched_model_gives_the_same_graph() -> None:
    model = Stack(Attends(), Attends()).eval()
    plain = torch.jit.trace(model, X, check_trace=False)
    with saccade.watch(model) as seen:
        watched = torch.jit.trace(model, X, check_trace=False)
    ours, theirs = (re.findall(r"aten::\w+", str(traced.inlined_graph)) for traced in (watched, plain))
    assert ours == theirs
    assert all("torch.jit.trace" in reason for reason in seen.refused.values())
    assert len(seen.refused) == 2
