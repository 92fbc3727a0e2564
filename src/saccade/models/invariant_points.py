"""Invariant point attention: residues with a place and an orientation in space attend to each other (Jumper 2021).

Each residue i has a frame ``T_i = (R_i, t_i)``, a rotation and a translation, which takes a point from the residue's
own coordinates to those of the whole molecule. The closer the query points of a residue are in space to the key points
of another, the higher the score of the two. If the molecule is rotated and moved as a whole, the result does not change
(algorithm 22 of the supplement). Shapes: B batch, L residues, H heads, D width, P query points, V value points, C width
of a pair.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention import attend

__all__ = ["InvariantPointAttention", "invariant_point_attend", "to_own", "to_space"]


def to_space(
    points: Float[Tensor, "B L *N 3"], rotations: Float[Tensor, "B L 3 3"], translations: Float[Tensor, "B L 3"]
) -> Float[Tensor, "B L *N 3"]:
    """``T_i ∘ x = R_i x + t_i``: convert points from the coordinates of their residue to those of the molecule."""
    moved = torch.einsum("blij,blnj->blni", rotations, points.flatten(2, -2)) + translations[:, :, None]
    return moved.view_as(points)


def to_own(
    points: Float[Tensor, "B L *N 3"], rotations: Float[Tensor, "B L 3 3"], translations: Float[Tensor, "B L 3"]
) -> Float[Tensor, "B L *N 3"]:
    """``T_i⁻¹ ∘ x = R_iᵀ (x - t_i)``: convert points from the molecule's coordinates to those of their residue."""
    from_there = points.flatten(2, -2) - translations[:, :, None]
    return torch.einsum("blji,blnj->blni", rotations, from_there).view_as(points)


def invariant_point_attend(
    query: Float[Tensor, "B H L D"],
    key: Float[Tensor, "B H L D"],
    value: Float[Tensor, "B H L E"],
    query_points: Float[Tensor, "B H L P 3"],
    key_points: Float[Tensor, "B H L P 3"],
    bias: Float[Tensor, "B H L L"],
    strength: Float[Tensor, " H"],
    owner: nn.Module | None = None,
) -> Float[Tensor, "B H L E"]:
    """Attend with the score ``w_L (q_i·k_j / √D + b_ij - γ w_C / 2 · Σ_p |x_ip - y_jp|²)``.

    x are the query points and y the key points, in coordinates of the molecule; γ is the ``strength`` of a head.
    ``w_C = √(2 / (9 P))`` and ``w_L = √(1 / 3)`` give the three terms the same variance. The squared distance is
    ``|x|² + |y|² - 2 x·y``, so the score is computed as a dot product of longer vectors plus a bias.
    """
    count = query_points.shape[-2]
    near = (strength * math.sqrt(2 / (9 * count))).view(-1, 1, 1)
    total = math.sqrt(1 / 3)
    squares = [points.square().sum(dim=(-1, -2)) for points in (query_points, key_points)]
    apart = squares[0][..., :, None] + squares[1][..., None, :]
    long_query = torch.cat([query / math.sqrt(query.shape[-1]), near * query_points.flatten(-2)], dim=-1)
    long_key = torch.cat([key, key_points.flatten(-2)], dim=-1)
    return attend(total * long_query, long_key, value, score="dot", bias=total * (bias - near / 2 * apart), owner=owner)


class InvariantPointAttention(nn.Module):
    """Attention between residues in space (Jumper 2021, supplement, algorithm 22).

    Each residue receives averages over all residues, weighted by attention: of their values, of the vectors of its
    pairs with them, and of their points, in its own coordinates; also the distance to each averaged point.
    """

    attends = True

    def __init__(
        self,
        width: int,
        pair_width: int,
        *,
        num_heads: int = 12,
        head_width: int = 16,
        points: int = 4,
        value_points: int = 8,
    ) -> None:
        super().__init__()
        self.num_heads, self.points, self.value_points = num_heads, points, value_points
        self.projections = nn.Linear(width, 3 * num_heads * head_width, bias=False)
        self.point_projections = nn.Linear(width, num_heads * (2 * points + value_points) * 3, bias=False)
        self.pair_bias = nn.Linear(pair_width, num_heads, bias=False)
        self.strength = nn.Parameter(torch.full((num_heads,), math.log(math.e - 1)))  # its softplus is 1
        self.output = nn.Linear(num_heads * (pair_width + head_width + 4 * value_points), width)

    def forward(
        self,
        residues: Float[Tensor, "B L D"],
        pairs: Float[Tensor, "B L L C"],
        rotations: Float[Tensor, "B L 3 3"],
        translations: Float[Tensor, "B L 3"],
    ) -> Float[Tensor, "B L D"]:
        batch, length = residues.shape[:2]
        # Distances do not depend on the origin. Near the origin, the squares they are computed from lose fewer digits.
        translations = translations - translations.mean(dim=1, keepdim=True)
        parts = self.projections(residues).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        own = self.point_projections(residues).view(batch, length, self.num_heads, -1, 3)
        points = to_space(own, rotations, translations).transpose(1, 2)
        counts = [self.points, self.points, self.value_points]
        query_points, key_points, value_points = torch.split(points, counts, dim=-2)
        # With a 1 for each residue among the values, attention returns its weights too, which the pairs need.
        each = torch.eye(length, device=value.device, dtype=value.dtype).expand(batch, self.num_heads, -1, -1)
        found = invariant_point_attend(
            query,
            key,
            torch.cat([value, value_points.flatten(-2), each], dim=-1),
            query_points,
            key_points,
            self.pair_bias(pairs).permute(0, 3, 1, 2),
            F.softplus(self.strength),
            self,
        )
        values, seen, weights = torch.split(found, [value.shape[-1], 3 * self.value_points, length], dim=-1)
        of_pairs = torch.einsum("bhij,bijc->bihc", weights, pairs)
        there = seen.view(batch, self.num_heads, length, self.value_points, 3).transpose(1, 2)
        here = to_own(there, rotations, translations)
        gathered = (of_pairs, values.transpose(1, 2), here.flatten(-2), here.norm(dim=-1))
        joined: Tensor = self.output(torch.cat(gathered, dim=-1).flatten(-2))
        return joined
