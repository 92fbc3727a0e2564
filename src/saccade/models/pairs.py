"""Pairs of residues: AlphaFold's attention with a pair bias and its triangle updates (Jumper 2021, supplement).

There are two representations. ``m`` holds a vector for each residue i of each of S aligned sequences, and ``z`` holds a
vector for each pair of residues (i, j). Attention along a sequence has a bias computed from ``z``, and ``z`` is updated
from the sequences and from itself: what holds for (i, k) and (j, k) says something about (i, j). The algorithm numbers
in the docstrings are those of the supplement. Shapes: B batch, S sequences, L residues, C width of a pair.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import attend, padding
from saccade.errors import ShapeError
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.layers import FeedForward, real_positions

__all__ = [
    "PairConfig",
    "PairNetwork",
    "outer_product_mean",
    "relative_positions",
    "triangle_attend",
    "triangle_multiply",
]

SharedNode = Literal["starting", "ending"]
Edges = Literal["outgoing", "incoming"]


# --- the equations ---


def relative_positions(length: int, most: int, device: torch.device | None = None) -> Int[Tensor, "L L"]:
    """``clip(i - j, -most, most) + most`` for each pair (i, j): an index from 0 to 2·most (algorithm 4)."""
    places = torch.arange(length, device=device)
    return (places[:, None] - places[None, :]).clamp(-most, most) + most


def outer_product_mean(a: Float[Tensor, "B S L D"], b: Float[Tensor, "B S L E"]) -> Float[Tensor, "B L L DE"]:
    """``mean_s a_si ⊗ b_sj`` for each pair (i, j), with the outer product flattened to a vector (algorithm 10)."""
    return torch.einsum("bsid,bsje->bijde", a, b).flatten(-2) / a.shape[1]


def triangle_multiply(
    a: Float[Tensor, "B L L C"], b: Float[Tensor, "B L L C"], edges: Edges
) -> Float[Tensor, "B L L C"]:
    """Outgoing edges: ``Σ_k a_ik ⊙ b_jk`` (algorithm 11); incoming edges: ``Σ_k a_ki ⊙ b_kj`` (algorithm 12)."""
    return torch.einsum("bikc,bjkc->bijc" if edges == "outgoing" else "bkic,bkjc->bijc", a, b)


def triangle_attend(
    query: Float[Tensor, "B L H L D"],
    key: Float[Tensor, "B L H L D"],
    value: Float[Tensor, "B L H L D"],
    bias: Float[Tensor, "B H L L"],
    lengths: Int[Tensor, " B"] | None = None,
    owner: nn.Module | None = None,
) -> Float[Tensor, "B L H L D"]:
    """``Σ_k softmax_k(q_ij·k_ik / √D + b_jk) v_ik``: each pair (i, j) attends to the pairs (i, k) (algorithm 13).

    ``saccade.watch`` records each row i as a sequence of its own: sequence ``b·L + i`` has the weights of the queries
    (i, j) in example b.
    """
    batch, rows = query.shape[:2]
    shared = bias if batch == 1 else bias[:, None].expand(-1, rows, -1, -1, -1).flatten(0, 1)
    mask = None if lengths is None else padding(lengths.repeat_interleave(rows))
    return attend(query, key, value, bias=shared, mask=mask, owner=owner)


# --- the layers ---


class PairBiasAttention(nn.Module):
    """Attention along each sequence, biased by the pairs and gated (algorithm 7).

    The weights are ``softmax_j(q_i·k_j / √D + b_ij)``; b_ij is a number for each head, computed from z_ij. If the
    configuration switches ``pair_bias`` off, there is no b_ij.
    """

    attends = True

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.norm = nn.LayerNorm(config.width)
        self.projections = nn.Linear(config.width, 3 * config.width, bias=False)
        self.gate = _open_gate(config.width)
        self.gated_output = _zero(nn.Linear(config.width, config.width))
        self.pair_norm = nn.LayerNorm(config.pair_width) if config.pair_bias else None
        self.pair_bias = nn.Linear(config.pair_width, config.num_heads, bias=False) if config.pair_bias else None

    def forward(
        self, m: Float[Tensor, "B S L M"], z: Float[Tensor, "B L L C"], lengths: Int[Tensor, " B"] | None
    ) -> Float[Tensor, "B S L M"]:
        sequences = m.shape[1]
        normed = self.norm(m)
        query, key, value = _heads(self.projections(normed), self.num_heads, 3)
        bias: Tensor | None = None
        if self.pair_bias is not None and self.pair_norm is not None:
            bias = self.pair_bias(self.pair_norm(z)).permute(0, 3, 1, 2).repeat_interleave(sequences, dim=0)
        mask = None if lengths is None else padding(lengths.repeat_interleave(sequences))
        attended = attend(query, key, value, bias=bias, mask=mask, owner=self)
        joined: Tensor = self.gated_output(torch.sigmoid(self.gate(normed)) * attended.transpose(-3, -2).flatten(-2))
        return joined


class OuterProductMean(nn.Module):
    """Computes an update of each pair's vector from the vectors of its two residues (algorithm 10)."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.factors = nn.Linear(config.width, 2 * config.product_width)
        self.output = _zero(nn.Linear(config.product_width**2, config.pair_width))

    def forward(self, m: Float[Tensor, "B S L M"]) -> Float[Tensor, "B L L C"]:
        joined: Tensor = self.output(outer_product_mean(*self.factors(self.norm(m)).chunk(2, dim=-1)))
        return joined


