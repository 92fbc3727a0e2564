"""Positions: hand numbers, the published forms, and what each refuses."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import LlamaConfig, T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gptj import modeling_gptj
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from saccade import attend, causal, watch
from saccade.attention import (
    ALiBi,
    Learned,
    LinearPositions,
    MultiHead,
    PositionTable,
    RelativePositions,
    Rotary,
    RotaryScaling,
    Sinusoidal,
    positions,
)
from saccade.errors import OptionError, PositionError, ShapeError


def test_linear_by_hand() -> None:
    """(2·4 - 1) u and (2·5 - 1) u; concatenated, the number has channels of its own."""
    added, beside = (LinearPositions(3, how, slope=2.0, offset=-1.0) for how in ("add", "concatenate"))
    with torch.no_grad():
        added.direction.copy_(torch.tensor([1.0, 0.0, -0.5]))
    torch.testing.assert_close(added.table(4, 2), torch.tensor([[7.0, 0, -3.5], [9, 0, -4.5]]))
    torch.testing.assert_close(beside.table(4, 2), torch.tensor([[7.0, 7, 7], [9, 9, 9]]))
    assert not beside.state_dict()


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoidal_by_hand(width: int) -> None:
    """Position 1: sin 1, cos 1, then the sine of 1/10000^(2/D), and so on."""
    table = Sinusoidal(width).table(0, 3)
    assert table.shape == (3, width)
    torch.testing.assert_close(table[0], torch.tensor([0.0, 1.0] * 4)[:width])
    expected = [
        f(2 / 10000 ** (2 * (i // 2) / width)) for i, f in zip(range(width), [math.sin, math.cos] * 4, strict=False)
    ]
    torch.testing.assert_close(table[2], torch.tensor(expected))
    assert table[1, 0].item() == pytest.approx(math.sin(1))
    assert table[1, 1].item() == pytest.approx(math.cos(1))
    assert table[1, 2].item() == pytest.approx(math.sin(1 / 10000 ** (2 / width)))


@pytest.mark.parametrize("width", [6, 7])
def test_sines_before_cosines(width: int) -> None:
    interleaved, halves = Sinusoidal(width).table(5, 4), Sinusoidal(width, interleaved=False).table(5, 4)
    torch.testing.assert_close(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=-1))


@pytest.mark.parametrize(
    "positions", [LinearPositions(4), Sinusoidal(4), Learned(4, 30)], ids=["linear", "sinusoidal", "learned"]
)
def test_added_and_concatenated(positions: PositionTable) -> None:
    x = torch.randn(2, 3, 5, 4)
    torch.testing.assert_close(positions(x, 7), x + positions.table(7, 5))
    positions.how = "concatenate"
    wide = torch.randn(2, 5, 3)
    joined = positions(wide, 7)
    assert joined.shape == (2, 5, 7)
    torch.testing.assert_close(joined[..., :3], wide)
    torch.testing.assert_close(joined[1, :, 3:], positions.table(7, 5))
    positions.how = "add"


def test_learned_ends_with_a_clear_error() -> None:
    positions = Learned(4, 10)
    assert positions(torch.zeros(2, 3, 4), 7).shape == (2, 3, 4)
    with pytest.raises(PositionError, match="10 learned positions; the input needs 11"):
        positions(torch.zeros(2, 3, 4), 8)


def test_positions_survive_half_precision() -> None:
    """The angles of position 4000 need more than bfloat16, or even float32, can hold: a cast model keeps them."""
    for table in (Sinusoidal(8), LinearPositions(8, "concatenate")):
        exact = table.table(4000, 3)
        torch.testing.assert_close(table.to(torch.bfloat16).table(4000, 3), exact, atol=0, rtol=0)
    rotary, x = Rotary(8), torch.randn(1, 1, 3, 8)
    exact = rotary(x, 4000)
    torch.testing.assert_close(rotary.to(torch.bfloat16)(x, 4000), exact, atol=0, rtol=0)
    near = rotary(x.to(torch.bfloat16), 4000).float()
    torch.testing.assert_close(near, exact, atol=3e-2, rtol=2e-2)


def test_a_far_position_is_exact() -> None:
    """sin and cos of position 1,000,000, where a float32 angle is off by hundredths."""
    table = Sinusoidal(4).table(1_000_000, 1)[0]
    expected = [f(1_000_000 / 100**i) for i in range(2) for f in (math.sin, math.cos)]
    torch.testing.assert_close(table, torch.tensor(expected))


@pytest.mark.parametrize("width", [6, 7, 128])
def test_positions_that_are_kept_equal_those_that_are_not(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 5, 8, requires_grad=True)
    positions._kept_sines.cache_clear()
    with torch.inference_mode():  # what is kept here is used in training next
        Sinusoidal(width).table(1000, 40), Rotary(8)(x, 70)
    kept = Sinusoidal(width).table(1000, 40), Rotary(8)(x, 70)
    kept[1].sum().backward()
    monkeypatch.setattr("saccade.attention.positions.KEPT_POSITIONS", 0)
    computed = Sinusoidal(width).table(1000, 40), Rotary(8)(x, 70)
    for one, other in zip(kept, computed, strict=True):
        assert torch.equal(one, other)


def test_tensors_of_a_trace_are_not_kept() -> None:
    """They would make every later computation fail."""
    positions._kept_sines.cache_clear()
    table, rotary, x = Sinusoidal(6), Rotary(8), torch.randn(1, 1, 5, 8)
    with FakeTensorMode():
        table.table(0, 5)
    make_fx(rotary, tracing_mode="fake")(x)
    torch.func.functionalize(rotary)(x)
    assert positions._kept_sines.cache_info().currsize == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(rotary, x)
    torch.export.export(rotary, (x,))
    plain = rotary(x)
    with FakeTensorMode() as mode:  # nor is what is kept used there
        rotary(mode.from_tensor(x))
    assert type(plain) is torch.Tensor
    assert type(table.table(0, 5)) is torch.Tensor


def test_rotary_by_hand() -> None:
    """The pair (1, 0) at position p becomes (cos p, sin p); the second pair turns 100 times slower."""
    turned = Rotary(4)(torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 1, 3, 4), 5)[0, 0]
    expected = [[math.cos(p), math.cos(p / 100), math.sin(p), math.sin(p / 100)] for p in (5, 6, 7)]
    torch.testing.assert_close(turned, torch.tensor(expected))
    interleaved = Rotary(4, interleaved=True)(torch.tensor([1.0, 0.0, 1.0, 0.0]).expand(1, 1, 3, 4), 5)[0, 0]
    torch.testing.assert_close(interleaved, torch.tensor(expected)[:, [0, 2, 1, 3]])


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_in_halves_is_llamas(base: float) -> None:
    config = LlamaConfig(
        hidden_size=30, num_attention_heads=3, rope_parameters={"rope_type": "default", "rope_theta": base}
    )
    query, key = torch.randn(2, 3, 7, 10), torch.randn(2, 3, 7, 10)
    cosine, sine = LlamaRotaryEmbedding(config)(query, torch.arange(7)[None])
    ours = Rotary(10, base)
    for turned, expected in zip((ours(query), ours(key)), apply_rotary_pos_emb(query, key, cosine, sine), strict=True):
        torch.testing.assert_close(turned, expected, atol=1e-5, rtol=1e-5)


def test_rotary_interleaved_is_gptjs() -> None:
    x = torch.randn(2, 3, 7, 10)  # GPT-J turns the first 6 of 10 dimensions and has (B, N, H, D)
    sine, cosine = modeling_gptj.create_sinusoidal_positions(20, 6)[4:11].expand(2, -1, -1).chunk(2, dim=-1)
    expected = modeling_gptj.apply_rotary_pos_emb(x[..., :6].transpose(1, 2), sine, cosine).transpose(1, 2)
    turned = Rotary(10, interleaved=True, turned_width=6)(x, 4)
    torch.testing.assert_close(turned[..., :6], expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(turned[..., 6:], x[..., 6:])


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_knows_the_distance_only(interleaved: bool) -> None:
    rotary = Rotary(6, interleaved=interleaved)
    query, key = torch.randn(1, 1, 5, 6, dtype=torch.float64), torch.randn(1, 1, 5, 6, dtype=torch.float64)
    near = rotary(query) @ rotary(key).transpose(-1, -2)
    far = rotary(query, 1000) @ rotary(key, 1000).transpose(-1, -2)
    torch.testing.assert_close(near, far, atol=1e-10, rtol=0)


def test_alibi_by_hand() -> None:
    """8 heads have the slopes 1/2, 1/4, ..., 1/256; 3 heads those of 2 (1/16, 1/256) and the first of 4 (1/4)."""
    torch.testing.assert_close(ALiBi(8).slopes, 2.0 ** -torch.arange(1.0, 9))
    torch.testing.assert_close(ALiBi(3).slopes, torch.tensor([1 / 16, 1 / 256, 1 / 4]))
    index = torch.tensor(0), torch.tensor(1), torch.tensor(2), torch.tensor(7)
    assert ALiBi(8)(*index).item() == -5 / 4


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
def test_alibi_is_blooms(heads: int) -> None:
    """Bloom adds slope·column, which differs from -slope·distance by a number a row: softmax is the same."""
    torch.manual_seed(0)
    query, key, value = torch.randn(2, heads, 7, 5), torch.randn(2, heads, 7, 5), torch.randn(2, heads, 7, 5)
    blooms = build_alibi_tensor(torch.ones(2, 7), heads, torch.float32).view(2, heads, 1, 7)
    expected = attend(query, key, value, mask=causal, bias=blooms)
    torch.testing.assert_close(
        attend(query, key, value, mask=causal, bias=ALiBi(heads)), expected, atol=1e-5, rtol=1e-5
    )


def test_relative_positions_by_hand() -> None:
    """Of 8 ranges for one direction, 0 to 3 are single distances; 4 to 7 end at 4·(16/4)^(1/4), ... = 5.7, 8, 11.3."""
    relative = RelativePositions(1, buckets=8, max_distance=16, causal=True)
    relative.weight.data = torch.arange(8.0).view(8, 1)
    zero, row = torch.zeros(1, dtype=torch.long), torch.tensor(20)
    column = torch.tensor([25, 20, 19, 17, 16, 15, 14, 12, 9, 8, 4, 0])
    found = relative.rule()(zero, zero, row, column)
    assert found.tolist() == [0, 0, 1, 3, 4, 4, 5, 6, 6, 7, 7, 7]
    both = RelativePositions(1, buckets=8, max_distance=16)
    both.weight.data = torch.arange(8.0).view(8, 1)
    around = torch.tensor([20, 19, 21, 17, 23, 0, 40])
    assert both.rule()(zero, zero, row, around).tolist() == [0, 1, 5, 2, 6, 3, 7]


@pytest.mark.parametrize("causal_only", [False, True])
def test_relative_positions_are_t5s(causal_only: bool) -> None:
    config = T5Config(d_model=6, d_kv=3, num_heads=2, relative_attention_num_buckets=10, is_decoder=causal_only)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = RelativePositions(2, buckets=10, causal=causal_only)
    ours.weight.data = theirs.relative_attention_bias.weight.data
    index = torch.meshgrid(torch.zeros(1).long(), torch.arange(2), torch.arange(300), torch.arange(300), indexing="ij")
    with torch.no_grad():
        torch.testing.assert_close(ours.rule()(*index), theirs.compute_bias(300, 300), rtol=0, atol=0)


def test_a_trace_keeps_the_relative_positions_that_were_watched() -> None:
    layer = MultiHead(6, 2, relative=RelativePositions(2, buckets=4, max_distance=5))
    with watch(layer) as seen:
        layer(torch.randn(1, 7, 6))
    trace = seen["attention"]
    before = trace.weights()
    layer.relative.weight.data += torch.randn(4, 2)
    assert torch.equal(trace.weights(), before)


def test_rotary_rates_are_divided_in_bands() -> None:
    """Rates of 8, 3 and 1/2 turns in the trained length: above the bands, halfway between 2 and 4, and below."""
    rate = torch.tensor([8.0, 3.0, 0.5]) * 2 * math.pi / 100
    found = RotaryScaling(4.0, (2.0, 4.0), 100).apply(rate)
    torch.testing.assert_close(found / rate, torch.tensor([1.0, 0.625, 0.25]))
    torch.testing.assert_close(RotaryScaling(4.0).apply(rate), rate / 4)


def test_what_positions_refuse() -> None:
    with pytest.raises(OptionError, match="need at least 4 buckets of distances"):
        RelativePositions(2, buckets=3)
    with pytest.raises(ShapeError, match="are for 2 heads, but the query has 3"):
        attend(*torch.randn(3, 1, 3, 5, 4), bias=RelativePositions(2).rule())
    with pytest.raises(OptionError, match="width of at least 1, not 0"):
        Sinusoidal(0)
    with pytest.raises(OptionError, match="how must be 'add' or 'concatenate', not 'multiply'"):
        LinearPositions(3, "multiply")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="width 4 need an input of the same width; it has width 5"):
        Sinusoidal(4)(torch.zeros(2, 3, 5))
    with pytest.raises(OptionError, match="even number of dimensions, at most the head's 8; not 5"):
        Rotary(8, turned_width=5)
    with pytest.raises(OptionError, match="at most the head's 8; not 10"):
        Rotary(8, turned_width=10)
    with pytest.raises(ShapeError, match="heads of width 8; got 6"):
        Rotary(8)(torch.zeros(1, 1, 3, 6))
    with pytest.raises(OptionError, match="at least 1 head, not 0"):
        ALiBi(0)
