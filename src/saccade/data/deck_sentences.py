"""Three sentences from the lectures, and variations of them, in English and French. Many of their words do not occur in
the built-in corpus.

- Lecture 002: "The agreement on the European Economic Area was signed in August 1992."
- Lecture 001: "The animal didn't cross the street because it was too tired." With "wide" instead of "tired", "it" is
  the street, and the gender of the French pronoun shows which of the two is meant.
- Lecture 001: "Fatima accepted a job in deep learning because she loves the topic."

These three sentences are always in the test split. The split of a variation depends on a hash of its text.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Mapping

from saccade.data.grammar import Example, Link
from saccade.data.grammar.phrase import Phrase, Rendering, Word, pair, settle
from saccade.errors import OptionError

__all__ = ["OWN", "deck_sentences"]

#: The split of a sentence depends on the last digit of its hash: 8 digits for training, 1 each for the others.
PARTS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def _nouns(text: str) -> dict[str, tuple[str, str]]:
    """Parse a list of nouns; return the French noun and its gender for each English noun."""
    return {english: (french, gender) for english, french, gender in (noun.split() for noun in text.split(", "))}


def _adjectives(text: str) -> dict[str, tuple[str, str]]:
    """Parse adjectives and participles; return the French masculine and feminine form for each English word."""
    return {english: (masculine, feminine) for english, masculine, feminine in map(str.split, text.split(", "))}


PAPERS = _nouns("agreement accord m, treaty traité m, law loi f, convention convention f, report rapport m")
REGIONS = _adjectives("European européen européenne, African africain africaine, American américain américaine")
KINDS = _adjectives(
    "Economic économique économique, Monetary monétaire monétaire, Political politique politique, "
    "Military militaire militaire, Social social sociale"
)
UNIONS = _nouns("Area zone f, Union union f, Community communauté f, Market marché m, Alliance alliance f")
DONE = _adjectives("signed signé signée, published publié publiée, rejected rejeté rejetée, adopted adopté adoptée")
# fmt: off
MONTHS = {
    "January": "janvier", "February": "février", "March": "mars", "April": "avril", "May": "mai", "June": "juin",
    "July": "juillet", "August": "août", "September": "septembre", "October": "octobre", "November": "novembre",
    "December": "décembre",
}
# fmt: on
YEARS = [str(year) for year in range(1985, 2005)]

ANIMALS = _nouns("animal animal m, cow vache f, dog chien m, hen poule f, horse cheval m, goat chèvre f, cat chat m")
PLACES = _nouns("street rue f, bridge pont m, river rivière f, road route f, field champ m, garden jardin m")
MOVES = _adjectives("cross traversé traversée, leave quitté quittée, like aimé aimée")
OF_ANIMALS = _adjectives("tired fatigué fatiguée, hungry affamé affamée, old vieux vieille, weak faible faible")
OF_PLACES = _adjectives("wide large large, long long longue, dangerous dangereux dangereuse, noisy bruyant bruyante")

PEOPLE = {"Fatima": "f", "Rashonda": "f", "Alice": "f", "Maria": "f", "Omar": "m", "Paul": "m", "Victor": "m"}
TAKEN = {"accepted": "accepté", "found": "trouvé", "lost": "perdu", "refused": "refusé"}
POSTS = _nouns("job poste m, prize prix m, place place f")
FIELDS = {
    "deep/ADJ learning/NOUN": "apprentissage/NOUN profond/ADJ",
    "modern/ADJ art/NOUN": "art/NOUN moderne/ADJ",
    "organic/ADJ chemistry/NOUN": "chimie/NOUN organique/ADJ",
    "ancient/ADJ history/NOUN": "histoire/NOUN ancienne/ADJ",
}
FEELINGS = {"loves": "aime", "hates": "déteste", "knows": "connaît"}
TOPICS = _nouns("topic sujet m, school école f, field domaine m, work travail m")


Built = tuple[Phrase, Word | None, Word | None]  # a sentence, a pronoun in it, and the word that it refers to


def _the(nouns: Mapping[str, tuple[str, str]], english: str) -> Phrase:
    french, gender = nouns[english]
    return pair(f"the/DET {english}/NOUN", f"{'le' if gender == 'm' else 'la'}/DET {french}/NOUN")


def _crossed(english: str, french: str, order: tuple[int, ...]) -> Phrase:
    """Build a phrase whose words are in another order in French; ``order`` has the English word of each French word."""
    phrase = pair(english, english)
    targets = [item.rsplit("/", 1) for item in french.split()]
    words = phrase.english
    renderings = (Rendering(text, tag, (words[place],)) for (text, tag), place in zip(targets, order, strict=True))
    return Phrase(words, tuple(renderings))


def _agreement(paper: str, region: str, kind: str, union: str, done: str, month: str, year: str) -> Built:
    french, gender = UNIONS[union]
    form, article = (0, "le") if gender == "m" else (1, "la")
    area = _crossed(
        f"the/DET {region}/ADJ {kind}/ADJ {union}/NOUN",
        f"{article}/DET {french}/NOUN {KINDS[kind][form]}/ADJ {REGIONS[region][form]}/ADJ",
        (0, 3, 2, 1),
    )
    ended = DONE[done][0 if PAPERS[paper][1] == "m" else 1]
    phrase = _the(PAPERS, paper) + pair("on/ADP", "sur/ADP") + area + pair("was/AUX", "a/AUX été/AUX")
    phrase += pair(f"{done}/VERB in/ADP {month}/NOUN", f"{ended}/VERB en/ADP {MONTHS[month]}/NOUN")
    return phrase + pair(f"{year}/NUM ./PUNCT", f"{year}/NUM ./PUNCT"), None, None


def _animal(animal: str, move: str, place: str, adjective: str) -> Built:
    subject, object_ = _the(ANIMALS, animal), _the(PLACES, place)
    is_animal = adjective in OF_ANIMALS
    told = OF_ANIMALS if is_animal else OF_PLACES
    gender = (ANIMALS[animal] if is_animal else PLACES[place])[1]
    negation, verb = pair("didn't/AUX", "ne/PART a/AUX pas/PART"), pair(f"{move}/VERB", f"{MOVES[move][0]}/VERB")
    it = pair("it/PRON", f"{'il' if gender == 'm' else 'elle'}/PRON")
    why = pair("because/SCONJ", "parce/SCONJ que/SCONJ") + it + pair("was/AUX too/ADV", "était/AUX trop/ADV")
    said = pair(f"{adjective}/ADJ ./PUNCT", f"{told[adjective][0 if gender == 'm' else 1]}/ADJ ./PUNCT")
    antecedent = (subject if is_animal else object_).english[1]
    return subject + negation + verb + object_ + why + said, it.english[0], antecedent


def _job(person: str, taken: str, post: str, field: str, feels: str, topic: str) -> Built:
    who = pair(f"{person}/PROPN", f"{person}/PROPN")
    french, gender = POSTS[post]
    given = pair(f"a/DET {post}/NOUN in/ADP", f"{'un' if gender == 'm' else 'une'}/DET {french}/NOUN en/ADP")
    pronouns = ("she", "elle") if PEOPLE[person] == "f" else ("he", "il")
    she = pair(f"{pronouns[0]}/PRON", f"{pronouns[1]}/PRON")
    phrase = who + pair(f"{taken}/VERB", f"a/AUX {TAKEN[taken]}/VERB") + given + _crossed(field, FIELDS[field], (1, 0))
    phrase += pair("because/SCONJ", "parce/SCONJ que/SCONJ") + she + pair(f"{feels}/VERB", f"{FEELINGS[feels]}/VERB")
    return phrase + _the(TOPICS, topic) + pair("./PUNCT", "./PUNCT"), she.english[0], who.english[0]


#: For each kind of sentence, the function that builds it, and the groups from which its words are drawn.
KINDS_OF_SENTENCES: dict[str, tuple[Callable[..., Built], tuple[Collection[str], ...]]] = {
    "agreement": (_agreement, (PAPERS, REGIONS, KINDS, UNIONS, DONE, MONTHS, YEARS)),
    "animal": (_animal, (ANIMALS, MOVES, PLACES, OF_ANIMALS | OF_PLACES)),
    "job": (_job, (PEOPLE, TAKEN, POSTS, FIELDS, FEELINGS, TOPICS)),
}
SHARES = (3, 1, 1)
#: The words of the three sentences in the lectures.
OWN = {
    "agreement": ("agreement", "European", "Economic", "Area", "signed", "August", "1992"),
    "animal": ("animal", "cross", "street", "tired"),
    "job": ("Fatima", "accepted", "job", "deep/ADJ learning/NOUN", "loves", "topic"),
}


def deck_sentences(count: int, seed: int, split: str = "train") -> list[Example]:
    """Return ``count`` different sentences of a split, with their French translations. Those of the test split begin
    with the three sentences from the lectures."""
    if count < 0:
        raise OptionError(f"The number of sentences must be 0 or more, not {count}.")
    own = {example.source_text: example for example in (_example(kind, words) for kind, words in OWN.items())}
    draw, found = random.Random(seed), dict(own) if split == "test" else {}
    while len(found) < count:
        kind = draw.choices([*KINDS_OF_SENTENCES], SHARES)[0]
        example = _example(kind, tuple(draw.choice([*group]) for group in KINDS_OF_SENTENCES[kind][1]))
        if _place(example.source_text) in PARTS[split] and example.source_text not in own:
            found[example.source_text] = example
    return list(found.values())[:count]


def _place(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") % 10


def _example(kind: str, words: tuple[str, ...]) -> Example:
    phrase, pronoun, antecedent = KINDS_OF_SENTENCES[kind][0](*words)
    position = {word: index for index, word in enumerate(phrase.english)}
    target = settle(phrase.french)
    alignment = {(position[word], index) for index, item in enumerate(target) for word in item.sources}
    links = () if pronoun is None or antecedent is None else (Link(kind, position[pronoun], position[antecedent]),)
    return Example(
        source=tuple(word.text for word in phrase.english),
        target=tuple(item.text for item in target),
        alignment=tuple(sorted(alignment)),
        tags=tuple(word.tag for word in phrase.english),
        target_tags=tuple(item.tag for item in target),
        sentiment=None,
        links=links,
        kind=kind,
        combinations=(),
    )
