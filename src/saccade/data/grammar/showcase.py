"""The sentences of the built-in corpus that demonstrations and the documentation show. They are fixed, not drawn at
random."""

from __future__ import annotations

from collections.abc import Callable

from saccade.data.grammar.clauses import statement, verb_group
from saccade.data.grammar.lexicon import ADJECTIVES, BANK_MONEY, BANK_WATER, NOUNS, TRANSITIVE, Noun
from saccade.data.grammar.links import arrived_after_crossing, bank_phrase, because, scared_of, so_they
from saccade.data.grammar.nouns import Draft, NounPhrase, noun_phrase, pronoun
from saccade.data.grammar.phrase import Phrase, pair

__all__ = ["SHOWCASE"]

_NOUNS = {noun.english: noun for nouns in NOUNS.values() for noun in nouns}


def _the(draft: Draft, noun: Noun, *adjectives: str, plural: bool = False) -> NounPhrase:
    return noun_phrase(draft, noun, plural, ("the",), [ADJECTIVES[name] for name in adjectives])


def _ate(draft: Draft, eater: NounPhrase, eaten: NounPhrase) -> Phrase:
    draft.combinations.append(("verb", "eat", eaten.nouns[0].english))
    return statement(eater, verb_group(TRANSITIVE["eat"], eater, "past"), eaten.phrase)


def _black_cat(draft: Draft) -> Phrase:
    """Build: The black cat ate the mouse."""
    cat, mouse = _the(draft, _NOUNS["cat"], "black"), _the(draft, _NOUNS["mouse"])
    return _ate(draft, cat, mouse) + pair("./PUNCT", "./PUNCT")


def _hungry(draft: Draft) -> Phrase:
    """Build: The cat ate the mouse because it was hungry."""
    cat, mouse = _the(draft, _NOUNS["cat"]), _the(draft, _NOUNS["mouse"])
    return _ate(draft, cat, mouse) + because(draft, cat, "hungry") + pair("./PUNCT", "./PUNCT")


def _slow(draft: Draft) -> Phrase:
    """Build: The cat ate the mouse because it was slow."""
    cat, mouse = _the(draft, _NOUNS["cat"]), _the(draft, _NOUNS["mouse"])
    return _ate(draft, cat, mouse) + because(draft, mouse, "slow") + pair("./PUNCT", "./PUNCT")


def _lions(draft: Draft) -> Phrase:
    """Build: The kids were scared of the lions, so they left right away."""
    kids, lions = _the(draft, _NOUNS["kid"], plural=True), _the(draft, _NOUNS["lion"], plural=True)
    reaction = so_they(draft, kids, "leave", right_away=True)
    return scared_of(draft, kids, lions) + reaction + pair("./PUNCT", "./PUNCT")


def _arrived(draft: Draft, bank: Noun, crossed: str) -> Phrase:
    cue = _the(draft, _NOUNS[crossed])
    at_bank = bank_phrase(draft, _the(draft, bank), cue, "arrive at")
    return arrived_after_crossing(draft, pronoun("I"), at_bank, cue) + pair("./PUNCT", "./PUNCT")


def _street(draft: Draft) -> Phrase:
    """Build: I arrived at the bank after crossing the street."""
    return _arrived(draft, BANK_MONEY, "street")


def _river(draft: Draft) -> Phrase:
    """Build: I arrived at the bank after crossing the river."""
    return _arrived(draft, BANK_WATER, "river")


# kind, sentence
SHOWCASE: tuple[tuple[str, Callable[[Draft], Phrase]], ...] = (
    ("statement", _black_cat),
    ("pronoun", _hungry),
    ("pronoun", _slow),
    ("pronoun", _lions),
    ("bank", _street),
    ("bank", _river),
)
