"""Gradients: against finite differences, and where there is nothing to attend to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from attention_cases import SCORE_NAMES, Problem, allowed_by, distance_bias, make_score, make_weights
from torch import Tensor, nn

from saccade import attend, causal, dense, padding, rule, window
from saccade.attention import Hard, Kernel, Mask, Score

KERNELS: list[Kernel] = ["equation", "fused"]
SMALL = Problem(batch=1, heads=2, key_heads=1, queries=3, keys=5, width=4, value_width=2, dtype=torch.float64)


def learned(score: str | Score) -> list[Tensor]:
    return list(score.parameters()) if isinstance(score, nn.Module) else []


def check(function: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    assert torch.autograd.gradcheck(function, [tensor.detach().requires_grad_() for tensor in inputs])


def attention_of(score: str | Score, **options: object) -> Callable[..., Tensor]:
    """attend as a function of query, key, value and the parameters of the score."""

    def run(query: Tensor, key: Tensor, value: Tensor, *parameters: Tensor) -> Tensor:
        if not isinstance(score, nn.Module):
            return attend(query, key, value, score=score, **options)  # type: ignore[arg-type]
        names = [name for name, _ in score.named_parameters()]
        own = dict(zip(names, parameters, strict=True))
        holder = _Holder(score, options)
        return torch.func.functional_call(holder, {f"score.{n}": p for n, p in own.items()}, (query, key, value))

    return run


class _Holder(nn.Module):
    def __init__(self, score: Score, options: dict[str, object]) -> None:
        super().__init__()
        self.score = score
        self.options = options

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend(query, key, value, score=self.score, **self.options)  # type: ignore[arg-type]


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("weights", ["softmax", "relu", "sparsemax"])
@pytest.mark.parametrize("score_name", SCORE_NAMES)
def test_equation(score_name: str, weights: str, masked: bool) -> None:
    score = make_score(score_name, 2, 4, torch.float64)
    mask, bias = (causal & window(1), distance_bias(2)) if masked else (None, None)
    function = attention_of(score, weights=weights, mask=mask, bias=bias, kernel="equation")
    check(function, [*SMALL.tensors(), *learned(score)])


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("score_name", ["dot", "scaled_dot", "cosine", "bilinear"])
def test_fused(score_name: str, masked: bool) -> None:
    score = make_score(score_name, 2, 4, torch.float64)
    mask, bias = (causal & window(1), distance_bias(2)) if masked else (None, None)
    check(attention_of(score, mask=mask, bias=bias, kernel="fused"), [*SMALL.tensors(), *learned(score)])


def gradients(output: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    factors = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return torch.autograd.grad((output * factors).sum(), inputs, allow_unused=True, retain_graph=True)


@pytest.mark.parametrize("mask", [None, causal], ids=["free", "causal"])
def test_straight_through_has_the_gradient_of_softmax(mask: Mask | None) -> None:
    """Forward the choice, backward as if softmax's weights had been used: for queries and keys exactly so."""
    query, key, value = (tensor.requires_grad_() for tensor in SMALL.tensors())
    hard = attend(query, key, value, weights=Hard("straight_through"), mask=mask)
    greedy = attend(query, key, value, weights="hard", mask=mask)
    soft = attend(query, key, value, mask=mask)
    assert torch.equal(hard, greedy)
    for ours, theirs in zip(gradients(hard, (query, key)), gradients(soft, (query, key)), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(hard, (value,)), gradients(greedy, (value,)))


@pytest.mark.parametrize("weights", ["hard", "hard sample"])
def test_a_plain_choice_passes_no_gradient_to_the_scores(weights: str) -> None:
    query, key, value = (tensor.requires_grad_() for tensor in SMALL.tensors())
    query_gradient, key_gradient, value_gradient = gradients(
        attend(query, key, value, weights=make_weights(weights)), (query, key, value)
    )
    assert query_gradient is None
    assert key_gradient is None
    assert value_gradient is not None
    assert value_gradient.abs().sum() > 0


def test_the_log_probability_of_a_sample_has_its_gradient() -> None:
    """What reinforcement differentiates: the log-softmax of the drawn keys."""

    def log_probability(query: Tensor, key: Tensor) -> Tensor:
        weights = Hard("sample", torch.Generator().manual_seed(4))  # the same draws at every call
        attend(query, key, SMALL.tensors()[2], weights=weights, mask=window(1))
        assert weights.log_probability is not None
        return weights.log_probability

    check(log_probability, list(SMALL.tensors()[:2]))


# --- nothing to attend to -----------------------------------------------------------------------------------

SHAPE = (2, 3, 5, 7)
LENGTHS = torch.tensor([0, 4])
EMPTY_ROWS: dict[str, Mask | Tensor] = {
    "rule": rule(lambda batch, head, row, column: (row != 2) & (column >= batch * 0 + head * 0)),
    "padding": padding(LENGTHS),
    "causal & padding": causal & padding(LENGTHS),
    "no keys at all": padding(torch.tensor([0, 0])),
    "out of the window": window(1) & ~window(1),
    "tensor": torch.arange(7)[None] < torch.tensor([3, 0, 7, 0, 1])[:, None],
    "dense": dense(torch.zeros(1, 7, dtype=torch.bool)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [*EMPTY_ROWS, "bias"])
def test_an_empty_row_is_zero_with_zero_gradient(name: str, kernel: Kernel) -> None:
    inputs = tuple(tensor.requires_grad_() for tensor in Problem().tensors())
    if name == "bias":
        marks = torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)) < 0.3
        allowed = marks & (torch.arange(5) != 2)[:, None]
        output = attend(*inputs, bias=torch.where(allowed, 0.5, float("-inf")), kernel=kernel)
    else:
        mask = EMPTY_ROWS[name]
        rule_of = dense(mask) if isinstance(mask, Tensor) else mask
        allowed = allowed_by(rule_of, SHAPE)
        output = attend(*inputs, mask=mask, kernel=kernel)
    empty = ~allowed.any(-1)
    assert empty.any()
    assert (output[empty] == 0).all()
    query_gradient, key_gradient, value_gradient = torch.autograd.grad(output.sum(), inputs)
    assert (query_gradient[empty] == 0).all()
    for gradient in (query_gradient, key_gradient, value_gradient):
        assert gradient.isfinite().all()
    unseen = ~allowed.any(dim=2)
    assert (value_gradient[unseen] == 0).all()
    assert (key_gradient[unseen] == 0).all()


@pytest.mark.parametrize("weights", ["softmax", "relu", "sparsemax", "hard", "hard sample", "hard straight_through"])
def test_an_empty_row_under_every_weights_function(weights: str) -> None:
    inputs = tuple(tensor.requires_grad_() for tensor in Problem().tensors())
    output = attend(*inputs, mask=window(1) & ~causal, weights=make_weights(weights), first_row=3, kernel="equation")
    assert (output[:, :, 4:] == 0).all()  # row 6 and later see only what lies ahead of them: column 7 and on
    for gradient in torch.autograd.grad(output.sum(), inputs, allow_unused=True):
        assert gradient is None or gradient.isfinite().all()
