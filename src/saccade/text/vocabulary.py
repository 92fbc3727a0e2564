"""Whole things by number: words as a corpus cuts them, characters. What a `Tokenizer` must not cut any further."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from saccade.errors import FileError
from saccade.text.kinds import PAD, UNKNOWN

__all__ = ["Vocabulary"]


class Vocabulary:
    """Entries with an id each; 0 is padding, 1 whatever is not among them."""

    def __init__(self, entries: Sequence[str]) -> None:
        self.entries = list(entries)
        assert (PAD, UNKNOWN) == (0, 1)
        self._ids = {entry: id for id, entry in enumerate(self.entries, start=2)}

    @classmethod
    def train(cls, entries: Iterable[str], size: int, min_frequency: int = 1) -> Vocabulary:
        """The most frequent ones, at most so many; ties in alphabetical order."""
        counts = Counter(entries)
        ordered = sorted(counts, key=lambda entry: (-counts[entry], entry))
        return cls([entry for entry in ordered[:size] if counts[entry] >= min_frequency])

    def __len__(self) -> int:
        """How many ids there are."""
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
        """Read what `to_bytes` made; anything else is refused, named by `where` it was found."""
        try:
            entries = json.loads(data)
        except ValueError as error:
            raise FileError(f"{where} is not JSON ({error}).") from None
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise FileError(f"{where} is not a list of words.")
        if len(set(entries)) != len(entries):
            raise FileError(f"{where} has an entry twice.")
        return cls(entries)