class TriangleMultiplication(nn.Module):
    """Computes an update of each pair (i, j) from the products of the other two edges of all triangles (i, j, k), over
    all k (algorithms 11 and 12)."""

    def __init__(self, config: PairConfig, edges: Edges) -> None:
        super().__init__()
        self.edges: Edges = edges
        width = config.pair_width
        self.norm = nn.LayerNorm(width)
        self.factors = nn.Linear(width, 2 * width)
        self.factor_gates = _open_gate(width, 2 * width)
        self.product_norm = nn.LayerNorm(width)
        self.gate = _open_gate(width)
        self.output = _zero(nn.Linear(width, width))

    def forward(self, z: Float[Tensor, "B L L C"], real: Bool[Tensor, "B L L 1"] | None) -> Float[Tensor, "B L L C"]:
        normed = self.norm(z)
        factors = torch.sigmoid(self.factor_gates(normed)) * self.factors(normed)
        if real is not None:
            factors = factors.masked_fill(~real, 0.0)
        a, b = factors.chunk(2, dim=-1)
        product = triangle_multiply(a, b, self.edges)
        joined: Tensor = torch.sigmoid(self.gate(normed)) * self.output(self.product_norm(product))
        return joined


class TriangleAttention(nn.Module):
    """Each pair attends to the pairs with the same first residue (``node`` = "starting"), or with the same second
    residue ("ending") (algorithms 13 and 14)."""

    attends = True

    def __init__(self, config: PairConfig, node: SharedNode) -> None:
        super().__init__()
        self.node: SharedNode = node
        self.num_heads = config.num_heads
        self.norm = nn.LayerNorm(config.pair_width)
        self.projections = nn.Linear(config.pair_width, 3 * config.pair_width, bias=False)
        self.bias = nn.Linear(config.pair_width, config.num_heads, bias=False)
        self.gate = _open_gate(config.pair_width)
        self.gated_output = _zero(nn.Linear(config.pair_width, config.pair_width))

    def forward(self, z: Float[Tensor, "B L L C"], lengths: Int[Tensor, " B"] | None) -> Float[Tensor, "B L L C"]:
        z = z if self.node == "starting" else z.transpose(1, 2)  # algorithm 14 is algorithm 13 on the transpose
        normed = self.norm(z)
        query, key, value = _heads(self.projections(normed), self.num_heads, 3)
        bias = self.bias(normed).permute(0, 3, 1, 2)
        attended = triangle_attend(query, key, value, bias, lengths, self).transpose(-3, -2).flatten(-2)
        joined: Tensor = self.gated_output(torch.sigmoid(self.gate(normed)) * attended)
        return joined if self.node == "starting" else joined.transpose(1, 2)


