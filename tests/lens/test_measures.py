"""Rollout, entropy and distance, against numbers that can be worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import saccade
from saccade.attention import Trace
from saccade.errors import OptionError, ShapeError
from saccade.lens import measures
from saccade.lens.difference import matching
from saccade.lens.measures import distance, entropy, reduce_heads, rollout


def trace_of(weights: Tensor, mask: Tensor | None = None) -> Trace:
    """An attention with these weights (H, Q, K): queries are one-hot, so keys are the logarithms of the weights."""
    heads, num_queries, num_keys = weights.shape
    query = torch.eye(num_queries).expand(1, heads, -1, -1) * math.sqrt(num_queries)
    key = weights.clamp(min=1e-30).log().transpose(-1, -2)[None]
    assert key.shape == (1, heads, num_keys, num_queries)
    with saccade.watch() as seen:
        saccade.attend(query.contiguous(), key, key, mask=None if mask is None else saccade.dense(mask))
    return seen["attention"]


def test_rollout_by_hand() -> None:
    first, second = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    # (first + I) / 2 mixes both halves alike; (second + I) / 2 is [[3/4, 1/4], [0, 1]]; rows of the first are equal.
    assert rollout([first, second]).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert rollout([second, first]).tolist() == [[0.375, 0.625], [0.375, 0.625]]
    assert rollout([second]).tolist() == [[0.75, 0.25], [0.0, 1.0]]


def test_rows_of_a_rollout_sum_to_one_whatever_they_come_from() -> None:
    largest = torch.tensor([[0.9, 0.6, 0.5], [0.0, 0.0, 0.0], [0.3, 0.3, 0.3]])  # a maximum; a row without any key
    found = rollout([largest, largest])
    torch.testing.assert_close(found.sum(-1), torch.ones(3))
    assert found[1].tolist() == [0.0, 1.0, 0.0]


def test_what_cannot_be_rolled_out_is_refused() -> None:
    with pytest.raises(OptionError, match="at least one self-attention"):
        rollout([])
    with pytest.raises(ShapeError, match=r"must have shape \(2, 2\), not \(3, 3\)"):
        rollout([torch.eye(2), torch.eye(3)])


def test_entropy_of_one_two_and_four_equal_keys() -> None:
    one, two, four = torch.eye(4), torch.eye(4).roll(1, 0) / 2 + torch.eye(4) / 2, torch.full((4, 4), 0.25)
    found = entropy(trace_of(torch.stack([one, two, four])))
    torch.testing.assert_close(found, torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64), atol=1e-6, rtol=0)


def test_distance_of_heads_that_look_at_themselves_back_and_everywhere() -> None:
    back = torch.eye(5).roll(-2, 1)  # 0 looks at 3, 1 at 4, 2 at 0, 3 at 1, 4 at 2: (3 + 3 + 2 + 2 + 2) / 5
    found = distance(trace_of(torch.stack([torch.eye(5), back, torch.full((5, 5), 0.2)])))
    torch.testing.assert_close(found, torch.tensor([0.0, 2.4, 1.6], dtype=torch.float64), atol=1e-6, rtol=0)
    with pytest.raises(ShapeError, match="from 3 queries to 4"):
        distance(trace_of(torch.full((1, 3, 4), 0.25)))


def test_rows_without_a_key_do_not_count() -> None:
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2:] = False
    found = entropy(trace_of(torch.full((1, 4, 4), 0.25), mask))
    torch.testing.assert_close(found, torch.tensor([2.0], dtype=torch.float64))


def test_nothing_is_measured_of_weights_that_are_not_finite() -> None:
    weights = torch.full((2, 3, 3), 1 / 3)
    weights[1, 2, 0] = math.nan
    for measure in (entropy, distance):
        with pytest.raises(OptionError, match=r"^Head 1 of attention has weights that are not finite"):
            measure(trace_of(weights))


def test_without_keys_there_is_no_entropy() -> None:
    assert entropy(trace_of(torch.zeros(2, 3, 0))).tolist() == [0.0, 0.0]


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    trace = trace_of(torch.rand(3, 11, 11, generator=generator).softmax(-1))
    whole = entropy(trace), distance(trace)
    monkeypatch.setattr(measures, "BLOCK_WEIGHTS", 3 * 11)
    done: list[float] = []
    in_blocks = entropy(trace, progress=done.append), distance(trace)
    for one, other in zip(whole, in_blocks, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    assert len(done) == 3 * 4
    assert done == sorted(done)
    assert done[-1] == 1.0


def test_heads_are_reduced_one_at_a_time() -> None:
    heads = torch.tensor([[[0.0, 1.0]], [[0.5, 0.5]], [[1.0, 0.0]]])
    assert reduce_heads(iter(heads), "mean").tolist() == [[0.5, 0.5]]
    assert reduce_heads(iter(heads), "max").tolist() == [[1.0, 1.0]]
    assert reduce_heads(iter(heads), "max").dtype == torch.float32


def test_tokens_are_matched_in_order() -> None:
    assert matching(["a", "b", "c", "d"], ["x", "b", "c", "y", "d"]) == [(1, 1), (2, 2), (3, 4)]
    assert matching(["a"], ["b"]) == []
    many = ["the"] * 300  # difflib would take what is frequent for noise
    assert matching(many, many) == [(place, place) for place in range(300)]
