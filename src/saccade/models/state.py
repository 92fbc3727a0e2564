"""What a Transformer remembers between the steps of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from jaxtyping import Int
from torch import Tensor

from saccade.attention import Cache, GrowingCache, KeyValue, Mask, StaticCache, padding

__all__ = ["TransformerState"]


@dataclass
class TransformerState:
    """The keys and values of the tokens so far, and of the source, for each layer."""

    caches: list[Cache]
    sources: list[KeyValue]
    source_lengths: Int[Tensor, " B"] | None
    source_mask: Mask | None

    @classmethod
    def fresh(
        cls,
        layers: int,
        max_length: int | None,
        sources: Sequence[KeyValue] = (),
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Self:
        mask = None if source_lengths is None else padding(source_lengths)
        caches: list[Cache] = [GrowingCache() if max_length is None else StaticCache(max_length) for _ in range(layers)]
        return cls(caches, list(sources), source_lengths, mask)

    @property
    def length(self) -> int:
        """How many tokens have been read."""
        return self.caches[0].length

    def reorder(self, index: Int[Tensor, " B"]) -> Self:
        """Sequence b goes on from sequence index[b]."""
        for cache in self.caches:
            cache.reorder(index)
        self.sources = [source.reorder(index) for source in self.sources]
        if self.source_lengths is not None:
            self.source_lengths = self.source_lengths.index_select(0, index)
            self.source_mask = padding(self.source_lengths)
        return self
