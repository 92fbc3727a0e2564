"""Vocabularies of whole words, as the training data splits them, or of characters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from saccade.errors import FileError
from saccade.text.kinds import PAD, UNKNOWN

__all__ = ["Vocabulary"]


class Vocabulary:
    """A list of entries, with ids from 2 on. Id 0 is padding, and id 1 stands for any unknown entry."""

    def __init__(self, entries: Sequence[str]) -> None:
        self.entries = list(entries)
        assert (PAD, UNKNOWN) == (0, 1)
        self._ids = {entry: id for id, entry in enumerate(self.entries, start=2)}

    @classmethod
    def train(cls, entries: Iterable[str], size: int, min_frequency: int = 1) -> Vocabulary:
        """Return a vocabulary of the most frequent entries, at most ``size``, that occur at least ``min_frequency``
        times; ties are broken alphabetically."""
        counts = Counter(entries)
        ordered = sorted(counts, key=lambda entry: (-counts[entry], entry))
        return cls([entry for entry in ordered[:size] if counts[entry] >= min_frequency])

    def __len__(self) -> int:
        """Return the number of ids, including those for padding and for unknown entries."""
        return len(self.entries) + 2

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, entry: object) -> bool:
        return entry in self._ids

    def id(self, entry: str) -> int:
        return self._ids.get(entry, UNKNOWN)

    def to_bytes(self) -> bytes:
        return (json.dumps(self.entries, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Vocabulary:
        """Restore a vocabulary from what `to_bytes` returned; error messages call the data ``where``."""
        try:
            entries = json.loads(data)
        except ValueError as error:
            raise FileError(f"{where} is not JSON ({error}).") from None
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise FileError(f"{where} is not a list of words.")
        if len(set(entries)) != len(entries):
            raise FileError(f"{where} lists an entry twice.")
        return cls(entries)
