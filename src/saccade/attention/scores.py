"""Scores: how well a query matches a key (lectures 002, 003 and 004).

Shapes everywhere: B batch, H heads, Q queries, K keys, D width. A score gets ``(query, key, rows, columns)``,
where rows and columns are the absolute positions of the queries and keys, on which the score may depend. It
returns scores for exactly those queries and keys, so any tile of the matrix can be computed on its own.

====================  =====================================  ================================
``Dot``               ``q·k``                                Luong 2015
``ScaledDot``         ``q·k / √D``                           Vaswani 2017, eq. 1
``Cosine``            ``q·k / (|q| |k|)``                    Graves 2014, eq. 6
``Equal``             1 if ``q = k``, else 0                 lecture 000, look-up
``Bilinear``          ``qᵀ W k``                             Luong 2015, "general"
``Additive``          ``w·tanh(q + k)``, projected q and k   Bahdanau 2015, appendix A.1.2
``MLP``               ``w·tanh(W [q; k] + b)``               the lectures' f_att
``AgentAware``        one of two products, by agent          Yuan 2021, eq. 6
====================  =====================================  ================================
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, ShapeError, UnknownNameError

__all__ = [
    "MLP",
    "SCORES",
    "Additive",
    "AgentAware",
    "Bilinear",
    "Cosine",
    "Dot",
    "Equal",
    "Product",
    "ScaledDot",
    "Score",
]


class Product(NamedTuple):
    """A score in the form ``scale · query keyᵀ``, which fused kernels compute."""

    query: Float[Tensor, "B H Q D"]
    key: Float[Tensor, "B H K D"]
    scale: float


class Score:
    """Base class of all scores."""

    #: True if the score is a single scaled matrix product, given by ``as_product``.
    is_product: ClassVar[bool] = False

    def __call__(
        self,
        query: Float[Tensor, "B H Q D"],
        key: Float[Tensor, "B H K E"],
        rows: Int[Tensor, " Q"],
        columns: Int[Tensor, " K"],
    ) -> Float[Tensor, "B H Q K"]:
        """Compute the score of every query with every key."""
        product = self.as_product(query, key)
        # Scale the smaller factor before the product, like the fused kernels.
        return (product.query * product.scale) @ product.key.transpose(-2, -1)

    def as_product(self, query: Tensor, key: Tensor) -> Product:
        """Return queries, keys and a scale such that ``scale · query keyᵀ`` is this score."""
        raise AssertionError("subclasses must implement as_product() or __call__()")

    def check(self, num_heads: int, query_width: int, key_width: int) -> None:
        """Raise an error if this score cannot compare queries and keys of these widths, in this number of heads."""
        if query_width != key_width:
            raise ShapeError(
                f"The {type(self).__name__} score needs queries and keys of the same width; "
                f"the query has width {query_width}, the key {key_width}."
            )

    def pair_width(self, width: int) -> int:
        """Return how many numbers are in memory at once for each pair of query and key while scores are computed."""
        return 1

    def part(self, heads: range) -> Self:
        """Return the same score for only some of the heads."""
        return self

    def frozen(self, dtype: torch.dtype) -> Self:
        """Return a copy with parameters in ``dtype`` that training does not change; itself if it has no parameters."""
        return copy.deepcopy(self).requires_grad_(False).to(dtype) if isinstance(self, nn.Module) else self


class Dot(Score):
    """``q·k`` (Luong 2015)."""

    is_product = True

    def as_product(self, query: Tensor, key: Tensor) -> Product:
        return Product(query, key, 1.0)


class ScaledDot(Score):
    """``q·k / √D`` (Vaswani 2017, eq. 1), or with another scale if given."""

    is_product = True

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale

    def as_product(self, query: Tensor, key: Tensor) -> Product:
        scale = 1.0 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return Product(query, key, scale)


class Cosine(Score):
    """``q·k / (|q| |k|)`` (Graves 2014, eq. 6); the score is 0 if q or k is all zeros."""

    is_product = True

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def as_product(self, query: Tensor, key: Tensor) -> Product:
        return Product(_unit(query), _unit(key), self.scale)


class Equal(Score):
    """``1(q = k)``: 1 if every number of the query equals that of the key, else 0 (lecture 000)."""

    def __call__(self, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return (query.unsqueeze(-2) == key.unsqueeze(-3)).all(dim=-1).to(query.dtype)

    def pair_width(self, width: int) -> int:
        return width


def _unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1 in at least float32: half precision would round the epsilon that prevents 0/0 to 0."""
    dtype = torch.float32 if vectors.dtype in (torch.float16, torch.bfloat16) else vectors.dtype
    return nn.functional.normalize(vectors.to(dtype), dim=-1).to(vectors.dtype)


