"""Others' calls of torch's attention: translated one by one, named, and left as they are."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

import saccade
from saccade import MultiHead, attend
from saccade.errors import OptionError, StaleTraceError


class Calls(nn.Module):
    """Someone's layer: it makes these calls of torch's attention."""

    def __init__(self, *calls: dict[str, Any]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, query: Tensor, key: Tensor) -> list[Tensor]:
        return [F.scaled_dot_product_attention(query, key, key, **call) for call in self.calls]


class Own(nn.Module):
    """Someone's layer around a layer of ours and a call of ``attend``."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = MultiHead(12, 3)
        self.theirs = Calls({})

    def forward(self, x: Tensor) -> Tensor:
        x = self.ours(x)
        x = attend(x, x, x, owner=self)
        heads = x.view(2, 5, 3, 4).transpose(1, 2)
        output: Tensor = self.theirs(heads, heads)[0]
        return output


def see(query: Tensor, key: Tensor, **call: Any) -> tuple[saccade.Trace, Tensor]:
    """The trace of one call and its output, which watching does not change."""
    layer = Calls(call)
    (unwatched,) = layer(query, key)
    with saccade.watch(layer) as seen:
        (watched,) = layer(query, key)
    assert torch.equal(unwatched, watched)
    return seen["attention"], watched


def rebuilt(trace: saccade.Trace, value: Tensor) -> Tensor:
    """The output that the weights of a trace give."""
    weights = trace.weights()
    return weights @ value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)


