"""Sentences in which a word far away decides the French word: pronouns and "bank". The link is noted.

What a pronoun stands for follows from fixed rules, so that the French is a function of the English:

- the one who eats is hungry, what is eaten is delicious ("because it was hungry", "because it was delicious");
- the one who chases is furious, the one who is chased is slow;
- who is scared leaves ("so they left"), whom one is scared of is dangerous ("because they were dangerous").
"""

from __future__ import annotations

from saccade.data.grammar.clauses import copula, infinitive, statement, time, verb_group
from saccade.data.grammar.lexicon import ADJECTIVES, BANK_MONEY, BANK_WATER, INTRANSITIVE, TRANSITIVE, Noun
from saccade.data.grammar.nouns import DEFINITE, Draft, NounPhrase, draw_noun, noun_phrase, subject
from saccade.data.grammar.phrase import Phrase, pair

__all__ = [
    "arrived_after_crossing",
    "bank_phrase",
    "bank_sentence",
    "because",
    "pronoun_sentence",
    "scared_of",
    "so_they",
]

# verb, group of its objects, what is said of the one who does it, what is said of the object
_HUNTS = (
    ("eat", "food", ("hungry",), ("delicious", "fresh")),
    ("eat", "prey", ("hungry", "furious", "cruel"), ("slow", "wounded")),
    ("chase", "animals", ("hungry", "furious", "cruel"), ("slow", "wounded")),
    ("follow", "animals", ("hungry", "curious"), ("slow", "wounded")),
)
_REACTIONS = ("leave", "cry", "run")
_THREATS = ("dangerous", "cruel", "strange", "enormous")
# category of the antecedent: its pronoun; the others are "it"
_SINGULAR_PRONOUNS = {"man": "he", "woman": "she"}
# What "bank" is, and the places and people that say so
_SENSES = ((BANK_MONEY, "street", "customer"), (BANK_WATER, "river", "fisherman"))
_AIMS = ("reach", "find", "see", "look for")


def pronoun_sentence(draft: Draft) -> Phrase:
    """The cat ate the mouse because it was hungry. / ... parce qu'il était affamé."""
    build = draft.random.choice([_hunt, _fear])
    return build(draft, draft.chance(0.4)) + pair("./PUNCT", "./PUNCT")


def _referring(draft: Draft, antecedent: NounPhrase) -> NounPhrase:
    """The pronoun that stands for `antecedent`: French has its gender, English often not."""
    noun = antecedent.nouns[0]
    english = "they" if antecedent.plural else _SINGULAR_PRONOUNS.get(noun.category, "it")
    french = ("elle" if noun.gender == "f" else "il") + ("s" if antecedent.plural else "")
    phrase = pair(f"{english}/PRON", f"{french}/PRON")
    draft.links.append(("pronoun", phrase.english[0], antecedent.head))
    return NounPhrase(phrase, phrase.english[0], noun.gender, antecedent.plural, nouns=antecedent.nouns)


def because(draft: Draft, antecedent: NounPhrase, adjective: str) -> Phrase:
    """ "because it was hungry" / parce qu'il était affamé."""
    stands_for = _referring(draft, antecedent)
    conjunction = pair("because/SCONJ", "parce/SCONJ que/SCONJ")
    return conjunction + stands_for.phrase + copula(draft, stands_for, ADJECTIVES[adjective])


def scared_of(draft: Draft, scared: NounPhrase, scary: NounPhrase) -> Phrase:
    """ "the kids were scared of the lions" / les enfants avaient peur des lions."""
    draft.combinations.append(("verb", "be scared of", scary.nouns[0].english))
    finite = ("were/AUX", "avaient/VERB") if scared.plural else ("was/AUX", "avait/VERB")
    return scared.phrase + pair(*finite) + pair("scared/ADJ of/ADP", "peur/NOUN de/ADP") + scary.phrase


def so_they(draft: Draft, antecedent: NounPhrase, reaction: str, right_away: bool) -> Phrase:
    """ ", so they left right away" / , alors ils sont partis immédiatement."""
    stands_for = _referring(draft, antecedent)
    conjunction = pair(",/PUNCT so/CCONJ", ",/PUNCT alors/ADV")
    clause = conjunction + statement(stands_for, verb_group(INTRANSITIVE[reaction], stands_for, "past"))
    return clause + pair("right/ADV away/ADV", "immédiatement/ADV") if right_away else clause


