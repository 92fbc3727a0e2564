"""Multi-head attention: projections, attention in each head, and W_O (lecture 003; Vaswani 2017, §3.2.2)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention.attend import Kernel, attend, weigh
from saccade.attention.equation import Bias
from saccade.attention.masks import Mask
from saccade.attention.positions import ALiBi, RelativePositions, Rotary
from saccade.attention.scores import Score, resolve_score
from saccade.attention.watching.interventions import Shared
from saccade.attention.weights import Weights, resolve_weights
from saccade.errors import OptionError, ShapeError

__all__ = ["Cache", "GrowingCache", "KeyValue", "MultiHead", "Resize", "StaticCache"]


class KeyValue(NamedTuple):
    """The projected keys and values of a source, which is the sequence that is attended to."""

    key: Float[Tensor, "B G K D"]
    value: Float[Tensor, "B G K D"]

    def reorder(self, index: Int[Tensor, " N"]) -> KeyValue:
        """Select sequences: the new sequence n is the old index[n]."""
        return KeyValue(self.key.index_select(0, index), self.value.index_select(0, index))


class Cache(Protocol):
    """Keeps the keys and values of the positions read so far, so that each step projects only the new ones.

    The hypotheses of a beam search are rows of the batch that continue the same sequence of the cache and share its
    keys. Each hypothesis adds its own keys next to those of the others, and a mask says which keys belong to its
    history. The search therefore copies no keys when one hypothesis replaces another.
    """

    positions: list[int]
    """The position of each key in its text; hypotheses that share a sequence have one key each at a position."""

    @property
    def length(self) -> int:
        """The number of positions read so far."""

    @property
    def beside(self) -> list[int] | None:
        """``positions`` if some position has several keys, one for each hypothesis; None if each has only one."""

    def append(self, new: KeyValue) -> KeyValue:
        """Add new keys and values, and return those of all positions, old and new."""

    def reorder(self, index: Int[Tensor, " S"]) -> None:
        """Select sequences: the new sequence s is the old sequence index[s]."""


class _CacheBase:
    def __init__(self) -> None:
        self.positions: list[int] = []
        self._kept: KeyValue | None = None

    @property
    def length(self) -> int:
        return self.positions[-1] + 1 if self.positions else 0

    @property
    def beside(self) -> list[int] | None:
        return self.positions if len(self.positions) != self.length else None


class GrowingCache(_CacheBase):
    """A cache of unlimited length that grows with each step, at the cost of one copy per step."""

    def append(self, new: KeyValue) -> KeyValue:
        added = _new_positions(self.length, self._kept, new)
        if self._kept is not None:
            new = _beside(self._kept, new)
            new = KeyValue(torch.cat([self._kept.key, new.key], dim=2), torch.cat([self._kept.value, new.value], dim=2))
        self._kept = new
        self.positions += added
        return new

    def reorder(self, index: Tensor) -> None:
        if self._kept is not None:
            self._kept = self._kept.reorder(index)


class StaticCache(_CacheBase):
    """A cache for a known number of positions: a step writes in place and copies nothing."""

    def __init__(self, max_length: int) -> None:
        super().__init__()
        self.max_length = max_length

    def append(self, new: KeyValue) -> KeyValue:
        start = len(self.positions)
        added = _new_positions(self.length, self._kept, new)
        if self.length + len(set(added)) > self.max_length:
            raise ShapeError(
                f"This cache has room for {self.max_length} positions, but needs {self.length + len(set(added))}."
            )
        if self._kept is None:
            self._kept = KeyValue(*(_room(part, self.max_length) for part in new))
        new = _beside(self._kept, new)
        if start + len(added) > self._kept.key.shape[2]:  # rows that share a sequence need more room
            left = self.max_length - self.length
            self._kept = KeyValue(*(_room(part, start + left * len(added), start) for part in self._kept))
        self.positions += added
        for kept, part in zip(self._kept, new, strict=True):
            kept[:, :, start : len(self.positions)] = part
        return KeyValue(*(part[:, :, : len(self.positions)] for part in self._kept))

    def reorder(self, index: Tensor) -> None:
        if self._kept is not None:
            count = len(self.positions)
            used = (part[:, :, :count].index_select(0, index) for part in self._kept)
            size = self._kept.key.shape[2]
            self._kept = KeyValue(*(_room(part, size, count) for part in used))


def _room(part: Tensor, size: int, used: int = 0) -> Tensor:
    """Allocate room for ``size`` keys like these and copy the first ``used`` of them."""
    room = part.new_empty(*part.shape[:2], size, part.shape[3])
    room[:, :, :used] = part[:, :, :used]
    return room


def _new_positions(first: int, kept: KeyValue | None, new: KeyValue) -> list[int]:
    """Return the positions of new keys: consecutive, or the same position for all rows of a sequence."""
    rows, _, count, _ = new.key.shape
    shared = 1 if kept is None or not len(kept.key) else rows // len(kept.key)
    if shared > 1 and count > 1:
        raise ShapeError(
            f"Rows of the batch that share one sequence of the cache must add one position at a time, not {count}."
        )
    return [first] * shared if shared > 1 else list(range(first, first + count))


def _beside(kept: KeyValue, new: KeyValue) -> KeyValue:
    """Put the new keys of all rows of a sequence side by side: (S·W, G, 1, D) to (S, G, W, D)."""
    sequences, heads = kept.key.shape[:2]
    if new.key.shape[1] != heads or new.key.shape[0] != sequences * max(1, new.key.shape[0] // max(1, sequences)):
        raise ShapeError(
            f"This cache holds {sequences} sequences with {heads} key heads; "
            f"the new keys have {new.key.shape[0]} sequences with {new.key.shape[1]} heads."
        )
    return KeyValue(*(_share(part, sequences) for part in new))


def _share(x: Float[Tensor, "R H N D"], sequences: int) -> Float[Tensor, "S H M D"]:
    """Turn the rows of a sequence into its positions; a shape that does not fit is left for ``attend`` to reject."""
    if x.shape[0] == sequences or not sequences or len(x) % sequences or x.shape[2] != 1:
        return x
    return x.view(sequences, -1, *x.shape[1:2], x.shape[3]).transpose(1, 2)


class MultiHead(nn.Module):
    """Attention in several heads: ``concat(head_1, ..., head_H) W_O``.

    Each head projects the input to its own queries, keys and values. If ``num_key_heads`` is less than ``num_heads``,
    groups of heads share keys and values (one key head: multi-query, Shazeer 2019; several: grouped, Ainslie 2023).

    Args:
        width: width of the input and the output.
        num_key_heads: number of heads for keys and values, which must divide ``num_heads``; by default the same.
        head_width: width of each head; ``width / num_heads`` by default.
        source_width: width of the source in cross-attention, if it differs from ``width``.
        score: as in ``attend``.
        weights: as in ``attend``.
        rotary: rotates queries and keys by their positions.
        alibi: biases the scores by distance.
        relative: biases the scores by learned numbers for each distance.
        bias: whether the projections add a learned vector.
        output_bias: whether W_O adds a learned vector.
    """

    #: True if only attention layers like this one mix tokens in their model, so that a rollout leaves nothing out.
    mixes_alone = False

    def __init__(
        self,
        width: int,
        num_heads: int,
        *,
        num_key_heads: int | None = None,
        head_width: int | None = None,
        source_width: int | None = None,
        score: str | Score = "scaled_dot",
        weights: str | Weights = "softmax",
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        alibi: bool = False,
        relative: RelativePositions | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        kernel: Kernel = "auto",
    ) -> None:
        super().__init__()
        _check_heads(width, num_heads, num_key_heads, head_width)
        if not 0.0 <= dropout < 1.0:
            raise OptionError(f"dropout must be at least 0 and below 1, not {dropout}.")
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads or num_heads
        self.head_width = head_width or width // num_heads
        self.query = nn.Linear(width, num_heads * self.head_width, bias=bias)
        self.key_value = nn.Linear(source_width or width, 2 * self.num_key_heads * self.head_width, bias=bias)
        self.output = nn.Linear(num_heads * self.head_width, width, bias=bias if output_bias is None else output_bias)
        self.score = resolve_score(score)  # a learned score is a submodule, trained with the rest
        self.weights = resolve_weights(weights)
        self.dropout = dropout
        self.rotary = rotary
        self.alibi = ALiBi(num_heads) if alibi else None
        self.relative = relative
        self.kernel: Kernel = kernel
        self._initialise()

    def _initialise(self) -> None:
        key, value = self.key_value.weight.chunk(2)
        for weight in (self.query.weight, key, value, self.output.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.key_value, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K E"] | KeyValue | None = None,
        *,
        mask: Mask | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        cache: Cache | None = None,
        first_row: int = 0,
    ) -> Float[Tensor, "B Q D"]:
        """Attend from each position of x to the source, or to x itself if no source is given.

        If a source is used more than once, project it once with ``project``, and pass the result as ``source``. With
        a cache, x continues the text whose keys the cache holds. Without a cache, ``first_row`` is the position of
        x[:, 0] in its text. The batch of x may be a multiple of that of the cache or projected source, as with the
        hypotheses of a beam search; the mask then gets those of one sequence as its queries 0, 1, 2, ...
        """
        if source is not None and cache is not None:
            raise OptionError(
                "A cache keeps the keys of x itself; to reuse the keys of a source, pass source=project(source)."
            )
        if source is None and cache is None and first_row:
            raise OptionError(f"first_row = {first_row} needs the keys before it; pass a cache or a source.")
        first_row = cache.length if cache is not None else first_row
        query = self._split(self.query(self._checked(x, self.query)), self.num_heads)
        query = query if self.rotary is None else self.rotary(query, first_row)
        if isinstance(source, KeyValue):
            kept = source
        else:
            kept = self.project(x, first_row) if source is None else self.project(source)
        if cache is not None:
            kept = cache.append(kept)
        # Hypotheses either keep their keys side by side in the cache or share the keys of one source.
        beside = None if cache is None else cache.beside
        sequences = kept.key.shape[0]
        shared = Shared(first_row, beside) if beside is not None or sequences != x.shape[0] else None
        output = attend(
            _share(query, sequences),
            kept.key,
            kept.value,
            score=self.score,
            weights=self.weights,
            mask=mask,
            bias=self._bias(bias) if shared is None else self._shared_bias(bias, first_row, kept, beside),
            dropout=self.dropout if self.training else 0.0,
            kernel=self.kernel,
            first_row=first_row if shared is None else 0,
            owner=self,
            shared=shared,
        )
        joined: Tensor = self.output(output.transpose(1, 2).reshape(*x.shape[:2], self.num_heads * self.head_width))
        return joined

    def weigh(
        self,
        x: Float[Tensor, "B Q D"],
        source: Float[Tensor, "B K E"] | KeyValue | None = None,
        *,
        mask: Mask | Tensor | None = None,
        bias: Bias | Tensor | None = None,
        first_row: int = 0,
    ) -> Float[Tensor, "B H Q K"]:
        """Return the weights of ``forward`` before dropout, as a tensor with gradient, for a loss on the weights."""
        query = self._split(self.query(self._checked(x, self.query)), self.num_heads)
        query = query if self.rotary is None else self.rotary(query, first_row)
        kept = source if isinstance(source, KeyValue) else self.project(x if source is None else source)
        return weigh(
            query,
            kept.key,
            score=self.score,
            weights=self.weights,
            mask=mask,
            bias=self._bias(bias),
            first_row=first_row,
        )

    def project(self, source: Float[Tensor, "B K E"], first: int = 0) -> KeyValue:
        """Compute the keys and values of a source whose first position is ``first``."""
        key, value = self.key_value(self._checked(source, self.key_value)).chunk(2, dim=-1)
        key, value = self._split(key, self.num_key_heads), self._split(value, self.num_key_heads)
        return KeyValue(key if self.rotary is None else self.rotary(key, first), value)

    def _split(self, x: Tensor, heads: int) -> Float[Tensor, "B H N D"]:
        return x.view(x.shape[0], x.shape[1], heads, self.head_width).transpose(1, 2)

    def _own_bias(self) -> Bias | None:
        """Return the rule by which the layer biases its scores, if it has one."""
        return self.alibi if self.relative is None else self.relative.rule()

    def _bias(self, bias: Bias | Tensor | None) -> Bias | Tensor | None:
        own = self._own_bias()
        if own is not None and bias is not None:
            kind = "alibi" if self.relative is None else "relative positions"
            raise OptionError(f"This layer already biases its scores with {kind}; it accepts no other bias.")
        return bias if own is None else own

    def _shared_bias(
        self, bias: Bias | Tensor | None, row: int, kept: KeyValue, positions: list[int] | None
    ) -> Float[Tensor, "1 H 1 K"] | None:
        """Return the layer's own bias for rows that share a sequence and are all at the same position in it."""
        if bias is not None:
            raise OptionError(
                "Rows of the batch that share one sequence of keys cannot have a bias: they are all at one position."
            )
        own = self._own_bias()
        if own is None:
            return None
        column = torch.arange(kept.key.shape[2]) if positions is None else torch.tensor(positions)
        heads = torch.arange(self.num_heads).view(-1, 1, 1)
        index = [one.to(kept.key.device) for one in (column, heads, torch.tensor(row), column)]
        return own(*index).unsqueeze(0)

    def _checked(self, x: Tensor, layer: nn.Linear) -> Tensor:
        if x.ndim != 3 or x.shape[-1] != layer.in_features:
            raise ShapeError(
                f"This layer takes inputs of shape (batch, positions, {layer.in_features}); got {tuple(x.shape)}."
            )
        return x


