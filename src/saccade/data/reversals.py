"""Texts of random letters and their reverses. For every step, it is known which letter the model needs."""

from __future__ import annotations

import random
from itertools import product

from saccade.data.pairs import Pair

__all__ = ["reversals"]

LETTERS = "abcdefgh"
LENGTH = 5
#: Of ten texts, which belong to each split, so that none is in two.
PARTS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def reversals(count: int, seed: int, split: str = "train") -> list[Pair]:
    """Return different random texts of 5 letters (at most all of a split), each with its reverse and the true links."""
    texts = ["".join(letters) for letters in product(LETTERS, repeat=LENGTH)]
    random.Random(0).shuffle(texts)  # which ten: the same for every seed
    own = [text for number, text in enumerate(texts) if number % 10 in PARTS[split]]
    links = tuple((LENGTH - 1 - place, place) for place in range(LENGTH))
    drawn = random.Random(seed).sample(own, min(count, len(own)))
    return [Pair(text, text[::-1], line, links) for line, text in enumerate(drawn, start=1)]
