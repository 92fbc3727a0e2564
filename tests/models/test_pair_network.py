"""The pair network's equations against hand-computed numbers and loops, and its invariants."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from saccade.attention import edit, watch
from saccade.errors import OptionError, ShapeError
from saccade.models.pairs import (
    PairBiasAttention,
    PairConfig,
    PairNetwork,
    Transition,
    TriangleAttention,
    TriangleMultiplication,
    outer_product_mean,
    relative_positions,
    triangle_attend,
    triangle_multiply,
)

B, S, L, H, D, C = 2, 3, 5, 2, 3, 7


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(4)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """A module whose output layers are not zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.double().eval()


def test_relative_positions_by_hand() -> None:
    assert relative_positions(4, 2).tolist() == [[2, 1, 0, 0], [3, 2, 1, 0], [4, 3, 2, 1], [4, 4, 3, 2]]


def test_outer_product_mean_by_hand() -> None:
    a = torch.tensor([[[[1.0]], [[3.0]]]])  # two sequences of one residue
    b = torch.tensor([[[[2.0, 4.0]], [[0.0, 2.0]]]])
    assert outer_product_mean(a, b).tolist() == [[[[1.0, 5.0]]]]  # (1·2 + 3·0)/2, (1·4 + 3·2)/2


def test_outer_product_mean_equals_loops() -> None:
    a, b = double(B, S, L, D), double(B, S, L, C)
    expected = torch.stack(
        [
            torch.stack(
                [
                    torch.stack(
                        [sum(torch.outer(a[n, s, i], b[n, s, j]) for s in range(S)).flatten() / S for j in range(L)]
                    )
                    for i in range(L)
                ]
            )
            for n in range(B)
        ]
    )
    torch.testing.assert_close(outer_product_mean(a, b), expected, rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(outer_product_mean, (double(1, 2, 3, 2), double(1, 2, 3, 2)))


@pytest.mark.parametrize("edges", ["outgoing", "incoming"])
def test_triangle_multiplication_equals_loops(edges: str) -> None:
    a, b = double(B, L, L, C), double(B, L, L, C)
    expected = torch.zeros(B, L, L, C, dtype=torch.float64)
    for i in range(L):
        for j in range(L):
            for k in range(L):
                pair = (a[:, i, k] * b[:, j, k]) if edges == "outgoing" else (a[:, k, i] * b[:, k, j])
                expected[:, i, j] += pair.detach()
    torch.testing.assert_close(triangle_multiply(a, b, edges).detach(), expected, rtol=0, atol=1e-10)  # type: ignore[arg-type]
    small = (double(1, 3, 3, 2), double(1, 3, 3, 2))
    assert torch.autograd.gradcheck(lambda x, y: triangle_multiply(x, y, edges), small)  # type: ignore[arg-type]


def test_triangle_attention_by_hand() -> None:
    """Two residues and one head of width 1: row i attends to itself, and the bias of (j, k) is the same for every i."""
    query = torch.tensor([1.0, 2.0]).view(1, 1, 1, 2, 1).expand(1, 2, 1, 2, 1)
    key = torch.tensor([[0.0, 1.0], [3.0, 3.0]]).view(1, 2, 1, 2, 1)
    value = torch.tensor([[0.0, 1.0], [0.0, 1.0]]).view(1, 2, 1, 2, 1)
    bias = torch.tensor([[0.0, 0.0], [0.0, math.log(3)]]).view(1, 1, 2, 2)
    found = triangle_attend(query, key, value, bias)[0, :, 0, :, 0]
    e = math.e
    expected = [[e / (1 + e), 3 * e**2 / (1 + 3 * e**2)], [1 / 2, 3 / 4]]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_triangle_attention_equals_loops() -> None:
    query, key, value = (double(B, L, H, L, D) for _ in range(3))
    bias = double(B, H, L, L)
    expected = torch.zeros(B, L, H, L, D, dtype=torch.float64)
    for n in range(B):
        for i in range(L):
            for h in range(H):
                for j in range(L):
                    scores = [query[n, i, h, j] @ key[n, i, h, k] / math.sqrt(D) + bias[n, h, j, k] for k in range(L)]
                    weights = torch.stack(scores).softmax(0)
                    expected[n, i, h, j] = (weights @ value[n, i, h]).detach()
    found = triangle_attend(query, key, value, bias)
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-10)
    small = [double(1, 2, 1, 2, 2) for _ in range(3)]
    assert torch.autograd.gradcheck(triangle_attend, (*small, double(1, 1, 2, 2)))


CONFIG = PairConfig(width=6, pair_width=4, num_heads=2, layers=2, triangle_attention_layers=2, product_width=3)


def test_ending_is_starting_on_the_transpose() -> None:
    starting, ending = randomised(TriangleAttention(CONFIG, "starting")), TriangleAttention(CONFIG, "ending").double()
    ending.load_state_dict(starting.state_dict())
    z = double(1, L, L, 4)
    torch.testing.assert_close(ending(z, None), starting(z.transpose(1, 2), None).transpose(1, 2), rtol=0, atol=1e-12)


