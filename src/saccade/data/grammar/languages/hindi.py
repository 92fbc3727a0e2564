"""Hindi in the built-in corpus: the verb comes last, and postpositions follow nouns in the oblique case.

In the past tense, the subject of most transitive verbs takes ne. The verb then agrees with the object, or with nothing
(masculine singular) if ko follows the object.
"""

from __future__ import annotations

from dataclasses import dataclass

from saccade.data.grammar.languages.hindi_words import ADJECTIVES, FIXED, NAMES, NOUNS, VERBS
from saccade.data.grammar.languages.language import ANIMATE, PEOPLE, Language, gender_of, noun_key, nouns_of, render
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
    Quality,
    Relative,
    Scared,
    VerbUse,
    WordGroup,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["Hindi"]

_GENDERS = {english: forms[1] for english, forms in NOUNS.items()}
_INDEFINITE = ("a", "some", "two", "three")
_POSSESSIVES = {"my": "मेरा", "his": "उसका", "her": "उसका", "our": "हमारा"}
# direct, oblique
_DEMONSTRATIVES = {"this": ("यह", "इस"), "these": ("ये", "इन")}
_THE_ONE = {False: ("वह", "उस"), True: ("वे", "उन")}  # "the" before a relative clause, by plural
_OTHER_DETERMINERS = {"a": "एक", "some": "कुछ", "two": "दो", "three": "तीन"}
# English pronoun -> direct, with ne, with ko
_PRONOUNS = {
    "I": ("मैं", "मैंने", "मुझे"),
    "we": ("हम", "हमने", "हमें"),
    "he": ("वह", "उसने", "उसे"),
    "she": ("वह", "उसने", "उसे"),
    "it": ("वह", "उसने", "उसे"),
    "they": ("वे", "उन्होंने", "उन्हें"),
    "who": ("कौन", "किसने", "किसे"),
}
# what follows the object of a verb -> the relative pronoun with it, singular and plural
_RELATIVES = {
    "के पीछे": ("जिसके/PRON पीछे/ADP", "जिनके/PRON पीछे/ADP"),
    "का": ("जिसका/PRON", "जिनका/PRON"),
    "की": ("जिसकी/PRON", "जिनकी/PRON"),
    "से": ("जिससे/PRON", "जिनसे/PRON"),
    "तक": ("जिस/PRON तक/ADP", "जिन/PRON तक/ADP"),
    "को": ("जिसे/PRON", "जिन्हें/PRON"),
    "": ("जो/PRON", "जो/PRON"),
}
# the past of verbs that are irregular: masculine, masculine plural, feminine, feminine plural
_PERFECTIVES = {
    "कर": "किया किए की कीं",
    "ले": "लिया लिए ली लीं",
    "दे": "दिया दिए दी दीं",
    "पी": "पिया पिए पी पीं",
    "जा": "गया गए गई गईं",
}
_VOWEL_SIGNS = "ािीुूृेैोौ"
_WAS = {("m", False): "था", ("m", True): "थे", ("f", False): "थी", ("f", True): "थीं"}


def _decline(word: str, gender: str, plural: bool, oblique: bool, unchanged: bool) -> str:
    """Return a noun in its number and case."""
    last, stem = word[-1], word[:-1]
    if last in "ीि":
        stem = stem + "ि"
        forms = ("याँ" if gender == "f" else None, "यों")
    elif last == "ई":
        stem, forms = stem + "इ", ("याँ" if gender == "f" else None, "यों")
    elif word.endswith("िया") and gender == "f":
        stem, forms = word[:-1], ("ाँ", "ों")
    elif last in "ाआ" and gender == "m" and not unchanged:
        signs = ("े", "ों") if last == "ा" else ("ए", "ओं")
        return stem + (signs[1] if plural and oblique else signs[0]) if plural or oblique else word
    elif last == "ू":
        stem, forms = stem + "ु", ("एँ" if gender == "f" else None, "ओं")
    elif last == "ा":
        stem, forms = word, ("एँ" if gender == "f" else None, "ओं")
    else:
        stem, forms = word, ("ें" if gender == "f" else None, "ों")
    if not plural:
        return word
    ending = forms[oblique]
    return word if ending is None else stem + ending


def _ends_in_vowel(stem: str) -> bool:
    return stem[-1] in _VOWEL_SIGNS or stem[-1] in "आओएईऊ"


