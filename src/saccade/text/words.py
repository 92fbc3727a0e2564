"""Split text into the words of a corpus, guided by the corpus's own words.

Each corpus splits words in its own way: one has "don't" as a word, another "do" and "n't". The words of the training
data show which, so the rule looks them up.
"""

from __future__ import annotations

import unicodedata

from saccade.text.vocabulary import Vocabulary

__all__ = ["split_words"]

_APOSTROPHES = "'’"


def split_words(text: str, known: Vocabulary) -> list[str]:
    """The words of a text, given the words of a corpus, most frequent first.

    White space separates words. A known word stays as it is ("U.S."), unless two more frequent words meet at its
    apostrophe: some "it's" stay whole even in a corpus that splits them. From anything else, the punctuation marks
    around it become words of their own, from the outside in ("(hello)," -> ( hello ) ,), and it is split at an
    apostrophe, or one letter before it, if what follows is a known word ("don't" -> do n't, "Ann's" -> Ann 's).
    Text that is already split by that rule, with spaces between all words, is returned unchanged.
    """
    return [word for chunk in text.split() for word in _split(chunk, known)]


def _split(chunk: str, known: Vocabulary) -> list[str]:
    if len(chunk) == 1 or (chunk in known and not _left_whole(chunk, known)):
        return [chunk]
    if not _is_mark(chunk[0]) and not _is_mark(chunk[-1]):
        return _cut_at_apostrophe(chunk, known)
    if _is_mark(chunk[-1]):
        return [*_split(chunk[:-1], known), chunk[-1]]
    # An ending such as "'s" may occur alone, so a word that starts with a mark was looked up before it is split.
    return [chunk[0], *_split(chunk[1:], known)]


def _left_whole(word: str, known: Vocabulary) -> bool:
    """Whether a known word is an error in the corpus: its parts around an apostrophe are known and more frequent."""
    if _is_mark(word[0]):  # '' is a mark of its own
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
    """A punctuation mark or a symbol, except those that represent or start words: # and @."""
    return unicodedata.category(character)[0] in "PS" and character not in "#@"