def test_incoming_is_outgoing_on_the_transpose() -> None:
    outgoing = randomised(TriangleMultiplication(CONFIG, "outgoing"))
    incoming = TriangleMultiplication(CONFIG, "incoming").double()
    incoming.load_state_dict(outgoing.state_dict())
    z = double(1, L, L, 4)
    mirrored = outgoing(z.transpose(1, 2), None)  # Σ_k a_ki ⊙ b_kj, with the gate of (j, i)
    plain = incoming(z, None)
    gate, other = (
        torch.sigmoid(outgoing.gate(outgoing.norm(z))),
        torch.sigmoid(  # type: ignore[operator]
            outgoing.gate(outgoing.norm(z.transpose(1, 2)))  # type: ignore[operator]
        ),
    )
    torch.testing.assert_close(plain / gate, mirrored / other, rtol=0, atol=1e-10)


def test_row_attention_with_pair_bias_equals_loops() -> None:
    """Algorithm 7, residue by residue."""
    layer = randomised(PairBiasAttention(CONFIG))
    assert isinstance(layer, PairBiasAttention)
    assert layer.pair_bias is not None
    assert layer.pair_norm is not None
    m, z = double(1, S, L, 6), double(1, L, L, 4)
    normed, width = layer.norm(m), 3
    query, key, value = layer.projections(normed).chunk(3, dim=-1)
    bias, gate = layer.pair_bias(layer.pair_norm(z)), torch.sigmoid(layer.gate(normed))
    expected = torch.zeros(1, S, L, 6, dtype=torch.float64)
    for s in range(S):
        for i in range(L):
            joined = []
            for h in range(2):
                part = slice(h * width, (h + 1) * width)
                scores = [
                    query[0, s, i, part] @ key[0, s, j, part] / math.sqrt(width) + bias[0, i, j, h] for j in range(L)
                ]
                joined.append(torch.stack(scores).softmax(0) @ value[0, s, :, part])
            expected[0, s, i] = layer.gated_output(gate[0, s, i] * torch.cat(joined)).detach()
    torch.testing.assert_close(layer(m, z, None).detach(), expected, rtol=0, atol=1e-10)
    small = (double(1, 1, 3, 6), double(1, 3, 3, 4))
    assert torch.autograd.gradcheck(lambda rows, pairs: layer(rows, pairs, None), small)


