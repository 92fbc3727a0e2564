"""The meaning of a sentence in the built-in corpus, independent of the target language.

The functions that draw a sentence write it in English and French (`phrase.py`). They also record its meaning as the
nodes below, from which every other language builds a sentence with its own order, genders and cases. Each node keeps
the English words that it stands for, so the alignment with English is known in every language.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from saccade.data.grammar.lexicon import Noun

__all__ = [
    "Adjunct",
    "Both",
    "Clause",
    "Copula",
    "Entity",
    "Fixed",
    "Identity",
    "Name",
    "Node",
    "Nominal",
    "Pronoun",
    "Quality",
    "Relative",
    "Scared",
    "VerbUse",
    "Word",
    "WordGroup",
    "gather",
]


@dataclass(frozen=True, eq=False)
class Word:
    """One English word. Words are compared by identity, because the same word can occur twice in a sentence."""

    text: str
    tag: str  # the universal part of speech


WordGroup = tuple[Word, ...]


@dataclass(frozen=True)
class Fixed:
    """Words that are translated as a unit: "because", "very", a comma. `key`, their English text, is the key of their
    translation in a language's table."""

    key: str
    words: WordGroup


@dataclass(frozen=True)
class Quality:
    """An adjective: the dictionary form of the English adjective, and the word in the English sentence."""

    adjective: str
    word: Word


@dataclass(frozen=True)
class Nominal:
    """A determiner, adjectives, a noun, and perhaps a relative clause."""

    determiner: Fixed
    adjectives: tuple[Quality, ...]
    noun: Noun
    head: Word
    plural: bool
    relative: Relative | None = None
    person: int = 3


@dataclass(frozen=True)
class Name:
    text: str
    gender: str  # "m" or "f"
    head: Word
    plural: bool = False
    person: int = 3


@dataclass(frozen=True)
class Pronoun:
    """A pronoun; `noun` is the noun that it refers to, if that noun decides its gender."""

    key: str
    head: Word
    plural: bool = False
    person: int = 3
    noun: Noun | None = None


@dataclass(frozen=True)
class Both:
    """Two phrases joined by "and"."""

    first: Nominal
    joint: Fixed
    second: Nominal
    plural: bool = True
    person: int = 3


Entity = Nominal | Name | Pronoun | Both


@dataclass(frozen=True)
class Adjunct:
    """An addition to a clause: a time, a manner, or a preposition with a phrase.

    `kind` is "time", "manner", "place", "goal" (to the market), "taker" (to the kids), "after" (after crossing the
    river) or "purpose" (to reach the bank). The last two have a verb, whose object is `entity`.
    """

    kind: str
    marker: Fixed
    entity: Nominal | None = None
    verb: Fixed | None = None


@dataclass(frozen=True)
class VerbUse:
    """A verb in its tense: the words of the verb and of its auxiliary, and its negation and modifiers."""

    verb: str
    tense: str  # "past", "present" or "future"
    main: WordGroup
    auxiliary: WordGroup = ()
    negation: Fixed | None = None
    frequency: Fixed | None = None
    modal: Fixed | None = None  # "want to", "can" or "must", before the infinitive


@dataclass(frozen=True)
class Copula:
    """The predicate "was not very good", and perhaps "but funny" after it."""

    tense: str
    be: WordGroup
    quality: Quality
    negation: Fixed | None = None
    degree: Fixed | None = None
    contrast: tuple[Fixed, Quality] | None = None


@dataclass(frozen=True)
class Identity:
    """The predicate "was a boring film", after "this"."""

    tense: str
    be: WordGroup
    nominal: Nominal


@dataclass(frozen=True)
class Scared:
    """The predicate "were scared of"; what is feared is the object of the clause."""

    be: WordGroup
    scared: Word
    of: Word


@dataclass(frozen=True)
class Clause:
    subject: Entity | Fixed
    predicate: VerbUse | Copula | Identity | Scared
    object: Entity | None = None
    adjuncts: tuple[Adjunct, ...] = ()
    fronted: Adjunct | None = None  # a time or a place that comes first, with a comma in English
    asked: bool = False
    asking: Fixed | None = None  # "where", "why" or "when"


@dataclass(frozen=True)
class Relative:
    """A relative clause, whose subject (or object, if `of_object`) is the noun that it describes."""

    pronoun: Fixed
    clause: Clause
    of_object: bool
    head: Nominal  # the noun that it describes, without this clause


Node = (
    Fixed
    | Nominal
    | Name
    | Pronoun
    | Both
    | Adjunct
    | VerbUse
    | Copula
    | Identity
    | Scared
    | Quality
    | Clause
    | Relative
)


def gather(nodes: Iterable[Node]) -> list[Clause | Fixed]:
    """Return the clauses with the conjunctions and punctuation marks between them, after moving each adjunct into the
    clause that it belongs to."""
    gathered: list[Clause | Fixed] = []
    fronted: Adjunct | None = None
    asking: Fixed | None = None
    for node in nodes:
        last = gathered[-1] if gathered else None
        if isinstance(node, Clause):
            gathered.append(replace(node, fronted=fronted, asking=asking))
            fronted = asking = None
        elif isinstance(node, Adjunct) and isinstance(last, Clause):
            gathered[-1] = replace(last, adjuncts=(*last.adjuncts, node))
        elif isinstance(node, Adjunct):
            fronted = node
        elif isinstance(node, Fixed) and node.key in ("where", "why", "when"):
            asking = node
        elif isinstance(node, Fixed):
            if not (node.key == "," and fronted is not None):
                gathered.append(node)
        elif isinstance(node, Quality):  # "was boring but funny": belongs to the predicate before it
            joint, clause = gathered.pop(), gathered.pop()
            assert isinstance(joint, Fixed)
            assert isinstance(clause, Clause)
            assert isinstance(clause.predicate, Copula)
            gathered.append(replace(clause, predicate=replace(clause.predicate, contrast=(joint, node))))
        else:
            raise AssertionError(f"{type(node).__name__} stands outside any clause")
    return gathered
