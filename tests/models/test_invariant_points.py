"""Invariant point attention: against loops, and unchanged by one motion of all frames."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from saccade.attention import watch
from saccade.models.invariant_points import InvariantPointAttention, invariant_point_attend, to_own, to_space

B, L, H, D, P, C = 2, 5, 3, 4, 2, 6


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def rotations(*shape: int) -> Tensor:
    """Random rotations without a reflection."""
    found, _ = torch.linalg.qr(torch.randn(*shape, 3, 3, dtype=torch.float64))
    return found * torch.linalg.det(found)[..., None, None]


def test_a_quarter_turn_and_a_step_by_hand() -> None:
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])[None, None]
    step = torch.tensor([[[10.0, 0.0, 0.0]]])
    moved = to_space(torch.tensor([[[[1.0, 0.0, 0.0]]]]), turn, step)
    assert moved.tolist() == [[[[10.0, 1.0, 0.0]]]]
    assert to_own(moved, turn, step).tolist() == [[[[1.0, 0.0, 0.0]]]]


def test_near_points_match_by_hand() -> None:
    """One point each, at 0 and 3: the other is at the squared distance 9, and √(1/3) · √(2/9) / 2 · 9 is √(3/2)."""
    nothing = torch.zeros(1, 1, 2, 1)
    points = torch.tensor([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]).view(1, 1, 2, 1, 3)
    found = invariant_point_attend(
        nothing, nothing, torch.eye(2)[None, None], points, points, torch.zeros(1, 1, 2, 2), torch.ones(1)
    )
    other = math.exp(-math.sqrt(3 / 2))
    expected = torch.tensor([[1.0, other], [other, 1.0]]) / (1 + other)
    torch.testing.assert_close(found[0, 0], expected)


def test_it_equals_loops() -> None:
    query, key, value = double(B, H, L, D), double(B, H, L, D), double(B, H, L, 7)
    mine, theirs, bias = double(B, H, L, P, 3), double(B, H, L, P, 3), double(B, H, L, L)
    strength = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    found = invariant_point_attend(query, key, value, mine, theirs, bias, strength)
    for b in range(B):
        for h in range(H):
            for i in range(L):
                scores = torch.stack(
                    [
                        query[b, h, i] @ key[b, h, j] / math.sqrt(D)
                        + bias[b, h, i, j]
                        - strength[h]
                        * math.sqrt(2 / (9 * P))
                        / 2
                        * sum((mine[b, h, i, p] - theirs[b, h, j, p]).square().sum() for p in range(P))
                        for j in range(L)
                    ]
                )
                expected = (math.sqrt(1 / 3) * scores).softmax(0) @ value[b, h]
                torch.testing.assert_close(found[b, h, i], expected, rtol=0, atol=1e-10)
    small = (double(1, 1, 2, 2), double(1, 1, 2, 2), double(1, 1, 2, 2), double(1, 1, 2, 1, 3), double(1, 1, 2, 1, 3))
    part = bias[:1, :1, :2, :2].detach()
    assert torch.autograd.gradcheck(lambda *given: invariant_point_attend(*given, part, strength[:1]), small)


def test_one_motion_of_all_frames_changes_nothing() -> None:
    layer = InvariantPointAttention(8, C, num_heads=H, head_width=D, points=P, value_points=3)
    residues, pairs = torch.randn(B, L, 8), torch.randn(B, L, L, C)
    turns, places = rotations(B, L), 5 * torch.randn(B, L, 3, dtype=torch.float64)
    whole, shift = rotations(1, 1), torch.tensor([300.0, -20.0, 7.0], dtype=torch.float64)
    plain = layer(residues, pairs, turns.float(), places.float())
    moved = to_space(places[:, :, None], whole.expand(B, L, -1, -1), shift.expand(B, L, -1))[:, :, 0]
    turned = layer(residues, pairs, (whole @ turns).float(), moved.float())
    torch.testing.assert_close(turned, plain, rtol=0, atol=1e-5)
    bent = turns.clone()
    bent[:, 0] = rotations(B)  # one frame alone is another molecule
    assert not torch.allclose(layer(residues, pairs, bent.float(), places.float()), plain, atol=1e-3)


def test_its_weights_can_be_watched() -> None:
    layer = InvariantPointAttention(8, C, num_heads=H, head_width=D, points=P, value_points=3)
    with torch.inference_mode(), watch(layer) as seen:
        layer(torch.randn(1, L, 8), torch.randn(1, L, L, C), rotations(1, L).float(), torch.randn(1, L, 3))
    (trace,) = seen.values()
    assert trace.shape == (1, H, L, L)
    whole = trace.tile(slice(None), slice(None), head=1, batch=0)
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole.sum(-1)))
    torch.testing.assert_close(trace.tile(slice(1, 4), slice(2, 5), head=1, batch=0), whole[1:4, 2:5])