def test_row_attention_with_pair_bias_by_hand() -> None:
    """Equal queries and keys: the weights are those of the bias, 9/10 and 1/10; the gate σ(0) halves the value."""
    layer = PairBiasAttention(PairConfig(width=1, pair_width=2, num_heads=1)).double()
    assert layer.pair_bias is not None
    with torch.no_grad():
        layer.projections.weight.copy_(torch.tensor([[0.0], [0.0], [1.0]]))  # only a value
        layer.norm.weight.fill_(0)
        layer.norm.bias.fill_(5)  # every value is 5
        layer.gate.bias.fill_(0)
        layer.gated_output.weight.fill_(1)  # type: ignore[operator, union-attr]
        layer.pair_bias.weight.copy_(torch.tensor([[math.log(3) / 2, -math.log(3) / 2]], dtype=torch.float64))
    m = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
    z = torch.tensor([[[[1.0, -1.0], [-1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]], dtype=torch.float64)
    torch.testing.assert_close(layer(m, z, None), torch.full((1, 1, 2, 1), 2.5).double())
    with watch(layer) as seen:
        layer(m, z, None)
    weights = next(iter(seen.values())).tile(slice(None), slice(None), batch=0, head=0)
    e = 3 ** (1 / math.sqrt(1 + 1e-5))  # layer norm divides by √(variance + 1e-5), and the variance is 1
    expected = torch.tensor([[e / (e + 1 / e), (1 / e) / (e + 1 / e)], [0.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-10)


def test_a_transition_by_hand_and_its_gradients() -> None:
    """Width 2: the norm makes ±1 of 3 and 1, ReLU keeps the positive half, and the output layer adds it up."""
    layer = Transition(2).double()
    with torch.no_grad():
        for parameter in layer.inner.parameters():
            parameter.fill_(1.0 if parameter.ndim == 2 else 0.0)
        layer.inner.inner.weight[:, 1] = 0.0  # each of the 8 hidden units is the first number
    scale = 1 / math.sqrt(1 + 1e-5)
    found = layer(torch.tensor([[3.0, 1.0], [1.0, 3.0]]).double())
    expected = torch.tensor([[8 * scale, 8 * scale], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(randomised(Transition(3)), (double(2, 3),))


def test_triangle_layers_equal_loops_and_have_right_gradients() -> None:
    """Algorithms 11 and 13 with their norms and gates."""
    multiply = randomised(TriangleMultiplication(CONFIG, "outgoing"))
    attention = randomised(TriangleAttention(CONFIG, "starting"))
    assert isinstance(multiply, TriangleMultiplication)
    assert isinstance(attention, TriangleAttention)
    z = double(1, L, L, 4)
    normed = multiply.norm(z)
    a, b = (torch.sigmoid(multiply.factor_gates(normed)) * multiply.factors(normed)).chunk(2, dim=-1)
    query, key, value = attention.projections(attention.norm(z)).chunk(3, dim=-1)
    bias, gate = attention.bias(attention.norm(z)), torch.sigmoid(attention.gate(attention.norm(z)))
    for i in range(L):
        for j in range(L):
            product = sum(a[0, i, k] * b[0, j, k] for k in range(L))
            expected = torch.sigmoid(multiply.gate(normed[0, i, j])) * multiply.output(multiply.product_norm(product))
            torch.testing.assert_close(multiply(z, None)[0, i, j], expected, rtol=0, atol=1e-10)
            joined = []
            for h in range(2):
                part = slice(2 * h, 2 * h + 2)
                scores = [query[0, i, j, part] @ key[0, i, k, part] / math.sqrt(2) + bias[0, j, k, h] for k in range(L)]
                joined.append(torch.stack(scores).softmax(0) @ value[0, i, :, part])
            expected = attention.gated_output(gate[0, i, j] * torch.cat(joined))
            torch.testing.assert_close(attention(z, None)[0, i, j], expected, rtol=0, atol=1e-10)
    for layer in (multiply, attention):
        assert torch.autograd.gradcheck(lambda pairs, layer=layer: layer(pairs, None), (double(1, 3, 3, 4),))


def test_without_pair_bias_pairs_do_not_reach_the_sequence() -> None:
    m, z, other = double(1, 1, L, 6), double(1, L, L, 4), double(1, L, L, 4)
    biased = randomised(PairBiasAttention(CONFIG))
    plain = randomised(PairBiasAttention(CONFIG.model_copy(update={"pair_bias": False})))
    assert not torch.allclose(biased(m, z, None), biased(m, other, None))
    assert torch.equal(plain(m, z, None), plain(m, other, None))


@pytest.fixture
def network() -> PairNetwork:
    return randomised(PairNetwork(CONFIG, 5, 4))  # type: ignore[return-value]


def test_logits_are_symmetric_and_near_pairs_impossible(network: PairNetwork) -> None:
    logits = network(torch.randint(0, 5, (1, 11)))[0]
    assert logits.shape == (11, 12)
    pairs = logits[:, :-1]
    assert torch.allclose(pairs.nan_to_num(neginf=0), pairs.T.nan_to_num(neginf=0), atol=1e-12)
    for i in range(11):
        for j in range(11):
            assert bool(torch.isneginf(pairs[i, j])) == (abs(i - j) < 4)


def test_padding_changes_nothing(network: PairNetwork) -> None:
    lengths = torch.tensor([13, 9, 5])
    residues = torch.randint(0, 5, (3, 13))
    together = network(residues, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = network(residues[row : row + 1, :length])[0]
        kept = torch.cat([together[row, :length, :length], together[row, :length, -1:]], dim=1)
        torch.testing.assert_close(kept.nan_to_num(neginf=0), alone.nan_to_num(neginf=0), rtol=0, atol=1e-10)


def test_watching_sees_every_attention_exactly_and_changes_nothing(network: PairNetwork) -> None:
    residues = torch.randint(0, 5, (1, 9))
    with torch.inference_mode():
        unwatched = network(residues)
        with watch(network) as seen:
            assert torch.equal(network(residues), unwatched)
    assert [*seen] == [f"blocks.{block}.{part}" for block in range(2) for part in ("self", "starting", "ending")]
    for name, trace in seen.items():
        assert trace.shape == (1 if name.endswith("self") else 9, 2, 9, 9)
        for sequence in range(trace.shape[0]):
            whole = trace.tile(slice(None), slice(None), batch=sequence, head=1)
            torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole.sum(-1)))
            part = trace.tile(slice(2, 5), slice(1, 8), batch=sequence, head=1)
            torch.testing.assert_close(part, whole[2:5, 1:8])


def test_heads_can_be_switched_off_but_gated_layers_have_no_plain_output_matrix(network: PairNetwork) -> None:
    residues = torch.randint(0, 5, (1, 9))
    plain = network(residues).nan_to_num(neginf=0)
    for name in ("blocks.0.self:1", "blocks.1.starting:0"):
        with edit(network, without_heads=[name]):
            assert not torch.allclose(network(residues).nan_to_num(neginf=0), plain)
    with torch.inference_mode(), watch(network, values=True) as seen:
        network(residues)
    with pytest.raises(OptionError, match="has no W_O"):
        seen["blocks.0.self"].output_norms(head=0)


def test_sequences_that_are_too_long_are_refused() -> None:
    network = PairNetwork(CONFIG.model_copy(update={"max_length": 8}), 5, 4)
    with pytest.raises(ShapeError, match=r"at most 8; got \(1, 9\)"):
        network(torch.zeros(1, 9, dtype=torch.long))
