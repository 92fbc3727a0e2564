"""Origin ids: for each element of a tensor, an id that says which token of the input it was computed from.

They are not the numbers of words in a vocabulary. There are four kinds of elements:

- *Of no token* (``NOBODY``): computed only from parameters and constants. If it is combined with an element of a token,
  the result belongs to that token.
- *Of one token*: computed from one position of one sequence, and otherwise only from elements of no token. A token is
  identified by its sequence, the number of its text in the batch, and its place (position) in the text. Sequences are
  the inputs, the new sequences that a convolution makes from a picture (``MADE``), and rows of parameters, which count
  as tokens from the first attention call that uses them (``LEARNED``).
- *Mixed*: computed from several tokens. Its id is a hash of their ids: the same computation from the same tokens gives
  the same id, and any other computation gives a different one.
- *Unknown*: computed by a function for which there is no rule. Its id is a hash that occurs only once, so it is treated
  as mixed.

Two elements belong to the same token only if their ids are equal.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.attention.watching.foreign.call import unrepeated

__all__ = [
    "HASHED", "LEARNED", "LENGTH", "LIMIT", "MADE", "NOBODY", "ROWS", "TEXT", "UNKNOWN", "Ids", "bits_of", "combined",
    "fresh", "is_made_of_rows", "is_of_text", "kind_of", "merged", "place_of", "salt", "salted", "sequence_of",
    "text_of", "token", "unseen",
]  # fmt: skip

NOBODY = 0
#: A text has fewer places than this, and a batch fewer texts than ``LIMIT // LENGTH``.
LENGTH, LIMIT = 1 << 20, 1 << 36
#: The kinds of sequences; the number of a sequence is a multiple of 4, plus its kind.
TEXT, ROWS, MADE, LEARNED = range(4)
#: Hashes are at least HASHED. Two more bits say whether a hash was made from rows of an input, and from a text.
HASHED, OF_ROWS, OF_TEXT = 1 << 60, 1 << 61, 1 << 62
#: The id that all integers and booleans of unknown origin share; they need not be told apart.
UNKNOWN = HASHED | OF_ROWS | OF_TEXT
_LARGEST = torch.iinfo(torch.int64).max
_FACTORS = (-0x61C8864680B583EB, -0x40A7B892E31B1A47)  # odd numbers of 64 bits, as in SplitMix64

#: For each element of another tensor, the id of the token that it belongs to.
Ids = Int[Tensor, "..."]


@contextmanager
def unseen() -> Iterator[None]:
    """Run a ``with`` block unwatched and without gradients; its results can be used in and out of inference mode."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if not torch.is_inference_mode_enabled():
            yield
            return
        with torch.inference_mode(False):
            yield


def token(sequence: int | Ids, text: Ids, place: Ids) -> Ids:
    """Return the ids of tokens, given the number of their sequence, of their text in the batch, and of their place."""
    return sequence * LIMIT + text * LENGTH + place + 1


def sequence_of(ids: Ids) -> Ids:
    return (ids - 1) // LIMIT


def kind_of(ids: Ids) -> Ids:
    """Return the kind (``TEXT``, ``ROWS``, ``MADE`` or ``LEARNED``) of the sequence that each token belongs to. For ids
    that are not those of tokens, the result has no meaning."""
    return sequence_of(ids) % 4


def text_of(ids: Ids) -> Ids:
    return (ids - 1) % LIMIT // LENGTH


def place_of(ids: Ids) -> Ids:
    return (ids - 1) % LENGTH


@functools.lru_cache(4096)
def salt(name: str) -> int:
    """Return an id that stands for the computation with this name, and differs from the ids of all tokens."""
    return ((4 << 20) + MADE) * LIMIT + zlib.crc32(name.encode())


def salted(ids: Ids, number: int) -> Ids:
    """Return the ids of the results of a computation on elements with these ids; ``number`` is ``salt(name)`` of it."""
    return combined(ids, torch.full((), number, dtype=torch.int64, device=ids.device).expand(ids.shape))


def fresh(number: int, shape: torch.Size, bits: int, device: torch.device) -> Ids:
    """Return ids that occur nowhere else, one for each element of a tensor; ``bits`` are their flags (``bits_of``)."""
    places = torch.arange(shape.numel(), device=device, dtype=torch.int64).view(shape)
    return _scrambled(places + _scrambled(torch.tensor(number, device=device))) & (HASHED - 1) | bits


def combined(one: Ids, other: Ids) -> Ids:
    """Return the origin ids of a tensor that is computed from two others, element by element, given their ids.

    If both elements belong to the same token, or one of them to none, the result belongs to that token; otherwise its
    id is a hash of the two ids.
    """
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
        hashed = _scrambled(first * 3 + _scrambled(second)) & (HASHED - 1) | _bits(first) | _bits(second)
        found = torch.where(differs, hashed, found)
    return found.expand(shape)


def merged(ids: Ids, dims: tuple[int, ...]) -> Ids:
    """Return the ids of the result of a reduction, such as a sum, over the dimensions ``dims``, which get size 1."""
    shape = [1 if place in dims else size for place, size in enumerate(ids.shape)]
    if not ids.numel():
        return torch.zeros(shape, dtype=torch.int64, device=ids.device)
    ids = unrepeated(ids)
    if all(ids.shape[dim] == 1 for dim in dims):
        return ids.expand(shape)
    highest = ids.amax(dims, keepdim=True)
    lowest = torch.where(ids == NOBODY, _LARGEST, ids).amin(dims, keepdim=True)
    differs = lowest < highest
    if bool(differs.any()):
        counts = [size if place in dims else 1 for place, size in enumerate(ids.shape)]
        places = torch.arange(torch.Size(counts).numel(), device=ids.device).view(counts)
        total = _scrambled(_scrambled(ids + _scrambled(places)).sum(dims, keepdim=True)) & (HASHED - 1) | HASHED
        for bit, is_made in ((OF_ROWS, is_made_of_rows(ids)), (OF_TEXT, is_of_text(ids))):
            total = total | is_made.any(dim=dims, keepdim=True).to(torch.int64) * bit
        highest = torch.where(differs, total, highest)
    return highest.expand(shape)


def bits_of(ids: Ids) -> int:
    """Return, as one number, the flags that a hash of all these ids has: whether it was made from rows of an input, and
    whether from a text."""
    ids = unrepeated(ids)
    return HASHED | OF_ROWS * bool(is_made_of_rows(ids).any()) | OF_TEXT * bool(is_of_text(ids).any())


def is_made_of_rows(ids: Ids) -> Bool[Tensor, ...]:
    """Return, for each id, whether it is that of a row of an input, or of an element computed from such rows."""
    return torch.where(ids < HASHED, (ids != NOBODY) & (kind_of(ids) <= ROWS), (ids & OF_ROWS) != 0)


def is_of_text(ids: Ids) -> Bool[Tensor, ...]:
    """Return, for each id, whether it is that of a token of a text, or of an element computed from such tokens."""
    return torch.where(ids < HASHED, (ids != NOBODY) & (kind_of(ids) == TEXT), (ids & OF_TEXT) != 0)


def _bits(ids: Ids) -> Ids:
    return is_made_of_rows(ids).to(torch.int64) * OF_ROWS | is_of_text(ids).to(torch.int64) * OF_TEXT | HASHED


def _scrambled(numbers: Ids) -> Ids:
    numbers = (numbers ^ (numbers >> 29)) * _FACTORS[0]
    numbers = (numbers ^ (numbers >> 32)) * _FACTORS[1]
    return numbers ^ (numbers >> 31)
