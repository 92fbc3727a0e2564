"""German in the built-in corpus: three genders and three cases; the finite verb comes second in a main clause, and the
other parts of the verb come last."""

from __future__ import annotations

from saccade.data.grammar.languages.german_words import ADJECTIVES, FIXED, MODALS, NOUNS, VERBS
from saccade.data.grammar.languages.language import PEOPLE, Language, heads, noun_key, nouns_of
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
    Scared,
    VerbUse,
)
from saccade.data.grammar.phrase import Rendering

__all__ = ["German"]

_COLUMN = {"m": 0, "f": 1, "n": 2}  # the plural is column 3
_THE = {"nominative": "der die das die", "accusative": "den die das die", "dative": "dem der dem den"}
_RELATIVE = {"nominative": "der die das die", "accusative": "den die das die", "dative": "dem der dem denen"}
# the endings of "dies-", and of "ein-" and "mein-" with no ending ("-") in three places
_STRONG = {"nominative": "er e es e", "accusative": "en e es e", "dative": "em er em en"}
_MIXED = {"nominative": "- e - e", "accusative": "en e - e", "dative": "em er em en"}
# the endings of adjectives after "der", after "ein", and after a number
_AFTER_THE = {"nominative": "e e e en", "accusative": "en e e en", "dative": "en en en en"}
_AFTER_A = {"nominative": "er e es en", "accusative": "en e es en", "dative": "en en en en"}
_AFTER_NUMBER = {"nominative": "- - - e", "accusative": "- - - e", "dative": "- - - en"}
_STEMS = {"this": "dies", "these": "dies", "a": "ein", "my": "mein", "his": "sein", "her": "ihr", "our": "unser"}
_NUMBERS = {"two": "zwei", "three": "drei"}
_PRONOUNS = {"I": "ich", "we": "wir", "he": "er", "she": "sie", "they": "sie", "who": "wer"}
_BY_GENDER = {"m": "er", "f": "sie", "n": "es"}
_HAVE = {(False, 3): "hat", (True, 3): "haben", (False, 1): "habe", (True, 1): "haben"}
_BE = {(False, 3): "ist", (True, 3): "sind", (False, 1): "bin", (True, 1): "sind"}
_WAS = {"past": ("war", "waren"), "present": ("ist", "sind")}
_CONTRACTED = {("in", "dem"): "im", ("an", "dem"): "am", ("zu", "dem"): "zum", ("zu", "der"): "zur"}
_COMMA = Rendering(",", "PUNCT", ())


