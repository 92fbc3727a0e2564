"""Build the reviews in the built-in corpus. In a review, "not" reverses the sentiment of an adjective, and the part
after "but" decides the sentiment of the whole."""

from __future__ import annotations

from saccade.data.grammar.clauses import agreeing, copula, statement, verb_group
from saccade.data.grammar.lexicon import ADJECTIVES, NEGATIVE, POSITIVE, TRANSITIVE, Adjective
from saccade.data.grammar.meaning import Clause, Identity
from saccade.data.grammar.nouns import DEFINITE, Draft, NounPhrase, draw_noun, noun_phrase, subject
from saccade.data.grammar.phrase import Phrase, fixed, pair

__all__ = ["review_sentence"]

_OPPOSITE = {"positive": "negative", "negative": "positive"}
_VERDICTS = {"positive": ("love", "like"), "negative": ("hate",)}


def review_sentence(draft: Draft) -> Phrase:
    """Draw a sentence such as: The story was sad, but the film was excellent. / ..., mais le film était excellent."""
    draft.sentiment = draft.random.choice(list(_OPPOSITE))
    build = draft.random.choice([_description, _description, _presentation, _verdict, _contrast, _contrast])
    return build(draft, draft.sentiment) + pair("./PUNCT", "./PUNCT")


def _adjective(draft: Draft, sentiment: str) -> Adjective:
    return ADJECTIVES[draft.random.choice(POSITIVE if sentiment == "positive" else NEGATIVE)]


def _judged(draft: Draft, work: NounPhrase, sentiment: str, may_negate: bool = True) -> Phrase:
    """Build a clause such as "the film was good" or "the film was not bad"; a negated clause has an adjective of the
    opposite sentiment."""
    negation = draft.random.choice([None, None, "not", "never"]) if may_negate else None
    adjective = _adjective(draft, _OPPOSITE[sentiment] if negation else sentiment)
    degree = draft.random.choice([None, None, ("very", "très"), ("really", "vraiment")])
    return copula(draft, work, adjective, draft.random.choice(["past", "past", "present"]), negation, degree)


def _work(draft: Draft) -> NounPhrase:
    """Draw the work that is reviewed, without adjectives, because they could express another sentiment."""
    return noun_phrase(draft, draw_noun(draft, "works"), determiners=DEFINITE, adjectives=())


def _description(draft: Draft, sentiment: str) -> Phrase:
    work = _work(draft)
    return _judged(draft, work, sentiment)


def _presentation(draft: Draft, sentiment: str) -> Phrase:
    """Draw a sentence such as: This was a boring film. / C'était un film ennuyeux."""
    english, french = draft.random.choice([("was/AUX", "était/AUX"), ("is/AUX", "est/AUX")])
    adjectives = (_adjective(draft, sentiment),)
    work = noun_phrase(draft, draw_noun(draft, "works"), False, ("a",), adjectives)
    this, be = pair("this/PRON", "ce/PRON"), pair(english, french)
    tense = "past" if english == "was/AUX" else "present"
    meant = Clause(fixed(this.english), Identity(tense, be.english, work.nominal))
    return (this + be + work.phrase).meaning_one(meant)


def _verdict(draft: Draft, sentiment: str) -> Phrase:
    """Draw a sentence such as: We did not like this comedy. / Nous n'avons pas aimé cette comédie."""
    negation = draft.random.choice([None, None, "not"])
    verb = TRANSITIVE[draft.random.choice(_VERDICTS[_OPPOSITE[sentiment] if negation else sentiment])]
    judge = subject(draft, "people", first_person=True, determiners=DEFINITE)
    work = _work(draft)
    draft.combinations.append(("verb", verb.english, work.nouns[0].english))
    return statement(judge, verb_group(verb, judge, "past", negation), work.phrase)


def _contrast(draft: Draft, sentiment: str) -> Phrase:
    """Build a contrast: the part after "but", on the same work or on another, decides the sentiment."""
    work = _work(draft)
    same = draft.chance(0.4)
    first = _judged(draft, work, _OPPOSITE[sentiment], may_negate=not same)
    if same:
        adjective = _adjective(draft, sentiment)
        draft.combinations.append(("adjective", adjective.english, work.nouns[0].english))
        return first + pair("but/CCONJ", "mais/CCONJ") + agreeing(adjective, work)
    other = _work(draft)
    comma = pair(",/PUNCT but/CCONJ", ",/PUNCT mais/CCONJ")
    return first + comma + _judged(draft, other, sentiment)
