"""Chinese in the built-in corpus: no endings, but classifiers, 的 and 了, and descriptions before their nouns.

A relative clause stands before its noun, and places and times before the verb. Words are written without spaces.
"""

from __future__ import annotations

from saccade.data.grammar.languages.chinese_words import (
    ADJECTIVES,
    COLOURS,
    FIXED,
    NAMES,
    NOUNS,
    STATIVE,
    VERBS,
    WITHOUT_DE,
)
from saccade.data.grammar.languages.language import ANIMATE, PEOPLE, Language, noun_key, nouns_of, render
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
    Scared,
    VerbUse,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["Chinese"]

_POSSESSIVES = {"my": "我的", "his": "他的", "her": "她的", "our": "我们的"}
_COUNTED = {"this": "这", "a": "一", "two": "两", "three": "三"}
_MANY = {"these": "这些", "some": "一些"}
_PRONOUNS = {"I": "我", "we": "我们", "he": "他", "she": "她", "it": "它", "who": "谁"}
_MODALS = {"want": "想", "can": "能", "must": "必须"}
# before and after the noun
_PLACES = {
    "in": ("在", "里"),
    "near": ("在", "附近"),
    "behind": ("在", "后面"),
    "in front of": ("在", "前面"),
    "under": ("在", "下面"),
    "with": ("和", "一起"),
}
# (negation, tense) -> the words before the verb, and whether 过 follows it
_NEGATIONS = {
    ("not", "past"): ("没有/PART", False),
    ("not", "present"): ("不/PART", False),
    ("not", "future"): ("不/PART 会/AUX", False),
    ("never", "past"): ("从来/ADV 没有/PART", True),
    ("never", "present"): ("从来/ADV 不/PART", False),
    ("never", "future"): ("永远/ADV 不/PART 会/AUX", False),
}


