"""What weights are worth: values, head outputs and their norms, and weights times gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_models import NAMES, both, padded
from torch import Tensor, nn

import saccade
from saccade import MultiHead
from saccade.errors import OptionError, StaleTraceError


class Two(nn.Module):
    """One query with weights 1/8, 2/8, 5/8 and values (3, 4), (0, 2), (0, 0); W_O doubles the first number."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.output.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        keys = torch.tensor([1.0, 2.0, 5.0]).log().view(1, 1, 3, 1).expand(1, 1, 3, 2) / 2
        values = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]).view(1, 1, 3, 2)
        query = torch.ones(1, 1, 1, 2) * x
        heads = F.scaled_dot_product_attention(query, keys, values, scale=1.0)
        output: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return output


def test_hand_numbers() -> None:
    model = Two()
    with saccade.watch(model, values=True) as seen:
        output = model(torch.ones(1, requires_grad=True))
    trace = seen["attention"]
    torch.testing.assert_close(trace.row(0, head=0, batch=0), torch.tensor([1, 2, 5]) / 8)
    torch.testing.assert_close(trace.outputs(head=0, batch=0), torch.tensor([[3 / 8, 1.0]]))
    torch.testing.assert_close(trace.norms(head=0, batch=0), torch.tensor([[math.sqrt(52) / 8, 0.5, 0.0]]))
    torch.testing.assert_close(trace.output_norms(head=0, batch=0), torch.tensor([math.hypot(6 / 8, 1.0)]))
    with pytest.raises(OptionError, match="No gradient has reached attention: run the model once with gradients"):
        trace.times_gradient()
    output.sum().backward()  # the gradient of a weight is its value · W_O · (1, 1): 10, 2, 0
    torch.testing.assert_close(trace.times_gradient(head=0, batch=0), torch.tensor([[10 / 8, 4 / 8, 0.0]]))
    view = saccade.view(seen)
    assert torch.equal(view.norms("attention", 0), trace.norms(head=0, batch=0))
    assert torch.equal(view.times_gradient("attention"), trace.times_gradient(head=0, batch=0))
    assert torch.equal(view.output_norms("attention"), trace.output_norms(batch=0))
    with torch.no_grad():
        model.output.weight.add_(1)
    with pytest.raises(StaleTraceError, match="W_O of attention changed in place"):
        trace.norms()


class OfTorch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.attention(x, x, x)[0]
        return output