class German(Language):
    code, name = "de", "German"
    fixed = FIXED

    def nominal(self, nominal: Nominal, case: str) -> list[Rendering]:
        forms, gender, *weak = NOUNS[noun_key(nominal.noun)]
        singular, plural = forms.split("/")
        column = 3 if nominal.plural else _COLUMN[gender]
        noun = plural if nominal.plural else singular
        if nominal.plural and case == "dative" and noun[-1] not in "ns":
            noun += "n"
        elif weak and not nominal.plural and case != "nominative":
            noun += "n" if noun[-1] == "e" or noun in ("Bauer", "Nachbar") else "en"
        determiner, endings = self.determiner(nominal.determiner.key, case, column)
        written = [Rendering(determiner, nominal.determiner.words[0].tag, nominal.determiner.words)]
        for quality in nominal.adjectives:
            (adjective,) = ADJECTIVES[quality.adjective]
            form = adjective.removesuffix("e") + endings[case].split()[column]
            written.append(Rendering(form, "ADJ", (quality.word,)))
        return [*written, Rendering(noun, "NOUN", (nominal.head,))]

    def determiner(self, key: str, case: str, column: int) -> tuple[str, dict[str, str]]:
        """Return a determiner, and the endings of the adjectives after it, by case."""
        if key in _NUMBERS:
            return _NUMBERS[key], _AFTER_NUMBER
        if key == "some":
            return "einigen" if case == "dative" else "einige", _AFTER_NUMBER
        if key == "the":
            return _THE[case].split()[column], _AFTER_THE
        endings, after = (_STRONG, _AFTER_THE) if key in ("this", "these") else (_MIXED, _AFTER_A)
        ending = endings[case].split()[column]
        return _STEMS[key] + ending.removeprefix("-"), after

    def entity(self, entity: Entity, case: str) -> list[Rendering]:
        if isinstance(entity, Nominal):
            return self.nominal(entity, case)
        if isinstance(entity, Both):
            return self.nominal(entity.first, case) + self.say(entity.joint) + self.nominal(entity.second, case)
        if isinstance(entity, Name):
            return [Rendering(entity.text, "PROPN", (entity.head,))]
        if entity.key == "it":
            assert entity.noun is not None
            return [Rendering(_BY_GENDER[NOUNS[noun_key(entity.noun)][1]], "PRON", (entity.head,))]
        return [Rendering(_PRONOUNS[entity.key], "PRON", (entity.head,))]

    def relative(self, nominal: Nominal) -> list[Rendering]:
        """Write a relative clause, whose verb is last, with a comma before it."""
        relative = nominal.relative
        if relative is None:
            return []
        clause = relative.clause
        assert isinstance(clause.predicate, VerbUse)
        case, before = ("nominative", []) if not relative.of_object else self.governed(clause.predicate)
        column = 3 if nominal.plural else _COLUMN[NOUNS[noun_key(nominal.noun)][1]]
        pronoun = Rendering(_RELATIVE[case].split()[column], "PRON", relative.pronoun.words)
        assert not isinstance(clause.subject, Fixed)
        subject = self.entity(clause.subject, "nominative") if relative.of_object else []
        return [_COMMA, *before, pronoun, *subject, *self.verb_last(clause)]

    def verb_of(self, use: VerbUse, subject: Entity | Fixed) -> list[str]:
        """Return the forms of a verb from the table of verbs. "Eat" is essen for people, and fressen for animals."""
        if use.verb == "eat" and not isinstance(subject, (Name, Fixed)):
            eaters = nouns_of(subject)
            if eaters and not any(noun.category in PEOPLE for noun in eaters):
                return VERBS["devour"]
        return VERBS[use.verb]

    def governed(self, use: VerbUse) -> tuple[str, list[Rendering]]:
        """Return the case of a verb's object, and the preposition before it, if any."""
        rest = VERBS[use.verb][3:]
        if rest == ["auf"]:
            return "accusative", [Rendering("auf", "ADP", use.main[1:] or use.main)]
        return (rest[0], []) if rest else ("accusative", [])

    def parts(self, use: VerbUse, subject: Entity) -> tuple[Rendering, list[Rendering], bool]:
        """Return the finite verb; the rest of the verb, which comes last in a main clause; and whether that rest is a
        separable prefix."""
        infinitive, present, participle, *_ = self.verb_of(use, subject)
        with_be, infinitive = infinitive.startswith("*"), infinitive.removeprefix("*")
        prefix, _, stem = infinitive.rpartition("|")
        whole, plural = prefix + stem, subject.plural
        if use.modal is not None:
            finite = Rendering(MODALS[use.modal.key][plural], "AUX", use.modal.words[:1])
            return finite, [Rendering(whole, "VERB", use.main)], False
        if use.tense == "past":
            auxiliary = (_BE if with_be else _HAVE)[plural, subject.person]
            finite = Rendering(auxiliary, "AUX", use.auxiliary or use.main)
            return finite, [Rendering(participle, "VERB", use.main)], False
        if use.tense == "future":
            finite = Rendering("werden" if plural else "wird", "AUX", use.auxiliary)
            return finite, [Rendering(whole, "VERB", use.main)], False
        finite = Rendering(stem if plural else present, "VERB", use.main)
        return finite, [Rendering(prefix, "PART", use.main)] if prefix else [], bool(prefix)

    def middle(self, clause: Clause, use: VerbUse) -> list[Rendering]:
        """Write the words between the finite verb and the rest of the verb: times, objects, the negation and places."""
        by_kind = {adjunct.kind: adjunct for adjunct in clause.adjuncts}
        written = self.say(use.frequency)
        if "time" in by_kind:
            written += self.adjunct(by_kind["time"])
        if "taker" in by_kind:  # a dative before the accusative: den Kindern einen Hut
            taker = by_kind["taker"].entity
            assert taker is not None
            written += self.nominal(taker, "dative")
        if clause.object is not None:
            case, before = self.governed(use)
            written += before + self.entity(clause.object, case)
        written += self.say(use.negation)
        for kind in ("manner", "place", "goal"):
            written += self.adjunct(by_kind[kind]) if kind in by_kind else []
        return written

    def adjunct(self, adjunct: Adjunct) -> list[Rendering]:
        entity = [] if adjunct.entity is None else self.nominal(adjunct.entity, "dative")
        return self.say(adjunct.marker) + entity

    def after(self, clause: Clause) -> list[Rendering]:
        """Write the words after the whole verb: relative clauses, "nachdem ..." and "um ... zu ..."."""
        written = self.relative(clause.object) if isinstance(clause.object, Nominal) else []
        for adjunct in clause.adjuncts:
            if adjunct.verb is None:
                continue
            assert adjunct.entity is not None
            infinitive, _, participle, *_ = VERBS[adjunct.verb.key]
            noun = self.nominal(adjunct.entity, "accusative")
            words = adjunct.verb.words
            if adjunct.kind == "purpose":
                to = adjunct.marker.words
                written += [_COMMA, Rendering("um", "SCONJ", to), *noun, Rendering("zu", "PART", to)]
                written.append(Rendering(infinitive, "VERB", words))
            else:
                assert not isinstance(clause.subject, Fixed)
                repeated = self.repeated(clause.subject)
                had = Rendering("hatten" if clause.subject.plural else "hatte", "AUX", words)
                since = Rendering("nachdem", "SCONJ", adjunct.marker.words)
                written += [_COMMA, since, repeated, *noun, Rendering(participle, "VERB", words), had]
        return written

    def repeated(self, entity: Entity) -> Rendering:
        """Return the pronoun that refers to this subject again after "nachdem"."""
        if isinstance(entity, Pronoun):
            text = self.entity(entity, "nominative")[0].text
        elif entity.plural:
            text = "sie"
        elif isinstance(entity, Nominal):
            text = {"woman": "sie", "man": "er"}.get(entity.noun.category) or _BY_GENDER[self.gender(entity)]
        else:
            assert isinstance(entity, Name)
            text = _BY_GENDER[entity.gender]
        return Rendering(text, "PRON", heads(entity))

    def gender(self, nominal: Nominal) -> str:
        return NOUNS[noun_key(nominal.noun)][1]

    def clause(self, clause: Clause, after: str) -> list[Rendering]:
        if after in ("because", "that"):
            assert not isinstance(clause.subject, Fixed)
            subject = self.entity(clause.subject, "nominative")
            return subject + self.verb_last(clause)
        finite, rest = self.predicate(clause)
        subject = self.subject(clause)
        asked = self.say(clause.asking)
        if clause.fronted is not None:
            return [*self.adjunct(clause.fronted), finite, *subject, *rest]
        if clause.asked or after == ", so":  # "also" stands in the first place
            return [*asked, finite, *subject, *rest]
        return [*subject, finite, *rest]

    def subject(self, clause: Clause) -> list[Rendering]:
        if isinstance(clause.subject, Fixed):
            return [Rendering("das", "PRON", clause.subject.words)]
        written = self.entity(clause.subject, "nominative")
        if isinstance(clause.subject, Nominal) and clause.subject.relative is not None:
            written += [*self.relative(clause.subject), _COMMA]
        return written

    def predicate(self, clause: Clause) -> tuple[Rendering, list[Rendering]]:
        """Return the finite verb, and everything that follows it except the subject."""
        use = clause.predicate
        if isinstance(use, Identity):
            be = Rendering(_WAS[use.tense][0], "AUX", use.be)
            return be, self.nominal(use.nominal, "nominative")
        assert not isinstance(clause.subject, Fixed)
        if isinstance(use, Copula):
            return Rendering(_WAS[use.tense][clause.subject.plural], "AUX", use.be), self.described(use)
        if isinstance(use, Scared):
            assert clause.object is not None
            had = Rendering("hatten" if clause.subject.plural else "hatte", "VERB", use.be)
            fear = [Rendering("Angst", "NOUN", (use.scared,)), Rendering("vor", "ADP", (use.of,))]
            return had, fear + self.entity(clause.object, "dative")
        finite, last, _ = self.parts(use, clause.subject)
        return finite, self.middle(clause, use) + last + self.after(clause)

    def described(self, copula: Copula) -> list[Rendering]:
        adjective = Rendering(ADJECTIVES[copula.quality.adjective][0], "ADJ", (copula.quality.word,))
        written = [*self.say(copula.negation), *self.say(copula.degree), adjective]
        if copula.contrast:
            joint, quality = copula.contrast
            written += [*self.say(joint), Rendering(ADJECTIVES[quality.adjective][0], "ADJ", (quality.word,))]
        return written

    def verb_last(self, clause: Clause) -> list[Rendering]:
        """Write a subordinate clause, without its subject: its finite verb is last."""
        use = clause.predicate
        assert not isinstance(clause.subject, Fixed)
        if isinstance(use, Copula):
            be = Rendering(_WAS[use.tense][clause.subject.plural], "AUX", use.be)
            return [*self.described(use), be]
        assert isinstance(use, VerbUse)
        finite, last, is_prefix = self.parts(use, clause.subject)
        if is_prefix:  # one word again: zuhört
            finite, last = Rendering(last[0].text + finite.text, "VERB", finite.sources), []
        return self.middle(clause, use) + last + [finite] + self.after(clause)

    def settle(self, written: list[Rendering]) -> list[Rendering]:
        """Contract words such as "in dem" to "im" and "zu der" to "zur"; write one comma instead of two, and none
        before a full stop or a question mark."""
        settled: list[Rendering] = []
        for word in written:
            last = settled[-1] if settled else None
            contracted = None
            if last is not None and last.tag == "ADP" and word.tag == "DET":
                contracted = _CONTRACTED.get((last.text, word.text))
            if last is not None and contracted:
                settled[-1] = Rendering(contracted, "ADP", last.sources + word.sources)
            elif last is not None and last.text == "," and word.text in (",", ".", "?"):
                settled[-1] = word
            else:
                settled.append(word)
        return settled