class _LearnedScore(Score, nn.Module):
    """A score with its own parameters: one set for all heads, or one per head."""

    num_heads: int | None

    def __init__(self, num_heads: int | None) -> None:
        nn.Module.__init__(self)
        self.num_heads = num_heads

    def part(self, heads: range) -> Self:
        if self.num_heads is None:
            return self
        cut = copy.copy(self)
        cut.num_heads = len(heads)
        cut._parameters = {
            name: nn.Parameter(parameter[heads.start : heads.stop], requires_grad=False)
            for name, parameter in self._parameters.items()
            if parameter is not None
        }
        return cut

    def _parameter(self, *shape: int, fan_in: int) -> nn.Parameter:
        bound = 1.0 / math.sqrt(fan_in)
        return nn.Parameter(torch.empty(self.num_heads or 1, *shape).uniform_(-bound, bound))

    def _check_width(self, name: str, actual: int, expected: int) -> None:
        if actual != expected:
            raise ShapeError(
                f"This {type(self).__name__} score needs a {name} of width {expected}; the {name} has width {actual}."
            )

    def _check_heads(self, num_heads: int) -> None:
        if self.num_heads not in (None, num_heads):
            raise ShapeError(
                f"This {type(self).__name__} score is for {self.num_heads} heads; the query has {num_heads}."
            )


class Bilinear(_LearnedScore):
    """``qᵀ W k`` (Luong 2015, "general")."""

    is_product = True

    def __init__(self, query_width: int, key_width: int | None = None, num_heads: int | None = None) -> None:
        super().__init__(num_heads)
        self.weight = self._parameter(query_width, key_width or query_width, fan_in=query_width)

    def as_product(self, query: Tensor, key: Tensor) -> Product:
        return Product(query @ self.weight, key, 1.0)

    def check(self, num_heads: int, query_width: int, key_width: int) -> None:
        self._check_heads(num_heads)
        self._check_width("query", query_width, self.weight.shape[1])
        self._check_width("key", key_width, self.weight.shape[2])


