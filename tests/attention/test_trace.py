"""The exact weights of any tile: against the whole matrix, written out in float64 and as the layer used it."""

from __future__ import annotations

import importlib

import pytest
import torch
from attention_cases import (
    RULE_NAMES,
    SCORE_NAMES,
    WEIGHTS_NAMES,
    Problem,
    allowed_by,
    distance_bias,
    grid,
    make_rule,
    make_score,
    make_weights,
    problems,
    property_settings,
    rules,
    written_scores,
    written_weights,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade import MultiHead, Trace, attend, causal, dense, padding, watch, window
from saccade.attention import Bias, Rotary, StaticCache
from saccade.errors import OptionError, ShapeError, StaleTraceError, TooLargeError

trace_module = importlib.import_module("saccade.attention.watching.trace")
segment_module = importlib.import_module("saccade.attention.watching.segment")
PROBLEM = Problem(heads=4, key_heads=2, queries=5, keys=7)
TILES = [(slice(None), slice(None)), (slice(1, 4), slice(2, 7)), (slice(4, 5), slice(0, 1)), (slice(0, 5), slice(3, 4))]


def watched(*inputs: Tensor, **options: object) -> tuple[Tensor, Trace]:
    with watch() as seen:
        output = attend(*inputs, **options)  # type: ignore[arg-type]
    return output, seen["attention"]


def check_tiles(trace: Trace, expected: Tensor, tolerance: float) -> None:
    """Every tile, of all heads at once and of one head of one sequence, is the slice of the whole matrix."""
    for rows, columns in TILES:
        part = expected[:, :, rows, columns]
        torch.testing.assert_close(trace.tile(rows, columns).double(), part, atol=tolerance, rtol=0)
        for batch in range(expected.shape[0]):
            for head in range(expected.shape[1]):
                one = trace.tile(rows, columns, head=head, batch=batch)
                assert one.shape == part.shape[2:]
                torch.testing.assert_close(one.double(), part[batch, head], atol=tolerance, rtol=0)


@pytest.mark.parametrize("weights", WEIGHTS_NAMES)
@pytest.mark.parametrize("score_name", SCORE_NAMES)
def test_every_score_and_weights_function(score_name: str, weights: str) -> None:
    score = make_score(score_name, 4, 4)
    query, key, value = PROBLEM.tensors()
    mask = causal | window(3)
    expected = written_weights(written_scores(query, key, score), allowed_by(mask, PROBLEM.shape), weights)
    _, trace = watched(query, key, value, score=score, weights=weights, mask=mask)
    assert trace.shape == (2, 4, 5, 7)
    check_tiles(trace, expected, 1e-6)


@pytest.mark.parametrize("biased", ["none", "rule", "tensor"])
@pytest.mark.parametrize("weights", WEIGHTS_NAMES)
@pytest.mark.parametrize("mask_name", RULE_NAMES)
def test_every_rule_and_bias(mask_name: str, weights: str, biased: str) -> None:
    query, key, value = PROBLEM.tensors()
    mask = make_rule(mask_name, PROBLEM.shape)
    added = distance_bias(4)(*grid(PROBLEM.shape)).float() if biased != "none" else None
    bias = distance_bias(4) if biased == "rule" else added
    scores = written_scores(query, key, "scaled_dot")
    exact = distance_bias(4)(*grid(PROBLEM.shape)) if biased == "rule" else added
    expected = written_weights(scores, allowed_by(mask, PROBLEM.shape), weights, exact)
    _, trace = watched(query, key, value, weights=weights, mask=mask, bias=bias)
    check_tiles(trace, expected, 1e-6)


@pytest.mark.parametrize(("largest", "tolerance"), [(1.0, 1e-6), (20.0, 1e-6), (200.0, 1e-5)])
@pytest.mark.parametrize("kernel", ["auto", "equation"])
def test_large_scores(largest: float, tolerance: float, kernel: str) -> None:
    """Up to |score| = 20 a tile is exact to 1e-6; the float32 forward pass agrees as well as it can itself."""
    query, key, _ = Problem(batch=1, queries=5, keys=7, width=16).tensors()
    query = query * (largest / written_scores(query, key, "scaled_dot").abs().max()).float()
    scores = written_scores(query, key, "scaled_dot")
    assert abs(scores.abs().max().item() - largest) < 1e-3
    expected = written_weights(scores, torch.ones(scores.shape, dtype=torch.bool), "softmax")
    output, trace = watched(query, key, torch.eye(7).expand(1, 3, 7, 7), kernel=kernel)
    check_tiles(trace, expected, tolerance)
    rounding = max(1.0, largest) * 4 * torch.finfo(torch.float32).eps
    torch.testing.assert_close(output.double(), expected, atol=rounding, rtol=0)


@property_settings
@given(st.data())
def test_random_rules_and_tiles(data: st.DataObject) -> None:
    problem = data.draw(problems())
    first_row = data.draw(st.integers(0, 3))
    mask = data.draw(rules(problem.shape, first_row))
    weights = data.draw(st.sampled_from(WEIGHTS_NAMES[:3]))
    query, key, value = problem.tensors()
    _, trace = watched(query, key, value, mask=mask, weights=weights, first_row=first_row)
    scores = written_scores(query, key, "scaled_dot")
    expected = written_weights(scores, allowed_by(mask, problem.shape, first_row), weights)
    rows = sorted(data.draw(st.tuples(*[st.integers(0, problem.queries)] * 2)))
    columns = sorted(data.draw(st.tuples(*[st.integers(0, problem.keys)] * 2)))
    head = data.draw(st.integers(0, problem.heads - 1))
    tile = trace.tile(range(*rows), range(*columns), head=head)
    assert tile.dtype == problem.dtype
    torch.testing.assert_close(tile.double(), expected[:, head, slice(*rows), slice(*columns)], atol=1e-6, rtol=0)


@pytest.mark.parametrize("weights", [*WEIGHTS_NAMES, "hard sample"])
@pytest.mark.parametrize("key_heads", [1, 2, 6])
def test_weights_times_values_is_the_output_before_the_last_projection(key_heads: int, weights: str) -> None:
    torch.manual_seed(0)
    layer = MultiHead(30, 6, num_key_heads=key_heads, weights=make_weights(weights), rotary=Rotary(5, turned_width=4))
    x = torch.randn(2, 7, 30)
    joined: list[Tensor] = []
    layer.output.register_forward_pre_hook(lambda module, inputs: joined.append(inputs[0]))
    with watch(layer) as seen:
        layer(x, mask=causal & padding(torch.tensor([7, 4])))
    value = layer.project(x).value.repeat_interleave(6 // key_heads, dim=1)
    expected = (seen["attention"].weights() @ value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(joined[0], expected, atol=1e-5, rtol=0)


def test_row_top_and_indices_from_the_end() -> None:
    """Scores 0, log 2, log 5 and log 2 again: weights 1/10, 2/10, 5/10, 2/10."""
    key = torch.tensor([1.0, 2, 5, 2]).log().unsqueeze(-1)
    _, trace = watched(torch.ones(3, 1), key, torch.ones(4, 1))
    torch.testing.assert_close(trace.row(1, head=0, batch=0), torch.tensor([0.1, 0.2, 0.5, 0.2]))
    assert trace.row(-1).shape == (1, 1, 4)
    torch.testing.assert_close(trace.row(-1), trace.row(2))
    best = trace.top(2, 2)
    assert best[0].column == 2
    assert best[0].weight == pytest.approx(0.5)
    assert best[1].column in (1, 3)
    assert [link.weight for link in trace.top(0, 99)] == pytest.approx([0.5, 0.2, 0.2, 0.1])


def test_the_whole_matrix_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trace = watched(*PROBLEM.tensors())
    monkeypatch.setattr(trace_module, "WEIGHTS_LIMIT", 2 * 5 * 7)
    assert trace.weights(head=1).shape == (2, 5, 7)
    with pytest.raises(TooLargeError, match=r"280 numbers .* the limit is 70\. .*force=True"):
        trace.weights()
    assert trace.weights(force=True).shape == (2, 4, 5, 7)


def test_what_a_trace_refuses() -> None:
    _, trace = watched(*PROBLEM.tensors())
    with pytest.raises(ShapeError, match="no head 4; there are 4"):
        trace.row(0, head=4)
    with pytest.raises(ShapeError, match="no sequence -3; there are 2"):
        trace.row(0, batch=-3)
    with pytest.raises(ShapeError, match="no row 5; there are 5"):
        trace.row(5)
    with pytest.raises(ShapeError, match="columns of a tile must be a slice or range with step 1, between 0 and 7"):
        trace.tile(slice(None), range(8))
    with pytest.raises(ShapeError, match=r"rows .* not range\(0, 5, 2\)"):
        trace.tile(slice(0, 5, 2), slice(None))
    with pytest.raises(OptionError, match="k to be at least 1, not 0"):
        trace.top(0, 0)


def test_steps_that_continue_each_other_are_the_rows_of_one_trace() -> None:
    query, key, value = PROBLEM.tensors()
    _, whole = watched(query, key, value, mask=causal)
    with watch() as seen:
        for row in range(5):  # a recurrent decoder: the same keys at each step
            attend(query[:, :, row : row + 1], key, value, mask=causal, first_row=row)
    assert seen["attention"].shape == (2, 4, 5, 7)
    torch.testing.assert_close(seen["attention"].weights(), whole.weights(), atol=1e-7, rtol=0)
    torch.testing.assert_close(seen["attention"].tile(slice(1, 4), slice(2, 3)), whole.tile(slice(1, 4), slice(2, 3)))
    with watch() as seen:
        for row in (2, 3, 4):  # watched only from the middle on
            attend(query[:, :, row : row + 1], key, value, mask=causal, first_row=row)
    torch.testing.assert_close(seen["attention"].weights(), whole.weights()[:, :, 2:], atol=1e-7, rtol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_static_cache_is_copied(mode: type) -> None:
    """Each step's keys are those that it saw; the steps after it write into the same buffer."""
    torch.manual_seed(0)
    layer, x = MultiHead(8, 2), torch.randn(3, 5, 8)
    with mode():
        with watch(layer) as whole:
            layer(x, mask=causal)
        cache = StaticCache(9)
        with watch(layer) as seen:
            for row in range(5):
                layer(x[:, row : row + 1], mask=causal, cache=cache)
    assert seen["attention"].shape == (3, 2, 5, 5)
    torch.testing.assert_close(seen["attention"].weights(), whole["attention"].weights(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("what", ["queries", "keys", "bias", "mask tensor", "joined mask"])
def test_a_changed_tensor_is_an_error_not_a_wrong_picture(what: str) -> None:
    query, key, value = PROBLEM.tensors()
    bias, marks = torch.zeros(5, 7), torch.ones(5, 7, dtype=torch.bool)
    mask = causal | dense(marks) if what == "joined mask" else marks
    _, trace = watched(query, key, value, bias=bias, mask=mask)
    trace.row(0)
    tensors = {"queries": query, "keys": key, "bias": bias, "mask tensor": marks, "joined mask": marks}
    tensors[what][0] = 0
    with pytest.raises(StaleTraceError, match=what.split()[0].replace("joined", "mask")):
        trace.row(1)
    with pytest.raises(StaleTraceError):
        trace.overview()


def test_a_learned_score_is_kept_as_it_was() -> None:
    score = make_score("mlp", 4, 4)
    _, trace = watched(*PROBLEM.tensors(), score=score)
    before = trace.row(0)
    with torch.no_grad():
        for parameter in score.parameters():  # type: ignore[union-attr]
            parameter.add_(1.0)
    torch.testing.assert_close(trace.row(1), watched(*PROBLEM.tensors(), score=make_score("mlp", 4, 4))[1].row(1))
    torch.testing.assert_close(trace.row(0), before)


@pytest.mark.parametrize("bias_kind", ["none", "tensor", "rule"])
def test_watched_in_inference_mode_and_read_anywhere(bias_kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (trace_module, segment_module):  # so that statistics are filled in bit by bit
        monkeypatch.setattr(module, "STATISTIC_LIMIT", 8)
    _, expected = watched(*PROBLEM.tensors(), mask=causal, bias=distance_bias(4) if bias_kind != "none" else None)
    with torch.inference_mode():
        added = distance_bias(4)(*grid(PROBLEM.shape)).float()
        bias: Bias | Tensor | None = {"none": None, "tensor": added, "rule": distance_bias(4)}[bias_kind]
        _, trace = watched(*PROBLEM.tensors(), mask=allowed_by(causal, PROBLEM.shape), bias=bias)
        first = trace.row(1)
        trace.overview(3)
    torch.testing.assert_close(first, expected.row(1))
    torch.testing.assert_close(trace.weights(), expected.weights())


def test_reading_records_no_gradient() -> None:
    slope = torch.tensor(0.5, requires_grad=True)
    bias = Bias(lambda batch, head, row, column: slope * (row - column))
    query, key, value = (tensor.requires_grad_() for tensor in PROBLEM.tensors())
    _, trace = watched(query, key, value, bias=bias)
    assert not trace.weights().requires_grad
    assert not trace.overview().values.requires_grad
