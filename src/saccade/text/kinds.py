"""The four kinds of tokenizer: how each splits text, and how its vocabulary is learned.

Decoding is exact because spaces are never dropped: a space belongs to the piece after it ("bpe", "word") or is a piece
of its own ("character", "byte"); only "word" collapses a run of white space into one space. The first two add a space
in front of every text, so that a word is the same piece at the start of a sentence as within it. Punctuation is always
split from letters. That makes words what a reader would call words, and it keeps the special tokens out of reach:
"<s>" in a text is split into "<", "s" and ">", and no learned piece crosses such a split, so no text ever produces
id 2.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

__all__ = [
    "END",
    "KINDS",
    "MASK",
    "PAD",
    "SPECIAL_TOKENS",
    "START",
    "UNKNOWN",
    "Kind",
    "bytes_of",
    "learn",
    "letters_to_bytes",
    "shell",
]

PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""How the special ids are displayed, in order of their ids."""

_WORD = r"[\p{L}\p{M}\p{N}_]+"
_MARK = r"[^\s\p{L}\p{M}\p{N}_]"  # one punctuation mark
_SPACED = rf" ?{_WORD}| ?{_MARK}|\s+(?= \S)|\s+"  # a space belongs to what follows it
_APART = rf"{_WORD}|{_MARK}|\s+"


@dataclass(frozen=True)
class Kind:
    """The differences between the kinds."""

    spaced: bool
    """A space is part of the piece after it, and every text gets one in front."""
    of_bytes: bool
    """The alphabet is the 256 bytes, so nothing is unknown."""


KINDS = {
    "bpe": Kind(spaced=True, of_bytes=True),
    "word": Kind(spaced=True, of_bytes=False),
    "character": Kind(spaced=False, of_bytes=False),
    "byte": Kind(spaced=False, of_bytes=True),
}


def _byte_letters() -> list[str]:
    """Byte -> the letter that represents it in a vocabulary, as in the library's ByteLevel.

    A printable Latin-1 character represents itself; the other bytes get the letters from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_LETTERS = _byte_letters()
_BYTES = {letter: byte for byte, letter in enumerate(_LETTERS)}


def bytes_of(piece: str, kind: str) -> bytes:
    """The bytes of text that an entry of the vocabulary represents."""
    return letters_to_bytes(piece) if KINDS[kind].of_bytes else piece.encode()


def letters_to_bytes(piece: str) -> bytes:
    """The bytes that the letters of a byte-level vocabulary represent; any other letter represents itself."""
    return b"".join(bytes([_BYTES[letter]]) if letter in _BYTES else letter.encode() for letter in piece)


def shell(kind: str, lowercase: bool, model: models.Model | None = None) -> tokenizers.Tokenizer:
    """Everything around a vocabulary. The special tokens are plain entries of the model, not what the library calls
    added tokens, because it would search every text for those."""
    flags = KINDS[kind]
    inner = tokenizers.Tokenizer(_model(kind, []) if model is None else model)
    lower = [normalizers.Lowercase()] if lowercase else []
    # Any white space separates words; a run of it is not a word, and must not become an unknown one.
    single = [normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip()] if kind == "word" else []
    space = [normalizers.Prepend(" ")] if flags.spaced else []
    inner.normalizer = normalizers.Sequence([*lower, *single, *space])
    cut = pre_tokenizers.Split(tokenizers.Regex(_SPACED if flags.spaced else _APART), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([cut, as_bytes] if flags.of_bytes else [cut])
    inner.decoder = decoders.ByteLevel() if flags.of_bytes else decoders.Fuse()
    return inner


def _model(kind: str, pieces: Iterable[str], merges: Iterable[tuple[str, str]] = ()) -> models.Model:
    """A model whose vocabulary is the special tokens and then these pieces, in this order."""
    vocabulary = {piece: id for id, piece in enumerate([*SPECIAL_TOKENS, *pieces])}
    unknown = SPECIAL_TOKENS[UNKNOWN]
    if kind == "word":
        return models.WordLevel(vocab=vocabulary, unk_token=unknown)
    return models.BPE(vocab=vocabulary, merges=list(merges), unk_token=unknown)


def learn(
    kind: str, texts: Iterable[str], vocabulary_size: int, lowercase: bool, min_frequency: int
) -> tokenizers.Tokenizer:
    """A tokenizer of this kind with a vocabulary learned from these texts; deterministic."""
    room = vocabulary_size - len(SPECIAL_TOKENS)
    inner = shell(kind, lowercase)
    if kind == "byte":
        model = _model(kind, _LETTERS)
    elif kind == "character":
        model = _model(kind, _frequent_characters(inner, texts, room, min_frequency))
    elif kind == "word":
        inner.train_from_iterator(
            texts, trainers.WordLevelTrainer(vocab_size=room, min_frequency=min_frequency, show_progress=False)
        )
        vocabulary = inner.get_vocab()  # by frequency, ties in alphabetical order
        model = _model(kind, sorted(vocabulary, key=vocabulary.__getitem__))
    else:
        model = _byte_pairs(inner, texts, room, min_frequency)
    return shell(kind, lowercase, model)


def _frequent_characters(inner: tokenizers.Tokenizer, texts: Iterable[str], room: int, min_frequency: int) -> list[str]:
    counts: Counter[str] = Counter()
    for text in texts:  # in lower case as the library does it, which can differ from str.lower
        counts.update(inner.normalizer.normalize_str(text))
    ordered = sorted(counts, key=lambda character: (-counts[character], character))
    return [character for character in ordered[:room] if counts[character] >= min_frequency]


def _byte_pairs(inner: tokenizers.Tokenizer, texts: Iterable[str], room: int, min_frequency: int) -> models.Model:
    """Byte-pair encoding; the 256 bytes come first and in order, so that a byte has one id in every vocabulary."""
    trainer = trainers.BpeTrainer(
        vocab_size=room, min_frequency=min_frequency, initial_alphabet=_LETTERS, show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    learned = json.loads(inner.to_str())["model"]
    pieces = sorted(learned["vocab"].keys() - set(_LETTERS), key=learned["vocab"].__getitem__)
    return _model("bpe", [*_LETTERS, *pieces], [(left, right) for left, right in learned["merges"]])
