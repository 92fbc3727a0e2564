"""The four kinds of tokenizer: how each splits text, and how its vocabulary is learned.

Decoding restores the text because spaces are never dropped: a space belongs to the piece after it ("bpe", "word") or is
a separate piece ("character", "byte"). Only "word" collapses a run of white space into one space. The first two kinds
add a space in front of every text, so that a word is the same piece at the start of a sentence as elsewhere.

Punctuation is always split from letters, so words are what a reader would call words. Chinese and Japanese have no
spaces between words, so the kind "word" treats each character as a word. Because every punctuation mark is split off,
no text can produce a special token: "<s>" in a text is split into "<", "s" and ">", and no learned piece joins them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from saccade.text.subwords import BYTE_LETTERS, learn_subwords

__all__ = [
    "END",
    "KINDS",
    "MASK",
    "PAD",
    "SPECIAL_TOKENS",
    "START",
    "UNKNOWN",
    "TokenizerKind",
    "empty_tokenizer",
    "learn",
]

PAD, UNKNOWN, START, END, MASK = range(5)
#: How the special tokens are displayed, in the order of their ids.
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")

_WORD = r"[\p{L}\p{M}\p{N}_]+"
_MARK = r"[^\s\p{L}\p{M}\p{N}_]"  # one punctuation mark
_SPACED = rf" ?{_WORD}| ?{_MARK}|\s+(?= \S)|\s+"  # a space is part of the word or mark that follows it
_APART = rf"{_WORD}|{_MARK}|\s+"
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}]"  # the scripts without spaces between words
_SPACED_OR_SINGLE = rf" ?{_UNSPACED}| ?(?:(?!{_UNSPACED})[\p{{L}}\p{{M}}\p{{N}}_])+| ?{_MARK}|\s+(?= \S)|\s+"


@dataclass(frozen=True)
class TokenizerKind:
    """How one kind of tokenizer differs from the others."""

    spaced: bool  # whether a space is part of the piece after it, and a space is added in front of every text
    of_bytes: bool  # whether the alphabet is the 256 bytes, so that nothing is unknown


KINDS = {
    "bpe": TokenizerKind(spaced=True, of_bytes=True),
    "word": TokenizerKind(spaced=True, of_bytes=False),
    "character": TokenizerKind(spaced=False, of_bytes=False),
    "byte": TokenizerKind(spaced=False, of_bytes=True),
}


def empty_tokenizer(
    kind: str, lowercase: bool, model: models.Model | None = None, whole_runs: bool = False
) -> tokenizers.Tokenizer:
    """Return a tokenizer of this kind with the vocabulary of `model`, by default only the special tokens. With
    `whole_runs`, "word" treats a run of Chinese characters as one word, as it did in the first version of Saccade.

    The special tokens are plain entries of the vocabulary, not "added tokens" of the library `tokenizers`, which the
    library would look for in every text.
    """
    flags = KINDS[kind]
    inner = tokenizers.Tokenizer(_model(kind, []) if model is None else model)
    lower = [normalizers.Lowercase()] if lowercase else []
    # Any white space separates words, so a run of white space must not become an unknown word.
    single = [normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Strip()] if kind == "word" else []
    space = [normalizers.Prepend(" ")] if flags.spaced else []
    inner.normalizer = normalizers.Sequence([*lower, *single, *space])
    pattern = _APART if not flags.spaced else _SPACED_OR_SINGLE if kind == "word" and not whole_runs else _SPACED
    cut = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([cut, as_bytes] if flags.of_bytes else [cut])
    inner.decoder = decoders.ByteLevel() if flags.of_bytes else decoders.Fuse()
    return inner


def _model(kind: str, pieces: Iterable[str], merges: Iterable[tuple[str, str]] = ()) -> models.Model:
    """Return a model whose vocabulary is the special tokens, followed by these pieces in this order."""
    vocabulary = {piece: id for id, piece in enumerate([*SPECIAL_TOKENS, *pieces])}
    unknown = SPECIAL_TOKENS[UNKNOWN]
    if kind == "word":
        return models.WordLevel(vocab=vocabulary, unk_token=unknown)
    return models.BPE(vocab=vocabulary, merges=list(merges), unk_token=unknown)


def learn(
    kind: str, texts: Iterable[str], vocabulary_size: int, lowercase: bool, min_frequency: int
) -> tokenizers.Tokenizer:
    """Return a tokenizer of this kind, with a vocabulary learned from these texts. The same texts always give the same
    tokenizer."""
    room = vocabulary_size - len(SPECIAL_TOKENS)
    inner = empty_tokenizer(kind, lowercase)
    if kind == "byte":
        model = _model(kind, BYTE_LETTERS)
    elif kind == "bpe":
        model = _model(kind, *learn_subwords(inner, texts, room, min_frequency))
    elif kind == "character":
        counts: Counter[str] = Counter()
        for text in texts:  # lower-cased as the library does it, which can differ from str.lower
            counts.update(inner.normalizer.normalize_str(text))
        ordered = sorted(counts, key=lambda character: (-counts[character], character))
        model = _model(kind, [character for character in ordered[:room] if counts[character] >= min_frequency])
    else:
        inner.train_from_iterator(
            texts, trainers.WordLevelTrainer(vocab_size=room, min_frequency=min_frequency, show_progress=False)
        )
        vocabulary = inner.get_vocab()  # by frequency, ties in alphabetical order
        model = _model(kind, sorted(vocabulary, key=vocabulary.__getitem__))
    return empty_tokenizer(kind, lowercase, model)
