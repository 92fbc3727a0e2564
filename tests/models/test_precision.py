"""Narrow matrix products: near the wide ones, and nothing else changed."""

import copy

import pytest
import torch
import torch.nn.functional as F
from generators import seq2seq
from torch import nn

from saccade.errors import UnknownNameError
from saccade.kernels import precision
from saccade.kernels.precision import narrow_products, product_type
from saccade.kernels.vocabulary_loss import vocabulary_loss
from saccade.models import lower_precision


def narrow(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(torch.float32)


def test_products_are_of_narrow_numbers_and_their_gradients_too() -> None:
    torch.manual_seed(1)
    x, layer = torch.randn(3, 5, 7, requires_grad=True), nn.Linear(7, 11)
    with narrow_products("cpu"):
        output = layer(x)
    assert output.dtype == torch.float32
    expected = F.linear(narrow(x), narrow(layer.weight)) + layer.bias
    torch.testing.assert_close(output, expected, rtol=0.01, atol=0.01)  # the product is rounded to bf16 once more
    assert not torch.equal(output, layer(x))
    wide = torch.autograd.grad(layer(x).square().sum(), [x, layer.weight, layer.bias])
    found = torch.autograd.grad(output.square().sum(), [x, layer.weight, layer.bias])
    for one, other in zip(found, wide, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("vocabulary", [700, 11])
def test_a_processor_without_narrow_instructions_computes_nearly_the_same(
    vocabulary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    x, layer = torch.randn(64, 24, requires_grad=True), nn.Linear(24, vocabulary)
    targets = torch.randint(vocabulary, (64,))
    found = []
    for features in ({"avx512_bf16"}, {"avx512f"}):
        monkeypatch.setattr(precision, "_processor_features", lambda features=features: features)
        with narrow_products("cpu"):
            output = layer(x)
            loss = vocabulary_loss(x, layer.weight, layer.bias, targets, label_smoothing=0.1) + output.square().sum()
        found.append([output, loss, *torch.autograd.grad(loss, [x, layer.weight, layer.bias])])
    for native, emulated in zip(*found, strict=True):
        torch.testing.assert_close(emulated, native, rtol=0.02, atol=0.1)  # native products are rounded to bf16
    wide = layer(x)
    assert (found[0][0] - found[1][0]).abs().max() < (found[0][0] - wide).abs().max()


@pytest.mark.parametrize("features", [{"avx512_bf16"}, {"avx512f"}])
@pytest.mark.parametrize("types", [(torch.bfloat16, torch.float32), (torch.bfloat16, torch.bfloat16)])
def test_numbers_that_are_narrow_already(
    features: set[str], types: tuple[torch.dtype, torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Narrow features times wide weights, as in a training loop under autocast; and a model in bf16."""
    monkeypatch.setattr(precision, "_processor_features", lambda: features)
    torch.manual_seed(1)
    x = torch.randn(64, 24).to(types[0]).requires_grad_()
    weight = torch.randn(11, 24).to(types[1]).requires_grad_()
    targets = torch.randint(11, (64,))
    with torch.autocast("cpu", torch.bfloat16):
        loss = vocabulary_loss(x, weight, None, targets, label_smoothing=0.1)
    with narrow_products("cpu"):
        product = F.linear(x, weight)
    found = torch.autograd.grad(loss.float() + product.float().square().mean(), [x, weight])
    wide = F.cross_entropy(x.float() @ weight.float().T, targets, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss.float(), wide, rtol=0.02, atol=0.1)
    assert [one.dtype for one in found] == list(types)


def test_outside_they_are_wide_again() -> None:
    x, layer = torch.randn(3, 7), nn.Linear(7, 11)
    before = layer(x)
    with narrow_products("cpu"):
        assert product_type(x) == torch.bfloat16
    assert product_type(x) == torch.float32
    assert torch.equal(layer(x), before)


@pytest.mark.parametrize(
    ("kind", "variant"),
    [("transformer", "sinusoidal"), ("recurrent", "lstm_state"), ("convolutional", "kernel_3")],
)
def test_a_model_of_lower_precision_is_near(kind: str, variant: str) -> None:
    source, target = torch.randint(5, (2, 7)), torch.randint(5, (2, 6))
    with torch.no_grad():
        wide = seq2seq(kind, variant)(source, None, target)
        model = lower_precision(copy.deepcopy(seq2seq(kind, variant)), "bf16")
        found = model(source, None, target)
    assert found.dtype == torch.float32
    assert not torch.equal(found, wide)
    torch.testing.assert_close(found, wide, rtol=0.1, atol=0.05 * wide.abs().max().item())


def test_full_precision_is_the_model_itself() -> None:
    layer = nn.Sequential(nn.Linear(3, 5))
    assert lower_precision(layer, "fp32") is layer
    assert isinstance(layer[0], nn.Linear)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"'fp8'.*bf16, fp32"):
        lower_precision(nn.Linear(3, 5), "fp8")