class PairConvolution(nn.Module):
    """Computes an update of each pair (i, j) from nearby pairs such as (i - 1, j + 1), by a convolution over the matrix
    of pairs, in which a stem of RNA base pairs is a diagonal."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.pair_width)
        size = config.convolution
        self.inner = nn.Conv2d(config.pair_width, config.pair_width, size, padding=size // 2)
        self.outer = _zero(nn.Conv2d(config.pair_width, config.pair_width, size, padding=size // 2))

    def forward(self, z: Float[Tensor, "B L L C"], real: Bool[Tensor, "B L L 1"] | None) -> Float[Tensor, "B L L C"]:
        inside = None if real is None else real.movedim(-1, 1)
        x = _kept(self.norm(z).movedim(-1, 1), inside)
        joined: Tensor = self.outer(_kept(F.relu(self.inner(x)), inside))
        return joined.movedim(1, -1)


class Transition(nn.Module):
    """A feed-forward layer, applied to each vector separately (algorithms 9 and 15)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = FeedForward(width, 4 * width, "relu")
        _zero(self.inner.outer)

    def forward(self, x: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
        joined: Tensor = self.inner(self.norm(x))
        return joined


class PairBlock(nn.Module):
    """One block of the Evoformer, in the order of algorithm 6, with the parts that the configuration chooses.

    Column attention (algorithm 8) attends from one aligned sequence to the others. It is left out, because the network
    reads a single sequence.
    """

    def __init__(self, config: PairConfig, *, attends: bool) -> None:
        super().__init__()
        self.share = config.dropout
        self.self = PairBiasAttention(config)
        self.transition = Transition(config.width)
        self.outer = OuterProductMean(config)
        multiplies = config.triangle_multiplication
        self.outgoing = TriangleMultiplication(config, "outgoing") if multiplies else None
        self.incoming = TriangleMultiplication(config, "incoming") if multiplies else None
        self.starting = TriangleAttention(config, "starting") if attends else None
        self.ending = TriangleAttention(config, "ending") if attends else None
        self.convolution = PairConvolution(config) if config.convolution else None
        self.pair_transition = Transition(config.pair_width)

    def forward(
        self,
        m: Float[Tensor, "B S L M"],
        z: Float[Tensor, "B L L C"],
        lengths: Int[Tensor, " B"] | None,
        real: Bool[Tensor, "B L L 1"] | None,
    ) -> tuple[Tensor, Tensor]:
        m = m + dropout(self.self(m, z, lengths), self.share, self.training)
        m = m + self.transition(m)
        z = z + self.outer(m)
        for multiply in (self.outgoing, self.incoming):
            if multiply is not None:
                z = z + dropout(multiply(z, real), self.share, self.training)
        for attention in (self.starting, self.ending):
            if attention is not None:
                z = z + dropout(attention(z, lengths), self.share, self.training)
        if self.convolution is not None:
            z = z + self.convolution(z, real)
        return m, z + self.pair_transition(z)


# --- the network ---


class PairConfig(Config):
    """The settings of a network that predicts which residues of a sequence are paired."""

    width: int = Field(64, ge=1, description="Width of a residue's vector")
    pair_width: int = Field(32, ge=1, description="Width of a pair's vector")
    num_heads: int = Field(4, ge=1, description="Number of attention heads")
    layers: int = Field(2, ge=1, description="Number of blocks")
    product_width: int = Field(8, ge=1, description="Width of each factor of the outer product")
    relative: int = Field(32, ge=1, le=4096, description="Distance beyond which all relative positions are the same")
    pair_bias: bool = Field(True, description="Whether pairs bias the attention along the sequence")
    triangle_multiplication: bool = Field(True, description="Whether triangles update pairs by multiplication")
    triangle_attention_layers: int = Field(
        1,
        ge=0,
        description="How many of the last blocks also update pairs by triangle attention, which is slow",
    )
    convolution: int = Field(
        3, ge=0, description="Side of the convolution over the matrix of pairs; 0 for no convolution"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="Fraction of values dropped in training")
    max_length: int = Field(256, ge=1, description="Residues in the longest sequence; memory grows with its square")

    @model_validator(mode="after")
    def _consistent(self) -> PairConfig:
        for name in ("width", "pair_width"):
            if getattr(self, name) % self.num_heads:
                raise ValueError(f"num_heads = {self.num_heads} must divide {name} = {getattr(self, name)}")
        if self.triangle_attention_layers > self.layers:
            raise ValueError(
                f"triangle_attention_layers = {self.triangle_attention_layers} must be at most layers = {self.layers}"
            )
        if self.convolution and self.convolution % 2 == 0:
            raise ValueError(f"convolution must be odd, or 0 for no convolution, not {self.convolution}")
        return self


class PairNetwork(nn.Module):
    """Predicts each residue's partner: it returns a logit for each residue as the partner, and a last one for none.

    The logit of the pair (i, j) equals that of (j, i). It is -inf if i and j are closer than ``min_distance``, or if
    one of them is padding.
    """

    def __init__(self, config: PairConfig, letters: int, min_distance: int) -> None:
        super().__init__()
        self.config = config
        self.min_distance = min_distance
        self.letters = letters
        self.residue = nn.Embedding(letters, config.width)
        self.pair = nn.Embedding(letters * letters, config.pair_width)
        self.relative = nn.Embedding(2 * config.relative + 1, config.pair_width)
        plain = config.layers - config.triangle_attention_layers
        self.blocks = nn.ModuleList(PairBlock(config, attends=number >= plain) for number in range(config.layers))
        self.pair_norm = nn.LayerNorm(config.pair_width)
        self.norm = nn.LayerNorm(config.width)
        self.paired = nn.Linear(config.pair_width, 1)
        self.unpaired = nn.Linear(config.width, 1)

    def forward(
        self, residues: Int[Tensor, "B L"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B L L+1"]:
        if residues.ndim != 2 or residues.shape[1] > self.config.max_length:
            raise ShapeError(
                f"This model takes residues of shape (batch, length) with a length of at most "
                f"{self.config.max_length}; got {tuple(residues.shape)}."
            )
        length = residues.shape[1]
        m = self.residue(residues)[:, None]
        near = relative_positions(length, self.config.relative, residues.device)
        z = self.pair(residues[:, :, None] * self.letters + residues[:, None, :]) + self.relative(near)
        present = real_positions(m[:, 0], lengths)
        real = None if present is None else (present[:, :, None] & present[:, None, :])
        for block in self.blocks:
            m, z = block(m, z, lengths, real)
        normed = self.pair_norm(z)
        paired = self.paired(normed + normed.transpose(1, 2))[..., 0]
        places = torch.arange(length, device=residues.device)
        apart = (places[:, None] - places).abs()
        allowed = (apart >= self.min_distance).expand_as(paired)
        allowed = allowed if real is None else allowed & real[..., 0]
        paired = paired.masked_fill(~allowed, float("-inf"))
        return torch.cat([paired, self.unpaired(self.norm(m[:, 0]))], dim=-1)


def _heads(projected: Float[Tensor, "*B N D"], heads: int, parts: int) -> list[Float[Tensor, "*B H N D"]]:
    """Split a joint projection into its parts, and each part into heads."""
    return [part.reshape(*part.shape[:-1], heads, -1).transpose(-3, -2) for part in projected.chunk(parts, dim=-1)]


def _kept(x: Tensor, inside: Tensor | None) -> Tensor:
    return x if inside is None else x.masked_fill(~inside, 0.0)


def _zero(layer: nn.Module) -> nn.Module:
    """Set the layer to zero, so that a block changes nothing at first."""
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def _open_gate(width: int, outputs: int | None = None) -> nn.Linear:
    """A gate that is nearly open at first, whatever its input."""
    gate = nn.Linear(width, outputs or width)
    nn.init.zeros_(gate.weight)
    nn.init.ones_(gate.bias)
    return gate
