"""Phrases in both English and French, in which each French word is stored with the English words that it translates.

Adding two phrases joins their English words and their French words, so the alignment is always known. `settle` comes
last: it applies the rules that depend only on the next French word, which give "l'homme", "n'a" and "du".
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from saccade.data.grammar.meaning import Fixed, Node, Word

__all__ = ["Phrase", "Rendering", "Word", "begins_with_vowel", "detokenise", "fixed", "pair", "settle", "words"]

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'", "ce": "c'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_ASPIRATED = frozenset({"hibou", "hiboux"})


@dataclass(frozen=True)
class Rendering:
    """One word of a translation, and the English words that it translates."""

    text: str
    tag: str
    sources: tuple[Word, ...]


@dataclass(frozen=True)
class Phrase:
    english: tuple[Word, ...] = ()
    french: tuple[Rendering, ...] = ()
    meaning: tuple[Node, ...] = ()  # from which the other languages build their sentences

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.english + other.english, self.french + other.french, self.meaning + other.meaning)

    def meaning_one(self, node: Node) -> Phrase:
        """Return a phrase with the same words whose meaning is this single node."""
        return Phrase(self.english, self.french, (node,))


def words(text: str) -> tuple[Word, ...]:
    """Parse words with their tags, such as `"near/ADP the/DET"`."""
    return tuple(Word(*item.rsplit("/", 1)) for item in text.split())


def pair(english: str, french: str) -> Phrase:
    """Build a fixed expression, such as `pair("because/SCONJ", "parce/SCONJ que/SCONJ")`.

    If both sides have the same number of words, they are aligned one by one; otherwise every word with every word.
    """
    sources, targets = words(english), words(french)
    meaning = (fixed(sources),)
    if len(sources) == len(targets):
        rendered = zip(targets, ((source,) for source in sources), strict=True)
        return Phrase(sources, tuple(Rendering(word.text, word.tag, source) for word, source in rendered), meaning)
    return Phrase(sources, tuple(Rendering(word.text, word.tag, sources) for word in targets), meaning)


def fixed(words: tuple[Word, ...]) -> Fixed:
    """Return these words as one expression, which every language translates as a unit."""
    return Fixed(" ".join(word.text for word in words), words)


@cache
def begins_with_vowel(word: str) -> bool:
    """Return whether a French word starts with a vowel or a mute h, before which "le" becomes "l'"."""
    if word in _ASPIRATED:
        return False
    return unicodedata.normalize("NFD", word.lower())[0] in "aeiouœh"


def settle(french: tuple[Rendering, ...]) -> tuple[Rendering, ...]:
    """Apply elisions (le homme -> l'homme), then contractions (de le -> du); "de l'homme" must not contract."""
    elided = list(french)
    for index, (word, following) in enumerate(pairwise(french)):
        if word.text in _ELIDED and begins_with_vowel(following.text):
            elided[index] = Rendering(_ELIDED[word.text], word.tag, word.sources)
    settled: list[Rendering] = []
    for word in elided:
        contracted = _CONTRACTED.get((settled[-1].text, word.text)) if settled else None
        if contracted:
            settled[-1] = Rendering(contracted, "ADP", settled[-1].sources + word.sources)
        else:
            settled.append(word)
    return tuple(settled)


def detokenise(
    tokens: tuple[str, ...], glued: str, opening: str = "", between: str = " "
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Join tokens into a text that begins with a capital letter, and return it with the first character, and one past
    the last, of each token.

    `glued` are the marks that have no space before them (in French, not the question mark), and `opening` those that
    have no space after them.
    """
    text = ""
    spans = []
    for token in tokens:
        if text and token not in glued and not text.endswith("'") and text[-1] not in opening:
            text += between
        spans.append((len(text), len(text) + len(token)))
        text += token
    first = len(text) - len(text.lstrip(opening)) if opening else 0
    return text[:first] + text[first : first + 1].upper() + text[first + 1 :], tuple(spans)