@pytest.mark.parametrize("layer", [MultiHead(12, 3), OfTorch()], ids=["ours", "torch's"])
def test_what_the_heads_add_is_the_output(layer: nn.Module) -> None:
    x = torch.randn(2, 5, 12, requires_grad=True)
    with saccade.watch(layer, values=True) as seen:
        output = layer(x)
    (trace,) = seen.values()
    linear: Any = layer.output if isinstance(layer, MultiHead) else layer.attention.out_proj
    parts = linear.weight.detach().T.unflatten(0, (3, 4))
    added = torch.einsum("bhnv,hve->bhne", trace.outputs(), parts)
    torch.testing.assert_close(added.sum(1) + linear.bias, output, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(trace.output_norms(), added.norm(dim=-1), atol=1e-6, rtol=1e-5)
    output.square().sum().backward()
    gradient = torch.einsum("bne,hve->bhnv", 2 * output.detach(), parts) @ trace.values().mT
    torch.testing.assert_close(trace.times_gradient(), trace.weights() * gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_weights_times_gradient_are_those_of_the_eager_model(name: str) -> None:
    model, eager = both(name)
    inputs = padded([7], left=False)
    with saccade.watch(model, values=True) as seen:
        output = model(**inputs)[0]
    output[0, -1, 3].backward()
    expected = eager(**inputs, output_attentions=True)
    for weights in expected.attentions:
        weights.retain_grad()
    expected[0][0, -1, 3].backward()
    for layer, weights in enumerate(expected.attentions):
        trace = seen[NAMES[name]["attentions"].format(layer)]
        torch.testing.assert_close(trace.times_gradient(), weights * weights.grad, atol=1e-4, rtol=1e-3)
        assert trace.norms().shape == weights.shape


def test_without_values_or_w_o_there_is_nothing_to_weigh() -> None:
    layer = MultiHead(12, 3)
    with saccade.watch(layer) as seen:
        layer(torch.randn(2, 5, 12))
    for method in ("values", "outputs", "norms", "output_norms", "times_gradient"):
        with pytest.raises(OptionError, match="watch the model with values=True"):
            getattr(seen["attention"], method)()

    class Bare(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x).sin()

    model = Bare()
    with saccade.watch(model, values=True) as seen:
        model(torch.randn(2, 3, 5, 4))
    with pytest.raises(OptionError, match="has no W_O that Saccade can find"):
        seen["attention"].norms()


class Gated(nn.Module):
    """Heads whose outputs go through a gate before W_O."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.given = way, nn.Linear(12, 36)
        self.gate, self.output = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        parts = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in self.given(x).chunk(3, -1))
        heads = F.scaled_dot_product_attention(*parts)
        if self.way == "in place":
            heads *= 0.5
        heads = heads.transpose(1, 2).flatten(2)
        if self.way == "of itself":
            heads = heads * self.gate(heads).sigmoid()
        elif self.way == "in place after":
            heads.mul_(0.5)
        elif self.way == "beside it":
            return self.output(heads) + heads.cumsum(1)
        output: Tensor = self.output(F.dropout(heads.contiguous(), 0.5, training=False))
        return output


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("way", ["in place", "in place after", "of itself", "beside it", "none"])
def test_w_o_of_gated_heads_is_not_claimed(way: str, context: Any) -> None:
    torch.manual_seed(0)
    model = Gated(way)
    with context(), saccade.watch(model, values=True) as seen:
        model(torch.randn(2, 5, 12))
    if way == "none":
        assert seen["attention"].norms().shape == (2, 3, 5, 5)
        return
    with pytest.raises(OptionError, match="no W_O that Saccade can find"):
        seen["attention"].norms()


@pytest.mark.parametrize("layer", [MultiHead(12, 3, dropout=0.5), nn.MultiheadAttention(12, 3, 0.5)], ids=["ours", "t"])
def test_what_dropout_hides_is_refused(layer: nn.Module) -> None:
    x = torch.randn(5, 2, 12)
    for is_training in (True, False):
        layer.train(is_training)
        with saccade.watch(layer, values=True) as seen:
            found = layer(x, x, x) if isinstance(layer, nn.MultiheadAttention) else layer(x)
            (found[0] if isinstance(found, tuple) else found).sum().backward()
        (trace,) = seen.values()
        for look in (trace.outputs, trace.output_norms, trace.times_gradient):
            if is_training:
                with pytest.raises(OptionError, match=r"Dropout removed some weights of \w+ at random"):
                    look()
            else:
                look()


def test_one_attention_with_several_sets_of_values_has_no_output() -> None:
    """As in DiffLlama: which of the two outputs is meant, nothing tells."""

    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = x.view(2, 5, 2, 4).transpose(1, 2)
            return torch.cat([F.scaled_dot_product_attention(heads, heads, part) for part in (heads, heads + 1)], -1)

    model, x = Twice().eval(), torch.randn(2, 5, 8)
    with saccade.watch(model, values=True) as seen:
        model(x)
    assert list(seen) == ["attention"]
    with pytest.raises(OptionError, match="given several sets of values"):
        seen["attention"].outputs()
    with pytest.raises(OptionError, match="given several sets of values"):
        saccade.patch(model, x, x + 1, lambda output: output.sum())
    with saccade.edit(model, without_heads=["attention:1"]):
        assert not model(x)[:, 1].any()
    with (
        pytest.raises(OptionError, match="several sets of values"),
        saccade.edit(model, set_heads={"attention:1": x[..., :4]}),
    ):
        model(x)