def _perfective(stem: str, gender: str, plural: bool) -> str:
    index = 2 * (gender == "f") + plural
    if stem in _PERFECTIVES:
        return _PERFECTIVES[stem].split()[index]
    endings = ("या", "ए", "ई", "ईं") if _ends_in_vowel(stem) else ("ा", "े", "ी", "ीं")
    return stem + endings[index]


def _future(stem: str, gender: str, plural: bool) -> str:
    last = "गी" if gender == "f" else "गे" if plural else "गा"
    if stem in ("ले", "दे"):
        return stem + ("ं" if plural else "") + last
    if stem == "पी":
        stem = "पि"
    vowel = ("एँ" if plural else "ए") if _ends_in_vowel(stem) else ("ें" if plural else "े")
    return stem + vowel + last


def _agreeing(form: str, gender: str, plural: bool, oblique: bool = False) -> str:
    """Return an adjective, a possessive or a participle; if it ends in -ā, it agrees in gender, number and case."""
    if form[-1] != "ा" or form in ("ताज़ा", "घटिया"):
        return form
    if form == "नया":
        return "नई" if gender == "f" else "नए" if plural or oblique else form
    return form[:-1] + ("ी" if gender == "f" else "े" if plural or oblique else "ा")


@dataclass(frozen=True)
class _Verb:
    """The parts of a verb, and the postposition of its object."""

    before: str  # the noun or particle before the verb, which belongs to it
    stem: str
    after_object: str  # the postposition of its object, or empty
    own_gender: str  # that of the noun before the verb, if the verb agrees with it
    takes_ne: bool


def _verb(english: str) -> _Verb:
    first, *rest = VERBS[english]
    before, _, stem = first.rpartition("+")
    takes_ne, own = "n" not in rest, "".join(mark[1:] for mark in rest if mark.startswith("="))
    post = [mark for mark in rest if mark not in ("-", "n") and not mark.startswith("=")]
    return _Verb(before, stem, post[0] if post else "", own, takes_ne)


