"""Read SentencePiece files (``.spm``, ``spiece.model``, ``tokenizer.model``): pieces of words with their scores.

The file is a protocol buffer. Only its few fields that decide how a text is split are read, and every number is checked
before it is used, so that a file that is damaged, or made to do harm, is an error of one sentence.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from saccade.errors import FileError

__all__ = [
    "CONTROL",
    "UNKNOWN",
    "UNUSED",
    "USER_DEFINED",
    "PieceModel",
    "ScoredPiece",
    "check_characters",
    "merges_of",
    "read_pieces",
]

_LARGEST = 64 << 20  # bytes of a file; those of published models have at most 5 million
_MOST, _LONGEST = 1_000_000, 512  # pieces, and characters of a piece
#: Kinds of pieces: the unknown one, tokens such as ``</s>`` that no text contains, words that are never split, pieces
#: that are never used, and bytes of unknown characters.
UNKNOWN, CONTROL, USER_DEFINED, UNUSED, _BYTE = 2, 3, 4, 5, 6
_ALGORITHMS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}

# The numbers of fields in sentencepiece_model.proto.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _KIND = 1, 2, 3  # of a piece
_ALGORITHM, _SUFFIX = 3, 24  # of the trainer
_CHARACTERS, _PREFIX, _SPACES, _ESCAPES = 2, 3, 4, 5  # of the normalizer


class ScoredPiece(NamedTuple):
    """An entry of the vocabulary."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class PieceModel:
    """What a SentencePiece file says about how to split a text."""

    pieces: list[ScoredPiece]  # by id
    algorithm: Literal["unigram", "bpe"]
    characters: bytes = b""  # a table that replaces characters, such as full-width letters by ordinary ones
    has_prefix: bool = True  # whether a space is put in front of a text
    has_bytes: bool = False  # whether unknown characters are written as bytes
    joins_spaces: bool = True  # whether several spaces count as one, and those at the ends as none

    @property
    def unknown(self) -> int:
        """The id of the piece for unknown characters."""
        return next(id for id, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_pieces(path: Path) -> PieceModel:
    """Read a SentencePiece file."""
    try:
        if path.stat().st_size > _LARGEST:
            raise FileError(f"{path} has {path.stat().st_size:,} bytes; a SentencePiece file has at most {_LARGEST:,}.")
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        return _model(data)
    except (ValueError, struct.error) as error:
        raise FileError(f"{path} is not a SentencePiece file that Saccade can read: {error}.") from None


def merges_of(model: PieceModel, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Return the pairs that byte-pair encoding joins, best first; ``ids`` are the pieces that may be joined."""
    found = [
        (-piece.score, piece.text[:cut], piece.text[cut:])
        for piece in model.pieces
        for cut in range(1, len(piece.text))
        if piece.text in ids and piece.text[:cut] in ids and piece.text[cut:] in ids
    ]
    return [(left, right) for _, left, right in sorted(found, key=lambda one: one[0])]


def _model(data: bytes) -> PieceModel:
    pieces: list[ScoredPiece] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for number, value in _fields(data):
        if number == _PIECE:
            pieces.append(_piece(_bytes(value)))
            if len(pieces) > _MOST:
                raise ValueError(f"it has more than {_MOST:,} pieces")
        elif number in (_TRAINER, _NORMALIZER):
            (trainer if number == _TRAINER else normalizer).update(_fields(_bytes(value)))
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ValueError("it does not have exactly one piece for unknown characters")
    if len({piece.text for piece in pieces}) < len(pieces):
        raise ValueError("a piece occurs twice")
    algorithm = _ALGORITHMS.get(_int(trainer.get(_ALGORITHM, 1)))
    if algorithm is None:
        raise ValueError("its algorithm is neither unigram nor BPE")
    if _int(trainer.get(_SUFFIX, 0)) or not _int(normalizer.get(_ESCAPES, 1)):
        raise ValueError("spaces do not stand in front of words")
    characters = _bytes(normalizer.get(_CHARACTERS, b""))
    if characters:
        check_characters(characters)
    prefix, spaces = (bool(_int(normalizer.get(number, 1))) for number in (_PREFIX, _SPACES))
    has_bytes = any(piece.kind == _BYTE for piece in pieces)
    return PieceModel(pieces, algorithm, characters, prefix, has_bytes, spaces)


def _piece(data: bytes) -> ScoredPiece:
    found = dict(_fields(data))
    text, kind = _bytes(found.get(_TEXT, b"")).decode(), _int(found.get(_KIND, 1))
    (score,) = struct.unpack("<f", _bytes(found.get(_SCORE, bytes(4))))
    if not 1 <= len(text) <= _LONGEST:
        raise ValueError(f"a piece has {len(text):,} characters, not 1 to {_LONGEST}")
    if not math.isfinite(score):
        raise ValueError("the score of a piece is not a finite number")
    return ScoredPiece(text, score, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a protocol buffer message: a whole number, or bytes."""
    place = 0
    while place < len(data):
        key, place = _whole(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _whole(data, place)
            yield number, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError("it is not a protocol buffer")
        length = {1: 8, 5: 4}.get(kind)
        if length is None:
            length, place = _whole(data, place)
        if length > len(data) - place:
            raise ValueError("it ends in the middle of a field")
        yield number, data[place : place + length]
        place += length


def _whole(data: bytes, place: int) -> tuple[int, int]:
    """Return the number that begins at a place, seven bits to a byte, and the place after it."""
    found = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("it ends in the middle of a number")
        found |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return found, place
    raise ValueError("a number is too long")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field has the wrong type")
    return value


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a field has the wrong type")
    return value


def check_characters(table: bytes) -> None:
    """Raise an error unless the table of characters can be followed without leaving it, which would end the process.

    The table is a trie in a double array of 32-bit units, followed by the replacements, each ended by a zero byte. The
    last bits of a unit are its letter, the first bits lead to its children, and bit 8 says that a replacement begins at
    the place that the first child gives.
    """
    wrong = ValueError("its table of characters is damaged")
    if len(table) < 4:
        raise wrong
    (length,) = struct.unpack_from("<I", table)
    if length % 4 or not 4 <= length <= len(table) - 4:
        raise wrong
    units = np.frombuffer(table, "<u4", length // 4, offset=4).astype(np.int64)
    replacements = table[4 + length :]
    try:
        replacements.decode()
    except UnicodeDecodeError:
        raise wrong from None
    letters, steps = units & 0x800000FF, (units >> 10) << ((units & 512) >> 6)
    seen = np.zeros(len(units), bool)
    frontier = np.zeros(1, np.int64)  # the root
    while len(frontier):
        now, frontier = frontier[:4096], frontier[4096:]
        seen[now] = True
        first = now ^ steps[now]
        if (first | 255).max() >= len(units):
            raise wrong
        starts = units[first[((units[now] >> 8) & 1 == 1) & (now > 0)]] & 0x7FFFFFFF
        if len(starts) and (starts.max() > len(replacements) or not _between(replacements, starts)):
            raise wrong
        children = first[:, None] ^ np.arange(1, 256)
        found = np.unique(children[letters[children] == np.arange(1, 256)])
        frontier = np.concatenate([frontier, found[~seen[found]]])
        seen[found] = True


def _between(text: bytes, places: np.ndarray) -> bool:
    """Return whether no place is inside a character of UTF-8."""
    inside = np.frombuffer(text + b"\0", np.uint8) & 0xC0 == 0x80
    return not inside[places].any()
