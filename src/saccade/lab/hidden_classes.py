"""Texts whose words belong to hidden classes, like parts of speech; the class of a word decides which classes the next
word can have."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["CLASSES", "LENGTH", "WORDS", "class_of", "draw_texts"]

CLASSES, WORDS_PER_CLASS, LENGTH = 6, 60, 20
WORDS = CLASSES * WORDS_PER_CLASS


def draw_texts(count: int, seed: int) -> Tensor:
    """Draw the word ids of texts (count, LENGTH). Only two classes, which depend on the seed, can follow each class."""
    generator = torch.Generator().manual_seed(seed)
    follow = torch.stack([torch.randperm(CLASSES, generator=generator)[:2] for _ in range(CLASSES)])
    kinds = [torch.randint(CLASSES, (count,))]
    for _ in range(LENGTH - 1):
        kinds.append(follow[kinds[-1], torch.randint(2, (count,))])
    return torch.stack(kinds, dim=1) * WORDS_PER_CLASS + torch.randint(WORDS_PER_CLASS, (count, LENGTH))


def class_of(words: Tensor) -> Tensor:
    return words // WORDS_PER_CLASS
