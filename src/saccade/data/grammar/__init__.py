"""The built-in corpus: a grammar written for this project, from which English sentences are drawn at random, each with
its translation into French or another language.

The corpus is synthetic (docs/reference/corpus.md), so each sentence comes with facts that a collected corpus does not
have: the word alignment, the parts of speech, the sentiment of a review, the noun that a pronoun refers to, and the
word that decides what "bank" means.

Combinations of two words are held out: an adjective with a noun, or a verb with an object. They never occur together
in training, although each of the two words is frequent there. Every validation and test sentence has at least one
held-out combination.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from saccade.data.grammar.kinds import KINDS
from saccade.data.grammar.languages import LANGUAGES
from saccade.data.grammar.nouns import Draft
from saccade.data.grammar.phrase import Phrase, detokenise, settle
from saccade.data.grammar.showcase import SHOWCASE
from saccade.errors import OptionError, UnknownNameError

__all__ = [
    "LANGUAGE_NAMES",
    "SPLITS",
    "Combination",
    "Example",
    "Link",
    "Span",
    "content_words",
    "generate",
    "showcase",
    "split_of",
]

Combination = tuple[str, str, str]  # ("adjective" or "verb", that word, the noun), all as English dictionary forms
Span = tuple[int, int]  # the first character, and one past the last

SPLITS = ("train", "validation", "test")
#: The languages that sentences can be translated into: code -> English name.
LANGUAGE_NAMES = {"fr": "French", **{code: language.name for code, language in LANGUAGES.items()}}
# Combinations in the sentences of `showcase`, which must not occur in training.
_PINNED: dict[Combination, str] = {
    ("adjective", "black", "cat"): "test",
    ("verb", "eat", "mouse"): "test",
    ("verb", "be scared of", "lion"): "test",
    ("verb", "arrive at", "bank"): "test",
}
_HELD_OUT_PERCENT = 7  # of all combinations, for validation; the same percentage is held out for test
_CONTENT_TAGS = frozenset({"NOUN", "PROPN", "VERB", "ADJ", "ADV"})
_MOST_TRIES = 20_000


@dataclass(frozen=True)
class Link:
    """A source word (a pronoun, or "bank") and its antecedent, the source word that decides its meaning; both are
    indices of words in the sentence."""

    kind: str  # "pronoun" or "bank"
    word: int
    antecedent: int


@dataclass(frozen=True)
class Example:
    """One sentence in two languages, and what is known about it. In ``source`` and ``target``, the first word is not
    capitalised, unlike in ``source_text`` and ``target_text``."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]  # (source index, target index), sorted
    tags: tuple[str, ...]  # the universal part of speech of each source word
    target_tags: tuple[str, ...]
    sentiment: str | None  # "positive" or "negative" if the sentence is a review
    links: tuple[Link, ...]
    kind: str
    combinations: tuple[Combination, ...]
    language: str = "fr"  # the code of the target language

    @cached_property
    def _source(self) -> tuple[str, tuple[Span, ...]]:
        return detokenise(self.source, glued=".,?")

    @cached_property
    def _target(self) -> tuple[str, tuple[Span, ...]]:
        if self.language in LANGUAGES:
            return LANGUAGES[self.language].written(self.target)
        return detokenise(self.target, glued=".,")

    @property
    def source_text(self) -> str:
        return self._source[0]

    @property
    def target_text(self) -> str:
        return self._target[0]

    @property
    def source_spans(self) -> tuple[Span, ...]:
        """The first character, and one past the last, of each word of `source` in `source_text`."""
        return self._source[1]

    @property
    def target_spans(self) -> tuple[Span, ...]:
        return self._target[1]


def content_words(example: Example) -> dict[int, frozenset[int]]:
    """Return, for each noun, verb, adjective and adverb in the target, the source words that it is aligned with; all
    words are given by their indices."""
    return {
        target: frozenset(source for source, aligned in example.alignment if aligned == target)
        for target, tag in enumerate(example.target_tags)
        if tag in _CONTENT_TAGS
    }


