"""Links between the words of translated sentences, found from co-occurrence alone. If there are no gold links, they are
used to choose the attention layer that aligns words best.

They are the links that IBM Model 1 (Brown et al. 1993) finds in both directions. They are few but mostly correct, which
is enough to tell an attention layer that aligns words from one that is diffuse, diagonal or fixed on END.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from saccade.errors import OptionError, ShapeError, counted
from saccade.lens.links import WordLink

__all__ = ["cooccurrence_links"]

TokenIds = Sequence[int]
#: The empty source word of Model 1, from which target words without a counterpart come.
NULL = -1


def cooccurrence_links(
    sources: Sequence[TokenIds], targets: Sequence[TokenIds], *, iterations: int = 5
) -> list[frozenset[WordLink]]:
    """Return for each sentence pair (as ids without START and END) the links that IBM Model 1 finds in both directions.

    A word that occurs twice in its sentence is left out, because the statistics are about words, not positions, and
    cannot tell its two occurrences apart.
    """
    if len(sources) != len(targets):
        raise ShapeError(
            f"sources has {counted(len(sources), 'sentence')} but targets has {len(targets)}; each source "
            "sentence needs one target sentence."
        )
    if iterations < 1:
        raise OptionError(f"cooccurrence_links() needs at least 1 iteration, not {iterations}.")
    forth = _best(sources, targets, iterations)
    back = _best(targets, sources, iterations)
    found = []
    for source, target, of_target, of_source in zip(sources, targets, forth, back, strict=True):
        once = {number for number, count in Counter(source).items() if count == 1}
        once_target = {number for number, count in Counter(target).items() if count == 1}
        found.append(
            frozenset(
                (s, t)
                for t, s in of_target.items()
                if of_source.get(s) == t and source[s] in once and target[t] in once_target
            )
        )
    return found


def _best(sources: Sequence[TokenIds], targets: Sequence[TokenIds], iterations: int) -> list[dict[int, int]]:
    """Return for each sentence pair the most likely source position of each target position, if it is not NULL."""
    cells = [
        (number, s, t, source_id, target_id)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        for t, target_id in enumerate(target)
        for s, source_id in enumerate([*source, NULL])  # NULL comes last, so that the equally frequent "." wins a tie
    ]
    if not cells:
        return [{} for _ in sources]
    table = np.array(cells)
    pair, source_word, place = _number(table[:, 3:]), _number(table[:, 3:4]), _number(table[:, [0, 2]])
    likelihood = _expectation_maximisation(pair, source_word, place, iterations)
    best: list[dict[int, int]] = [{} for _ in sources]
    strongest: dict[tuple[int, int], float] = {}
    for (number, s, t), value in zip(table[:, :3].tolist(), likelihood.tolist(), strict=True):
        if value > strongest.get((number, t), 0.0):
            strongest[number, t] = value
            best[number][t] = s
    return [{t: s for t, s in links.items() if s < len(source)} for links, source in zip(best, sources, strict=True)]


def _number(rows: NDArray[np.int64]) -> NDArray[np.intp]:
    """Number the rows of one or two columns, giving equal rows equal numbers."""
    least, most = rows.min(axis=0), rows.max(axis=0)
    as_one = (rows - least) @ np.array([1, most[0] - least[0] + 1])[: rows.shape[1]]
    return np.unique(as_one, return_inverse=True)[1]


def _expectation_maximisation(
    pair: NDArray[np.intp], source_word: NDArray[np.intp], place: NDArray[np.intp], iterations: int
) -> NDArray[np.float64]:
    """Return t(target word | source word) for each cell, which is a pair of a source and a target position."""
    word_of_pair = np.zeros(pair.max() + 1, dtype=np.intp)
    word_of_pair[pair] = source_word
    probability = np.ones(len(word_of_pair))
    for _ in range(iterations):
        cell = probability[pair]
        expected = cell / np.bincount(place, weights=cell)[place]  # the share of each source word
        count = np.bincount(pair, weights=expected)
        probability = count / np.bincount(word_of_pair, weights=count)[word_of_pair]
    result: NDArray[np.float64] = probability[pair]
    return result
