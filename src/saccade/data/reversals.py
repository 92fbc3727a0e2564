"""Pairs of random letters and the same letters reversed. For each output letter, the matching input letter is known."""

from __future__ import annotations

import random
from itertools import product

from saccade.data.pairs import Pair

__all__ = ["reversals"]

LETTERS = "abcdefgh"
LENGTH = 5
#: Which of every ten texts belong to each split, so that no text is in two splits.
PARTS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def reversals(count: int, seed: int, split: str = "train") -> list[Pair]:
    """Return ``count`` different pairs of a split, or all of them if the split has fewer: a text of 5 letters, its
    reverse, and the true links between their letters."""
    texts = ["".join(letters) for letters in product(LETTERS, repeat=LENGTH)]
    random.Random(0).shuffle(texts)  # the same order for every seed, so that the splits are always the same
    own = [text for number, text in enumerate(texts) if number % 10 in PARTS[split]]
    links = tuple((LENGTH - 1 - place, place) for place in range(LENGTH))
    drawn = random.Random(seed).sample(own, min(count, len(own)))
    return [Pair(text, text[::-1], line, links) for line, text in enumerate(drawn, start=1)]
