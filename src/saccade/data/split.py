"""Split a corpus into training, validation and test, always by source text.

All pairs with the same source go to the same part, so that no sentence is used for both training and scoring. A hash of
the source alone decides the part, so adding lines to a file does not move other sentences from one part to another.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from saccade.data.pairs import Pair
from saccade.errors import OptionError, counted

__all__ = ["Overlap", "Parts", "overlap", "split", "split_by_line", "without_sources"]


class Sourced(Protocol):
    """An example with a source text: a sentence to translate, tag or classify."""

    @property
    def source(self) -> str: ...


Item = TypeVar("Item", bound=Sourced)


@dataclass(frozen=True)
class Parts(Generic[Item]):
    """The three parts of a corpus, each in the original order."""

    train: list[Item]
    validation: list[Item]
    test: list[Item]
    removed: list[Item] = field(default_factory=list)  # left out of training: the source is in validation or test


@dataclass(frozen=True)
class Overlap:
    """How many source texts the training part shares with another part."""

    sources: int  # the number of different sources that occur in both parts
    train_pairs: int  # the number of training pairs with such a source
    other_pairs: int  # the number of pairs in the other part with such a source
    other_total: int

    def __str__(self) -> str:
        return (
            f"{counted(self.sources, 'source')} in both ({counted(self.train_pairs, 'training pair')}, and "
            f"{self.other_pairs:,} of the {self.other_total:,} other pairs)"
        )


def split(
    pairs: Sequence[Item],
    validation: float | int = 0.05,
    test: float | int = 0.05,
    seed: int = 0,
    labels: Callable[[Item], Iterable[str]] | None = None,
) -> Parts[Item]:
    """Split a corpus. The size of a part is a fraction of the sources (a float below 1) or a number of pairs (an int).

    A hash of the source and the seed gives each source a number between 0 and 1. The sources with the lowest numbers
    are for test and those with the highest for validation, with at least one source each. If the size is a number of
    pairs, sources are added until they have that many pairs. With ``labels``, a source stays in training if one of its
    labels would otherwise be missing there, because a label that is not in training cannot be learned.
    """
    places = {source: _place(source, seed) for source in {pair.source for pair in pairs}}
    ordered = sorted(places, key=lambda source: (places[source], source))
    copies = Counter(pair.source for pair in pairs)
    test_sources = set(ordered[: _prefix(ordered, places, copies, test, "test")])
    ordered.reverse()
    mirrored = {source: 1 - place for source, place in places.items()}
    validation_sources = set(ordered[: _prefix(ordered, mirrored, copies, validation, "validation")])
    if len(test_sources) + len(validation_sources) >= len(places) or test_sources & validation_sources:
        raise OptionError(
            f"With validation = {validation} and test = {test}, nothing is left for training "
            f"({counted(len(pairs), 'example')} with {counted(len(places), 'different text')}); choose "
            "smaller sizes or "
            "add data."
        )
    if labels is not None:
        needed = _only_ones(pairs, test_sources | validation_sources, labels)
        test_sources, validation_sources = test_sources - needed, validation_sources - needed
    held_out = test_sources | validation_sources
    return Parts(
        train=[pair for pair in pairs if pair.source not in held_out],
        validation=[pair for pair in pairs if pair.source in validation_sources],
        test=[pair for pair in pairs if pair.source in test_sources],
    )


def _only_ones(pairs: Sequence[Item], held_out: set[str], labels: Callable[[Item], Iterable[str]]) -> set[str]:
    """Return held-out sources that must go back to training because it would otherwise lack one of their labels."""
    trained = {label for pair in pairs if pair.source not in held_out for label in labels(pair)}
    needed = set()
    for pair in pairs:
        if pair.source in held_out and not trained.issuperset(labels(pair)):
            needed.add(pair.source)
            trained.update(labels(pair))
    return needed


def _place(source: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on the text and the seed, and is the same on every machine."""
    if not 0 <= seed < 2**64:
        raise OptionError(f"The seed must be from 0 to 2**64 - 1, not {seed}.")
    digest = hashlib.blake2b(source.encode(), digest_size=8, salt=seed.to_bytes(16, "big")).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53  # a float holds 53 bits exactly, so the result is never 1


def _prefix(ordered: list[str], places: dict[str, float], copies: Counter[str], size: float | int, part: str) -> int:
    """Return how many sources at the start of ``ordered`` make up a part of this size."""
    if isinstance(size, bool) or size < 0 or (isinstance(size, float) and not size < 1):
        raise OptionError(
            f"The {part} size must be a fraction (at least 0 and below 1) or a number of pairs, not {size}."
        )
    if size == 0:
        return 0
    if isinstance(size, float):
        return max(1, sum(places[source] < size for source in ordered))
    total = 0
    for count, source in enumerate(ordered, start=1):
        total += copies[source]
        if total >= size:
            return count
    raise OptionError(f"The {part} part needs {counted(size, 'pair')}, but there are only {total:,}.")


def split_by_line(
    pairs: Iterable[Pair], every: int = 10, test_remainder: int = 0, validation_remainder: int = 9
) -> Parts[Pair]:
    """Split by line number: if the remainder of dividing it by `every` is `test_remainder` or `validation_remainder`,
    the line is for test or validation, and otherwise for training.

    Training lines whose source is also in test or validation (another pronunciation of the same spelling) are removed.
    """
    if every < 3:
        raise OptionError(f"every must be at least 3, so that lines are left for training, not {every}.")
    if not (0 <= test_remainder < every and 0 <= validation_remainder < every):
        raise OptionError(
            f"With every = {every}, test_remainder and validation_remainder must be from 0 to {every - 1}, not "
            f"{test_remainder} and {validation_remainder}."
        )
    if test_remainder == validation_remainder:
        raise OptionError(f"test_remainder and validation_remainder are both {test_remainder}; they must be different.")
    parts: dict[int, list[Pair]] = {remainder: [] for remainder in range(every)}
    everything = list(pairs)
    for pair in everything:
        parts[pair.line % every].append(pair)
    test, validation = parts[test_remainder], parts[validation_remainder]
    rest = [pair for pair in everything if pair.line % every not in (test_remainder, validation_remainder)]
    held_out = {pair.source for pair in (*test, *validation)}
    return Parts(
        train=without_sources(rest, held_out),
        validation=validation,
        test=test,
        removed=[pair for pair in rest if pair.source in held_out],
    )


def without_sources(pairs: Iterable[Item], sources: Collection[str]) -> list[Item]:
    """Return the pairs whose source is not in `sources`, which should be a set."""
    return [pair for pair in pairs if pair.source not in sources]


def overlap(train: Iterable[Sourced], other: Iterable[Sourced]) -> Overlap:
    """Count the sources that a training part shares with a validation or test part. Nothing is removed."""
    in_train = Counter(pair.source for pair in train)
    in_other = Counter(pair.source for pair in other)
    shared = in_train.keys() & in_other.keys()
    return Overlap(
        sources=len(shared),
        train_pairs=sum(in_train[source] for source in shared),
        other_pairs=sum(in_other[source] for source in shared),
        other_total=in_other.total(),
    )
