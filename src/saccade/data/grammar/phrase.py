"""English and French side by side: words that know their counterparts, joined into phrases.

A `Phrase` holds an English and a French word order at once; every French word points at the English words that
it renders. Adding two phrases joins both sides, so alignments follow from the construction and are never
guessed. What depends on the neighbouring French word alone, whatever the phrases were (l'homme, n'a, du),
happens last, in `settle`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

__all__ = ["Phrase", "Rendering", "Word", "begins_with_vowel", "detokenise", "pair", "settle", "words"]

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'", "ce": "c'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_ASPIRATED = frozenset({"hibou", "hiboux"})


@dataclass(frozen=True, eq=False)
class Word:
    """One English word; two equal words at two places are two words, hence compared by identity."""

    text: str
    tag: str  # universal part of speech


@dataclass(frozen=True)
class Rendering:
    """One French word and the English words it renders."""

    text: str
    tag: str
    sources: tuple[Word, ...]


@dataclass(frozen=True)
class Phrase:
    english: tuple[Word, ...] = ()
    french: tuple[Rendering, ...] = ()

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.english + other.english, self.french + other.french)


def words(text: str) -> tuple[Word, ...]:
    """`"near/ADP the/DET"` -> its words."""
    return tuple(Word(*item.rsplit("/", 1)) for item in text.split())


def pair(english: str, french: str) -> Phrase:
    """A fixed expression, `pair("because/SCONJ", "parce/SCONJ que/SCONJ")`.

    As many words on both sides render each other one by one; else every word renders every word.
    """
    sources, targets = words(english), words(french)
    if len(sources) == len(targets):
        rendered = zip(targets, ((source,) for source in sources), strict=True)
        return Phrase(sources, tuple(Rendering(word.text, word.tag, source) for word, source in rendered))
    return Phrase(sources, tuple(Rendering(word.text, word.tag, sources) for word in targets))


@cache
def begins_with_vowel(word: str) -> bool:
    """Whether le, ne, que ... elide before `word`: a vowel, or an h that is not aspirated."""
    if word in _ASPIRATED:
        return False
    return unicodedata.normalize("NFD", word.lower())[0] in "aeiouœh"


def settle(french: tuple[Rendering, ...]) -> tuple[Rendering, ...]:
    """Elide (le homme -> l'homme), then contract (de le -> du): de l'homme must not contract."""
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


def detokenise(tokens: tuple[str, ...], glued: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text of `tokens`, its first letter a capital, and the character span of each token.

    `glued`: the marks that follow a word without a space (French has one before its question mark).
    """
    text = ""
    spans = []
    for token in tokens:
        if text and token not in glued and not text.endswith("'"):
            text += " "
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text[:1].upper() + text[1:], tuple(spans)
