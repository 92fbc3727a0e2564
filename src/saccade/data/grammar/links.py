"""Build sentences in which a distant word decides the French for a pronoun or for "bank". Each sentence records the
link between the two words.

Fixed rules decide what a pronoun refers to, so that there is only one right translation:

- whoever eats is hungry, and what is eaten is delicious ("because it was hungry", "because it was delicious");
- whoever chases is furious, and whoever is chased is slow;
- whoever is scared leaves ("so they left"), and whoever they are scared of is dangerous ("because they were
  dangerous").
"""

from __future__ import annotations

from saccade.data.grammar.clauses import copula, infinitive, statement, time, verb_group, with_noun
from saccade.data.grammar.lexicon import ADJECTIVES, BANK_MONEY, BANK_WATER, INTRANSITIVE, TRANSITIVE, Noun
from saccade.data.grammar.meaning import Adjunct, Clause, Fixed, Pronoun, Scared
from saccade.data.grammar.nouns import DEFINITE, Draft, NounPhrase, draw_noun, noun_phrase, subject
from saccade.data.grammar.phrase import Phrase, fixed, pair

__all__ = [
    "arrived_after_crossing",
    "bank_phrase",
    "bank_sentence",
    "because",
    "pronoun_sentence",
    "scared_of",
    "so_they",
]

# verb, group of its objects, adjectives for the subject, adjectives for the object
_HUNTS = (
    ("eat", "food", ("hungry",), ("delicious", "fresh")),
    ("eat", "prey", ("hungry", "furious", "cruel"), ("slow", "wounded")),
    ("chase", "animals", ("hungry", "furious", "cruel"), ("slow", "wounded")),
    ("follow", "animals", ("hungry", "curious"), ("slow", "wounded")),
)
_REACTIONS = ("leave", "cry", "run")
_THREATS = ("dangerous", "cruel", "strange", "enormous")
# category of the antecedent -> its pronoun; for all others it is "it"
_SINGULAR_PRONOUNS = {"man": "he", "woman": "she"}
# A meaning of "bank", and the places and people that go with it
_SENSES = ((BANK_MONEY, "street", "customer"), (BANK_WATER, "river", "fisherman"))
_AIMS = ("reach", "find", "see", "look for")


def pronoun_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The cat ate the mouse because it was hungry. / ... parce qu'il était affamé."""
    build = draft.random.choice([_hunt, _fear])
    return build(draft, draft.chance(0.4)) + pair("./PUNCT", "./PUNCT")


def _referring(draft: Draft, antecedent: NounPhrase) -> NounPhrase:
    """Return the pronoun that refers to `antecedent`. In French it has the gender of the noun, in English often not."""
    noun = antecedent.nouns[0]
    english = "they" if antecedent.plural else _SINGULAR_PRONOUNS.get(noun.category, "it")
    french = ("elle" if noun.gender == "f" else "il") + ("s" if antecedent.plural else "")
    phrase = pair(f"{english}/PRON", f"{french}/PRON")
    phrase = phrase.meaning_one(Pronoun(english, phrase.english[0], antecedent.plural, noun=noun))
    draft.links.append(("pronoun", phrase.english[0], antecedent.head))
    return NounPhrase(phrase, phrase.english[0], noun.gender, antecedent.plural, nouns=antecedent.nouns)


def because(draft: Draft, antecedent: NounPhrase, adjective: str) -> Phrase:
    """Build a clause such as: because it was hungry / parce qu'il était affamé."""
    pronoun = _referring(draft, antecedent)
    conjunction = pair("because/SCONJ", "parce/SCONJ que/SCONJ")
    return conjunction + copula(draft, pronoun, ADJECTIVES[adjective])


def scared_of(draft: Draft, scared: NounPhrase, scary: NounPhrase) -> Phrase:
    """Build a clause such as: the kids were scared of the lions / les enfants avaient peur des lions."""
    draft.combinations.append(("verb", "be scared of", scary.nouns[0].english))
    finite = ("were/AUX", "avaient/VERB") if scared.plural else ("was/AUX", "avait/VERB")
    be, afraid = pair(*finite), pair("scared/ADJ of/ADP", "peur/NOUN de/ADP")
    meant = Clause(scared.meaning, Scared(be.english, *afraid.english), scary.meaning)
    return (scared.phrase + be + afraid + scary.phrase).meaning_one(meant)


def so_they(draft: Draft, antecedent: NounPhrase, reaction: str, right_away: bool) -> Phrase:
    """Build a clause such as: , so they left right away / , alors ils sont partis immédiatement."""
    pronoun = _referring(draft, antecedent)
    conjunction = pair(",/PUNCT so/CCONJ", ",/PUNCT alors/ADV")
    clause = conjunction + statement(pronoun, verb_group(INTRANSITIVE[reaction], pronoun, "past"))
    if not right_away:
        return clause
    at_once = pair("right/ADV away/ADV", "immédiatement/ADV")
    return clause + at_once.meaning_one(Adjunct("manner", fixed(at_once.english)))


def _animate(draft: Draft, plural: bool) -> NounPhrase:
    """Draw a person or an animal, but never a single "kid", for which English would have to choose "he" or "she"."""
    people = "people" if plural else draft.random.choice(["man", "woman"])
    return noun_phrase(draft, draw_noun(draft, people, "animals"), plural, DEFINITE)


