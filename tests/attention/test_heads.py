"""MultiHead against torch's and Llama's layers, and Resize against its written-out sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from saccade import MultiHead, Resize, attend, causal, padding, watch
from saccade.attention import Bilinear, GrowingCache, Kernel, Rotary, StaticCache
from saccade.errors import OptionError, ShapeError

KERNELS: list[Kernel] = ["equation", "fused"]
WIDTH, HEADS, SOURCE = 15, 3, 8


def torch_pair(kernel: Kernel, source_width: int | None, bias: bool) -> tuple[MultiHead, nn.MultiheadAttention]:
    """Our layer with the weights of torch's."""
    torch.manual_seed(0)
    peer = nn.MultiheadAttention(
        WIDTH, HEADS, batch_first=True, bias=bias, kdim=source_width or WIDTH, vdim=source_width or WIDTH
    )
    if bias:
        nn.init.normal_(peer.in_proj_bias)
        nn.init.normal_(peer.out_proj.bias)
    ours = MultiHead(WIDTH, HEADS, source_width=source_width, bias=bias, kernel=kernel)
    parts = (
        peer.in_proj_weight.chunk(3)
        if source_width is None
        else (peer.q_proj_weight, peer.k_proj_weight, peer.v_proj_weight)
    )
    with torch.no_grad():
        ours.query.weight.copy_(parts[0])
        ours.key_value.weight.copy_(torch.cat(parts[1:]))
        ours.output.weight.copy_(peer.out_proj.weight)
        if bias:
            ours.query.bias.copy_(peer.in_proj_bias[:WIDTH])
            ours.key_value.bias.copy_(peer.in_proj_bias[WIDTH:])
            ours.output.bias.copy_(peer.out_proj.bias)
    return ours, peer


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "cross, other width"])
def test_same_as_torch(kind: str, bias: bool, kernel: Kernel) -> None:
    ours, peer = torch_pair(kernel, SOURCE if kind == "cross, other width" else None, bias)
    x = torch.randn(2, 7, WIDTH, requires_grad=True)
    lengths = torch.tensor([11, 4])
    if kind.startswith("cross"):
        source = torch.randn(2, 11, SOURCE if "other" in kind else WIDTH, requires_grad=True)
        inputs: tuple[Tensor, ...] = (x, source)
        with watch() as seen:
            output = ours(x, source, mask=padding(lengths))
        hidden = torch.arange(11) >= lengths[:, None]
        expected, weights = peer(x, source, source, key_padding_mask=hidden, average_attn_weights=False)
    else:
        inputs = (x,)
        future = torch.ones(7, 7, dtype=torch.bool).triu(1) if kind == "causal" else None
        with watch() as seen:
            output = ours(x, mask=causal if kind == "causal" else None)
        expected, weights = peer(x, x, x, attn_mask=future, average_attn_weights=False)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen["attention"].weights(), weights, atol=1e-6, rtol=1e-5)
    factors = torch.linspace(-1, 1, output.numel()).view(output.shape)
    projections = (ours.query.weight, ours.key_value.weight)
    found = torch.autograd.grad((output * factors).sum(), (*inputs, ours.output.weight, *projections))
    found = (*found[:-2], torch.cat(found[-2:])) if peer.in_proj_weight is not None else found[:-1]
    first = peer.in_proj_weight if peer.in_proj_weight is not None else peer.q_proj_weight
    theirs = torch.autograd.grad((expected * factors).sum(), (*inputs, peer.out_proj.weight, first))
    for ours_one, theirs_one in zip(found, theirs, strict=True):
        torch.testing.assert_close(ours_one, theirs_one, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("key_heads", [1, 2, 6])
def test_grouped_heads_and_rotary_as_in_llama(key_heads: int, kernel: Kernel) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=key_heads, head_dim=10, attn_implementation="eager"
    )
    peer = LlamaAttention(config, layer_idx=0)
    ours = MultiHead(24, 6, num_key_heads=key_heads, head_width=10, rotary=Rotary(10), bias=False, kernel=kernel)
    with torch.no_grad():
        ours.query.weight.copy_(peer.q_proj.weight)
        ours.key_value.weight.copy_(torch.cat([peer.k_proj.weight, peer.v_proj.weight]))
        ours.output.weight.copy_(peer.o_proj.weight)
    x = torch.randn(2, 7, 24)
    future = torch.full((7, 7), float("-inf")).triu(1)
    angles = LlamaRotaryEmbedding(config)(x, torch.arange(7)[None])
    expected, _ = peer(x, angles, future[None, None])
    torch.testing.assert_close(ours(x, mask=causal), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_grouped_heads_are_repeated_heads(kernel: Kernel) -> None:
    """Key head g serves query heads 3g, 3g+1, 3g+2."""
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 3)
    grouped = attend(query, key, value, mask=causal, kernel=kernel)
    repeated = attend(
        query, key.repeat_interleave(3, dim=1), value.repeat_interleave(3, dim=1), mask=causal, kernel=kernel
    )
    torch.testing.assert_close(grouped, repeated)


def test_a_source_projected_once_is_the_source() -> None:
    torch.manual_seed(0)
    layer = MultiHead(12, 3, source_width=10)
    x, source = torch.randn(2, 5, 12), torch.randn(2, 7, 10)
    torch.testing.assert_close(layer(x, layer.project(source)), layer(x, source))


