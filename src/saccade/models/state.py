"""What a Transformer keeps from step to step when it generates text: cached keys and values, and masks."""

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
    """For each layer, the keys and values of the tokens read so far and of the source.

    There are S sequences with W rows each. The rows of a sequence are the hypotheses of a beam search, which share one
    cache and one source.
    """

    caches: list[Cache]
    sources: list[KeyValue]
    source_lengths: Int[Tensor, " S"] | None
    source_mask: Mask | None
    sequences: int
    masks: list[Mask]  # for each layer, which earlier positions of its text a row may attend to
    width: int = 1  # rows per sequence
    ancestry: Bool[Tensor, "S W K"] | None = None  # the keys that belong to a row's own history; None for all

    @classmethod
    def fresh(
        cls,
        masks: list[Mask],
        sequences: int,
        max_length: int | None,
        sources: Sequence[KeyValue] = (),
        source_lengths: Int[Tensor, " B"] | None = None,
    ) -> Self:
        """The state before any token of the text to be generated has been read."""
        source_mask = None if source_lengths is None else padding(source_lengths)
        caches: list[Cache] = [GrowingCache() if max_length is None else StaticCache(max_length) for _ in masks]
        return cls(caches, list(sources), source_lengths, source_mask, sequences, masks)

    @property
    def length(self) -> int:
        """How many tokens of each row have been read."""
        return self.caches[0].length

    def advance(self) -> list[Mask]:
        """Return the mask of each layer for the next step, in which each row reads one more token.

        If rows share a cache, this also records that the new key of a row belongs to that row alone.
        """
        if self.ancestry is None:
            return self.masks
        own = torch.eye(self.width, dtype=torch.bool, device=self.ancestry.device)
        self.ancestry = torch.cat([self.ancestry, own.expand(len(self.ancestry), -1, -1)], dim=2)
        made = {mask: self._dense(mask, self.ancestry) for mask in set(self.masks)}
        return [made[mask] for mask in self.masks]

    def _dense(self, mask: Mask, kept: Bool[Tensor, "S W K"]) -> Mask:
        if mask is not causal:  # a window counts positions in the text, not keys
            column = torch.tensor([*self.caches[0].positions, *[self.length] * self.width], device=kept.device)
            zero = torch.zeros_like(column)
            kept = kept & mask(zero, zero, zero + self.length, column)
        # If each row has a cache to itself, the position of its query is the number of keys.
        alone = self.width == 1 and len(self.caches[0].positions) == self.length
        return dense(kept.unsqueeze(1), self.length if alone else 0)

    def reorder(self, index: Int[Tensor, " S"] | Int[Tensor, "S W"]) -> Self:
        """Let row w of sequence s continue the previous row index[s, w], and return the state.

        Rows are numbered over all sequences. All new rows of a sequence must continue rows of one previous sequence.
        """
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
        """Keep only these sequences; if that is all of them, nothing is copied."""
        if torch.equal(sequences, torch.arange(self.sequences, device=sequences.device)):
            return
        self.sequences = len(sequences)
        for cache in self.caches:
            cache.reorder(sequences)
        self.sources = [source.reorder(sequences) for source in self.sources]
        if self.source_lengths is not None:
            self.source_lengths = self.source_lengths.index_select(0, sequences.to(self.source_lengths.device))
            self.source_mask = padding(self.source_lengths)
