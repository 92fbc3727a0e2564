"""Text -> the words of a corpus, as well as its own words tell.

Each corpus cuts words in its own way: one has "don't" as a word, another "do" and "n't". The words that were trained
on say which, so the rule asks them.
"""

from __future__ import annotations

import unicodedata

from saccade.text.vocabulary import Vocabulary

__all__ = ["split_words"]

_APOSTROPHES = "'’"


def split_words(text: str, known: Vocabulary) -> list[str]:
    """The words of a text, given the words of a corpus, the most frequent first.

    White space separates words. What then is a known word stays as it is ("U.S."), but for one at whose apostrophe
    two more frequent words meet: some "it's" is left whole even in a corpus that cuts it. Of anything else the signs of
    punctuation around it are words of their own, from the outside in ("(hello)," -> ( hello ) ,), and it is cut at an
    apostrophe, or one letter before it, if what follows is a known word ("don't" -> do n't, "Ann's" -> Ann 's).
    Text that is already cut by that rule, with spaces between all words, comes back as it was.
    """
    return [word for chunk in text.split() for word in _split(chunk, known)]


def _split(chunk: str, known: Vocabulary) -> list[str]:
    if len(chunk) == 1 or (chunk in known and not _left_whole(chunk, known)):
        return [chunk]
    if not _is_mark(chunk[0]) and not _is_mark(chunk[-1]):
        return _cut_at_apostrophe(chunk, known)
    if _is_mark(chunk[-1]):
        return [*_split(chunk[:-1], known), chunk[-1]]
    # An ending such as "'s" may stand alone, so a word that begins with a mark was looked up before it is cut.
    return [chunk[0], *_split(chunk[1:], known)]


def _left_whole(word: str, known: Vocabulary) -> bool:
    """Whether a known word is a slip of the corpus: both its parts at an apostrophe are known, and more frequent."""
    if _is_mark(word[0]):  # '' is a sign of its own
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
    """A sign of punctuation or a symbol, but for those that stand for words or begin them: # and @."""
    return unicodedata.category(character)[0] in "PS" and character not in "#@"