def test_a_learned_score_is_trained_with_the_layer() -> None:
    torch.manual_seed(0)
    layer = MultiHead(12, 3, score=Bilinear(4, num_heads=3))
    assert "score.weight" in dict(layer.named_parameters())
    layer(torch.randn(2, 5, 12)).sum().backward()
    assert layer.score.weight.grad.abs().sum() > 0


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    layer, x = MultiHead(12, 3, dropout=0.5), torch.randn(2, 5, 12)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_a_static_cache_that_is_full_says_so() -> None:
    layer, cache = MultiHead(12, 3), StaticCache(4)
    with torch.no_grad():
        layer(torch.randn(2, 3, 12), cache=cache)
        with pytest.raises(ShapeError, match="has room for 4 positions, but needs 5"):
            layer(torch.randn(2, 2, 12), cache=cache)


def test_what_a_layer_refuses() -> None:
    with pytest.raises(ShapeError, match="5 heads do not divide a width of 12"):
        MultiHead(12, 5)
    with pytest.raises(ShapeError, match="num_key_heads = 4 must be at least 1 and divide num_heads = 6"):
        MultiHead(12, 6, num_key_heads=4)
    with pytest.raises(OptionError, match="at least 1 head, not 0"):
        MultiHead(12, 0)
    with pytest.raises(OptionError, match="head_width 0"):
        MultiHead(12, 3, head_width=0)
    with pytest.raises(OptionError, match=r"below 1, not 1\.5"):
        MultiHead(12, 3, dropout=1.5)
    layer = MultiHead(12, 3)
    with pytest.raises(ShapeError, match=r"\(batch, positions, 12\); got \(2, 5, 11\)"):
        layer(torch.randn(2, 5, 11))
    with pytest.raises(ShapeError, match=r"\(batch, positions, 12\); got \(5, 12\)"):
        layer(torch.randn(5, 12))
    with pytest.raises(ShapeError, match="batch size 3, but the query has 2"):
        layer(torch.randn(2, 5, 12), torch.randn(3, 7, 12))
    with pytest.raises(OptionError, match="cache keeps the keys of x itself"):
        layer(torch.randn(2, 5, 12), torch.randn(2, 7, 12), cache=GrowingCache())
    with pytest.raises(OptionError, match="with alibi; it accepts no other bias"):
        MultiHead(12, 3, alibi=True)(torch.randn(2, 5, 12), bias=torch.zeros(5, 5))
    with pytest.raises(ShapeError, match="heads of width 6; got 4"):
        MultiHead(12, 3, rotary=Rotary(6))(torch.randn(2, 5, 12))


# --- Resize -------------------------------------------------------------------------------------------------


def written_out(layer: Resize, b: Tensor) -> Tensor:
    """``b'[m, e] = Σ_n W[m, n, e]·b[n]``, place by place."""
    new_length, _, new_width, _ = layer.weight.shape
    result = torch.zeros(new_length, new_width)
    for m in range(new_length):
        for e in range(new_width):
            result[m, e] = sum(layer.weight[m, n, e] @ b[n] for n in range(len(b)))
    return result


@pytest.mark.parametrize("width", [1, 3])
def test_resize_is_the_sum(width: int) -> None:
    torch.manual_seed(0)
    layer, b = Resize(5, 2, 7, width), torch.randn(4, 5, width)
    output = layer(b)
    assert output.shape == (4, 2, 7)
    for one, expected in zip(b, output, strict=True):
        torch.testing.assert_close(written_out(layer, one), expected)


def test_resize_by_hand() -> None:
    """W[m, n, e] = m + 10n + 100e on b = (1, 2): 1·(m + 100e) + 2·(m + 10 + 100e)."""
    layer = Resize(2, 3, 2)
    index = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0), torch.arange(2.0))
    with torch.no_grad():
        layer.weight.copy_((index @ torch.tensor([1.0, 10, 100])).view(3, 2, 2, 1))
        output = layer(torch.tensor([[1.0], [2.0]]))
    torch.testing.assert_close(output, torch.tensor([[20.0, 320], [23, 323], [26, 326]]))


def test_resize_pads_shorter_inputs_and_refuses_longer() -> None:
    torch.manual_seed(0)
    layer, b = Resize(5, 2, 7, 3), torch.randn(4, 3, 3)
    torch.testing.assert_close(layer(b), layer(torch.cat([b, torch.zeros(4, 2, 3)], dim=1)))
    with pytest.raises(ShapeError, match="at most 5 positions; got 6"):
        layer(torch.randn(4, 6, 3))
    with pytest.raises(ShapeError, match="inputs of width 3; got 2"):
        layer(torch.randn(4, 5, 2))


@pytest.mark.parametrize("shape", [(0, 3, 12), (2, 0, 12), (0, 0, 12)])
def test_nothing_in_is_nothing_out(shape: tuple[int, ...]) -> None:
    assert MultiHead(12, 3)(torch.zeros(shape)).shape == shape


def test_rows_that_share_a_source_are_as_with_a_copy_each() -> None:
    torch.manual_seed(1)
    layer = MultiHead(12, 3, alibi=True)
    kept = layer.project(torch.randn(2, 7, 12))
    x = torch.randn(6, 1, 12)  # three rows for each of the two sources
    copies = type(kept)(kept.key.repeat_interleave(3, dim=0), kept.value.repeat_interleave(3, dim=0))
    with torch.no_grad():
        torch.testing.assert_close(layer(x, kept, first_row=4), layer(x, copies, first_row=4))


def test_rows_that_share_a_source_take_no_bias() -> None:
    layer = MultiHead(12, 3)
    kept = layer.project(torch.randn(2, 7, 12))
    with pytest.raises(OptionError, match="cannot have a bias"):
        layer(torch.randn(6, 1, 12), kept, bias=torch.zeros(3, 1, 7))
