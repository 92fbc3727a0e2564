"""The kinds of sentences in the built-in corpus: one function per kind. `KINDS` lists them with their shares of the
corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from saccade.data.grammar.clauses import (
    clause_of,
    copula,
    draw_object,
    draw_predicate,
    infinitive,
    place,
    question,
    statement,
    time,
    verb_group,
    with_noun,
)
from saccade.data.grammar.lexicon import GIVING, GO, INTRANSITIVE, MANNERS, TRANSITIVE, Verb, categories
from saccade.data.grammar.links import bank_sentence, pronoun_sentence
from saccade.data.grammar.meaning import Adjunct, Fixed, Relative, VerbUse
from saccade.data.grammar.nouns import DEFINITE, Draft, NounPhrase, draw_noun, joined, noun_phrase, pronoun, subject
from saccade.data.grammar.phrase import Phrase, Rendering, fixed, pair, words
from saccade.data.grammar.reviews import review_sentence

__all__ = ["KINDS"]

_TENSES = ("past", "past", "past", "past", "present", "present", "present", "future", "future")
# The verbs in clauses such as "the mouse that the cat ate", where the French participle agrees with the object. There
# are only a few, so that each of the four forms is frequent. With other verbs, such a clause is in the present tense.
_AGREEING = ("eat", "see", "find", "follow", "take", "lose", "draw")
# English, French singular, French plural
_MODALS = (
    ("want/VERB to/PART", "veut", "veulent"),
    ("can/AUX", "peut", "peuvent"),
    ("must/AUX", "doit", "doivent"),
)
# English and French singular, English and French plural
_OPINIONS = (
    ("thinks/VERB", "pense/VERB", "think/VERB", "pensent/VERB"),
    ("knows/VERB", "sait/VERB", "know/VERB", "savent/VERB"),
    ("says/VERB", "dit/VERB", "say/VERB", "disent/VERB"),
)


def _stop() -> Phrase:
    return pair("./PUNCT", "./PUNCT")


def _asked() -> Phrase:
    return pair("?/PUNCT", "?/PUNCT")


def _draw_verb(draft: Draft, verbs: dict[str, Verb]) -> tuple[Verb, str, tuple[str, ...]]:
    """Draw a verb, and the groups of its subject and of its objects."""
    verb = draft.random.choice(list(verbs.values()))
    subjects, objects = draft.random.choice(verb.frames)
    return verb, subjects, objects


def _with_time(draft: Draft, clause: Phrase, tense: str, chance: float = 0.25) -> Phrase:
    """Sometimes add a time, such as "yesterday", at the end or, with a comma, at the start."""
    if not draft.chance(chance):
        return clause
    if draft.chance(0.4):
        return time(draft, tense) + pair(",/PUNCT", ",/PUNCT") + clause
    return clause + time(draft, tense)


def _manner(draft: Draft) -> Phrase:
    english = draft.random.choice(list(MANNERS))
    phrase = pair(f"{english}/ADV", f"{MANNERS[english]}/ADV")
    return phrase.meaning_one(Adjunct("manner", fixed(phrase.english)))


def statement_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The black cat ate the mouse. / Le chat noir a mangé la souris."""
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE)
    tense = draft.random.choice(_TENSES)
    doer = subject(draft, subjects, first_person=tense == "past")
    often = draft.random.choice(["often", "always"]) if tense == "present" and draft.chance(0.3) else None
    group = verb_group(verb, doer, tense, frequency=often)
    clause = statement(doer, group, draw_object(draft, verb, objects).phrase)
    if draft.chance(0.2):
        clause += place(draft)
    return _with_time(draft, clause, tense) + _stop()


def intransitive_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The old queen came back yesterday. / La vieille reine est revenue hier."""
    verb, subjects, _ = _draw_verb(draft, INTRANSITIVE)
    tense = draft.random.choice(_TENSES)
    doer = subject(draft, subjects, first_person=tense == "past")
    clause = statement(doer, verb_group(verb, doer, tense))
    if draft.chance(0.3):
        clause += _manner(draft)
    if draft.chance(0.7):
        clause += place(draft)
    return _with_time(draft, clause, tense, chance=0.4) + _stop()


def journey_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: Two girls went to the market. / Deux filles sont allées au marché."""
    verb, preposition = draft.random.choice(((GO, "to"), (INTRANSITIVE["arrive"], "at")))
    tense = draft.random.choice(_TENSES)
    doer = subject(draft, "people", first_person=tense == "past")
    goal = noun_phrase(draft, draw_noun(draft, "room"), determiners=DEFINITE)
    draft.combinations.append(("verb", f"{verb.english} {preposition}", goal.nouns[0].english))
    to_goal = with_noun("goal", pair(f"{preposition}/ADP", "à/ADP"), goal)
    clause = statement(doer, verb_group(verb, doer, tense), to_goal)
    return _with_time(draft, clause, tense, chance=0.4) + _stop()


