"""What holds for every attention, over random shapes, types and rules."""

from __future__ import annotations

import itertools

import pytest
import torch
from attention_cases import (
    SCORE_NAMES,
    WEIGHTS_NAMES,
    Problem,
    allowed_by,
    make_score,
    problems,
    property_settings,
    rules,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade import MultiHead, attend, causal, padding, watch, window
from saccade.attention import Cache, GrowingCache, Hard, Mask, Rotary, StaticCache, Trace

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}
ALL_TYPES = (torch.float32, torch.float64, torch.bfloat16)


def weights_of(problem: Problem, mask: Mask | None, **options: object) -> tuple[Tensor, Trace]:
    """The weights as the forward pass uses them (the values are the identity), and their trace."""
    query, key, _ = problem.tensors()
    identity = torch.eye(problem.keys, dtype=problem.dtype).expand(problem.batch, problem.key_heads, -1, -1)
    with watch() as seen:
        weights = attend(query, key, identity, mask=mask, **options)  # type: ignore[arg-type]
    return weights, seen["attention"]


@property_settings
@given(st.data())
@pytest.mark.parametrize("weights", [*WEIGHTS_NAMES, "hard sample"])
def test_rows_sum_to_one_and_masked_is_exactly_zero(weights: str, data: st.DataObject) -> None:
    problem = data.draw(problems(ALL_TYPES))
    first_row = data.draw(st.integers(0, 3))
    mask = data.draw(st.none() | rules(problem.shape, first_row))
    kernel = data.draw(st.sampled_from(["auto", "equation"]))
    torch.manual_seed(problem.seed)
    function = Hard("sample") if weights == "hard sample" else weights
    found, trace = weights_of(problem, mask, weights=function, kernel=kernel, first_row=first_row)
    allowed = allowed_by(mask, problem.shape, first_row)
    for result in (found, trace.weights()):
        assert (result[~allowed] == 0).all()
        assert (result >= 0).all()
        if weights != "relu":
            sums = result.double().sum(-1)
            torch.testing.assert_close(sums, allowed.any(-1).double(), atol=TOLERANCE[problem.dtype], rtol=0)
    if weights.startswith("hard"):
        assert ((found == 0) | (found == 1)).all()
        assert torch.equal(found.double(), trace.weights().double())  # the decision that was made, not another


@property_settings
@given(st.data())
@pytest.mark.parametrize("weights", WEIGHTS_NAMES)
def test_no_future_leak(weights: str, data: st.DataObject) -> None:
    """Whatever comes after a row changes no bit of it."""
    problem = data.draw(problems(square=True))
    mask = causal & data.draw(rules(problem.shape)) if data.draw(st.booleans()) else causal
    row = data.draw(st.integers(0, problem.queries - 1))
    query, key, value = problem.tensors()
    before = attend(query, key, value, mask=mask, weights=weights)
    for tensor in (query, key, value):
        tensor[:, :, row + 1 :] = 1e3 * torch.randn(tensor[:, :, row + 1 :].shape, dtype=tensor.dtype)
    after = attend(query, key, value, mask=mask, weights=weights)
    assert torch.equal(before[:, :, : row + 1], after[:, :, : row + 1])


@property_settings
@given(st.data())
@pytest.mark.parametrize("score", SCORE_NAMES)
def test_permutation_equivariance(score: str, data: st.DataObject) -> None:
    """Without positions, the order of the inputs is the order of the outputs and nothing else."""
    problem = data.draw(problems((torch.float64,), square=True))
    # In one dimension all cosines are 1 or -1: among equals, hard attention takes the first.
    names = WEIGHTS_NAMES if problem.width > 1 else WEIGHTS_NAMES[:3]
    weights = data.draw(st.sampled_from(names))
    query, key, value = problem.tensors()
    order = torch.randperm(problem.keys, generator=torch.Generator().manual_seed(problem.seed))
    function = make_score(score, problem.heads, problem.width, torch.float64)
    whole = attend(query, key, value, score=function, weights=weights)
    moved = attend(query[:, :, order], key[:, :, order], value[:, :, order], score=function, weights=weights)
    torch.testing.assert_close(moved, whole[:, :, order], atol=1e-10, rtol=0)


