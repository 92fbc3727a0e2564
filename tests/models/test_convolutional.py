"""Convolutional networks: the equation of a layer, in both precisions, and the scale of the first weights."""

import pytest
import torch
import torch.nn.functional as F

from saccade.kernels.precision import narrow_products
from saccade.models.convolutional import ConvolutionalConfig, ConvolutionalSeq2Seq, GatedConvolution


def by_equation(layer, x, before, after):
    """``A ⊙ σ(B)``, by torch's own convolution."""
    padded = F.pad(x.transpose(1, 2), (before, after))
    above, gate = layer.convolution(padded).transpose(1, 2).chunk(2, dim=-1)
    return above * torch.sigmoid(gate)


@pytest.mark.parametrize(
    ("kernel", "is_causal", "before", "after"), [(3, False, 1, 1), (5, True, 4, 0), (1, True, 0, 0)]
)
@torch.no_grad()
def test_the_product_over_windows_is_the_convolution(kernel, is_causal, before, after):
    torch.manual_seed(0)
    layer, x = GatedConvolution(7, kernel, is_causal=is_causal), torch.randn(2, 11, 7)
    torch.testing.assert_close(layer(x), by_equation(layer, x, before, after), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_the_past_continues_a_causal_layer():
    torch.manual_seed(0)
    layer, x = GatedConvolution(7, 3, is_causal=True), torch.randn(2, 11, 7)
    torch.testing.assert_close(layer(x[:, 6:], x[:, 4:6]), layer(x)[:, 6:], rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_narrow_products_apply_to_the_convolution():
    torch.manual_seed(0)
    layer, x = GatedConvolution(7, 3, is_causal=False), torch.randn(2, 11, 7)
    with narrow_products("cpu"):
        narrow = layer(x)
    assert narrow.dtype == x.dtype
    assert not torch.equal(narrow, layer(x))
    torch.testing.assert_close(narrow, layer(x), rtol=0.02, atol=0.02)


def test_positions_start_on_the_scale_of_the_words():
    torch.manual_seed(0)
    model = ConvolutionalSeq2Seq(ConvolutionalConfig(width=32, max_length=64), 40, 50)
    words = torch.cat([model.source(torch.arange(40)), model.target(torch.arange(50))])
    for positions in (model.source_positions.weight, model.target_positions.weight):
        assert positions.std().item() == pytest.approx(words.std().item(), rel=0.1)
