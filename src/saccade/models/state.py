"""What a Transformer remembers between the steps of a generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention import Cache, GrowingCache, KeyValue, Mask, StaticCache, causal, dense, padding

__all__ = ["TransformerState"]


@dataclass
class TransformerState:
    """The keys and values of the tokens so far, and of the source, for each layer.

    There are S sequences with W rows each, the hypotheses of a search, which share one cache and one source.
    """

    caches: list[Cache]
    sources: list[KeyValue]
    source_lengths: Int[Tensor, " S"] | None
    source_mask: Mask | None
    sequences: int
    width: int = 1  # rows a sequence
    ancestry: Bool[Tensor, "S W K"] | None = None  # which keys a row descends from; None: all

    @classmethod
    def fresh(
        cls,
        layers: int,
        sequences: int,
        max_length: int | None,
        sources: Sequence[KeyValue] = (),
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Self:
        mask = None if source_lengths is None else padding(source_lengths)
        caches: list[Cache] = [GrowingCache() if max_length is None else StaticCache(max_length) for _ in range(layers)]
        return cls(caches, list(sources), source_lengths, mask, sequences)

    @property
    def length(self) -> int:
        """How many tokens have been read."""
        return self.caches[0].length

    def advance(self) -> Mask:
        """Each row is about to add a key of its own: what it may attend to then."""
        if self.ancestry is None:
            return causal
        own = torch.eye(self.width, dtype=torch.bool, device=self.ancestry.device)
        self.ancestry = torch.cat([self.ancestry, own.expand(len(self.ancestry), -1, -1)], dim=2)
        # Rows that stand alone, each with its text in its cache and nothing else, are at their own position.
        alone = self.width == 1 and len(self.caches[0].positions) == self.length
        return dense(self.ancestry.unsqueeze(1), self.length if alone else 0)

    def reorder(self, index: Int[Tensor, " S"] | Int[Tensor, "S W"]) -> Self:
        """Row (s, w) continues row index[s, w]; the rows of a sequence all come from one sequence."""
        rows = index if index.ndim == 2 else index.unsqueeze(1)
        if rows.shape[1] > 1 or self.ancestry is not None:
            if self.ancestry is None:
                kept = len(self.caches[0].positions)
                self.ancestry = rows.new_ones(self.sequences, 1, kept, dtype=torch.bool)
            self.ancestry = self.ancestry.flatten(0, 1)[rows]
        self._keep(rows[:, 0] // self.width)
        self.width = rows.shape[1]
        return self

    def _keep(self, sequences: Int[Tensor, " S"]) -> None:
        """Remove finished sequences; if all stay, nothing is copied."""
        if torch.equal(sequences, torch.arange(self.sequences, device=sequences.device)):
            return
        self.sequences = len(sequences)
        for cache in self.caches:
            cache.reorder(sequences)
        self.sources = [source.reorder(sequences) for source in self.sources]
        if self.source_lengths is not None:
            self.source_lengths = self.source_lengths.index_select(0, sequences.to(self.source_lengths.device))
            self.source_mask = padding(self.source_lengths)