@cache
def split_of(combination: Combination) -> str:
    """Return the split that a combination of two words belongs to: "train", "validation" or "test". It depends on a
    hash of the words, so it is always the same."""
    if combination in _PINNED:
        return _PINNED[combination]
    digest = hashlib.sha256("|".join(combination).encode()).digest()
    percentile = int.from_bytes(digest[:4], "big") % 100
    if percentile < _HELD_OUT_PERCENT:
        return "validation"
    return "test" if percentile < 2 * _HELD_OUT_PERCENT else "train"


def generate(
    count: int, seed: int, split: str = "train", kind: str | None = None, language: str = "fr"
) -> list[Example]:
    """Return `count` different sentences of a split with their translations into `language`; if `kind` is given, all
    are of this kind. The same seed gives the same sentences on every machine, and the same English sentences for every
    language."""
    _check_language(language)
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    if kind is not None and kind not in KINDS:
        raise UnknownNameError("kind of sentence", kind, KINDS)
    if count < 0:
        raise OptionError(f"The number of sentences must be 0 or more, not {count}.")
    examples: dict[tuple[str, ...], Example] = {}
    kinds, shares = zip(*((kind, share) for kind, (_, share) in KINDS.items()), strict=True)
    draw = random.Random(seed)
    while len(examples) < count:
        drawn = kind or draw.choices(kinds, shares)[0]
        for draft, phrase in _attempts(draw, drawn):
            source = tuple(word.text for word in phrase.english)
            if source not in examples and _belongs(draft, split):
                examples[source] = _example(drawn, draft, phrase, language)
                break
        else:
            raise OptionError(f"The grammar has too few {drawn} sentences to draw {count} for the split {split!r}.")
    return list(examples.values())


def showcase(language: str = "fr") -> list[Example]:
    """Return the sentences that demonstrations and the documentation show. They never occur in training data."""
    _check_language(language)
    drafts = [(kind, Draft(random.Random(0)), build) for kind, build in SHOWCASE]
    return [_example(kind, draft, build(draft), language) for kind, draft, build in drafts]


def _check_language(language: str) -> None:
    if language not in LANGUAGE_NAMES:
        raise UnknownNameError("language", language, LANGUAGE_NAMES)


def _attempts(draw: random.Random, kind: str) -> Iterator[tuple[Draft, Phrase]]:
    """Yield sentences of one kind. Drawing again from the same kind keeps the shares of kinds equal in every split."""
    for _ in range(_MOST_TRIES):
        draft = Draft(draw)
        phrase = KINDS[kind][0](draft)
        repeated = [word.text for word in phrase.english if word.tag in ("NOUN", "ADJ", "VERB")]
        if len(repeated) == len(set(repeated)):  # no "the cat saw the cat"
            yield draft, phrase


def _belongs(draft: Draft, split: str) -> bool:
    """Return whether a sentence belongs to a split. A training sentence has only training combinations; any other has
    at least one combination of its split, and none of the other held-out split."""
    splits = {split_of(combination) for combination in draft.combinations}
    return splits <= {"train", split} and (split == "train" or split in splits)


def _example(kind: str, draft: Draft, phrase: Phrase, language: str) -> Example:
    position = {word: index for index, word in enumerate(phrase.english)}
    target = settle(phrase.french) if language == "fr" else LANGUAGES[language].render(phrase.meaning)
    alignment = {(position[word], index) for index, item in enumerate(target) for word in item.sources}
    return Example(
        source=tuple(word.text for word in phrase.english),
        target=tuple(item.text for item in target),
        alignment=tuple(sorted(alignment)),
        tags=tuple(word.tag for word in phrase.english),
        target_tags=tuple(item.tag for item in target),
        sentiment=draft.sentiment,
        links=tuple(Link(name, position[word], position[cue]) for name, word, cue in draft.links),
        kind=kind,
        combinations=tuple(dict.fromkeys(draft.combinations)),
        language=language,
    )
