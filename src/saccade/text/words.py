"""Split a text into words in the same way as the training data is split.

Each corpus splits words in its own way: one keeps "don't" as one word, another splits it into "do" and "n't". Looking
up words in the vocabulary of the training data shows how it was split.
"""

from __future__ import annotations

import unicodedata

from saccade.text.vocabulary import Vocabulary

__all__ = ["split_words"]

_APOSTROPHES = "'’"


def split_words(text: str, known: Vocabulary) -> list[str]:
    """Split a text into words, given the words of a corpus, most frequent first.

    White space separates words. A known word stays as it is ("U.S."), unless the parts around its apostrophe are known
    words that are more frequent, because even a corpus that splits "it's" often has a few that were left whole.

    If a word is not known, punctuation marks at its start and end become words of their own ("(hello)," -> ( hello )
    ,). Then it is split at an apostrophe, or one letter before it, if the rest is a known word ("don't" -> do n't,
    "Ann's" -> Ann 's). A text that is already split in this way, with spaces between all words, does not change.
    """
    return [word for chunk in text.split() for word in _split(chunk, known)]


def _split(chunk: str, known: Vocabulary) -> list[str]:
    if len(chunk) == 1 or (chunk in known and not _left_whole(chunk, known)):
        return [chunk]
    if not _is_mark(chunk[0]) and not _is_mark(chunk[-1]):
        return _cut_at_apostrophe(chunk, known)
    if _is_mark(chunk[-1]):
        return [*_split(chunk[:-1], known), chunk[-1]]
    # A word that starts with a mark was looked up above before it is split here, because "'s" may be a word.
    return [chunk[0], *_split(chunk[1:], known)]


def _left_whole(word: str, known: Vocabulary) -> bool:
    """Return whether a known word should have been split in the corpus: its parts around an apostrophe are known words
    that are more frequent."""
    if _is_mark(word[0]):  # two apostrophes can be a quotation mark
        return False
    places = [place for place, character in enumerate(word) if character in _APOSTROPHES]
    starts = [start for place in places for start in (place - 1, place) if start > 0]
    return any(
        all(part in known and known.id(part) < known.id(word) for part in (word[:start], word[start:]))
        for start in starts
    )


def _cut_at_apostrophe(word: str, known: Vocabulary) -> list[str]:
    for place, character in enumerate(word):
        if character in _APOSTROPHES:
            for start in (place - 1, place):  # n't before 't
                if start > 0 and word[start:] in known:
                    return [*_split(word[:start], known), word[start:]]
    return [word]


def _is_mark(character: str) -> bool:
    """Return whether this is a punctuation mark or a symbol, except # and @, which can start words."""
    return unicodedata.category(character)[0] in "PS" and character not in "#@"