class Additive(_LearnedScore):
    """``w·tanh(q + k)`` on projected queries and keys (Bahdanau 2015; "method 2" in lecture 004)."""

    def __init__(self, width: int, num_heads: int | None = None) -> None:
        super().__init__(num_heads)
        self.vector = self._parameter(width, fan_in=width)

    def __call__(self, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # (B, H, Q, K, D)
        return torch.einsum("bhqkd,hd->bhqk", hidden, self.vector.expand(query.shape[1], -1))

    def check(self, num_heads: int, query_width: int, key_width: int) -> None:
        self._check_heads(num_heads)
        self._check_width("query", query_width, self.vector.shape[1])
        self._check_width("key", key_width, self.vector.shape[1])

    def pair_width(self, width: int) -> int:
        return width


class MLP(_LearnedScore):
    """``w·tanh(W [q; k] + b)``, which the lectures call f_att.

    W is stored as one matrix for queries and one for keys, so each query and key is multiplied once, not per pair.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int | None = None,
        hidden_width: int | None = None,
        num_heads: int | None = None,
    ) -> None:
        super().__init__(num_heads)
        key_width = key_width or query_width
        hidden_width = hidden_width or query_width
        fan_in = query_width + key_width
        self.query_weight = self._parameter(query_width, hidden_width, fan_in=fan_in)
        self.key_weight = self._parameter(key_width, hidden_width, fan_in=fan_in)
        self.bias = self._parameter(1, hidden_width, fan_in=fan_in)
        self.vector = self._parameter(hidden_width, fan_in=hidden_width)

    def __call__(self, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        projected = query @ self.query_weight + self.bias
        hidden = torch.tanh(projected.unsqueeze(-2) + (key @ self.key_weight).unsqueeze(-3))
        return torch.einsum("bhqkd,hd->bhqk", hidden, self.vector.expand(query.shape[1], -1))

    def check(self, num_heads: int, query_width: int, key_width: int) -> None:
        self._check_heads(num_heads)
        self._check_width("query", query_width, self.query_weight.shape[1])
        self._check_width("key", key_width, self.key_weight.shape[1])

    def pair_width(self, width: int) -> int:
        return self.vector.shape[1]


class AgentAware(Score):
    """``q_self·k_self / √D`` within an agent, ``q_other·k_other / √D`` between agents (AgentFormer, Yuan 2021, eq. 6).

    A sequence has one token for each agent at each moment, one moment after the other, so that token i belongs to
    agent ``i mod num_agents``. The first half of a query vector is q_self, the second half q_other; likewise for keys.
    """

    def __init__(self, num_agents: int) -> None:
        if num_agents < 1:
            raise OptionError(f"num_agents must be at least 1, not {num_agents}.")
        self.num_agents = num_agents

    def __call__(self, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        (own_query, other_query), (own_key, other_key) = query.chunk(2, dim=-1), key.chunk(2, dim=-1)
        scale = 1.0 / math.sqrt(own_query.shape[-1])
        between = (other_query * scale) @ other_key.transpose(-2, -1)
        if self._is_whole(rows) and self._is_whole(columns):
            return self._with_own(between, own_query * scale, own_key)
        same = rows[:, None] % self.num_agents == columns[None, :] % self.num_agents
        return torch.where(same, (own_query * scale) @ own_key.transpose(-2, -1), between)

    def _is_whole(self, places: Int[Tensor, " T"]) -> bool:
        """Whether these positions are known to be whole time steps, with all their agents."""
        if places.is_meta:
            return False
        return len(places) > 0 and len(places) % self.num_agents == 0 and int(places[0]) % self.num_agents == 0

    def _with_own(
        self, between: Float[Tensor, "B H Q K"], query: Float[Tensor, "B H Q D"], key: Float[Tensor, "B H K D"]
    ) -> Float[Tensor, "B H Q K"]:
        """Replace the scores within each agent, which are one in ``num_agents``, without computing the others twice."""
        agents = self.num_agents
        by_agent = [one.reshape(*one.shape[:2], -1, agents, one.shape[-1]) for one in (query, key)]
        own = torch.einsum("bhtnd,bhsnd->bhtsn", *by_agent)
        batch, heads, moments, others = own.shape[:4]
        between.view(batch, heads, moments, agents, others, agents).diagonal(dim1=3, dim2=5).copy_(own)
        return between

    def check(self, num_heads: int, query_width: int, key_width: int) -> None:
        super().check(num_heads, query_width, key_width)
        if query_width % 2:
            raise ShapeError(
                f"The AgentAware score needs an even width, for two projections of equal width; got {query_width}."
            )

    def pair_width(self, width: int) -> int:
        return 2


SCORES: dict[str, Score] = {"dot": Dot(), "scaled_dot": ScaledDot(), "cosine": Cosine(), "equal": Equal()}


#: Scores with learned parameters, by name: (width of queries and keys, number of heads) -> score.
LEARNED: dict[str, Callable[[int, int], Score]] = {
    "bilinear": lambda width, heads: Bilinear(width, num_heads=heads),
    "additive": lambda width, heads: Additive(width, num_heads=heads),
    "mlp": lambda width, heads: MLP(width, num_heads=heads),
}


def score_for_heads(name: str, width: int, num_heads: int) -> Score:
    """Return the score with this name for heads of this width; a learned one has parameters for each head."""
    if name not in SCORES and name not in LEARNED:
        raise UnknownNameError("score", name, [*SCORES, *LEARNED])
    return LEARNED[name](width, num_heads) if name in LEARNED else SCORES[name]


def resolve_score(score: str | Score) -> Score:
    """Return the score with this name; a score object is returned unchanged."""
    if isinstance(score, Score):
        return score
    if not isinstance(score, str) or score not in SCORES:
        raise UnknownNameError("score", score, SCORES)
    return SCORES[score]