@property_settings
@given(st.data())
def test_fused_is_the_equation(data: st.DataObject) -> None:
    problem = data.draw(problems(ALL_TYPES))
    first_row = data.draw(st.integers(0, 3))
    mask = data.draw(st.none() | rules(problem.shape, first_row))
    name = data.draw(st.sampled_from(["dot", "scaled_dot", "cosine", "bilinear"]))
    score = make_score(name, problem.heads, problem.width, problem.dtype)
    inputs = problem.tensors()
    fused = attend(*inputs, mask=mask, score=score, kernel="fused", first_row=first_row)
    equation = attend(*inputs, mask=mask, score=score, kernel="equation", first_row=first_row)
    tolerance = TOLERANCE[problem.dtype] * (4 if problem.dtype == torch.bfloat16 else 1)
    torch.testing.assert_close(fused, equation, atol=tolerance, rtol=tolerance)


@property_settings
@given(st.data())
@pytest.mark.parametrize("weights", WEIGHTS_NAMES)
def test_batched_is_single(weights: str, data: st.DataObject) -> None:
    """A sequence alone gives what it gives in company, also where the company is longer (padding)."""
    problem = data.draw(problems())
    lengths = torch.tensor(data.draw(st.lists(st.integers(1, problem.keys), min_size=3, max_size=3)))[: problem.batch]
    query, key, value = problem.tensors()
    together = attend(query, key, value, mask=padding(lengths), weights=weights)
    for b, length in enumerate(lengths.tolist()):
        one = slice(b, b + 1)
        alone = attend(query[one], key[one, :, :length], value[one, :, :length], weights=weights)
        torch.testing.assert_close(together[one], alone, atol=TOLERANCE[problem.dtype], rtol=1e-5)


@pytest.mark.parametrize("cache_kind", [GrowingCache, lambda: StaticCache(23)], ids=["growing", "static"])
@given(data=st.data())
@property_settings
def test_cached_is_uncached(cache_kind: type[GrowingCache], data: st.DataObject) -> None:
    """However a sequence is cut into steps, with positions and with every rule that looks at positions only."""
    key_heads = data.draw(st.sampled_from([1, 2, 4]))
    length = data.draw(st.integers(2, 11))
    cuts = sorted(data.draw(st.sets(st.integers(1, length - 1))) | {0, length})
    weights = data.draw(st.sampled_from(WEIGHTS_NAMES))
    positions = data.draw(st.sampled_from(["none", "rotary", "alibi"]))
    mask = causal & window(data.draw(st.integers(1, 5))) if data.draw(st.booleans()) else causal
    torch.manual_seed(length)
    layer = MultiHead(
        24,
        4,
        num_key_heads=key_heads,
        weights=weights,
        rotary=Rotary(6) if positions == "rotary" else None,
        alibi=positions == "alibi",
    ).double()
    x = torch.randn(3, length, 24, dtype=torch.float64)
    cache: Cache = cache_kind()
    with torch.no_grad():
        whole = layer(x, mask=mask)
        steps = [layer(x[:, a:b], mask=mask, cache=cache) for a, b in itertools.pairwise(cuts)]
    assert cache.length == length
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, atol=1e-10, rtol=0)


@pytest.mark.parametrize("cache_kind", [GrowingCache, lambda: StaticCache(9)], ids=["growing", "static"])
def test_a_reordered_cache_goes_on_from_other_sequences(cache_kind: type[GrowingCache]) -> None:
    torch.manual_seed(0)
    layer = MultiHead(8, 2, rotary=Rotary(4)).double()
    prefix, step = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(4, 1, 8, dtype=torch.float64)
    index = torch.tensor([2, 0, 0, 1])
    cache = cache_kind()
    with torch.no_grad():
        layer(prefix, mask=causal, cache=cache)
        cache.reorder(index)
        went_on = layer(step, mask=causal, cache=cache)
        expected = layer(torch.cat([prefix[index], step], dim=1), mask=causal)[:, 5:]
    torch.testing.assert_close(went_on, expected)
