"""Find the structure that best fits the probabilities of pairs; each base has at most one partner."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from saccade.data.structures import UNPAIRED

__all__ = ["best_structure", "best_without_crossings", "pair_scores"]

#: The number of bases that a hairpin needs between two paired bases.
SMALLEST_LOOP = 3
#: Pairs that are less likely than this are not considered.
LEAST_PROBABLE = 0.01


def best_structure(
    paired: Float[np.ndarray, "L L"], unpaired: Float[np.ndarray, " L"], *, crossing: bool
) -> tuple[int, ...]:
    """Return the partner of each base in the structure with the largest expected number of correct bases.

    A pair (i, j), which has probability p_ij, is worth 2·p_ij; a base that is left unpaired, which has probability p_i,
    is worth p_i. If pairs may not cross, dynamic programming finds the best structure. With ``crossing``, pairs are
    chosen greedily, the most likely first, if they are worth more than two unpaired bases and both bases are free.
    """
    return _greedy(paired, unpaired) if crossing else best_without_crossings(paired, unpaired)


def _candidates(paired: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs (i, j) that are likely enough and leave room for a loop."""
    found = np.argwhere(np.triu(paired, SMALLEST_LOOP + 1) >= LEAST_PROBABLE)
    return [(int(i), int(j)) for i, j in found]


def _greedy(paired: np.ndarray, unpaired: np.ndarray) -> tuple[int, ...]:
    partners = [UNPAIRED] * len(unpaired)
    for i, j in sorted(_candidates(paired), key=lambda pair: -paired[pair]):
        free = partners[i] == partners[j] == UNPAIRED
        if free and 2 * paired[i, j] > unpaired[i] + unpaired[j]:
            partners[i], partners[j] = j, i
    return tuple(partners)


def best_without_crossings(paired: Float[np.ndarray, "L L"], unpaired: Float[np.ndarray, " L"]) -> tuple[int, ...]:
    """Return the partner of each base in the best structure in which no pairs cross, found by Nussinov's recursion:
    ``best[i, j]`` is the largest value that the bases from i to j - 1 can have.

    Either base i is unpaired, or it pairs with some base k:
    ``best[i, j] = max(p_i + best[i+1, j], max_k 2·p_ik + best[i+1, k] + best[k+1, j])``
    """
    length = len(unpaired)
    following: list[list[int]] = [[] for _ in range(length)]
    for i, k in _candidates(paired):
        following[i].append(k)
    best = np.zeros((length + 2, length + 2))
    chosen = np.full((length + 1, length + 1), UNPAIRED)
    for i in reversed(range(length)):
        best[i, i + 1 : length + 1] = unpaired[i] + best[i + 1, i + 1 : length + 1]
        for k in following[i]:
            value = 2 * paired[i, k] + best[i + 1, k] + best[k + 1, k + 1 : length + 1]
            better = value > best[i, k + 1 : length + 1]
            best[i, k + 1 : length + 1][better] = value[better]
            chosen[i, k + 1 : length + 1][better] = k
    partners = [UNPAIRED] * length
    spans = [(0, length)]
    while spans:
        i, j = spans.pop()
        if i >= j:
            continue
        k = int(chosen[i, j])
        if k == UNPAIRED:
            spans.append((i + 1, j))
        else:
            partners[i], partners[k] = k, i
            spans += [(i + 1, k), (k + 1, j)]
    return tuple(partners)


def pair_scores(found: set[tuple[int, int]], true: set[tuple[int, int]]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of the predicted pairs ``found`` of one molecule; all three are 1 if there are
    neither predicted nor true pairs."""
    if not found and not true:
        return 1.0, 1.0, 1.0
    right = len(found & true)
    return (
        right / len(found) if found else 0.0,
        right / len(true) if true else 0.0,
        2 * right / (len(found) + len(true)),
    )