def description_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The apples are very fresh. / Les pommes sont très fraîches."""
    noun = draw_noun(draft, "any", "food", "drink", "works")
    described = noun_phrase(draft, noun)
    if draft.chance(0.15):
        other = noun_phrase(draft, draw_noun(draft, noun.category))
        described = joined(described, other)
    tense = draft.random.choice(["past", "present"])
    negation = draft.random.choice([None, None, None, "not", "never"])
    degree = draft.random.choice([None, None, ("very", "très"), ("really", "vraiment")])
    return copula(draft, described, draw_predicate(draft, described), tense, negation, degree) + _stop()


def negation_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The boy did not find his hat. / Le garçon n'a pas trouvé son chapeau."""
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE)
    tense = draft.random.choice(_TENSES)
    doer = subject(draft, subjects, first_person=tense == "past", determiners=DEFINITE)
    group = verb_group(verb, doer, tense, negation=draft.random.choice(["not", "not", "never"]))
    clause = statement(doer, group, draw_object(draft, verb, objects, definite=True).phrase)
    return _with_time(draft, clause, tense, chance=0.15) + _stop()


def question_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: Did the wolf see the hen? / Est-ce que le loup a vu la poule ?"""
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE)
    tense = draft.random.choice(_TENSES)
    if draft.chance(0.2):
        who = pronoun("who")
        clause = statement(who, verb_group(verb, who, tense), draw_object(draft, verb, objects).phrase)
        return clause + _asked()
    doer = subject(draft, subjects, determiners=DEFINITE)
    group = verb_group(verb, doer, tense, asked=True)
    clause = question(doer, group, draw_object(draft, verb, objects).phrase)
    if draft.chance(0.35):
        asking = (("where", "où"), ("why", "pourquoi"), ("when", "quand"))
        english, french = draft.random.choice(asking)
        clause = pair(f"{english}/ADV", f"{french}/ADV") + clause
    return clause + _asked()


def relative_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The mouse that the cat ate was gray. / La souris que le chat a mangée était grise."""
    if draft.chance(0.35):
        verb, subjects, objects = _draw_verb(draft, TRANSITIVE)
        tense = draft.random.choice(["past", "present"])
        head = noun_phrase(draft, draw_noun(draft, subjects), determiners=DEFINITE)
        relative = "who" if head.nouns[0].category in ("man", "woman", "person") else "that"
        pronoun_phrase = pair(f"{relative}/PRON", "qui/PRON")
        group = verb_group(verb, head, tense)
        what = draw_object(draft, verb, objects).phrase
        clause, of_object = clause_of(head, group.meaning, what), False
        inner = pronoun_phrase + group.phrase + what
    else:
        agreeing = draft.chance(0.7)
        verb, subjects, objects = _draw_verb(
            draft, {name: TRANSITIVE[name] for name in _AGREEING} if agreeing else TRANSITIVE
        )
        tense = "past" if agreeing else "present"
        head = draw_object(draft, verb, objects, definite=True)
        doer = subject(draft, subjects, determiners=DEFINITE)
        group = verb_group(verb, doer, tense, preceding_object=head)
        pronoun_phrase = pair("that/PRON", "que/PRON")
        clause, of_object = clause_of(doer, group.meaning), True
        inner = pronoun_phrase + statement(doer, group)
    relative_clause = Relative(fixed(pronoun_phrase.english), clause, of_object, head.nominal)
    return _around_relative(draft, head, inner.meaning_one(relative_clause)) + _stop()


def _around_relative(draft: Draft, head: NounPhrase, inner: Phrase) -> Phrase:
    """Build the main clause. The noun with its relative clause is its subject, or the object of a verb such as
    "saw"."""
    noun = head.nouns[0]
    (relative,) = inner.meaning
    assert isinstance(relative, Relative)
    described = replace(head, phrase=(head.phrase + inner).meaning_one(replace(head.nominal, relative=relative)))
    if draft.chance(0.4):
        verb = draft.random.choice([verb for verb in TRANSITIVE.values() if _people_do(verb, noun.category)])
        doer = subject(draft, "people", first_person=True)
        draft.combinations.append(("verb", verb.english, noun.english))
        return statement(doer, verb_group(verb, doer, "past"), described.phrase)
    tense = draft.random.choice(["past", "present"])
    return copula(draft, described, draw_predicate(draft, head), tense)