def _animate(draft: Draft, plural: bool) -> NounPhrase:
    """Someone or something alive. Not one "kid": English would have to choose between he and she."""
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
    """The kids were scared of the lions, so they left right away. / The lions frightened the kids, so ..."""
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
    """I arrived at the bank after crossing the street. / Je suis arrivé à la banque après avoir ..."""
    bank, places, people = draft.random.choice(_SENSES)
    build = draft.random.choice([_crossed_first, _to_reach, _near])
    if draft.chance(0.25):
        clause = _person_at(draft, bank, people)
    else:
        clause = build(draft, bank, noun_phrase(draft, draw_noun(draft, places), False, DEFINITE))
    return clause + pair("./PUNCT", "./PUNCT")


def bank_phrase(draft: Draft, phrase: NounPhrase, cue: NounPhrase, verb: str | None) -> Phrase:
    """ "the bank", linked to the word that says which one it is; `verb`: what is done to it."""
    draft.links.append(("bank", phrase.head, cue.head))
    if verb:
        draft.combinations.append(("verb", verb, phrase.nouns[0].english))
    return phrase.phrase


def _draw_bank(draft: Draft, bank: Noun, cue: NounPhrase, verb: str | None = None) -> Phrase:
    return bank_phrase(draft, noun_phrase(draft, bank, False, DEFINITE), cue, verb)


def arrived_after_crossing(draft: Draft, who: NounPhrase, at_bank: Phrase, cue: NounPhrase) -> Phrase:
    """ "I arrived at the bank after crossing the river" / je suis arrivé à la rive après avoir traversé ..."""
    group = verb_group(INTRANSITIVE["arrive"], who, "past")
    return statement(who, group, pair("at/ADP", "à/ADP"), at_bank, _after_crossing(draft, cue))


def _after_crossing(draft: Draft, cue: NounPhrase) -> Phrase:
    draft.combinations.append(("verb", "cross", cue.nouns[0].english))
    return pair("after/SCONJ", "après/SCONJ") + pair("crossing/VERB", "avoir/AUX traversé/VERB") + cue.phrase


def _crossed_first(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    who = subject(draft, "people", first_person=True)
    if draft.chance(0.4):
        return arrived_after_crossing(draft, who, _draw_bank(draft, bank, cue, "arrive at"), cue)
    verb = TRANSITIVE[draft.random.choice(_AIMS)]
    at_bank = _draw_bank(draft, bank, cue, verb.english)
    return statement(who, verb_group(verb, who, "past"), at_bank, _after_crossing(draft, cue))


def _to_reach(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    """She crossed the river to reach the bank. / Elle a traversé la rivière pour atteindre la rive."""
    who = subject(draft, "people", first_person=True)
    draft.combinations.append(("verb", "cross", cue.nouns[0].english))
    aim = TRANSITIVE[draft.random.choice(_AIMS)]
    purpose = pair("to/PART", "pour/ADP") + infinitive(aim)
    crossing = statement(who, verb_group(TRANSITIVE["cross"], who, "past"), cue.phrase)
    return crossing + purpose + _draw_bank(draft, bank, cue, aim.english)


def _near(draft: Draft, bank: Noun, cue: NounPhrase) -> Phrase:
    """Near the river, Paul found the bank. / Près de la rivière, Paul a trouvé la rive."""
    who = subject(draft, "people", first_person=True)
    verb = TRANSITIVE[draft.random.choice(_AIMS)]
    near = pair("near/ADP", "près/ADP de/ADP") + cue.phrase + pair(",/PUNCT", ",/PUNCT")
    return near + statement(who, verb_group(verb, who, "past"), _draw_bank(draft, bank, cue, verb.english))


def _person_at(draft: Draft, bank: Noun, people: str) -> Phrase:
    """The fisherman slept near the bank. / Le pêcheur a dormi près de la rive."""
    who = noun_phrase(draft, draw_noun(draft, people), determiners=DEFINITE)
    verb = draft.random.choice(list(INTRANSITIVE.values()))
    near = pair("near/ADP", "près/ADP de/ADP") + _draw_bank(draft, bank, who)
    clause = statement(who, verb_group(verb, who, "past"), near)
    return clause + time(draft, "past") if draft.chance(0.5) else clause
