"""Byte-pair encoding (Sennrich et al. 2016): learn a vocabulary of subwords, which are sequences of bytes.

A vocabulary must be text, so each byte is represented by a letter, in the same way as by ``ByteLevel`` of the library
`tokenizers`: a byte that is a printable Latin-1 character is represented by that character, and the other bytes by the
letters from U+0100 on, in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import tokenizers
from tokenizers import trainers

__all__ = ["BYTE_LETTERS", "learn_subwords", "letters_to_bytes"]

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = iter(range(0x100, 0x200))
#: The letter that represents each byte.
BYTE_LETTERS = [chr(byte if byte in _PRINTABLE else next(_OTHERS)) for byte in range(256)]
_BYTES = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}


def letters_to_bytes(subword: str) -> bytes:
    """Return the bytes that the letters of a subword represent; any other letter is encoded in UTF-8."""
    return b"".join(bytes([_BYTES[letter]]) if letter in _BYTES else letter.encode() for letter in subword)


def learn_subwords(
    splitter: tokenizers.Tokenizer, texts: Iterable[str], count: int, min_frequency: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Learn at most ``count`` subwords from texts. Return the subwords, and the pairs of subwords that are merged to
    encode a text, in the order of merging.

    ``splitter`` splits the texts into words. The 256 bytes come first and in order, so that a byte has the same id in
    every vocabulary.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=count, min_frequency=min_frequency, initial_alphabet=BYTE_LETTERS, show_progress=False
    )
    splitter.train_from_iterator(texts, trainer)
    learned = json.loads(splitter.to_str())["model"]
    merged = sorted(learned["vocab"].keys() - set(BYTE_LETTERS), key=learned["vocab"].__getitem__)
    return [*BYTE_LETTERS, *merged], [(left, right) for left, right in learned["merges"]]
