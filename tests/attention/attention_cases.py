"""What the attention tests share: random problems, and the weights of a problem written out row by row.

The written-out form is the yardstick, so it uses nothing of the package: float64, one row at a time, forbidden
keys taken out of the row instead of given a score of -inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from entmax import sparsemax
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from saccade import causal, dense, padding, rule, window
from saccade.attention import MLP, Additive, Bias, Bilinear, Hard, Mask, Score

#: Deterministic and bounded; a first call may be slow for reasons that are not ours (torch's lazy parts).
property_settings = settings(max_examples=30, deadline=None, derandomize=True)

RULE_NAMES = ["none", "causal", "padding", "window", "causal & padding", "window | ~causal", "dense", "rule"]
SCORE_NAMES = ["dot", "scaled_dot", "cosine", "bilinear", "additive", "mlp"]
WEIGHTS_NAMES = ["softmax", "relu", "sparsemax", "hard"]


@dataclass(frozen=True)
class Problem:
    """Random queries, keys and values. Sizes are coprime where a test chooses them, so swapped axes fail."""

    batch: int = 2
    heads: int = 3
    key_heads: int = 3
    queries: int = 5
    keys: int = 7
    width: int = 4
    value_width: int = 11
    seed: int = 0
    scale: float = 1.0
    dtype: torch.dtype = torch.float32

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        shapes = [
            (self.batch, self.heads, self.queries, self.width),
            (self.batch, self.key_heads, self.keys, self.width),
            (self.batch, self.key_heads, self.keys, self.value_width),
        ]
        scales = (self.scale, self.scale, 1.0)
        query, key, value = (
            (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(self.dtype)
            for shape, scale in zip(shapes, scales, strict=True)
        )
        return query, key, value

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.queries, self.keys


def grid(shape: tuple[int, int, int, int], first_row: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Index tensors of the whole matrix, as a rule takes them."""
    batch, head, row, column = (
        torch.arange(size).view([-1 if axis == place else 1 for axis in range(4)]) for place, size in enumerate(shape)
    )
    return batch, head, row + first_row, column


def allowed_by(mask: Mask | None, shape: tuple[int, int, int, int], first_row: int = 0) -> Tensor:
    """The whole boolean matrix of a rule."""
    if mask is None:
        return torch.ones(shape, dtype=torch.bool)
    return mask(*grid(shape, first_row)).expand(shape)


def make_rule(name: str, shape: tuple[int, int, int, int]) -> Mask | None:
    """A rule of each kind; every one leaves some keys to the first query."""
    batch, heads, queries, keys = shape
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, keys + 1, (batch,), generator=generator)
    marks = torch.rand(batch, heads, queries, keys, generator=generator) < 0.6
    kinds: dict[str, Mask | None] = {
        "none": None,
        "causal": causal,
        "padding": padding(lengths),
        "window": window(2),
        "causal & padding": causal & padding(lengths),
        "window | ~causal": window(1) | ~causal,
        "dense": dense(marks),
        "rule": rule(lambda batch, head, row, column: (batch + head + 2 * row + column) % 3 != 1),
    }
    return kinds[name]


def make_score(name: str, heads: int, width: int, dtype: torch.dtype = torch.float32) -> str | Score:
    """A score of each kind; learned ones have parameters for each head."""
    torch.manual_seed(3)
    if name == "bilinear":
        return Bilinear(width, num_heads=heads).to(dtype)
    if name == "additive":
        return Additive(width, num_heads=heads).to(dtype)
    if name == "mlp":
        return MLP(width, hidden_width=width + 1, num_heads=heads).to(dtype)
    return name


