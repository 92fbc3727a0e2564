"""Which language a text is in, as well as the models' own vocabularies can tell.

A translation model knows the words, or pieces of words, of two languages: one vocabulary for each side. From the
entries of a vocabulary follows how likely each letter is after the two before it; an entry counts by its rank, as
Zipf's law has it, because vocabularies are ordered by frequency. A text is in the language that makes its letters
likeliest. Only languages of models that are served can be found, and where both sides of a model share one vocabulary
it says nothing of either: then the languages are equally likely.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, cast

from saccade.serving.models import Served
from saccade.tasks.base.capabilities import TranslatesText
from saccade.text import SPECIAL_TOKENS, Tokenizer

__all__ = ["Detected", "Detector", "language_name"]

#: Letters of a text that are looked at.
MOST_LETTERS = 1000
#: What an n-gram that was never seen counts, in units of the rarest that was.
SMOOTHING = 0.1
#: Neighbouring trigrams say much the same, so that their evidence is counted less than in full.
EVIDENCE = 0.3
_EDGE = " "
_NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}


def language_name(code: str) -> str:
    """What people call a language; a code that is not known is its own name."""
    return _NAMES.get(code, code)


class Detected(NamedTuple):
    """A language, and how sure that is, in percent."""

    language: str
    confidence: float


class _Letters:
    """How likely each letter is after two others, by the entries of vocabularies."""

    def __init__(self) -> None:
        self._trigrams: defaultdict[str, float] = defaultdict(float)
        self._bigrams: defaultdict[str, float] = defaultdict(float)

    def add(self, tokenizer: Tokenizer) -> None:
        for rank, id in enumerate(range(len(SPECIAL_TOKENS), tokenizer.vocabulary_size), start=1):
            token = tokenizer.token(id)
            padded = _EDGE + token.replace("▁", _EDGE).strip().lower() + _EDGE
            for start in range(len(padded) - 2):
                self._trigrams[padded[start : start + 3]] += 1 / rank
                self._bigrams[padded[start : start + 2]] += 1 / rank

    @cached_property
    def _least(self) -> float:
        return SMOOTHING * min(self._trigrams.values(), default=1.0)

    def log_probability(self, padded: str) -> float:
        total = 0.0
        for start in range(len(padded) - 2):
            seen = self._trigrams.get(padded[start : start + 3], 0.0) + self._least
            total += math.log(seen / (self._bigrams.get(padded[start : start + 2], 0.0) + 256 * self._least))
        return total


class Detector:
    """Tells the languages of the models that are served apart."""

    def __init__(self, translators: Mapping[tuple[str, str], Served]) -> None:
        self.pairs = set(translators)
        self._letters: dict[str, _Letters] = {}
        for (source, target), served in translators.items():
            tokenizers = cast(TranslatesText, served.predictor).tokenizers
            for language, tokenizer in zip((source, target), tokenizers, strict=True):
                self._letters.setdefault(language, _Letters()).add(tokenizer)

    def detect(self, text: str) -> list[Detected]:
        """Every language, the likeliest first; none where no model has one."""
        words = "".join(letter if letter.isalpha() else _EDGE for letter in text[:MOST_LETTERS].lower()).split()
        padded = [_EDGE + word + _EDGE for word in words]
        scores = {
            language: EVIDENCE * sum(map(letters.log_probability, padded))
            for language, letters in self._letters.items()
        }
        return _shares(scores)


def _shares(scores: Mapping[str, float]) -> list[Detected]:
    """Log-likelihoods as percentages, every language being equally likely before."""
    if not scores:
        return []
    highest = max(scores.values())
    shares = {language: math.exp(score - highest) for language, score in scores.items()}
    total = math.fsum(shares.values())
    found = [Detected(language, round(100 * share / total, 1)) for language, share in shares.items()]
    return sorted(found, key=lambda one: -one.confidence)