QUERY = torch.randn(2, 6, 5, 4, generator=torch.Generator().manual_seed(1))
KEY = torch.randn(2, 6, 7, 4, generator=torch.Generator().manual_seed(2))
ALLOWED = torch.rand(2, 6, 5, 7, generator=torch.Generator().manual_seed(3)) > 0.4
ADDED = torch.randn(2, 6, 5, 7, generator=torch.Generator().manual_seed(4))
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal, from the first query and key": {"is_causal": True},
    "boolean (B, H, Q, K)": {"attn_mask": ALLOWED},
    "boolean (B, 1, Q, K)": {"attn_mask": ALLOWED[:, :1]},
    "boolean (B, 1, 1, K)": {"attn_mask": ALLOWED[:, :1, :1]},
    "boolean (1, 1, Q, K)": {"attn_mask": ALLOWED[:1, :1]},
    "boolean (Q, K)": {"attn_mask": ALLOWED[0, 0]},
    "expanded": {"attn_mask": ALLOWED[:, :1].expand(-1, 6, -1, -1)},
    "added (B, 1, Q, K)": {"attn_mask": ADDED[:, :1]},
    "added (Q, K)": {"attn_mask": ADDED[0, 0]},
    "added (H, Q, K)": {"attn_mask": ADDED[0]},
    "added -inf": {"attn_mask": ADDED.masked_fill(~ALLOWED, float("-inf"))},
    "added least number": {"attn_mask": ADDED.masked_fill(~ALLOWED, torch.finfo(torch.float32).min)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_weights_give_the_output(options: dict[str, Any], context: Callable[[], Any]) -> None:
    with context():
        trace, output = see(QUERY, KEY, **options)
    torch.testing.assert_close(rebuilt(trace, KEY), output, atol=1e-5, rtol=0)


SHAPES: dict[str, tuple[Tensor, Tensor]] = {
    "no heads": (QUERY[:, 0], KEY[:, 0]),
    "no batch": (QUERY[0, 0], KEY[0, 0]),
    "one sequence of keys": (QUERY, KEY[:1]),
    "one key head": (QUERY, KEY[:, :1]),
    "one query head": (QUERY[:, :1], KEY),
}


@pytest.mark.parametrize(("query", "key"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("options", [{}, {"attn_mask": ALLOWED[0, 0]}], ids=["plain", "mask"])
def test_dimensions_are_those_of_torch(query: Tensor, key: Tensor, options: dict[str, Any]) -> None:
    trace, output = see(query, key, **options)
    weights = trace.weights().view(*output.shape[:-2], 5, 7)
    torch.testing.assert_close(weights @ key, output, atol=1e-5, rtol=0)


def test_a_mask_of_queries_without_heads_is_of_the_batch() -> None:
    mask = torch.rand(2, 5, 7) > 0.4
    trace, output = see(QUERY[:, 0], KEY[:, 0], attn_mask=mask)
    assert trace.shape == (2, 1, 5, 7)
    torch.testing.assert_close(rebuilt(trace, KEY[:, :1])[:, 0], output, atol=1e-5, rtol=0)


def test_hand_numbers() -> None:
    """Scores log 1, log 2, log 5: weights 1/8, 2/8, 5/8; the causal flag leaves the first key to the first query."""
    key = torch.tensor([1.0, 2.0, 5.0]).log().view(1, 1, 3, 1)
    query = torch.ones(1, 1, 2, 1)
    torch.testing.assert_close(see(query, key)[0].row(0)[0, 0], torch.tensor([0.125, 0.25, 0.625]))
    causal = see(query, key, is_causal=True)[0].weights()[0, 0]
    torch.testing.assert_close(causal, torch.tensor([[1.0, 0, 0], [1 / 3, 2 / 3, 0]]))
    half = see(query, key, scale=math.log(4) / math.log(2))[0].row(0)[0, 0]  # scores twice as large
    torch.testing.assert_close(half, torch.tensor([1.0, 4.0, 25.0]) / 30)


@pytest.mark.parametrize(
    ("mask", "row"),
    [
        (torch.zeros(2, 3, dtype=torch.bool), 0.0),
        (torch.full((2, 3), float("-inf")), 0.0),
        (torch.full((2, 3), torch.finfo(torch.float32).min), 1 / 3),
    ],
    ids=["boolean", "-inf", "least number"],
)
def test_rows_that_may_attend_to_nothing_are_as_torch_has_them(mask: Tensor, row: float) -> None:
    query, key = QUERY[:, :, :2], KEY[:, :, :3]
    trace, output = see(query, key, attn_mask=mask)
    torch.testing.assert_close(trace.weights(), torch.full((2, 6, 2, 3), row))
    torch.testing.assert_close(rebuilt(trace, key), output, atol=1e-5, rtol=0)
    torch.testing.assert_close(trace.overview(3).values, trace.weights()[0, 0], atol=0.01, rtol=0)


def test_grouped_and_repeated_keys_are_kept_once() -> None:
    few = KEY[:, :2]
    grouped, output = see(QUERY, few, enable_gqa=True)
    repeated, again = see(QUERY, few.repeat_interleave(3, dim=1))
    torch.testing.assert_close(output, again)
    for trace in (grouped, repeated):
        assert trace.shape == (2, 6, 5, 7)
        assert trace._segments[0].call.key.shape == (2, 2, 7, 4)
        torch.testing.assert_close(rebuilt(trace, few), output, atol=1e-5, rtol=0)
    one = see(QUERY, KEY[:, :1].expand(-1, 6, -1, -1))[0]
    assert one._segments[0].call.key.shape == (2, 1, 7, 4)


def test_an_expanded_mask_is_not_copied_in_full() -> None:
    with torch.inference_mode():  # its tensors are copied
        added = see(QUERY, KEY, attn_mask=ADDED[:, :1, :1].clone().expand(-1, 6, 5, -1))[0]
    bias = added._segments[0].call.bias
    assert isinstance(bias, Tensor)
    assert bias.untyped_storage().nbytes() == 2 * 7 * 4


def test_autocast_is_of_the_kernel() -> None:
    layer = Calls({})
    with torch.autocast("cpu", dtype=torch.bfloat16), saccade.watch(layer) as seen:
        layer(QUERY, KEY)
    (plain, _) = see(QUERY.bfloat16(), KEY.bfloat16())
    assert torch.equal(seen["attention"].weights(), plain.weights())


@pytest.mark.parametrize("is_torchs", [False, True])
def test_autocast_rounds_a_mask_of_numbers(is_torchs: bool) -> None:
    """In bfloat16, 100.3 is 100.5: the weights are e^0.5 : 1, not e^0.3 : 1."""
    mask, zeros = torch.tensor([[100.3, 100.0], [0.0, 0.0]]), torch.zeros(1, 2, 4)
    module = nn.MultiheadAttention(4, 1) if is_torchs else Calls({"attn_mask": mask})
    with torch.autocast("cpu", dtype=torch.bfloat16), saccade.watch(module) as seen:
        if is_torchs:
            zeros = zeros.transpose(0, 1)
            module(zeros, zeros, zeros, attn_mask=mask)
        else:
            module(zeros, zeros)
    expected = torch.tensor([0.5, 0.0]).softmax(-1)
    torch.testing.assert_close(seen["attention"].row(0, head=0, batch=0), expected, atol=1e-6, rtol=0)


def test_heads_of_values_alone() -> None:
    """One head of queries and keys, whose weights serve several heads of values."""

    class Shared(nn.Module):
        def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(query, key, value)

    model, query, key, value = Shared(), torch.randn(2, 1, 5, 4), torch.randn(2, 1, 7, 4), torch.randn(2, 3, 7, 6)
    with saccade.watch(model, values=True) as seen:
        output = model(query, key, value)
    assert seen["attention"].shape == (2, 3, 5, 7)
    torch.testing.assert_close(seen["attention"].outputs(), output)


@pytest.mark.parametrize("shape", [(2, 0, 5, 4), (2, 3, 5, 0)])
def test_nothing_to_show_changes_nothing(shape: tuple[int, ...]) -> None:
    empty = torch.zeros(shape)
    layer = Calls({})
    with saccade.watch(layer) as seen:
        (output,) = layer(empty, empty)
    assert output.shape == shape
    assert seen.refused == {"attention": "it has no heads, or heads of width 0"}


def test_several_calls_of_one_module_stand_side_by_side() -> None:
    shared = Calls({}, {"is_causal": True})

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = shared

        def forward(self, query: Tensor, key: Tensor, times: int) -> None:
            for _ in range(times):
                self.layer(query, key)

    model = Twice()
    with saccade.watch(model) as seen:
        model(QUERY, KEY, 2)
        assert list(seen) == ["layer", "layer#2", "layer#3", "layer#4"]
        full, causal = see(QUERY, KEY)[0].weights(), see(QUERY, KEY, is_causal=True)[0].weights()
        for label, expected in {"layer": full, "layer#2": causal, "layer#3": full, "layer#4": causal}.items():
            assert torch.equal(seen[label].weights(), expected)
        model(QUERY[:, :, :3], KEY, 1)  # a new forward replaces all of the last one
        assert list(seen) == ["layer", "layer#2"]
        assert seen["layer#2"].shape == (2, 6, 3, 7)


def test_ours_alone_needs_no_hook() -> None:
    with saccade.watch(nn.Sequential(MultiHead(12, 3), nn.Linear(12, 12))):
        assert not torch_module._global_forward_pre_hooks
        with saccade.watch(Own()):
            assert len(torch_module._global_forward_pre_hooks) == 1
        assert not torch_module._global_forward_pre_hooks


def test_steps_within_one_forward_continue() -> None:
    """A decoder that runs its loop in its own forward, and copies its keys each time, for more steps than are kept."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Calls({})

        def forward(self, query: Tensor, key: Tensor) -> None:
            self.layer(query[:, :, :3], key[:, :, :3])
            for row in range(3, query.shape[2]):
                self.layer(query[:, :, row : row + 1], key[:, :, : row + 1])

    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 70, 4), torch.randn(2, 3, 70, 4)
    model = Loop()
    with saccade.watch(model) as seen:
        model(query, key)
    assert list(seen) == ["layer"]
    weights = seen["layer"].weights()
    torch.testing.assert_close(weights[:, :, 3:], see(query, key, is_causal=True)[0].weights()[:, :, 3:])
    keys = {part.call.key.untyped_storage().data_ptr() for part in seen["layer"]._segments}
    assert len(keys) < 35


def test_ours_is_seen_once() -> None:
    torch.manual_seed(0)
    model, x = Own(), torch.randn(2, 5, 12)
    unwatched = model(x)
    with saccade.watch(model) as seen:
        assert torch.equal(model(x), unwatched)
    assert list(seen) == ["ours", "attention", "theirs"]
    assert seen["attention"].shape == (2, 1, 5, 5)


def test_nothing_is_left_behind() -> None:
    class Fails(Calls):
        def forward(self, query: Tensor, key: Tensor) -> list[Tensor]:
            super().forward(query, key)
            raise ZeroDivisionError if query.shape[2] == 5 else KeyboardInterrupt

    def is_clean() -> bool:
        hooks = (torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks)
        return not any(hooks) and not torch._C._len_torch_function_stack()

    model = nn.Sequential(Fails({}))
    for rows, error in ((5, ZeroDivisionError), (4, KeyboardInterrupt)):
        with saccade.watch(model) as seen:
            with pytest.raises(ZeroDivisionError):
                model[0](QUERY, KEY)
            assert seen["0"].shape == (2, 6, 5, 7)
            with pytest.raises(error):
                model[0](QUERY[:, :, :rows], KEY)
        assert is_clean()
    with pytest.raises(KeyboardInterrupt), saccade.watch(model):
        model[0](QUERY[:, :, :4], KEY)
    assert is_clean()


def test_other_modes_keep_their_places() -> None:
    """A device of someone's, entered within a forward, is left in its turn around torch's own attention."""
    heads = nn.MultiheadAttention(12, 2, batch_first=True).eval()

    class OnDevice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = heads
            self.calls = Calls({})

        def forward(self, x: Tensor) -> Tensor:
            with torch.device("meta"):
                self.heads(x, x, x)
                assert torch.empty(1).is_meta
            assert not torch.empty(1).is_meta
            self.calls(x, x)
            return x

    model = OnDevice()
    with saccade.watch(model) as seen, torch.no_grad():
        model(torch.randn(2, 5, 12))
    assert list(seen) == ["heads", "calls"]


def test_threads_see_their_own_calls_only() -> None:
    layer = Calls({})
    model = nn.ModuleDict({"layer": layer})
    meet = threading.Barrier(2, timeout=60)
    shapes: dict[int, set[int]] = {3: set(), 5: set()}

    def run(rows: int) -> None:
        with saccade.watch(model) as seen:
            for _ in range(20):
                meet.wait()
                layer(QUERY[:, :, :rows], KEY)
                shapes[rows].add(seen["layer"].shape[2])
            meet.wait()

    threads = [threading.Thread(target=run, args=(rows,)) for rows in shapes]
    with saccade.watch(model) as elsewhere:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert shapes == {3: {3}, 5: {5}}
    assert not elsewhere


def test_what_is_overwritten_is_copied_or_refused() -> None:
    buffer, query = KEY.clone(), QUERY.clone()
    trace, _ = see(query, buffer)
    expected = trace.weights().clone()
    buffer.zero_()  # fewer queries than keys: it may be a cache, so it was copied
    assert torch.equal(trace.weights(), expected)
    query.zero_()
    with pytest.raises(StaleTraceError, match="queries of attention changed in place"):
        trace.weights()


def test_written_out_attention_says_what_to_do() -> None:
    class Eager(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x

    model = Eager()
    with saccade.watch(model) as seen:
        model(QUERY)
    with pytest.raises(OptionError, match=r"the model's own code computes its softmax; .* pass them to saccade.view"):
        seen["attention"]


@pytest.mark.parametrize("first", [5, 7])
def test_a_window_of_keys_is_refused(first: int) -> None:
    """A cache that drops old keys: column 0 is another token in each row."""
    layer = Calls({})
    key = torch.randn(2, 6, 9, 4)
    with saccade.watch(layer) as seen:
        layer(key[:, :, :first], key[:, :, :first])
        layer(QUERY[:, :, :1], key[:, :, first - 4 : first + 1])
        with pytest.raises(OptionError, match="dropped old keys between the steps"):
            seen["attention"]
        assert list(seen) == []
        layer(QUERY, KEY)
        assert list(seen) == ["attention"]


def test_forwards_that_only_resemble_steps_replace_each_other() -> None:
    """Keys that begin alike, or of which few differ: another forward, unless the mask says that it is a buffer."""
    layer = Calls({})
    other = KEY.clone()
    other[:, :, 3] += 1
    padding = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    with saccade.watch(layer) as seen:
        for call in ({}, {"attn_mask": padding}):
            layer.calls = (call,)
            for key in (KEY, other, KEY):
                layer(QUERY[:, :, :1], key.clone())
                assert seen["attention"].shape == (2, 6, 1, 7)
        layer.calls = ({},)
        layer(QUERY[:, :, :1], KEY)
        layer(QUERY[:, :, :1], KEY.clone())  # equal, but nothing says that it is the same decoder's next step
        assert seen["attention"].shape == (2, 6, 1, 7)
        layer(QUERY[:, :, :1], KEY)
        layer(QUERY[:, :, 1:2], KEY)  # the very same keys, as where they are parameters
        assert seen["attention"].shape == (2, 6, 1, 7)


def test_tensors_without_numbers_are_refused() -> None:
    layer = Calls({})
    nested = torch.nested.nested_tensor([QUERY[0, :, :3], QUERY[1]], layout=torch.jagged).transpose(1, 2)
    for run in (
        lambda: layer(nested, nested),
        lambda: layer(QUERY.to("meta"), KEY.to("meta")),
        lambda: torch.func.vmap(layer)(QUERY, KEY),
    ):
        with saccade.watch(layer) as seen:
            run()
        with pytest.raises(OptionError, match="have no rows of numbers to show"):
            seen["attention"]


def test_a_call_that_cannot_be_told_leaves_those_beside_it() -> None:
    class Between(nn.Module):
        def forward(self, query: Tensor, key: Tensor) -> None:
            F.scaled_dot_product_attention(query, key, key)
            torch.func.vmap(lambda one, other: F.scaled_dot_product_attention(one, other, other))(query, key)
            F.scaled_dot_product_attention(query[:, :, :3], key, key)

    layer = Between()
    with saccade.watch(layer) as seen:
        for _ in range(2):
            layer(QUERY, KEY)
            assert {label: trace.shape[2] for label, trace in seen.items()} == {"attention": 5, "attention#3": 3}
            with pytest.raises(OptionError, match="have no rows of numbers to show"):
                seen["attention#2"]


def test_nothing_of_the_hooks_stays() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 3, 8)
    with torch.no_grad(), saccade.watch(model):
        assert torch.nn.modules.module._has_any_global_hook()
        model(x, x, x)
    assert not torch.nn.modules.module._has_any_global_hook()