def _people_do(verb: Verb, category: str) -> bool:
    return any(
        subjects in ("people", "animate") and category in categories(*objects) for subjects, objects in verb.frames
    )


def modal_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The kids want to buy a boat. / Les enfants veulent acheter un bateau."""
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE | INTRANSITIVE)
    doer = subject(draft, subjects)
    english, singular, plural = draft.random.choice(_MODALS)
    modal = words(english if doer.plural else english.replace("want/", "wants/"))
    finite = Rendering(plural if doer.plural else singular, "VERB", modal[:1])
    main = infinitive(verb)
    rest = draw_object(draft, verb, objects).phrase if objects else place(draft)
    meant = VerbUse(verb.english, "present", main.english, modal=Fixed(english.split("/")[0], modal))
    clause = doer.phrase + Phrase(modal, (finite,)) + main + rest
    return clause.meaning_one(clause_of(doer, meant, rest)) + _stop()


def giving_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: She gave a red hat to the kids. / Elle a donné un chapeau rouge aux enfants."""
    verb, subjects, objects = _draw_verb(draft, GIVING)
    tense = draft.random.choice(_TENSES)
    doer = subject(draft, subjects, first_person=tense == "past")
    negation = draft.random.choice([None, None, None, "not", "never"])
    given = draw_object(draft, verb, objects, definite=negation is not None)
    taker = noun_phrase(draft, draw_noun(draft, "people"), determiners=DEFINITE)
    group = verb_group(verb, doer, tense, negation)
    return statement(doer, group, given.phrase, with_noun("taker", pair("to/ADP", "à/ADP"), taker)) + _stop()


def coordination_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The girl and the boy arrived. / La fille et le garçon sont arrivés."""
    transitive = draft.chance(0.4)
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE if transitive else INTRANSITIVE)
    tense = draft.random.choice(_TENSES)
    first, second = (noun_phrase(draft, draw_noun(draft, subjects)) for _ in range(2))
    both = joined(first, second)
    group = verb_group(verb, both, tense)
    clause = statement(both, group, draw_object(draft, verb, objects).phrase) if transitive else statement(both, group)
    return _with_time(draft, clause, tense) + _stop()


def subordinate_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: Alice thinks that the dog took the cake. / Alice pense que le chien a pris le gâteau."""
    verb, subjects, objects = _draw_verb(draft, TRANSITIVE)
    doer = subject(draft, subjects)
    inner = statement(doer, verb_group(verb, doer, "past"), draw_object(draft, verb, objects).phrase)
    if draft.chance(0.5):
        thinker = subject(draft, "people", determiners=DEFINITE)
        thinks = draft.random.choice(_OPINIONS)[2 if thinker.plural else 0 :][:2]
        opinion = pair(*thinks)
        meant = VerbUse(opinion.english[0].text.removesuffix("s"), "present", opinion.english)
        main = (thinker.phrase + opinion).meaning_one(clause_of(thinker, meant))
        return main + pair("that/SCONJ", "que/SCONJ") + inner + _stop()
    verb, subjects, _ = _draw_verb(draft, INTRANSITIVE)
    other = subject(draft, subjects, first_person=True)
    main = statement(other, verb_group(verb, other, "past"))
    return main + pair("because/SCONJ", "parce/SCONJ que/SCONJ") + inner + _stop()


# kind -> the function that draws a sentence, and the fraction of the corpus in percent
KINDS: dict[str, tuple[Callable[[Draft], Phrase], int]] = {
    "statement": (statement_sentence, 18),
    "intransitive": (intransitive_sentence, 7),
    "journey": (journey_sentence, 4),
    "description": (description_sentence, 10),
    "negation": (negation_sentence, 8),
    "question": (question_sentence, 7),
    "relative": (relative_sentence, 9),
    "modal": (modal_sentence, 4),
    "giving": (giving_sentence, 4),
    "coordination": (coordination_sentence, 5),
    "subordinate": (subordinate_sentence, 4),
    "review": (review_sentence, 9),
    "pronoun": (pronoun_sentence, 6),
    "bank": (bank_sentence, 5),
}
