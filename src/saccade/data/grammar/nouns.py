"""Build noun phrases for the built-in corpus: determiner, adjectives and noun, which agree in gender and number.

Functions that draw at random take the `Draft` of the sentence. It also records the combinations of two words (adjective
and noun, verb and object) that decide the split of the sentence, and the true links of pronouns and of "bank".
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from saccade.data.grammar.lexicon import ADJECTIVES, NAMES, NOUNS, Adjective, Noun, categories
from saccade.data.grammar.meaning import Both, Entity, Fixed, Name, Nominal, Pronoun, Quality
from saccade.data.grammar.phrase import Phrase, Rendering, Word, begins_with_vowel, fixed, pair

__all__ = [
    "ANY_DETERMINER",
    "DEFINITE",
    "Draft",
    "NounPhrase",
    "draw_noun",
    "joined",
    "noun_phrase",
    "pronoun",
    "subject",
]

# English -> French masculine, feminine, plural; an empty form means that the determiner has no such number
_DETERMINERS = {
    "the": ("le", "la", "les"),
    "this": ("ce", "cette", ""),
    "these": ("", "", "ces"),
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "a": ("un", "une", ""),
    "some": ("", "", "des"),
    "two": ("", "", "deux"),
    "three": ("", "", "trois"),
}
_DETERMINER_TAGS = {"my": "PRON", "his": "PRON", "her": "PRON", "our": "PRON", "two": "NUM", "three": "NUM"}
# A determiner that is listed five times is drawn five times as often. Negated clauses only have definite objects,
# because French would turn "un" and "des" into "de".
DEFINITE = ("the", "the", "the", "the", "the", "this", "these", "my", "his", "her", "our")
ANY_DETERMINER = (*DEFINITE, "a", "a", "a", "some", "some", "two", "three")
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "sa": "son"}
# English pronoun -> French, gender, plural, person; "I" and "we" are masculine by convention
_PRONOUNS = {
    "I": ("je", "m", False, 1),
    "we": ("nous", "m", True, 1),
    "he": ("il", "m", False, 3),
    "she": ("elle", "f", False, 3),
    "who": ("qui", "m", False, 3),
}


@dataclass
class Draft:
    """The random generator for one sentence, and the facts that are recorded while it is built."""

    random: random.Random
    combinations: list[tuple[str, str, str]] = field(default_factory=list)
    links: list[tuple[str, Word, Word]] = field(default_factory=list)
    sentiment: str | None = None

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


@dataclass(frozen=True)
class NounPhrase:
    phrase: Phrase
    head: Word
    gender: str
    plural: bool
    person: int = 3
    nouns: tuple[Noun, ...] = ()

    @property
    def meaning(self) -> Entity:
        (entity,) = self.phrase.meaning
        assert isinstance(entity, Entity)
        return entity

    @property
    def nominal(self) -> Nominal:
        assert isinstance(self.meaning, Nominal)
        return self.meaning


def draw_noun(draft: Draft, *groups: str) -> Noun:
    """Draw a noun from these groups of categories, such as "people" or "animals". All their nouns are equally
    likely."""
    return draft.random.choice(_nouns_of(groups))


@cache
def _nouns_of(groups: tuple[str, ...]) -> tuple[Noun, ...]:
    return tuple(noun for category in categories(*groups) for noun in NOUNS[category])


@cache
def _adjectives_of(category: str) -> tuple[Adjective, ...]:
    return tuple(adjective for adjective in ADJECTIVES.values() if category in adjective.categories)


def noun_phrase(
    draft: Draft,
    noun: Noun,
    plural: bool | None = None,
    determiners: Sequence[str] = ANY_DETERMINER,
    adjectives: Sequence[Adjective] | None = None,
) -> NounPhrase:
    """Build a noun phrase: a determiner, adjectives and this noun. What is not given is drawn at random. In French,
    some adjectives come before the noun, and others after it."""
    if plural is None:
        plural = draft.chance(0.4)
    plural = plural and bool(noun.english_plural)
    if adjectives is None:
        adjectives = _draw_adjectives(draft, noun)
    draft.combinations.extend(("adjective", adjective.english, noun.english) for adjective in adjectives)
    described = _described(noun, plural, adjectives)
    determiner = draft.random.choice([name for name in determiners if _fits(name, noun, plural)])
    text = "an" if determiner == "a" and described.english[0].text[0] in "aeiou" else determiner
    word = Word(text, _DETERMINER_TAGS.get(determiner, "DET"))
    form = _determiner_form(determiner, noun.gender, plural, described.french[0])
    phrase = Phrase((word,), (Rendering(form, word.tag, (word,)),)) + described
    pairs = zip(adjectives, described.english, strict=False)
    qualities = tuple(Quality(adjective.english, english) for adjective, english in pairs)
    meant = Nominal(Fixed(determiner, (word,)), qualities, noun, described.english[-1], plural)
    phrase = phrase.meaning_one(meant)
    return NounPhrase(phrase, described.english[-1], noun.gender, plural, nouns=(noun,))


def _draw_adjectives(draft: Draft, noun: Noun) -> list[Adjective]:
    """Draw no adjective, one, or two: first one that comes before the French noun, then one that follows it."""
    fitting = _adjectives_of(noun.category)
    if not fitting or not draft.chance(0.45):
        return []
    before = [adjective for adjective in fitting if adjective.precedes]
    after = [adjective for adjective in fitting if not adjective.precedes]
    if before and after and draft.chance(0.2):
        return [draft.random.choice(before), draft.random.choice(after)]
    return [draft.random.choice(fitting)]


def _described(noun: Noun, plural: bool, adjectives: Sequence[Adjective]) -> Phrase:
    """Build the noun with its adjectives, without a determiner."""
    head = Word(noun.english_plural if plural else noun.english, "NOUN")
    english = [head]
    french = [Rendering(noun.french_plural if plural else noun.french, "NOUN", (head,))]
    for adjective in reversed(adjectives):
        word = Word(adjective.english, "ADJ")
        english.insert(0, word)
        form = adjective.form(noun.gender, plural)
        if not adjective.precedes:
            french.append(Rendering(form, "ADJ", (word,)))
            continue
        if noun.gender == "m" and not plural and begins_with_vowel(french[0].text):
            form = adjective.before_vowel
        french.insert(0, Rendering(form, "ADJ", (word,)))
    return Phrase(tuple(english), tuple(french))


def _fits(determiner: str, noun: Noun, plural: bool) -> bool:
    uncounted = not noun.english_plural
    return bool(_DETERMINERS[determiner][2 if plural else 0]) and not (uncounted and determiner == "a")


def _determiner_form(determiner: str, gender: str, plural: bool, following: Rendering) -> str:
    masculine, feminine, plural_form = _DETERMINERS[determiner]
    if plural:  # "des chats", but "de petits chats"
        return "de" if determiner == "some" and following.tag == "ADJ" else plural_form
    form = feminine if gender == "f" else masculine
    return _BEFORE_VOWEL.get(form, form) if begins_with_vowel(following.text) else form


def pronoun(english: str) -> NounPhrase:
    """Return a pronoun as a subject: I, we, he, she, or who in questions."""
    french, gender, plural, person = _PRONOUNS[english]
    phrase = pair(f"{english}/PRON", f"{french}/PRON")
    head = phrase.english[0]
    return NounPhrase(phrase.meaning_one(Pronoun(english, head, plural, person)), head, gender, plural, person)


def subject(
    draft: Draft,
    *groups: str,
    first_person: bool = False,
    plural: bool | None = None,
    determiners: Sequence[str] = ANY_DETERMINER,
) -> NounPhrase:
    """Draw a noun phrase from these groups or, if they include both men and women, sometimes a name or a pronoun."""
    if {"man", "woman"} <= set(categories(*groups)) and not plural and draft.chance(0.3):
        if draft.chance(0.4):
            name = draft.random.choice(list(NAMES))
            phrase = pair(f"{name}/PROPN", f"{name}/PROPN")
            head = phrase.english[0]
            return NounPhrase(phrase.meaning_one(Name(name, NAMES[name], head)), head, NAMES[name], plural=False)
        return pronoun(draft.random.choice(["I", "we", "he", "she"] if first_person else ["he", "she"]))
    return noun_phrase(draft, draw_noun(draft, *groups), plural, determiners)


def joined(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Join two phrases, as in "the cat and the mouse": plural, and masculine unless both are feminine."""
    joint = pair("and/CCONJ", "et/CCONJ")
    meant = Both(first.nominal, fixed(joint.english), second.nominal)
    phrase = (first.phrase + joint + second.phrase).meaning_one(meant)
    gender = "f" if first.gender == second.gender == "f" else "m"
    return NounPhrase(phrase, first.head, gender, plural=True, nouns=first.nouns + second.nouns)