class Hindi(Language):
    code, name = "hi", "Hindi"
    glued = "।,?"
    fixed = FIXED

    def gender(self, entity: Entity) -> str:
        return gender_of(entity, _GENDERS)

    def nominal(self, nominal: Nominal, oblique: bool) -> list[Rendering]:
        noun, gender, *unchanged = NOUNS[noun_key(nominal.noun)]
        plural, key, words = nominal.plural, nominal.determiner.key, nominal.determiner.words
        if key in _POSSESSIVES:
            determiner = _agreeing(_POSSESSIVES[key], gender, plural, oblique)
        elif key in _DEMONSTRATIVES:
            determiner = _DEMONSTRATIVES[key][oblique]
        elif key == "the":
            determiner = _THE_ONE[plural][oblique] if nominal.relative else ""
        else:
            determiner = _OTHER_DETERMINERS[key]
        written = [Rendering(determiner, words[0].tag, words)] if determiner else []
        for quality in nominal.adjectives:
            written.append(self.quality(quality, [nominal.noun.category], gender, plural, oblique))
        form = _decline(noun, gender, plural, oblique, bool(unchanged))
        return [*written, Rendering(form, "NOUN", (nominal.head,))]

    def quality(
        self, quality: Quality, categories: list[str], gender: str, plural: bool, oblique: bool = False
    ) -> Rendering:
        thing = not any(category in ANIMATE for category in categories)
        (form,) = ADJECTIVES["aged" if quality.adjective == "old" and thing else quality.adjective]
        return Rendering(_agreeing(form, gender, plural, oblique), "ADJ", (quality.word,))

    def entity(self, entity: Entity, oblique: bool = False) -> list[Rendering]:
        if isinstance(entity, Nominal):
            return self.nominal(entity, oblique)
        if isinstance(entity, Both):
            return self.nominal(entity.first, oblique) + self.say(entity.joint) + self.nominal(entity.second, oblique)
        if isinstance(entity, Name):
            return [Rendering(NAMES[entity.text], "PROPN", (entity.head,))]
        return [Rendering(_PRONOUNS[entity.key][0], "PRON", (entity.head,))]

    def marked(self, entity: Entity, marker: str) -> list[Rendering]:
        """Write a noun phrase, name or pronoun with the postposition ne or ko, which form one word with a pronoun."""
        if isinstance(entity, (Nominal, Both, Name)):
            return [*self.entity(entity, oblique=True), Rendering(marker, "ADP", ())]
        return [Rendering(_PRONOUNS[entity.key][1 if marker == "ने" else 2], "PRON", (entity.head,))]

    def takes_ko(self, entity: Entity) -> bool:
        """Return whether ko follows an object: it always follows people, animals only if they are definite, and things
        never."""
        if not isinstance(entity, Nominal):
            return True
        category = entity.noun.category
        return category in PEOPLE or (category in ANIMATE and entity.determiner.key not in _INDEFINITE)

    def object(self, entity: Entity | None, verb: _Verb) -> list[Rendering]:
        if entity is None:
            return []
        if verb.after_object:
            post = [Rendering(word, "ADP", ()) for word in verb.after_object.split()]
            return self.entity(entity, oblique=True) + post
        return self.marked(entity, "को") if self.takes_ko(entity) else self.entity(entity)

    def adjunct(self, adjunct: Adjunct) -> list[Rendering]:
        if adjunct.entity is None:
            return self.say(adjunct.marker)
        noun = self.nominal(adjunct.entity, oblique=True)
        if adjunct.kind == "goal":  # बाज़ार गया: the oblique case alone, but खेतों में
            return [*noun, Rendering("में", "ADP", adjunct.marker.words)] if adjunct.entity.plural else noun
        if adjunct.kind == "taker":
            return [*noun, Rendering("को", "ADP", adjunct.marker.words)]
        if adjunct.verb is not None:  # नदी पार करने के बाद
            verb = _verb(adjunct.verb.key)
            written = self.object(adjunct.entity, verb)
            written += self.verb_words(verb, verb.stem + "ने", adjunct.verb.words)
            return written + render(f"के/ADP {'बाद' if adjunct.kind == 'after' else 'लिए'}/ADP", adjunct.marker.words)
        return noun + self.say(adjunct.marker)

    def verb_words(self, verb: _Verb, form: str, sources: WordGroup) -> list[Rendering]:
        before = [Rendering(verb.before, "NOUN", sources)] if verb.before else []
        return [*before, Rendering(form, "VERB", sources)]

    def clause(self, clause: Clause, after: str) -> list[Rendering]:
        front = [] if clause.fronted is None else [*self.adjunct(clause.fronted), Rendering(",", "PUNCT", ())]
        predicate = clause.predicate
        if isinstance(predicate, Identity):
            assert isinstance(clause.subject, Fixed)
            gender = self.gender(predicate.nominal)
            be = Rendering(self.be(predicate.tense, gender, False), "AUX", predicate.be)
            return [Rendering("यह", "PRON", clause.subject.words), *self.nominal(predicate.nominal, False), be]
        assert not isinstance(clause.subject, Fixed)
        if isinstance(predicate, Copula):
            return front + self.subject(clause.subject) + self.described(predicate, clause.subject)
        if isinstance(predicate, Scared):
            return self.afraid(clause, predicate)
        asked = [] if clause.asking or not clause.asked else [Rendering("क्या", "PART", predicate.auxiliary)]
        return front + asked + self.action(clause, predicate)

    def subject(self, entity: Entity) -> list[Rendering]:
        """Write a subject in the direct case, with its relative clause between commas."""
        written = self.entity(entity)
        if isinstance(entity, Nominal) and entity.relative is not None:
            comma = Rendering(",", "PUNCT", ())
            return [*written, comma, *self.relative(entity), comma]
        return written

    def relative(self, nominal: Nominal) -> list[Rendering]:
        relative = nominal.relative
        assert relative is not None
        clause = relative.clause
        assert isinstance(clause.predicate, VerbUse)
        return self.action(clause, clause.predicate, relative)

    def action(self, clause: Clause, use: VerbUse, relative: Relative | None = None) -> list[Rendering]:
        """Write a clause in the order subject, times and places, object, verb. In a relative clause, the relative
        pronoun replaces the subject or the object."""
        subject, verb = clause.subject, _verb(use.verb)
        assert not isinstance(subject, Fixed)
        written = self.agent(subject, use, verb, relative)
        if relative is not None and relative.of_object:
            written = [*self.relative_object(relative, verb), *written]
        kinds = {adjunct.kind: adjunct for adjunct in clause.adjuncts}
        written += self.say(use.frequency)
        for kind in ("time", "after", "purpose", "place", "taker"):
            written += self.adjunct(kinds[kind]) if kind in kinds else []
        written += self.object(clause.object, verb)
        for kind in ("goal", "manner"):
            written += self.adjunct(kinds[kind]) if kind in kinds else []
        written += self.say(clause.asking)
        agreed = self.agreement(clause, use, verb, relative)
        written += self.verb_group(use, verb, agreed, subject)
        if isinstance(clause.object, Nominal) and clause.object.relative is not None:
            written += self.relative(clause.object)
        return written

    def agent(self, subject: Entity, use: VerbUse, verb: _Verb, relative: Relative | None) -> list[Rendering]:
        must = use.modal is not None and use.modal.key == "must"
        ergative = use.modal is None and use.tense == "past" and verb.takes_ne
        if relative is not None and not relative.of_object:
            form = ("जिन्होंने" if subject.plural else "जिसने") if ergative else "जो"
            return [Rendering(form, "PRON", relative.pronoun.words)]
        if must or ergative:
            return self.marked(subject, "को" if must else "ने")
        return self.entity(subject)

    def relative_object(self, relative: Relative, verb: _Verb) -> list[Rendering]:
        head = relative.head
        post = verb.after_object or ("को" if self.takes_ko(head) else "")
        return render(_RELATIVES[post][head.plural], relative.pronoun.words)

    def agreement(self, clause: Clause, use: VerbUse, verb: _Verb, relative: Relative | None) -> tuple[str, bool]:
        """Return the gender and number of the verb: those of the subject or, after ne, of an object without ko."""
        subject = clause.subject
        assert not isinstance(subject, Fixed)
        must = use.modal is not None and use.modal.key == "must"
        if not must and not (use.modal is None and use.tense == "past" and verb.takes_ne):
            return self.gender(subject), subject.plural
        if verb.own_gender:
            return verb.own_gender, False
        thing = relative.head if relative is not None and relative.of_object else clause.object
        if thing is None or verb.after_object or self.takes_ko(thing):
            return "m", False
        return self.gender(thing), thing.plural

    def verb_group(self, use: VerbUse, verb: _Verb, agreed: tuple[str, bool], subject: Entity) -> list[Rendering]:
        gender, plural = agreed
        negation = self.say(use.negation)  # कभी प्यार नहीं करती: around the noun before the verb
        before = [*negation[:-1], *([Rendering(verb.before, "NOUN", use.main)] if verb.before else []), *negation[-1:]]
        is_are = "हैं" if plural else "है"
        habit = "ती" if gender == "f" else "ते" if plural else "ता"
        if use.modal is not None:
            sources, key = use.modal.words[:1], use.modal.key
            if key == "must":  # the infinitive agrees: चाबी ख़रीदनी है
                ending = "नी" if gender == "f" else "ने" if plural else "ना"
                return [*before, Rendering(verb.stem + ending, "VERB", use.main), Rendering(is_are, "AUX", sources)]
            main = Rendering(verb.stem + ("ना" if key == "want" else ""), "VERB", use.main)
            finite = ("चाह" if key == "want" else "सक") + habit
            return [*before, main, Rendering(finite, "AUX", sources), Rendering(is_are, "AUX", sources)]
        if use.tense == "past":
            return [*before, Rendering(_perfective(verb.stem, gender, plural), "VERB", use.main)]
        if use.tense == "future":
            return [*before, Rendering(_future(verb.stem, gender, plural), "VERB", use.auxiliary + use.main)]
        return [*before, Rendering(verb.stem + habit, "VERB", use.main), Rendering(is_are, "AUX", use.main)]

    def be(self, tense: str, gender: str, plural: bool) -> str:
        return _WAS[gender, plural] if tense == "past" else "हैं" if plural else "है"

    def described(self, copula: Copula, subject: Entity) -> list[Rendering]:
        gender, plural = self.gender(subject), subject.plural
        kinds = [noun.category for noun in nouns_of(subject)]
        negation = self.say(copula.negation)
        never, no = negation[:-1], negation[-1:]
        written = [*never, *self.say(copula.degree), self.quality(copula.quality, kinds, gender, plural), *no]
        be = Rendering(self.be(copula.tense, gender, plural), "AUX", copula.be)
        if copula.contrast is None:
            return [*written, be]
        joint, quality = copula.contrast
        return [*written, *self.say(joint), self.quality(quality, kinds, gender, plural), be]

    def afraid(self, clause: Clause, scared: Scared) -> list[Rendering]:
        """Write a clause such as "the kids were scared of the lions": बच्चे शेरों से डरते थे."""
        assert not isinstance(clause.subject, Fixed)
        assert clause.object is not None
        gender, plural = self.gender(clause.subject), clause.subject.plural
        habit = "ती" if gender == "f" else "ते" if plural else "ता"
        return [
            *self.entity(clause.subject),
            *self.entity(clause.object, oblique=True),
            Rendering("से", "ADP", (scared.of,)),
            Rendering("डर" + habit, "VERB", (scared.scared,)),
            Rendering(_WAS[gender, plural], "AUX", scared.be),
        ]
