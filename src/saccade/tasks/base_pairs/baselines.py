"""Baselines to compare a model with: copying the structure of the most similar training molecule, and folding by
thermodynamics (ViennaRNA)."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from saccade.data.structures import UNPAIRED, from_dot_bracket

__all__ = ["copied_structure", "folded_by_vienna"]

#: The number of training molecules that are compared base by base: those that share the most words of four bases.
SHORTLIST, WORD = 10, 4


@lru_cache(maxsize=100_000)
def _words(sequence: str) -> Counter[str]:
    return Counter(sequence[place : place + WORD] for place in range(len(sequence) - WORD + 1))


def copied_structure(sequence: str, known: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[int, ...]:
    """Return the structure of the most similar known sequence, copied for the bases that both sequences share.

    Two sequences are aligned by their longest matching blocks. A pair is copied if both of its bases are matched.
    """
    mine = _words(sequence)
    near = sorted(known, key=lambda one: -(mine & _words(one[0])).total() / max(len(sequence), len(one[0])))
    matchers = [(SequenceMatcher(None, sequence, other, autojunk=False), found) for other, found in near[:SHORTLIST]]
    matcher, partners = max(matchers, key=lambda pair: pair[0].ratio())
    place = {there + step: here + step for here, there, size in matcher.get_matching_blocks() for step in range(size)}
    copied = [UNPAIRED] * len(sequence)
    for there, here in place.items():
        copied[here] = place.get(partners[there], UNPAIRED) if partners[there] != UNPAIRED else UNPAIRED
    return tuple(copied)


def folded_by_vienna(sequence: str) -> tuple[int, ...] | None:
    """Return the structure with the least free energy according to ViennaRNA; None if it is not installed."""
    try:
        vienna = importlib.import_module("RNA")
    except ModuleNotFoundError:
        return None
    structure, _ = vienna.fold(sequence)
    return from_dot_bracket(structure, len(sequence), "RNAfold")
