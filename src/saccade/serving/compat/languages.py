"""Language detection from the vocabularies of the translation models.

A translation model has a vocabulary for each of its two languages. From the entries of a vocabulary, we estimate how
likely each letter is after the two before it. Vocabularies are ordered by frequency, so the entry with rank r is given
the weight 1/r, following Zipf's law. The detected language is the one that makes the letters of the text most likely.
Only languages of served models can be detected, and two languages that share one vocabulary cannot be told apart: both
get the same confidence.
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

#: Only this many characters at the start of a text are used.
MOST_LETTERS = 1000
#: The count of a trigram that was never seen, relative to the count of the rarest one that was seen.
SMOOTHING = 0.1
#: Overlapping trigrams are not independent, so the evidence of each counts only this much.
EVIDENCE = 0.3
_EDGE = " "
# fmt: off
_NAMES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}
# fmt: on


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    return _NAMES.get(code, code)


class Detected(NamedTuple):
    """A language, and how probable it is that a text is written in it, in percent."""

    language: str
    confidence: float


class _Letters:
    """The probability of each letter after two others, estimated from the entries of vocabularies."""

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
    """Detects in which of the served models' languages a text is written."""

    def __init__(self, translators: Mapping[tuple[str, str], Served]) -> None:
        self.translators = dict(translators)
        self._letters: dict[str, _Letters] = {}
        for (source, target), served in translators.items():
            tokenizers = cast(TranslatesText, served.predictor).tokenizers
            for language, tokenizer in zip((source, target), tokenizers, strict=True):
                self._letters.setdefault(language, _Letters()).add(tokenizer)

    def detect(self, text: str) -> list[Detected]:
        """Return every language of the served models with its confidence, the most likely one first."""
        words = "".join(letter if letter.isalpha() else _EDGE for letter in text[:MOST_LETTERS].lower()).split()
        padded = [_EDGE + word + _EDGE for word in words]
        scores = {
            language: EVIDENCE * sum(map(letters.log_probability, padded))
            for language, letters in self._letters.items()
        }
        highest = max(scores.values(), default=0.0)
        shares = {language: math.exp(score - highest) for language, score in scores.items()}  # with a uniform prior
        total = math.fsum(shares.values())
        found = [Detected(language, round(100 * share / total, 1)) for language, share in shares.items()]
        return sorted(found, key=lambda one: -one.confidence)
