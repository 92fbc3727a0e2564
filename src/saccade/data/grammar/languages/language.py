"""The base class of all languages of the built-in corpus except English and French: they build a sentence from its
meaning (`meaning.py`).

A language defines how to build a noun phrase and a clause, and what stands between clauses. Every word of the
translation is stored with the English words that it translates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from saccade.data.grammar.lexicon import BANK_WATER, GROUPS, Noun
from saccade.data.grammar.meaning import Both, Clause, Entity, Fixed, Name, Node, Nominal, Pronoun, Word, gather
from saccade.data.grammar.phrase import Rendering, detokenise

__all__ = [
    "ANIMATE",
    "PEOPLE",
    "Language",
    "entries",
    "gender_of",
    "heads",
    "noun_key",
    "nouns_of",
    "render",
]

#: The categories of nouns for people, and for people and animals. Those who go to the bank are people too.
PEOPLE = frozenset({*GROUPS["people"], "customer", "fisherman"})
ANIMATE = PEOPLE | frozenset(GROUPS["animals"])


class Language(ABC):
    """One language of the corpus; a subclass writes its noun phrases and clauses."""

    code: str
    name: str  # the English name of the language, which is also its tag in the multilingual corpus
    between = " "  # what separates two words
    glued = ".,?"  # the marks that follow a word without a space
    opening = ""  # the marks that are followed by a word without a space
    #: Conjunctions, adverbs and marks: English -> words with tags, such as "porque/SCONJ"
    fixed: Mapping[str, str]

    def render(self, nodes: Iterable[Node]) -> tuple[Rendering, ...]:
        """Return the words of the sentence that these nodes of a meaning stand for."""
        written: list[Rendering] = []
        after = ""
        for node in gather(nodes):
            if isinstance(node, Fixed):
                written += self.say(node)
                after = node.key
            else:
                written += self.clause(node, after)
        return tuple(self.settle(written))

    @abstractmethod
    def clause(self, clause: Clause, after: str) -> list[Rendering]:
        """Write a clause. `after` is the conjunction or mark before the clause in English, or empty."""

    def settle(self, written: list[Rendering]) -> list[Rendering]:
        """Apply the rules that depend only on neighbouring words, such as contractions."""
        return written

    def say(self, fixed: Fixed | None) -> list[Rendering]:
        """Return the translation of a fixed expression, such as "because", from this language's table `fixed`; empty
        for None."""
        return [] if fixed is None else render(self.fixed[fixed.key], fixed.words)

    def written(self, tokens: tuple[str, ...]) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the text that these words make up, and the first character, and one past the last, of each word."""
        return detokenise(tokens, self.glued, self.opening, self.between)


def render(text: str, sources: Sequence[Word]) -> list[Rendering]:
    """Parse words with their tags, such as "porque/SCONJ", and align them with the English words that they translate.

    If there are as many words as English words, they are aligned one to one, otherwise each with all English words.
    """
    words = [item.rsplit("/", 1) for item in text.split()]
    each = [(word,) for word in sources] if len(words) == len(sources) else [tuple(sources)] * len(words)
    return [Rendering(text, tag, of) for (text, tag), of in zip(words, each, strict=True)]


def noun_key(noun: Noun) -> str:
    """Return the key of a noun in a language's tables: its English word, or "riverbank" for the bank of a river."""
    return "riverbank" if noun is BANK_WATER else noun.english


def nouns_of(entity: Entity) -> list[Noun]:
    if isinstance(entity, Both):
        return [entity.first.noun, entity.second.noun]
    if isinstance(entity, Nominal):
        return [entity.noun]
    return [entity.noun] if isinstance(entity, Pronoun) and entity.noun is not None else []


def heads(entity: Entity) -> tuple[Word, ...]:
    """Return the English nouns, names or pronouns of an entity, without determiners and adjectives. A pronoun that is
    added in a translation, because the entity is mentioned again, is aligned with them."""
    return (entity.first.head, entity.second.head) if isinstance(entity, Both) else (entity.head,)


def gender_of(entity: Entity, genders: Mapping[str, str]) -> str:
    """Return the gender of an entity. Two phrases joined by "and" are feminine only if both are feminine."""
    if isinstance(entity, Name):
        return entity.gender
    found = {genders[noun_key(noun)] for noun in nouns_of(entity)}
    if found:
        return "f" if found == {"f"} else "m" if len(found) > 1 else next(iter(found))
    return "f" if isinstance(entity, Pronoun) and entity.key == "she" else "m"


def entries(table: str) -> dict[str, list[str]]:
    """Parse a table such as "cat gato m, dog perro m"; return a list such as ["gato", "m"] for each English word. An
    underscore stands for a space."""
    read = (entry.split() for entry in table.replace("\n", ",").split(",") if entry.strip())
    return {english.replace("_", " "): [form.replace("_", " ") for form in forms] for english, *forms in read}
