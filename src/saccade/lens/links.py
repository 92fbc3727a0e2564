"""Links between the words of a source and of a target sentence: read, written, and compared with gold.

A link is (source, target), both counted from 0, as in the Pharaoh format ``0-0 1-2``. Of a gold alignment some links
may be only possible (``1p2`` or ``1?2``): right if proposed, not missed if not (Och & Ney 2003).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from saccade.errors import FileError, ShapeError

__all__ = [
    "Agreement",
    "AlignmentScores",
    "GoldLinks",
    "WordLink",
    "agreement",
    "alignment_scores",
    "hard_links",
    "links_of_pieces",
    "read_pharaoh",
    "write_pharaoh",
]

WordLink = tuple[int, int]  # (source, target)
_PHARAOH = re.compile(r"([0-9]+)([-p?])([0-9]+)")


@dataclass(frozen=True)
class GoldLinks:
    """The true links of one sentence pair; every sure link is also possible."""

    sure: frozenset[WordLink]
    possible: frozenset[WordLink] = field(default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


class Agreement(NamedTuple):
    """How many of the target words that have a gold link were linked rightly."""

    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total if self.total else 0.0


class AlignmentScores(NamedTuple):
    """Of a whole corpus, each in 0..1: precision and recall the higher the better, the error rate the lower."""

    precision: float
    recall: float
    error_rate: float


def hard_links(matrix: Float[Tensor, "T S"]) -> frozenset[WordLink]:
    """For each target word its strongest source word, of equal ones the first; none for a row of zeros."""
    if matrix.ndim != 2:
        raise ShapeError(f"Links are read from a matrix (target, source), not from shape {tuple(matrix.shape)}.")
    if not matrix.shape[1]:
        return frozenset()
    strongest, sources = matrix.max(dim=1).values, matrix.argmax(dim=1)
    found = zip(sources.tolist(), strongest.tolist(), strict=True)
    return frozenset((source, target) for target, (source, weight) in enumerate(found) if weight > 0)


def links_of_pieces(
    links: Iterable[WordLink], source_words: Sequence[int], target_words: Sequence[int]
) -> frozenset[WordLink]:
    """The links of words as links of their pieces, every one to every one; ``words[i]`` is the word of piece i."""
    linked = frozenset(links)
    return frozenset(
        (source, target)
        for source, source_word in enumerate(source_words)
        for target, target_word in enumerate(target_words)
        if (source_word, target_word) in linked
    )


def read_pharaoh(line: str, where: str = "This alignment") -> GoldLinks:
    """One line of a file in Pharaoh format; an error begins with ``where`` the line was found."""
    sure: set[WordLink] = set()
    possible: set[WordLink] = set()
    for word in line.split():
        match = _PHARAOH.fullmatch(word)
        if match is None:
            raise FileError(f"{where} has {word!r}; links are written 0-0, or 0p0 for one that is only possible.")
        source, kind, target = match.groups()
        (sure if kind == "-" else possible).add((int(source), int(target)))
    return GoldLinks(frozenset(sure), frozenset(possible))


def write_pharaoh(links: Iterable[WordLink] | GoldLinks) -> str:
    """One line in Pharaoh format, in the order of the target words."""
    gold = links if isinstance(links, GoldLinks) else GoldLinks(frozenset(links))
    ordered = sorted(gold.possible, key=lambda link: (link[1], link[0]))
    return " ".join(f"{link[0]}{'-' if link in gold.sure else 'p'}{link[1]}" for link in ordered)


def agreement(
    links: Sequence[Collection[WordLink]],
    gold: Sequence[Collection[WordLink]],
    words: Sequence[Collection[int]] | None = None,
) -> Agreement:
    """Over a corpus: of the target words with a gold link, those that are linked, and to gold only.

    ``words`` restricts the count to these target words of each sentence (content words, say).
    """
    _same_length(links, gold, "gold alignments")
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
    """Precision, recall and alignment error rate (Och & Ney 2003) over a corpus.

    With A the links found, S the sure and P the possible ones: |A∩P| / |A|, |A∩S| / |S| and
    1 - (|A∩S| + |A∩P|) / (|A| + |S|). Of nothing, all is right: a share without a denominator is 1.
    """
    _same_length(links, gold, "gold alignments")
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


def _same_length(links: Sequence[object], others: Sequence[object], what: str) -> None:
    if len(links) != len(others):
        raise ShapeError(f"There are {len(links)} sentences but {len(others)} {what}; one is needed for each.")
