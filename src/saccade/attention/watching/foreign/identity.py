"""Numbers that say which token another number belongs to.

A token of the input has a small number. What is computed from several tokens is a new token, whose number is a hash of
theirs: the same computation from the same tokens gives the same number, and anything else gives another one. Numbers
that belong to no token, such as those of a parameter, have ``NOBODY``, which agrees with every token.
"""

from __future__ import annotations

import functools
import zlib

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention.watching.foreign.call import unrepeated

__all__ = [
    "MIXED_TEXT",
    "NOBODY",
    "PLACES",
    "by_place",
    "combined",
    "fresh",
    "has_text",
    "is_in_order",
    "merged",
    "salt",
    "salted",
    "tokens",
]

NOBODY = 0
#: Tokens of a text are numbered below this, and rows of other inputs from here to twice this.
LIMIT = 1 << 40
#: A sequence has fewer positions than this.
LENGTH = 1 << 20
#: Positions that hold no token, and numbers of a picture, are numbered from here.
PLACES = LIMIT + LIMIT // 2
#: Hashes are at least ``HASHED``; those that were made from tokens of a text are at least ``MIXED_TEXT``.
HASHED, MIXED_TEXT = 1 << 61, 1 << 62
_LARGEST = torch.iinfo(torch.int64).max
_FACTORS = (-0x61C8864680B583EB, -0x40A7B892E31B1A47)  # odd numbers of 64 bits, as in SplitMix64

Ids = Int[Tensor, "..."]


def tokens(size: tuple[int, int], is_text: bool, device: torch.device) -> Int[Tensor, "B N"]:
    """Number the tokens of (batch, positions); a token has the same number in all inputs of the same kind."""
    batch, length = (torch.arange(count, device=device, dtype=torch.int64) for count in size)
    return batch[:, None] * LENGTH + length + (1 if is_text else LIMIT)


def by_place(shape: tuple[int, int], device: torch.device) -> Int[Tensor, "B P"]:
    """Number positions that hold no token: learned queries, for example, become tokens at their first attention."""
    return tokens(shape, False, device) + PLACES - LIMIT


@functools.lru_cache(4096)
def salt(name: str) -> int:
    return zlib.crc32(name.encode()) + 2 * LIMIT


def salted(ids: Ids, number: int) -> Ids:
    """Return the tokens that something made of these."""
    return combined(ids, torch.full((), number, dtype=torch.int64, device=ids.device).expand(ids.shape))


def fresh(number: int, shape: torch.Size, is_text: bool, device: torch.device) -> Ids:
    """Return numbers that nothing else has, one for each place."""
    places = torch.arange(shape.numel(), device=device, dtype=torch.int64).view(shape)
    hashed = _scrambled(places + _scrambled(torch.tensor(number, device=device)))
    return _marked(hashed, torch.tensor(is_text, device=device))


def combined(one: Ids, other: Ids) -> Ids:
    """Return the tokens of a computation that takes a number of each: the same token, or a new one of both."""
    if one is other:
        return one
    shape = torch.broadcast_shapes(one.shape, other.shape)  # type: ignore[no-untyped-call]
    one, other = (unrepeated(part) for part in (one, other))
    if one.shape == other.shape and torch.equal(one, other):
        return one.expand(shape)
    first, second = torch.broadcast_tensors(one, other)  # type: ignore[no-untyped-call]
    found = torch.where(first == NOBODY, second, first)
    differs = (first != second) & (first != NOBODY) & (second != NOBODY)
    if bool(differs.any()):
        hashed = _marked(_scrambled(first * 3 + _scrambled(second)), _is_text(first) | _is_text(second))
        found = torch.where(differs, hashed, found)
    return found.expand(shape)


def merged(ids: Ids, dims: tuple[int, ...]) -> Ids:
    """Return the tokens of a computation over all numbers along these dimensions, which become 1 wide."""
    shape = [1 if place in dims else size for place, size in enumerate(ids.shape)]
    if not ids.numel():
        return ids.new_zeros(shape)
    ids = unrepeated(ids)
    if all(ids.shape[dim] == 1 for dim in dims):
        return ids.expand(shape)
    highest = ids.amax(dims, keepdim=True)
    lowest = torch.where(ids == NOBODY, _LARGEST, ids).amin(dims, keepdim=True)
    differs = lowest < highest
    if bool(differs.any()):
        counts = [size if place in dims else 1 for place, size in enumerate(ids.shape)]
        places = torch.arange(torch.Size(counts).numel(), device=ids.device).view(counts)
        total = _scrambled(ids + _scrambled(places)).sum(dims, keepdim=True)
        hashed = _marked(_scrambled(total), _is_text(ids).any(dim=dims, keepdim=True))
        highest = torch.where(differs, hashed, highest)
    return highest.expand(shape)


def has_text(ids: Ids) -> bool:
    """Return whether any token of a text is among these, or was made into one of them."""
    return bool(_is_text(unrepeated(ids)).any())


def is_in_order(ids: Int[Tensor, "B P"], is_whole: bool) -> bool:
    """Return whether these rows are the tokens of the input in their order, as far as is known.

    Rows that are no tokens of a text, such as learned ones or parts of a picture, may stand between them.
    """
    is_text = (ids > NOBODY) & (ids < LIMIT)
    if not bool(is_text.any()):
        return True
    batch, places = torch.arange(len(ids), device=ids.device)[:, None], torch.arange(ids.shape[1], device=ids.device)
    sequence, place = (ids - 1) // LENGTH, (ids - 1) % LENGTH
    if bool(is_text.all()):
        return bool((place == places).all()) and (not is_whole or bool((sequence == batch).all()))
    last = torch.where(is_text, place, -1).cummax(1).values[:, :-1]
    is_back = is_text[:, 1:] & (place[:, 1:] < last)
    return not bool(is_back.any()) and (not is_whole or bool((sequence == batch)[is_text].all()))


def _is_text(ids: Ids) -> Bool[Tensor, ...]:
    return ((ids > NOBODY) & (ids < LIMIT)) | (ids >= MIXED_TEXT)


def _marked(hashed: Ids, is_text: Bool[Tensor, ...]) -> Ids:
    return (hashed & (HASHED - 1)) + HASHED + is_text.to(torch.int64) * (MIXED_TEXT - HASHED)


def _scrambled(numbers: Ids) -> Ids:
    numbers = (numbers ^ (numbers >> 29)) * _FACTORS[0]
    numbers = (numbers ^ (numbers >> 32)) * _FACTORS[1]
    return numbers ^ (numbers >> 31)