def _hunt(draft: Draft, plural: bool) -> Phrase:
    name, objects, of_subject, of_object = draft.random.choice(_HUNTS)
    verb = TRANSITIVE[name]
    hunted = noun_phrase(draft, draw_noun(draft, objects), plural, DEFINITE)
    draft.combinations.append(("verb", name, hunted.nouns[0].english))
    hunter = _animate(draft, plural)
    clause = statement(hunter, verb_group(verb, hunter, "past"), hunted.phrase)
    if draft.chance(0.5):
        return clause + because(draft, hunter, draft.random.choice(of_subject))
    return clause + because(draft, hunted, draft.random.choice(of_object))


def _fear(draft: Draft, plural: bool) -> Phrase:
    """Draw a sentence such as: The kids were scared of the lions, so they left right away. / The lions frightened the
    kids, so ..."""
    scared, scary = _animate(draft, plural), _animate(draft, plural)
    if draft.chance(0.6):
        clause = scared_of(draft, scared, scary)
    else:
        draft.combinations.append(("verb", "frighten", scared.nouns[0].english))
        clause = statement(scary, verb_group(TRANSITIVE["frighten"], scary, "past"), scared.phrase)
    if draft.chance(0.4):
        return clause + because(draft, scary, draft.random.choice(_THREATS))
    return clause + so_they(draft, scared, draft.random.choice(_REACTIONS), draft.chance(0.6))


def bank_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: I arrived at the bank after crossing the street. / Je suis arrivé à la banque après
    avoir ..."""
    bank, places, people = draft.random.choice(_SENSES)
    build = draft.random.choice([_crossed_first, _to_reach, _near])
    if draft.chance(0.25):
        clause = _person_at(draft, bank, people)
    else:
        clause = build(draft, bank, noun_phrase(draft, draw_noun(draft, places), False, DEFINITE))
    return clause + pair("./PUNCT", "./PUNCT")


def bank_phrase(draft: Draft, phrase: NounPhrase, cue: NounPhrase, verb: str | None) -> NounPhrase:
    """Record that `cue` decides the meaning of `phrase` ("the bank"), and the combination of `verb`, if any, and
    "bank"; return `phrase`."""
    draft.links.append(("bank", phrase.head, cue.head))
    if verb:
        draft.combinations.append(("verb", verb, phrase.nouns[0].english))
    return phrase


def _draw_bank(draft: Draft, bank: Noun, cue: NounPhrase, verb: str | None = None) -> NounPhrase:
    return bank_phrase(draft, noun_phrase(draft, bank, False, DEFINITE), cue, verb)


def arrived_after_crossing(draft: Draft, who: NounPhrase, bank: NounPhrase, cue: NounPhrase) -> Phrase:
    """Build a clause such as: I arrived at the bank after crossing the river / je suis arrivé à la rive après avoir
    traversé ..."""
    group = verb_group(INTRANSITIVE["arrive"], who, "past")
    at_bank = with_noun("goal", pair("at/ADP", "à/ADP"), bank)
    return statement(who, group, at_bank, _after_crossing(draft, cue))


def _after_crossing(draft: Draft, cue: NounPhrase) -> Phrase:
    draft.combinations.append(("verb", "cross", cue.nouns[0].english))
    after, crossing = pair("after/SCONJ", "après/SCONJ"), pair("crossing/VERB", "avoir/AUX traversé/VERB")
    meant = Adjunct("after", fixed(after.english), cue.nominal, Fixed("cross", crossing.english))
    return (after + crossing + cue.phrase).meaning_one(meant)


def _crossed_first(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    who = subject(draft, "people", first_person=True)
    if draft.chance(0.4):
        return arrived_after_crossing(draft, who, _draw_bank(draft, bank, cue, "arrive at"), cue)
    verb = TRANSITIVE[draft.random.choice(_AIMS)]
    at_bank = _draw_bank(draft, bank, cue, verb.english)
    return statement(who, verb_group(verb, who, "past"), at_bank.phrase, _after_crossing(draft, cue))


def _to_reach(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    """Draw a sentence such as: She crossed the river to reach the bank. / Elle a traversé la rivière pour atteindre la
    rive."""
    who = subject(draft, "people", first_person=True)
    draft.combinations.append(("verb", "cross", cue.nouns[0].english))
    aim = TRANSITIVE[draft.random.choice(_AIMS)]
    to, main = pair("to/PART", "pour/ADP"), infinitive(aim)
    crossing = statement(who, verb_group(TRANSITIVE["cross"], who, "past"), cue.phrase)
    at_bank = _draw_bank(draft, bank, cue, aim.english)
    meant = Adjunct("purpose", fixed(to.english), at_bank.nominal, Fixed(aim.english, main.english))
    return crossing + (to + main + at_bank.phrase).meaning_one(meant)


def _near(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    """Draw a sentence such as: Near the river, Paul found the bank. / Près de la rivière, Paul a trouvé la rive."""
    who = subject(draft, "people", first_person=True)
    verb = TRANSITIVE[draft.random.choice(_AIMS)]
    near = with_noun("place", pair("near/ADP", "près/ADP de/ADP"), cue) + pair(",/PUNCT", ",/PUNCT")
    return near + statement(who, verb_group(verb, who, "past"), _draw_bank(draft, bank, cue, verb.english).phrase)


def _person_at(draft: Draft, bank: Noun, people: str) -> Phrase:
    """Draw a sentence such as: The fisherman slept near the bank. / Le pêcheur a dormi près de la rive."""
    who = noun_phrase(draft, draw_noun(draft, people), determiners=DEFINITE)
    verb = draft.random.choice(list(INTRANSITIVE.values()))
    near = with_noun("place", pair("near/ADP", "près/ADP de/ADP"), _draw_bank(draft, bank, who))
    clause = statement(who, verb_group(verb, who, "past"), near)
    return clause + time(draft, "past") if draft.chance(0.5) else clause
