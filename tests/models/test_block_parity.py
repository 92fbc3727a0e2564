"""A block is torch's own Transformer layer with the same weights: outputs and all gradients."""

import pytest
import torch
from torch import nn

from saccade.attention import MultiHead, causal, padding
from saccade.models import Block, TransformerConfig

BATCH, LENGTH, SOURCE, WIDTH, HEADS, HIDDEN = 2, 5, 7, 9, 3, 11
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@torch.no_grad()
def randomise(module):
    """No parameter stays 0 or 1, so that none can be left out unnoticed."""
    for parameter in module.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)


def attention_pairs(ours: MultiHead, theirs: nn.MultiheadAttention):
    """(our parameter, the rows of theirs that it should be)"""
    return [
        (ours.query.weight, theirs.in_proj_weight, slice(0, WIDTH)),
        (ours.key_value.weight, theirs.in_proj_weight, slice(WIDTH, None)),
        (ours.query.bias, theirs.in_proj_bias, slice(0, WIDTH)),
        (ours.key_value.bias, theirs.in_proj_bias, slice(WIDTH, None)),
        (ours.output.weight, theirs.out_proj.weight, slice(None)),
        (ours.output.bias, theirs.out_proj.bias, slice(None)),
    ]


def block_pairs(ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
    modules = [(ours.self_norm, theirs.norm1)]
    pairs = attention_pairs(ours.self, theirs.self_attn)
    if ours.cross is None:
        modules += [(ours.feedforward_norm, theirs.norm2)]
    else:
        modules += [(ours.cross_norm, theirs.norm2), (ours.feedforward_norm, theirs.norm3)]
        pairs += attention_pairs(ours.cross, theirs.multihead_attn)
    modules += [(ours.feedforward.inner, theirs.linear1), (ours.feedforward.outer, theirs.linear2)]
    for own, their in modules:
        pairs += [(own.weight, their.weight, slice(None)), (own.bias, their.bias, slice(None))]
    assert {id(own) for own, _, _ in pairs} == {id(parameter) for parameter in ours.parameters()}
    return pairs


@torch.no_grad()
def copy(pairs):
    for own, their, rows in pairs:
        own.copy_(their[rows])


def make(layer, norm_first, activation, *, cross):
    torch.manual_seed(0)
    theirs = layer(WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm_first)
    randomise(theirs)
    config = TransformerConfig(
        width=WIDTH, num_heads=HEADS, feedforward_width=HIDDEN, activation=activation, norm_first=norm_first
    )
    ours = Block(config, cross=cross)
    pairs = block_pairs(ours, theirs)
    copy(pairs)
    return ours, theirs, pairs


def assert_same(found, expected, inputs, pairs):
    """Outputs, and the gradients of a random direction in them, by the inputs and by every parameter."""
    torch.testing.assert_close(found, expected, **TOLERANCE)
    direction = torch.randn_like(expected)
    input_gradients = [torch.autograd.grad(y, inputs, direction, retain_graph=True) for y in (found, expected)]
    torch.testing.assert_close(*input_gradients, **TOLERANCE)
    own = torch.autograd.grad(found, [pair[0] for pair in pairs], direction)
    their = torch.autograd.grad(expected, [pair[1] for pair in pairs], direction)
    for (_, _, rows), a, b in zip(pairs, own, their, strict=True):
        torch.testing.assert_close(a, b[rows], **TOLERANCE)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_block_is_torchs_encoder_layer(norm_first, activation):
    ours, theirs, pairs = make(nn.TransformerEncoderLayer, norm_first, activation, cross=False)
    x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
    lengths = torch.tensor([LENGTH, 3])
    is_padding = torch.arange(LENGTH) >= lengths[:, None]
    found = ours(x, mask=padding(lengths))
    assert_same(found, theirs(x, src_key_padding_mask=is_padding), [x], pairs)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_block_with_cross_attention_is_torchs_decoder_layer(norm_first, activation):
    ours, theirs, pairs = make(nn.TransformerDecoderLayer, norm_first, activation, cross=True)
    x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
    source = torch.randn(BATCH, SOURCE, WIDTH, requires_grad=True)
    lengths = torch.tensor([4, SOURCE])
    is_padding = torch.arange(SOURCE) >= lengths[:, None]
    expected = theirs(
        x,
        source,
        tgt_mask=torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1),
        memory_key_padding_mask=is_padding,
    )
    found = ours(x, mask=causal, source=source, source_mask=padding(lengths))
    assert_same(found, expected, [x, source], pairs)


def test_the_parts_of_a_parallel_block_read_the_same_vectors():
    """Attention to the source is one of them: a decoder without it would not see what it translates."""
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "num_heads": HEADS, "feedforward_width": HIDDEN}
    block = Block(TransformerConfig(**sizes, parallel=True), cross=True)
    randomise(block)
    x, source = torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, SOURCE, WIDTH)
    expected = x + block.self(block.self_norm(x), mask=causal) + block.cross(block.cross_norm(x), source)
    expected = expected + block.feedforward(block.feedforward_norm(x), 0.0)
    torch.testing.assert_close(block(x, mask=causal, source=source), expected)