def written_scores(query: Tensor, key: Tensor, score: str | Score) -> Tensor:
    """(B, H, Q, K) in float64, one query, one key and one head at a time."""
    query, key = query.detach().double(), key.detach().double()
    batch, heads, queries, _ = query.shape
    group = heads // key.shape[1]
    scores = torch.zeros(batch, heads, queries, key.shape[2], dtype=torch.float64)
    for h in range(heads):
        for q in range(queries):
            for k in range(key.shape[2]):
                scores[:, h, q, k] = _written_score(query[:, h, q], key[:, h // group, k], score, h)
    return scores


def _written_score(q: Tensor, k: Tensor, score: str | Score, head: int) -> Tensor:
    if score == "dot":
        return (q * k).sum(-1)
    if score == "scaled_dot":
        return (q * k).sum(-1) / math.sqrt(q.shape[-1])
    if score == "cosine":
        return (q * k).sum(-1) / (q.norm(dim=-1) * k.norm(dim=-1))
    own: dict[str, Any] = {name: parameter[head].detach().double() for name, parameter in score.named_parameters()}  # type: ignore[union-attr]
    if isinstance(score, Bilinear):
        return torch.stack([a @ own["weight"] @ b for a, b in zip(q, k, strict=True)])
    if isinstance(score, Additive):
        return torch.tanh(q + k) @ own["vector"]
    stacked = torch.cat([own["query_weight"], own["key_weight"]])  # the lectures' W acts on [q; k]
    return torch.tanh(torch.cat([q, k], dim=-1) @ stacked + own["bias"][0]) @ own["vector"]


def written_weights(scores: Tensor, allowed: Tensor, weights: str, bias: Tensor | None = None) -> Tensor:
    """The weights of whole rows of float64 scores, forbidden keys left out of each row."""
    scores = scores if bias is None else scores + bias.double()
    allowed = (allowed & (scores != float("-inf"))).expand(scores.shape)
    result = torch.zeros_like(scores)
    for place in torch.cartesian_prod(*(torch.arange(n) for n in scores.shape[:3])).tolist():
        at = tuple(place)
        columns = allowed[at].nonzero().flatten()
        if len(columns):
            result[(*at, columns)] = _written_row(scores[at][columns], weights)
    return result


def _written_row(row: Tensor, weights: str) -> Tensor:
    if weights == "softmax":
        shares = torch.exp(row - row.max())
        return shares / shares.sum()
    if weights == "relu":
        return row.clamp(min=0)
    if weights == "sparsemax":
        return sparsemax(row, dim=-1)
    return torch.nn.functional.one_hot(row.argmax(), len(row)).to(row.dtype)


def distance_bias(heads: int) -> Bias:
    """A bias rule that tells heads, rows and columns apart."""
    slopes = torch.arange(1, heads + 1, dtype=torch.float64) / 7
    return Bias(lambda batch, head, row, column: slopes[head] * (row - 2 * column) / 3 + batch * 0.0)


# --- hypothesis ---------------------------------------------------------------------------------------------


@st.composite
def problems(
    draw: st.DrawFn,
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64),
    square: bool = False,
) -> Problem:
    queries = draw(st.integers(1, 7))
    key_heads = draw(st.integers(1, 3))
    return Problem(
        batch=draw(st.integers(1, 3)),
        heads=key_heads * draw(st.integers(1, 3)),
        key_heads=key_heads,
        queries=queries,
        keys=queries if square else draw(st.integers(1, 8)),
        width=draw(st.integers(1, 5)),
        value_width=draw(st.integers(1, 5)),
        seed=draw(st.integers(0, 2**16)),
        scale=draw(st.sampled_from([0.3, 1.0, 2.5])),
        dtype=draw(st.sampled_from(dtypes)),
    )


@st.composite
def rules(draw: st.DrawFn, shape: tuple[int, int, int, int], first_row: int = 0) -> Mask:
    """A random rule: simple ones, and simple ones joined."""
    batch, heads, queries, keys = shape
    lengths = st.lists(st.integers(0, keys), min_size=batch, max_size=batch)
    seeds = st.integers(0, 2**16)
    leaves = st.one_of(
        st.just(causal),
        st.integers(0, 5).map(window),
        lengths.map(lambda found: padding(torch.tensor(found))),
        seeds.map(lambda seed: dense(_marks((batch, heads, queries, keys), seed), first_row)),
        seeds.map(lambda seed: dense(_marks((1, heads, 1, keys), seed), first_row)),
        st.integers(2, 4).map(lambda m: rule(lambda batch, head, row, column: (row + column + head) % m != 0)),
    )
    return draw(
        st.recursive(
            leaves,
            lambda inner: st.one_of(
                st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
                st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
                inner.map(lambda one: ~one),
            ),
            max_leaves=4,
        )
    )


def _marks(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


def make_weights(name: str) -> Any:
    """A weights function by name; "hard sample" and "hard straight_through" too."""
    kind, _, mode = name.partition(" ")
    return Hard(mode) if mode else kind  # type: ignore[arg-type]
