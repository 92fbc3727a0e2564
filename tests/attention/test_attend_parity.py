"""The same numbers as torch's own attention, forward and backward, and as entmax and flex_attention."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from attention_cases import RULE_NAMES, Problem, allowed_by, distance_bias, grid, make_rule
from entmax import sparsemax
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from saccade import attend, causal, padding, window
from saccade.attention import ALiBi, Bias, Kernel, Mask

KERNELS: list[Kernel] = ["equation", "fused"]
SHAPES = {
    "Q < K": Problem(),
    "Q > K": Problem(queries=11, keys=6),
    "Q = K": Problem(queries=7, keys=7),
    "grouped heads": Problem(heads=6, key_heads=2),
    "one key head": Problem(heads=5, key_heads=1),
    "values narrower": Problem(width=9, value_width=2),
}


def gradients(output: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Those of a sum with unequal factors, so that no two elements are alike."""
    factors = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return torch.autograd.grad((output * factors).sum(), inputs)


def all_close(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float = 1e-5) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask_name", RULE_NAMES)
@pytest.mark.parametrize("shape_name", SHAPES)
def test_same_as_torch(shape_name: str, mask_name: str, kernel: Kernel) -> None:
    problem = SHAPES[shape_name]
    inputs = tuple(tensor.requires_grad_() for tensor in problem.tensors())
    mask = make_rule(mask_name, problem.shape)
    allowed = None if mask is None else allowed_by(mask, problem.shape)
    output = attend(*inputs, mask=mask, kernel=kernel)
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=allowed, enable_gqa=True)
    all_close((output, *gradients(output, inputs)), (expected, *gradients(expected, inputs)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask_shape", [(5, 7), (3, 5, 7), (2, 3, 5, 7), (2, 1, 1, 7), (1, 3, 5, 1), (5, 1)])
def test_boolean_tensors_as_torch_takes_them(mask_shape: tuple[int, ...], kernel: Kernel) -> None:
    inputs = Problem().tensors()
    marks = torch.rand(mask_shape, generator=torch.Generator().manual_seed(2)) < 0.7
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=marks.expand(2, 3, 5, 7))
    all_close((attend(*inputs, mask=marks, kernel=kernel),), (expected,))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bias_shape", [(5, 7), (3, 5, 7), (2, 3, 5, 7), (3, 1, 7), (2, 1, 5, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_bias_tensors_with_their_gradient(bias_shape: tuple[int, ...], masked: bool, kernel: Kernel) -> None:
    bias = torch.randn(bias_shape, generator=torch.Generator().manual_seed(2)).requires_grad_()
    inputs = (*(tensor.requires_grad_() for tensor in Problem().tensors()), bias)
    mask = window(3) if masked else None
    added = bias.expand(2, 3, 5, 7).masked_fill(~allowed_by(mask, (2, 3, 5, 7)), float("-inf"))
    output = attend(*inputs[:3], bias=bias, mask=mask, kernel=kernel)
    expected = F.scaled_dot_product_attention(*inputs[:3], attn_mask=added)
    all_close((output, *gradients(output, inputs)), (expected, *gradients(expected, inputs)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_bias_rule_is_its_tensor(kernel: Kernel) -> None:
    problem = Problem()
    inputs, bias = problem.tensors(), distance_bias(3)
    tensor = bias(*grid(problem.shape, 4)).float()
    by_rule = attend(*inputs, bias=bias, mask=causal, first_row=4, kernel=kernel)
    expected = F.scaled_dot_product_attention(
        *inputs, attn_mask=tensor.masked_fill(~allowed_by(causal, problem.shape, 4), float("-inf"))
    )
    all_close((by_rule, attend(*inputs, bias=tensor, mask=causal, first_row=4, kernel=kernel)), (expected, expected))


@pytest.mark.parametrize("kernel", KERNELS)
def test_first_row_is_the_absolute_position(kernel: Kernel) -> None:
    """The last rows of a causal matrix, asked alone."""
    query, key, value = Problem(queries=7, keys=7).tensors()
    whole = attend(query, key, value, mask=causal & window(3), kernel=kernel)
    late = attend(query[:, :, 4:], key, value, mask=causal & window(3), kernel=kernel, first_row=4)
    all_close((late,), (whole[:, :, 4:],))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", [None, causal, window(2)], ids=["none", "causal", "window"])
def test_half_precision_is_rounded_float32(mask: Mask | None, kernel: Kernel, dtype: torch.dtype) -> None:
    """Sums are formed in float32, so only the inputs' and the output's rounding is left (2^-8 for bfloat16)."""
    problem = Problem(queries=7, keys=7, width=16, value_width=16, dtype=dtype, scale=2.5)
    inputs = problem.tensors()
    expected = attend(*(tensor.float() for tensor in inputs), mask=mask, kernel="equation")
    output = attend(*inputs, mask=mask, kernel=kernel)
    assert output.dtype == dtype
    torch.testing.assert_close(output.float(), expected, atol=2e-2, rtol=2e-2)


def test_scores_of_half_precision_inputs_are_not_rounded() -> None:
    """A score of 20 in bfloat16 is good to 0.06, a weight then to 6 in 100; only the weight itself is rounded."""
    query, key, _ = Problem(width=16, scale=3.0, dtype=torch.bfloat16).tensors()
    identity = torch.eye(7).expand(2, 3, 7, 7)
    expected = attend(query.float(), key.float(), identity, kernel="equation")
    weights = attend(query, key, identity.bfloat16(), kernel="equation")
    torch.testing.assert_close(weights.float(), expected, atol=2**-9, rtol=0)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_sparsemax_is_entmaxs(scale: float) -> None:
    query, key, value = (tensor.requires_grad_() for tensor in Problem(scale=scale).tensors())
    output = attend(query, key, value, weights="sparsemax")
    expected = sparsemax(query @ key.transpose(-1, -2) / 2, dim=-1) @ value
    inputs = (query, key, value)
    all_close((output, *gradients(output, inputs)), (expected, *gradients(expected, inputs)), 1e-5 * max(1, scale))


FLEX_RULES = ["causal", "padding", "window", "causal & padding", "window | ~causal", "dense", "rule"]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("name", FLEX_RULES)
def test_rules_run_unchanged_in_flex_attention(name: str) -> None:
    problem = Problem(queries=13, keys=17, width=8, value_width=8)
    inputs = problem.tensors()
    mask = make_rule(name, problem.shape)
    assert mask is not None
    block_mask = create_block_mask(mask, 2, 3, 13, 17, device="cpu", BLOCK_SIZE=16)
    all_close((attend(*inputs, mask=mask),), (flex_attention(*inputs, block_mask=block_mask),))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("bias", [distance_bias(3), ALiBi(3)], ids=["distance", "alibi"])
def test_bias_rules_run_as_a_score_mod(bias: Bias) -> None:
    problem = Problem(queries=13, keys=17, width=8, value_width=8)
    inputs = problem.tensors()
    block_mask = create_block_mask(padding(torch.tensor([5, 17])), 2, 3, 13, 17, device="cpu", BLOCK_SIZE=16)
    expected = flex_attention(*inputs, score_mod=bias.as_score_mod(), block_mask=block_mask)
    all_close((attend(*inputs, bias=bias, mask=padding(torch.tensor([5, 17]))),), (expected.float(),))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("masked", [False, True])
def test_nothing_to_ask_or_to_answer(masked: bool, kernel: Kernel) -> None:
    """No queries: an empty output. No keys: zeros."""
    mask = causal if masked else None
    assert attend(torch.zeros(0, 3), torch.ones(4, 3), torch.ones(4, 2), mask=mask, kernel=kernel).shape == (0, 2)
    empty = attend(torch.ones(4, 3), torch.zeros(0, 3), torch.zeros(0, 2), mask=mask, kernel=kernel)
    torch.testing.assert_close(empty, torch.zeros(4, 2))