def _check_heads(width: int, num_heads: int, num_key_heads: int | None, head_width: int | None) -> None:
    if num_heads < 1:
        raise OptionError(f"Attention needs at least 1 head, not {num_heads}.")
    if width < 1 or (head_width is not None and head_width < 1):
        raise OptionError(f"Widths must be at least 1; got width {width} and head_width {head_width}.")
    if head_width is None and width % num_heads:
        raise ShapeError(f"{num_heads} heads do not divide a width of {width}; pass head_width, or choose other sizes.")
    if num_key_heads is not None and (num_key_heads < 1 or num_heads % num_key_heads):
        raise ShapeError(f"num_key_heads = {num_key_heads} must be at least 1 and divide num_heads = {num_heads}.")


class Resize(nn.Module):
    """Change the length of a sequence: ``b'[n', d'] = Σ_n W[n', n, d'] · b[n]``; lecture 004, §4, calls this W W^o.

    W has weights for ``length`` input positions: shorter inputs are padded with zeros, and longer ones are an error.
    ``width`` is the width of the input vectors b[n], which are single numbers in the lecture.
    """

    def __init__(self, length: int, new_length: int, new_width: int, width: int = 1) -> None:
        super().__init__()
        self.length = length
        self.width = width
        self.weight = nn.Parameter(torch.empty(new_length, length, new_width, width))
        nn.init.normal_(self.weight, std=(length * width) ** -0.5)

    def forward(self, b: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B M E"]:
        length, width = b.shape[-2:]
        if width != self.width:
            raise ShapeError(f"This layer takes inputs of width {self.width}; got {width}.")
        if length > self.length:
            raise ShapeError(f"This layer takes at most {self.length} positions; got {length}.")
        # Zeros in the missing slots add nothing, so those slots are left out of the sum.
        return torch.einsum("mnew,...nw->...me", self.weight[:, :length], b)
