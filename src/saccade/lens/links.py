"""Links between the words of a source and a target sentence: reading, writing, and comparing with gold links.

A link is a pair (source, target) of word positions, counted from 0, as in the Pharaoh format ``0-0 1-2``. Gold links,
which people annotated, can be marked as only possible (``1p2`` or ``1?2``): finding such a link is correct, and missing
it is not an error (Och & Ney 2003).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from saccade.errors import FileError, ShapeError, counted

__all__ = [
    "Agreement",
    "AlignmentScores",
    "GoldLinks",
    "WordLink",
    "agreement",
    "alignment_scores",
    "hard_links",
    "read_pharaoh",
    "write_pharaoh",
]

WordLink = tuple[int, int]  # (source, target)
_PHARAOH = re.compile(r"([0-9]+)([-p?])([0-9]+)")


@dataclass(frozen=True)
class GoldLinks:
    """The true links of a sentence pair; ``possible`` always includes the sure links."""

    sure: frozenset[WordLink]
    possible: frozenset[WordLink] = field(default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


class Agreement(NamedTuple):
    """How many target words have a gold link (``total``), and how many of these were linked correctly (``right``)."""

    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total if self.total else 0.0


class AlignmentScores(NamedTuple):
    """Scores of the links found in a whole corpus, from 0 to 1: for the error rate lower is better, else higher."""

    precision: float
    recall: float
    error_rate: float


def hard_links(matrix: Float[Tensor, "T S"]) -> frozenset[WordLink]:
    """Return a link from each target word to the source word with the largest weight, the first one in case of a tie.

    A target word whose weights are all 0 gets no link.
    """
    if matrix.ndim != 2:
        raise ShapeError(
            f"Links are read from a matrix of shape (target, source), not from shape {tuple(matrix.shape)}."
        )
    if not matrix.shape[1]:
        return frozenset()
    strongest, sources = matrix.max(dim=1).values, matrix.argmax(dim=1)
    found = zip(sources.tolist(), strongest.tolist(), strict=True)
    return frozenset((source, target) for target, (source, weight) in enumerate(found) if weight > 0)


def read_pharaoh(line: str, where: str = "This alignment") -> GoldLinks:
    """Return the links of a line in Pharaoh format; ``where`` says in error messages which line it is."""
    sure: set[WordLink] = set()
    possible: set[WordLink] = set()
    for word in line.split():
        match = _PHARAOH.fullmatch(word)
        if match is None:
            raise FileError(f"{where} contains {word!r}; write a link as 0-0, or as 0p0 if it is only possible.")
        source, kind, target = match.groups()
        (sure if kind == "-" else possible).add((int(source), int(target)))
    return GoldLinks(frozenset(sure), frozenset(possible))


def write_pharaoh(links: Iterable[WordLink] | GoldLinks) -> str:
    """Return links as one line in Pharaoh format, in the order of the target words."""
    gold = links if isinstance(links, GoldLinks) else GoldLinks(frozenset(links))
    ordered = sorted(gold.possible, key=lambda link: (link[1], link[0]))
    return " ".join(f"{link[0]}{'-' if link in gold.sure else 'p'}{link[1]}" for link in ordered)


def agreement(
    links: Sequence[Collection[WordLink]],
    gold: Sequence[Collection[WordLink]],
    words: Sequence[Collection[int]] | None = None,
) -> Agreement:
    """Count the target words of a corpus that have a gold link, and how many of these are linked correctly.

    A word is linked correctly if it has at least one link in ``links`` and all of these are gold links. ``words``
    restricts the count to some target words of each sentence, such as the content words.
    """
    _check_lengths(links, gold)
    right = total = 0
    for number, (found, true) in enumerate(zip(links, gold, strict=True)):
        for target in {target for _, target in true}:
            if words is not None and target not in words[number]:
                continue
            proposed = {source for source, other in found if other == target}
            total += 1
            right += bool(proposed) and proposed <= {source for source, other in true if other == target}
    return Agreement(right, total)


def alignment_scores(links: Sequence[Collection[WordLink]], gold: Sequence[GoldLinks]) -> AlignmentScores:
    """Compute precision, recall and alignment error rate (Och & Ney 2003) over a corpus.

    If A are the links found, S the sure and P the possible gold links, the three scores are |A∩P| / |A|, |A∩S| / |S|
    and 1 - (|A∩S| + |A∩P|) / (|A| + |S|). A fraction whose denominator is 0 counts as 1.
    """
    _check_lengths(links, gold)
    pairs = [(frozenset(found), true) for found, true in zip(links, gold, strict=True)]
    found_sure = sum(len(found & true.sure) for found, true in pairs)
    found_possible = sum(len(found & true.possible) for found, true in pairs)
    all_found = sum(len(found) for found, _ in pairs)
    all_sure = sum(len(true.sure) for _, true in pairs)
    return AlignmentScores(
        precision=_share(found_possible, all_found),
        recall=_share(found_sure, all_sure),
        error_rate=1 - _share(found_sure + found_possible, all_found + all_sure),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _check_lengths(links: Sequence[object], gold: Sequence[object]) -> None:
    if len(links) != len(gold):
        raise ShapeError(
            f"links has {counted(len(links), 'sentence')} but gold has {len(gold)}; each sentence needs a "
            "gold alignment."
        )
