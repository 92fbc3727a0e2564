"""Build verb groups and clauses for the built-in corpus: tense, negation, agreement of the participle, word order."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.data.grammar.lexicon import ADJECTIVES, Adjective, Verb
from saccade.data.grammar.meaning import Adjunct, Clause, Copula, Entity, Fixed, Quality, VerbUse
from saccade.data.grammar.nouns import ANY_DETERMINER, DEFINITE, Draft, NounPhrase, draw_noun, noun_phrase
from saccade.data.grammar.phrase import Phrase, Rendering, Word, fixed, pair, words

__all__ = [
    "VerbGroup",
    "agreeing",
    "clause_of",
    "copula",
    "draw_object",
    "draw_predicate",
    "infinitive",
    "place",
    "question",
    "statement",
    "time",
    "verb_group",
    "with_noun",
]

# (uses être, plural, person) -> the auxiliary of the past tense
_AUXILIARIES = {
    (False, False, 3): "a",
    (False, True, 3): "ont",
    (False, False, 1): "ai",
    (False, True, 1): "avons",
    (True, False, 3): "est",
    (True, True, 3): "sont",
    (True, False, 1): "suis",
    (True, True, 1): "sommes",
}
# tense -> English singular and plural, French singular and plural
_COPULA = {
    "past": ("was/AUX", "were/AUX", "était", "étaient"),
    "present": ("is/AUX", "are/AUX", "est", "sont"),
}
_NEGATIONS = {"not": ("not/PART", "pas", "PART"), "never": ("never/ADV", "jamais", "ADV")}
_FREQUENCIES = {"often": "souvent", "always": "toujours"}
# English preposition, French preposition, the groups of nouns that it goes with
_PLACES = (
    ("in/ADP", "dans/ADP", ("room",)),
    ("near/ADP", "près/ADP de/ADP", ("places", "street", "river", "furniture")),
    ("behind/ADP", "derrière/ADP", ("room", "furniture")),
    ("in/ADP front/NOUN of/ADP", "devant/ADP", ("room", "furniture")),
    ("under/ADP", "sous/ADP", ("furniture",)),
    ("with/ADP", "avec/ADP", ("people",)),
)
_TIMES = {
    "past": (("yesterday/ADV", "hier/ADV"), ("this/DET morning/NOUN", "ce/DET matin/NOUN"), ("last", "dernière")),
    "present": (("every/DET day/NOUN", "chaque/DET jour/NOUN"), ("every/DET evening/NOUN", "chaque/DET soir/NOUN")),
    "future": (("tomorrow/ADV", "demain/ADV"), ("next", "prochaine")),
}


@dataclass(frozen=True)
class VerbGroup:
    """The words of a verb, between subject and object. In an English question, `auxiliary` comes before the subject."""

    auxiliary: tuple[Word, ...]
    main: tuple[Word, ...]
    french: tuple[Rendering, ...]
    meaning: VerbUse

    @property
    def phrase(self) -> Phrase:
        return Phrase(self.auxiliary + self.main, self.french, (self.meaning,))


def verb_group(
    verb: Verb,
    subject: NounPhrase,
    tense: str,
    negation: str | None = None,
    frequency: str | None = None,
    asked: bool = False,
    preceding_object: NounPhrase | None = None,
) -> VerbGroup:
    """Build a verb in English and French, in this tense. If there is a `preceding_object`, the French participle agrees
    with it: la souris que le chat a mangée."""
    assert subject.person == 3 or tense == "past", "the lexicon has the first person only in the past tense"
    helper = {"future": "will", "past": "did"}.get(tense, "do" if subject.plural else "does")
    needs_helper = asked or negation == "not" or tense == "future"
    auxiliary = (Word(helper, "AUX"),) if needs_helper else ()
    negator = words(_NEGATIONS[negation][0]) if negation else ()
    adverb = (Word(frequency, "ADV"),) if frequency else ()
    main = _english_verb(verb, "base" if needs_helper else tense, subject.plural)
    english = negator + adverb + main
    particles = [Rendering("ne", "PART", negator)] if negation else []
    after = [Rendering(*_NEGATIONS[negation][1:], negator)] if negation else []
    after += [Rendering(_FREQUENCIES[frequency], "ADV", adverb)] if frequency else []
    if tense == "past":
        agrees = subject if verb.uses_etre else preceding_object
        participle = verb.participle_form(agrees.gender, agrees.plural) if agrees else verb.participle
        finite = _AUXILIARIES[verb.uses_etre, subject.plural, subject.person]
        french = [
            *particles,
            Rendering(finite, "AUX", auxiliary or main),
            *after,
            Rendering(participle, "VERB", main),
        ]
    else:
        form, sources = _simple_form(verb, tense, subject.plural), main
        if tense == "future":
            sources = auxiliary + main  # "mangera" also translates "will"
        french = [*particles, Rendering(form, "VERB", sources), *after]
    meant = VerbUse(
        verb.english,
        tense,
        main,
        auxiliary,
        fixed(negator) if negation else None,
        fixed(adverb) if frequency else None,
    )
    return VerbGroup(auxiliary, english, tuple(french), meant)


def _english_verb(verb: Verb, tense: str, plural: bool) -> tuple[Word, ...]:
    third = verb.english if plural else verb.english_third
    text = {"base": verb.english, "past": verb.english_past, "present": third}[tense]
    head, *particle = text.split()
    return (Word(head, "VERB"), *(Word(word, "ADV" if word == "back" else "ADP") for word in particle))


def _simple_form(verb: Verb, tense: str, plural: bool) -> str:
    if tense == "present":
        return verb.present_plural if plural else verb.present
    return verb.future[:-1] + "ont" if plural else verb.future


def infinitive(verb: Verb) -> Phrase:
    main = _english_verb(verb, "base", plural=False)
    return Phrase(main, (Rendering(verb.infinitive, "VERB", main),), (Fixed(verb.english, main),))


def statement(subject: NounPhrase, group: VerbGroup, *rest: Phrase) -> Phrase:
    """Build a clause from a subject and a verb, followed by the object, if any, and adjuncts."""
    clause = sum(rest, subject.phrase + group.phrase)
    return clause.meaning_one(clause_of(subject, group.meaning, *rest))


def clause_of(subject: NounPhrase, predicate: VerbUse, *rest: Phrase, asked: bool = False) -> Clause:
    nodes = [node for phrase in rest for node in phrase.meaning]
    objects = [node for node in nodes if isinstance(node, Entity)]
    adjuncts = tuple(node for node in nodes if isinstance(node, Adjunct))
    assert len(objects) <= 1
    assert len(objects) + len(adjuncts) == len(nodes)
    return Clause(subject.meaning, predicate, objects[0] if objects else None, adjuncts, asked=asked)


def with_noun(kind: str, marker: Phrase, noun: NounPhrase) -> Phrase:
    """Build a preposition with its noun phrase, which says where, where to or to whom, such as "to the market"."""
    return (marker + noun.phrase).meaning_one(Adjunct(kind, fixed(marker.english), noun.nominal))


def question(subject: NounPhrase, group: VerbGroup, *rest: Phrase) -> Phrase:
    """Build a question: "Did the cat ..." becomes "Est-ce que le chat ...", where "est-ce" and "que" are both aligned
    with the English auxiliary."""
    marker = tuple(Rendering(text, "PART", group.auxiliary) for text in ("est-ce", "que"))
    asking = Phrase(group.auxiliary, marker) + subject.phrase + Phrase(group.main, group.french)
    return sum(rest, asking).meaning_one(clause_of(subject, group.meaning, *rest, asked=True))


def copula(
    draft: Draft,
    subject: NounPhrase,
    adjective: Adjective,
    tense: str = "past",
    negation: str | None = None,
    degree: tuple[str, str] | None = None,
) -> Phrase:
    """Build a clause such as "the film was not very good" / "le film n'était pas très bon", where the French adjective
    agrees with the subject."""
    draft.combinations.extend(("adjective", adjective.english, noun.english) for noun in subject.nouns)
    singular, plural, french_singular, french_plural = _COPULA[tense]
    be = words(plural if subject.plural else singular)
    negator: tuple[Word, ...] = ()
    finite = Rendering(french_plural if subject.plural else french_singular, "AUX", be)
    predicate = Phrase(be, (finite,))
    if negation:
        english, french, tag = _NEGATIONS[negation]
        negator = words(english)
        before, after = Rendering("ne", "PART", negator), Rendering(french, tag, negator)
        predicate = Phrase(be + negator, (before, finite, after))
    intensifier = pair(f"{degree[0]}/ADV", f"{degree[1]}/ADV") if degree else Phrase()
    described = agreeing(adjective, subject)
    meant = Copula(
        tense,
        be,
        Quality(adjective.english, described.english[0]),
        fixed(negator) if negation else None,
        fixed(intensifier.english) if degree else None,
    )
    clause = subject.phrase + predicate + intensifier + described
    return clause.meaning_one(Clause(subject.meaning, meant))


def agreeing(adjective: Adjective, subject: NounPhrase) -> Phrase:
    phrase = pair(f"{adjective.english}/ADJ", f"{adjective.form(subject.gender, subject.plural)}/ADJ")
    return phrase.meaning_one(Quality(adjective.english, phrase.english[0]))


def draw_predicate(draft: Draft, subject: NounPhrase) -> Adjective:
    """Draw an adjective that fits every noun of the subject."""
    wanted = [noun.category for noun in subject.nouns]
    return draft.random.choice([item for item in ADJECTIVES.values() if item.categories.issuperset(wanted)])


def draw_object(
    draft: Draft, verb: Verb, groups: tuple[str, ...], definite: bool = False, plural: bool | None = None
) -> NounPhrase:
    """Draw an object that the verb takes, from these groups of nouns, and record the combination of verb and noun."""
    noun = draw_noun(draft, *groups)
    draft.combinations.append(("verb", verb.english, noun.english))
    return noun_phrase(draft, noun, plural, DEFINITE if definite else ANY_DETERMINER)


def place(draft: Draft) -> Phrase:
    english, french, groups = draft.random.choice(_PLACES)
    noun = noun_phrase(draft, draw_noun(draft, *groups), determiners=DEFINITE)
    return with_noun("place", pair(english, french), noun)


def time(draft: Draft, tense: str) -> Phrase:
    english, french = draft.random.choice(_TIMES[tense])
    if "/" in english:
        phrase = pair(english, french)
        return phrase.meaning_one(Adjunct("time", fixed(phrase.english)))
    adjective, week = words(f"{english}/ADJ week/NOUN")  # last week: la semaine dernière
    rendered = (("la", "DET", week), ("semaine", "NOUN", week), (french, "ADJ", adjective))
    french_words = tuple(Rendering(text, tag, (word,)) for text, tag, word in rendered)
    return Phrase((adjective, week), french_words, (Adjunct("time", fixed((adjective, week))),))
