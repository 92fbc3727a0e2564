"""Work in blocks gives what the whole gives; the limits are made tiny, so that small problems have many blocks."""

from __future__ import annotations

import importlib

import pytest
import torch
from attention_cases import RULE_NAMES, SCORE_NAMES, Problem, distance_bias, make_rule, make_score, make_weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade import attend, causal, padding, rule, watch, window
from saccade.attention import Hard, Kernel, Mask

attend_module = importlib.import_module("saccade.attention.attend")
segment_module = importlib.import_module("saccade.attention.watching.segment")
trace_module = importlib.import_module("saccade.attention.watching.trace")
overview_module = importlib.import_module("saccade.attention.watching.overview")
PROBLEM = Problem(heads=4, key_heads=2, queries=13, keys=17, dtype=torch.float64)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows at a time of the equation, one or two of the masks, three columns of a statistic."""
    monkeypatch.setattr(attend_module, "EQUATION_LIMIT", 2 * 2 * 4 * 17)
    monkeypatch.setattr(attend_module, "MASK_LIMIT", 2 * 17)
    monkeypatch.setattr(attend_module, "NARROW_BLOCK", 3)
    monkeypatch.setattr(trace_module, "STATISTIC_LIMIT", 12)
    monkeypatch.setattr(segment_module, "STATISTIC_LIMIT", 12)
    monkeypatch.setattr(segment_module, "STATISTIC_COLUMNS", 3)
    monkeypatch.setattr(overview_module, "TILE_WEIGHTS", 10)
    monkeypatch.setattr(overview_module, "TILE_COLUMNS", 5)


def whole_and_blocked(request: pytest.FixtureRequest, **options: object) -> tuple[list[Tensor], list[Tensor]]:
    """Output, gradients, weights and overview, first whole, then in blocks."""
    results = []
    for is_blocked in (False, True):
        if is_blocked:
            request.getfixturevalue("blocks")
        inputs = tuple(tensor.requires_grad_() for tensor in PROBLEM.tensors())
        # The dense form of a rule may be kept from the whole pass; a fresh rule has none.
        mask = make_rule(str(options["mask_name"]), PROBLEM.shape)
        if mask is not None:
            mask.memo = None
        rest = {name: value for name, value in options.items() if name != "mask_name"}
        with watch() as seen:
            output = attend(*inputs, mask=mask, **rest)  # type: ignore[arg-type]
        found = torch.autograd.grad((output * output.detach().cos()).sum(), inputs, allow_unused=True)
        overview = seen["attention"].overview(5, head=3, batch=1).values
        peaks = seen["attention"].overview(4, "max", head=2, batch=1).values
        gradients = [gradient for gradient in found if gradient is not None]
        results.append([output.detach(), *gradients, seen["attention"].weights(), overview, peaks])
    return results[0], results[1]


def assert_all_close(whole: list[Tensor], blocked: list[Tensor]) -> None:
    for one, other in zip(whole, blocked, strict=True):
        torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["equation", "fused"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("mask_name", RULE_NAMES)
def test_softmax(mask_name: str, with_bias: bool, kernel: Kernel, request: pytest.FixtureRequest) -> None:
    bias = distance_bias(4) if with_bias else None
    assert_all_close(*whole_and_blocked(request, mask_name=mask_name, bias=bias, kernel=kernel))


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("weights", ["softmax", "relu", "sparsemax", "hard", "hard straight_through"])
def test_scores_and_weights(score: str, weights: str, request: pytest.FixtureRequest) -> None:
    function = make_score(score, 4, 4, torch.float64)
    assert_all_close(
        *whole_and_blocked(
            request, mask_name="causal & padding", score=function, weights=make_weights(weights), kernel="equation"
        )
    )


@pytest.mark.usefixtures("blocks")
def test_samples_keep_their_log_probability_block_by_block() -> None:
    query, key, _ = PROBLEM.tensors()
    weights = Hard("sample", torch.Generator().manual_seed(3))
    identity = torch.eye(17, dtype=torch.float64).expand(2, 2, 17, 17)
    drawn = attend(query, key, identity, weights=weights, mask=window(4))
    soft = attend(query, key, identity, mask=window(4))
    assert weights.log_probability is not None
    assert weights.log_probability.shape == (2, 4, 13)
    torch.testing.assert_close(weights.log_probability, (drawn * soft).sum(-1).log())


LENGTHS = torch.tensor([11, 17])


@pytest.mark.parametrize("kernel", ["equation", "fused"])
@pytest.mark.parametrize(
    "mask",
    [causal & padding(LENGTHS), window(2), causal & window(1) | padding(LENGTHS)],
    ids=["both", "near", "either"],
)
@given(
    mask_limit=st.integers(1, 80), equation_limit=st.integers(1, 300), narrow=st.integers(1, 9), first=st.integers(0, 9)
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_any_limits(
    mask: Mask,
    kernel: Kernel,
    mask_limit: int,
    equation_limit: int,
    narrow: int,
    first: int,
) -> None:
    inputs = PROBLEM.tensors()
    expected = attend(*inputs, mask=mask, first_row=first, kernel=kernel)
    mask.memo = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attend_module, "MASK_LIMIT", mask_limit)
        patch.setattr(attend_module, "EQUATION_LIMIT", equation_limit)
        patch.setattr(attend_module, "NARROW_BLOCK", narrow)
        torch.testing.assert_close(attend(*inputs, mask=mask, first_row=first, kernel=kernel), expected)


@pytest.mark.parametrize("near", [window(3), causal, window(3) & causal], ids=["window", "causal", "both"])
def test_a_rule_is_never_asked_for_more_than_the_limit(near: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of every sequence and head is the least: here 2·4·17 answers, and 2·4·(what a window reaches)."""
    monkeypatch.setattr(attend_module, "MASK_LIMIT", 2 * 4 * 17)
    monkeypatch.setattr(attend_module, "NARROW_BLOCK", 5)
    asked: list[int] = []

    def everything(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        answer = batch + head + row + column >= 0
        asked.append(answer.numel())
        return answer

    attend(*PROBLEM.tensors(), mask=near & rule(everything))
    assert len(asked) > 4
    assert max(asked) <= 2 * 4 * 17
