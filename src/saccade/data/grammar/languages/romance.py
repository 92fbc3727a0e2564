"""The grammar that Spanish and Italian share in the built-in corpus: subject, verb, object, and adjective agreement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from saccade.data.grammar.languages.language import PEOPLE, Language, gender_of, render
from saccade.data.grammar.meaning import (
    Adjunct,
    Both,
    Clause,
    Copula,
    Entity,
    Fixed,
    Identity,
    Name,
    Nominal,
    Pronoun,
    Quality,
    Relative,
    Scared,
    VerbUse,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["Romance"]


class Romance(Language):
    """What Spanish and Italian clauses have in common. A subject pronoun is left out if the verb or an adjective shows
    who is meant."""

    genders: Mapping[str, str]  # English noun -> "m" or "f"
    pronouns: Mapping[str, str]  # the subject pronouns that are written; all others are left out
    scared: tuple[str, str, str, str]  # was, were, scared, of
    relative_pronoun: str
    weeks: tuple[str, str, str]  # a week, the last one, the next one

    @abstractmethod
    def nominal(self, nominal: Nominal) -> list[Rendering]:
        """Write a noun phrase, without its relative clause."""

    @abstractmethod
    def verb(self, use: VerbUse, subject: Entity) -> list[Rendering]:
        """Write a verb in its tense, with its negation and adverb of frequency."""

    @abstractmethod
    def be(self, copula: Copula | Identity, plural: bool) -> Rendering:
        """Write the form of "be" that translates "was", "were", "is" or "are"."""

    @abstractmethod
    def negated(self, copula: Copula, be: Rendering) -> list[Rendering]:
        """Write this form of "be" with the negation of the clause, if it has one."""

    @abstractmethod
    def agreeing(self, quality: Quality, gender: str, plural: bool) -> Rendering:
        """Write an adjective in this gender and number, which are those of its noun."""

    @abstractmethod
    def with_verb(self, adjunct: Adjunct) -> list[Rendering]:
        """Write the beginning of an adjunct such as "after crossing the river" or "to reach the bank", without the
        noun phrase."""

    @abstractmethod
    def question(self, clause: Clause) -> list[Rendering]:
        """Write a question."""

    def gender(self, entity: Entity) -> str:
        return gender_of(entity, self.genders)

    def entity(self, entity: Entity) -> list[Rendering]:
        if isinstance(entity, Nominal):
            written = self.nominal(entity)
            return written + self.relative(entity.relative) if entity.relative else written
        if isinstance(entity, Both):
            return self.nominal(entity.first) + self.say(entity.joint) + self.nominal(entity.second)
        if isinstance(entity, Name):
            return [Rendering(entity.text, "PROPN", (entity.head,))]
        return render(self.pronouns[entity.key], (entity.head,)) if entity.key in self.pronouns else []

    def relative(self, relative: Relative) -> list[Rendering]:
        pronoun = [Rendering(self.relative_pronoun, "PRON", relative.pronoun.words)]
        clause = relative.clause
        assert isinstance(clause.predicate, VerbUse)
        assert not isinstance(clause.subject, Fixed)
        if relative.of_object:
            return pronoun + self.entity(clause.subject) + self.verb(clause.predicate, clause.subject)
        return pronoun + self.verb(clause.predicate, clause.subject) + self.object(clause.object)

    def object(self, entity: Entity | None) -> list[Rendering]:
        """Write the direct object of a clause; nothing if it is None."""
        return [] if entity is None else self.entity(entity)

    def is_person(self, entity: Entity) -> bool:
        return isinstance(entity, Name) or (isinstance(entity, Nominal) and entity.noun.category in PEOPLE)

    def adjunct(self, adjunct: Adjunct) -> list[Rendering]:
        if adjunct.marker.key in ("last week", "next week"):  # la semana pasada, la settimana scorsa
            noun, last, following = self.weeks
            which, week = adjunct.marker.words
            form = last if which.text == "last" else following
            return [*render(f"la/DET {noun}/NOUN", (week,)), Rendering(form, "ADJ", (which,))]
        if adjunct.verb is not None:
            return self.with_verb(adjunct) + self.object(adjunct.entity)
        return self.say(adjunct.marker) + (self.entity(adjunct.entity) if adjunct.entity else [])

    def clause(self, clause: Clause, after: str) -> list[Rendering]:
        front = [] if clause.fronted is None else self.adjunct(clause.fronted) + self.comma(clause)
        if clause.asked or (isinstance(clause.subject, Pronoun) and clause.subject.key == "who"):
            return self.question(clause)
        return front + self.statement(clause)

    def comma(self, clause: Clause) -> list[Rendering]:
        return [Rendering(",", "PUNCT", ())]

    def statement(self, clause: Clause) -> list[Rendering]:
        if isinstance(clause.predicate, Identity):
            return self.identity(clause, clause.predicate)
        assert not isinstance(clause.subject, Fixed)
        subject = self.entity(clause.subject)
        if isinstance(clause.predicate, Copula):
            return subject + self.copula(clause.subject, clause.predicate)
        if isinstance(clause.predicate, Scared):
            was, were, afraid, of = self.scared
            scared = clause.predicate
            subject += [
                Rendering(were if clause.subject.plural else was, "VERB", scared.be),
                Rendering(afraid, "NOUN", (scared.scared,)),
                Rendering(of, "ADP", (scared.of,)),
            ]
            assert clause.object is not None
            return subject + self.entity(clause.object)
        return subject + self.verb(clause.predicate, clause.subject) + self.rest(clause)

    def rest(self, clause: Clause) -> list[Rendering]:
        """Write the object and the adjuncts, which follow the verb."""
        adjuncts = sorted(clause.adjuncts, key=lambda adjunct: adjunct.kind != "manner")
        return self.object(clause.object) + [word for adjunct in adjuncts for word in self.adjunct(adjunct)]

    def copula(self, subject: Entity, copula: Copula) -> list[Rendering]:
        gender, plural = self.gender(subject), subject.plural
        written = self.negated(copula, self.be(copula, plural)) + self.say(copula.degree)
        written.append(self.agreeing(copula.quality, gender, plural))
        if copula.contrast:
            joint, quality = copula.contrast
            written += [*self.say(joint), self.agreeing(quality, gender, plural)]
        return written

    def identity(self, clause: Clause, identity: Identity) -> list[Rendering]:
        assert isinstance(clause.subject, Fixed)
        this = self.this(self.gender(identity.nominal))
        return [
            Rendering(this, "PRON", clause.subject.words),
            self.be(identity, False),
            *self.nominal(identity.nominal),
        ]

    @abstractmethod
    def this(self, gender: str) -> str:
        """Return the pronoun that translates "this" in "this was a film", in the gender of the noun."""