class Chinese(Language):
    code, name = "zh", "Chinese"
    between = ""
    glued = "。，？"
    fixed = FIXED

    def nominal(self, nominal: Nominal) -> list[Rendering]:
        noun, classifier = NOUNS[noun_key(nominal.noun)]
        written = [] if nominal.relative is None else self.relative(nominal)
        key, words = nominal.determiner.key, nominal.determiner.words
        tag = words[0].tag
        person = nominal.noun.category in PEOPLE
        if key in _COUNTED:
            written += [Rendering(_COUNTED[key], tag, words), Rendering(classifier, "PART", words)]
        elif key in _MANY:
            written.append(Rendering(_MANY[key], tag, words))
        elif key in _POSSESSIVES:
            written.append(Rendering(_POSSESSIVES[key], tag, words))
        elif nominal.plural and not person:
            written.append(Rendering("那些", tag, words))
        # 奇怪的小猫: adjectives with 的 come before those without
        for quality in sorted(nominal.adjectives, key=lambda one: one.adjective in WITHOUT_DE):
            written += self.attribute(quality, nominal.noun.category)
        written.append(Rendering(noun, "NOUN", (nominal.head,)))
        if nominal.plural and person and key in ("the", *_POSSESSIVES):
            written.append(Rendering("们", "PART", (nominal.head,)))
        return written

    def attribute(self, quality: Quality, category: str) -> list[Rendering]:
        word = self.adjective(quality, [category])
        return [word] if quality.adjective in WITHOUT_DE else [word, Rendering("的", "PART", ())]

    def adjective(self, quality: Quality, categories: list[str]) -> Rendering:
        thing = not any(category in ANIMATE for category in categories)
        (form,) = ADJECTIVES["aged" if quality.adjective == "old" and thing else quality.adjective]
        return Rendering(form, "ADJ", (quality.word,))

    def entity(self, entity: Entity) -> list[Rendering]:
        if isinstance(entity, Nominal):
            return self.nominal(entity)
        if isinstance(entity, Both):
            return self.nominal(entity.first) + self.say(entity.joint) + self.nominal(entity.second)
        if isinstance(entity, Name):
            return [Rendering(NAMES[entity.text], "PROPN", (entity.head,))]
        return [Rendering(self.pronoun(entity), "PRON", (entity.head,))]

    def pronoun(self, pronoun: Pronoun) -> str:
        if pronoun.key != "they":
            return _PRONOUNS[pronoun.key]
        assert pronoun.noun is not None
        category = pronoun.noun.category
        return "她们" if category == "woman" else "他们" if category in PEOPLE else "它们"

    def relative(self, nominal: Nominal) -> list[Rendering]:
        """Write a relative clause before its noun: 猫吃的老鼠."""
        relative = nominal.relative
        assert relative is not None
        clause = relative.clause
        assert isinstance(clause.predicate, VerbUse)
        assert not isinstance(clause.subject, Fixed)
        marker = Rendering("的", "PART", relative.pronoun.words)
        if relative.of_object:
            main = Rendering(VERBS[clause.predicate.verb][0], "VERB", clause.predicate.main)
            return [*self.entity(clause.subject), main, marker]
        before, verb = self.verb(clause.predicate)
        return [*before, *verb, *self.entity_or_none(clause.object), marker]

    def entity_or_none(self, entity: Entity | None) -> list[Rendering]:
        return [] if entity is None else self.entity(entity)

    def adjunct(self, adjunct: Adjunct) -> list[Rendering]:
        if adjunct.entity is None:
            return self.say(adjunct.marker)
        noun, words = self.nominal(adjunct.entity), adjunct.marker.words
        if adjunct.verb is not None:
            verb = Rendering(VERBS[adjunct.verb.key][0], "VERB", adjunct.verb.words)
            if adjunct.kind == "after":
                return [verb, *noun, Rendering("之后", "ADP", words)]
            return [Rendering("为了", "ADP", words), verb, *noun]
        before, after = _PLACES[adjunct.marker.key]
        return [Rendering(before, "ADP", words), *noun, Rendering(after, "ADP", words)]

    def verb(self, use: VerbUse) -> tuple[list[Rendering], list[Rendering]]:
        """Return two lists of words: the negation and modifiers of a verb, which come before its places, and the verb
        itself with 了 or 过, which comes after them."""
        main = Rendering(VERBS[use.verb][0], "VERB", use.main)
        if use.modal is not None:
            return [Rendering(_MODALS[use.modal.key], "AUX", use.modal.words[:1])], [main]
        stative = use.verb in STATIVE
        if use.negation is not None:
            tense = "present" if use.tense == "past" and stative else use.tense
            before, experienced = _NEGATIONS[use.negation.key, tense]
            after = [Rendering("过", "PART", use.main)] if experienced else []
            return render(before, use.negation.words), [main, *after]
        if use.tense == "future":
            return [Rendering("会", "AUX", use.auxiliary)], [main]
        if use.tense == "past" and not stative:
            return [], [main, Rendering("了", "PART", use.main)]
        return self.say(use.frequency), [main]

    def clause(self, clause: Clause, after: str) -> list[Rendering]:
        front = [] if clause.fronted is None else [*self.adjunct(clause.fronted), Rendering("，", "PUNCT", ())]
        predicate = clause.predicate
        if isinstance(predicate, Identity):
            assert isinstance(clause.subject, Fixed)
            this = Rendering("这", "PRON", clause.subject.words)
            return [this, Rendering("是", "AUX", predicate.be), *self.nominal(predicate.nominal)]
        assert not isinstance(clause.subject, Fixed)
        subject = self.entity(clause.subject)
        if isinstance(predicate, Copula):
            return front + subject + self.described(predicate, clause.subject)
        if isinstance(predicate, Scared):
            afraid = Rendering("害怕", "VERB", (predicate.scared, predicate.of))
            return [*subject, afraid, *self.entity_or_none(clause.object)]
        return front + subject + self.action(clause, predicate)

    def action(self, clause: Clause, use: VerbUse) -> list[Rendering]:
        """Write times and places, then the verb and its object."""
        kinds = {adjunct.kind: adjunct for adjunct in clause.adjuncts}
        written = self.adjunct(kinds["time"]) if "time" in kinds else []
        written += self.say(clause.asking)
        before, verb = self.verb(use)
        for kind in ("after", "purpose"):
            written += self.adjunct(kinds[kind]) if kind in kinds else []
        written += before
        for kind in ("place", "manner"):
            written += self.adjunct(kinds[kind]) if kind in kinds else []
        written += verb
        for kind in ("taker", "goal"):
            entity = kinds[kind].entity if kind in kinds else None
            written += self.entity_or_none(entity)
        written += self.entity_or_none(clause.object)
        if clause.asked and clause.asking is None:
            written.append(Rendering("吗", "PART", use.auxiliary))
        return written

    def described(self, copula: Copula, subject: Entity) -> list[Rendering]:
        kinds = [noun.category for noun in nouns_of(subject)]
        written = self.judged(copula, copula.quality, kinds)
        if copula.contrast is None:
            return written
        joint, quality = copula.contrast
        plain = Copula(copula.tense, copula.be, quality)
        return [*written, *self.say(joint), *self.judged(plain, quality, kinds)]

    def judged(self, copula: Copula, quality: Quality, kinds: list[str]) -> list[Rendering]:
        """Write an adjective as a predicate: 很大, 不大, 非常大, 不太大; colours: 是黑色的."""
        adjective = self.adjective(quality, kinds)
        negation = copula.negation
        no = [] if negation is None else render(_NEGATIONS[negation.key, "present"][0], negation.words)
        if copula.degree is not None:
            very = "太/ADV" if negation is not None and copula.degree.key == "very" else FIXED[copula.degree.key]
            return [*no, *render(very, copula.degree.words), adjective]
        if quality.adjective in COLOURS or quality.adjective == "wounded":
            colour = [Rendering("色", "NOUN", (quality.word,))] if quality.adjective in COLOURS else []
            return [*no, Rendering("是", "AUX", copula.be), adjective, *colour, Rendering("的", "PART", ())]
        return [*no, adjective] if negation else [Rendering("很", "ADV", copula.be), adjective]
