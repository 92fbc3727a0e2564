"""The built-in corpus: its French, its alignments, its links, and what is held out."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from saccade.data.grammar import Example, content_words, generate, showcase, split_of
from saccade.data.grammar.kinds import KINDS
from saccade.data.grammar.phrase import begins_with_vowel
from saccade.errors import OptionError, UnknownNameError

# Written out here, not taken from the lexicon, so that the two can disagree.
MASCULINE = {
    "chat": "chats",
    "oiseau": "oiseaux",
    "cheval": "chevaux",
    "homme": "hommes",
    "hibou": "hiboux",
    "ours": "ours",
    "arbre": "arbres",
    "gâteau": "gâteaux",
    "œuf": "œufs",
    "journal": "journaux",
    "hôpital": "hôpitaux",
    "ami": "amis",
    "enfant": "enfants",
    "jeu": "jeux",
    "repas": "repas",
}
FEMININE = {
    "souris": "souris",
    "école": "écoles",
    "abeille": "abeilles",
    "femme": "femmes",
    "pomme": "pommes",
    "horloge": "horloges",
    "histoire": "histoires",
    "clé": "clés",
    "infirmière": "infirmières",
    "chèvre": "chèvres",
    "rivière": "rivières",
    "maison": "maisons",
}
# masculine, masculine before a vowel, feminine, masculine plural, feminine plural
ADJECTIVES = (
    ("petit", "petit", "petite", "petits", "petites"),
    ("beau", "bel", "belle", "beaux", "belles"),
    ("vieux", "vieil", "vieille", "vieux", "vieilles"),
    ("nouveau", "nouvel", "nouvelle", "nouveaux", "nouvelles"),
    ("bon", "bon", "bonne", "bons", "bonnes"),
    ("mauvais", "mauvais", "mauvaise", "mauvais", "mauvaises"),
    ("noir", "noir", "noire", "noirs", "noires"),
    ("blanc", "blanc", "blanche", "blancs", "blanches"),
    ("gris", "gris", "grise", "gris", "grises"),
    ("délicieux", "délicieux", "délicieuse", "délicieux", "délicieuses"),
    ("frais", "frais", "fraîche", "frais", "fraîches"),
    ("cruel", "cruel", "cruelle", "cruels", "cruelles"),
    ("affamé", "affamé", "affamée", "affamés", "affamées"),
    ("triste", "triste", "triste", "tristes", "tristes"),
)
FORMS = {form: paradigm for paradigm in ADJECTIVES for form in paradigm}
# determiner: which (gender, plural) it goes with; l', notre and plural determiners go with both genders
DETERMINERS = {
    determiner: features
    for determiners, features in (
        ("le un ce cet", {("m", False)}),
        ("la une cette ma sa", {("f", False)}),
        ("mon son notre l'", {("m", False), ("f", False)}),
        ("les ces mes ses nos deux trois de", {("m", True), ("f", True)}),
    )
    for determiner in determiners.split()
}


@pytest.fixture(scope="module")
def train() -> list[Example]:
    return generate(30_000, seed=3)


@pytest.fixture(scope="module")
def validation() -> list[Example]:
    return generate(1_500, seed=4, split="validation")


@pytest.fixture(scope="module")
def test() -> list[Example]:
    return generate(1_500, seed=5, split="test")


def by_text() -> dict[str, Example]:
    return {example.source_text: example for example in showcase()}


def aligned(example: Example) -> set[tuple[str, str]]:
    return {(example.source[source], example.target[target]) for source, target in example.alignment}


def test_the_same_seed_gives_the_same_sentences_and_another_seed_others() -> None:
    assert generate(97, seed=1) == generate(97, seed=1)
    assert generate(97, seed=1)[:31] == generate(31, seed=1)
    assert generate(97, seed=1) != generate(97, seed=2)


def test_english_and_french_are_the_same_in_every_version() -> None:
    """The demo's figures depend on these sentences, so no change to the grammar may change one of them."""
    examples = generate(500, seed=7)
    written = "\n".join(f"{one.source_text}\t{one.target_text}\t{one.alignment}" for one in examples)
    expected = "feb35a027eaa65cf8a37824503c08a8e0ad5c672da2bc338ed34c60b99276830"
    assert hashlib.sha256(written.encode()).hexdigest() == expected


def test_sources_are_unique_and_the_count_is_kept(train: list[Example]) -> None:
    assert len({example.source_text for example in train}) == len(train) == 30_000


def test_the_black_cat() -> None:
    example = by_text()["The black cat ate the mouse."]
    assert example.target_text == "Le chat noir a mangé la souris."
    assert example.source == ("the", "black", "cat", "ate", "the", "mouse", ".")
    assert example.tags == ("DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "PUNCT")
    # the cat swaps places with black; ate is two words
    assert example.alignment == ((0, 0), (1, 2), (2, 1), (3, 3), (3, 4), (4, 5), (5, 6), (6, 7))
    assert content_words(example) == {1: {2}, 2: {1}, 4: {3}, 6: {5}}


@pytest.mark.parametrize(
    ("source", "target", "word", "antecedent"),
    [
        (
            "The cat ate the mouse because it was hungry.",
            "Le chat a mangé la souris parce qu'il était affamé.",
            "it",
            "cat",
        ),
        (
            "The cat ate the mouse because it was slow.",
            "Le chat a mangé la souris parce qu'elle était lente.",
            "it",
            "mouse",
        ),
        (
            "The kids were scared of the lions, so they left right away.",
            "Les enfants avaient peur des lions, alors ils sont partis immédiatement.",
            "they",
            "kids",
        ),
        (
            "I arrived at the bank after crossing the street.",
            "Je suis arrivé à la banque après avoir traversé la rue.",
            "bank",
            "street",
        ),
        (
            "I arrived at the bank after crossing the river.",
            "Je suis arrivé à la rive après avoir traversé la rivière.",
            "bank",
            "river",
        ),
    ],
)
def test_shown_sentences_with_their_links(source: str, target: str, word: str, antecedent: str) -> None:
    example = by_text()[source]
    assert example.target_text == target
    (link,) = example.links
    assert (example.source[link.word], example.source[link.antecedent]) == (word, antecedent)
    assert link.kind == ("bank" if word == "bank" else "pronoun")


def test_alignment_of_many_words_with_one() -> None:
    """ "of the" is one French word, "right away" too, "left" is two."""
    example = by_text()["The kids were scared of the lions, so they left right away."]
    pairs = aligned(example)
    assert {("of", "des"), ("the", "des"), ("left", "sont"), ("left", "partis")} <= pairs
    assert {("right", "immédiatement"), ("away", "immédiatement")} <= pairs
    assert example.alignment.count((4, 4)) == example.alignment.count((5, 4)) == 1


def test_the_shown_sentences_are_unseen_in_training(train: list[Example]) -> None:
    assert not set(by_text()) & {example.source_text for example in train}
    assert all("test" in map(split_of, example.combinations) for example in showcase())


def test_every_sentence_is_well_formed(train: list[Example]) -> None:
    for example in train:
        assert len(example.tags) == len(example.source)
        assert len(example.target_tags) == len(example.target)
        assert all(
            0 <= source < len(example.source) and 0 <= target < len(example.target)
            for source, target in example.alignment
        )
        # French adds no word of its own; English may ("does not eat")
        assert {target for _, target in example.alignment} == set(range(len(example.target)))
        unaligned = set(range(len(example.source))) - {source for source, _ in example.alignment}
        assert {example.source[index] for index in unaligned} <= {"do", "does", "to"}
        assert all(content_words(example).values())


def test_the_french_is_a_function_of_the_english(train: list[Example], test: list[Example]) -> None:
    """Within one call sources are unique, so this compares two: what both drew has one French, tags and links."""
    known = {example.source_text: example for example in train}
    drawn_twice = 0
    for example in [*generate(20_000, seed=6), *test]:
        first = known.setdefault(example.source_text, example)
        drawn_twice += first is not example
        assert first.target == example.target
        assert (first.tags, first.links, first.alignment) == (example.tags, example.links, example.alignment)
        if first.kind == example.kind:
            assert first.sentiment == example.sentiment
    assert drawn_twice > 100


def test_every_kind_is_there_and_lengths_are_those_of_plain_sentences(train: list[Example]) -> None:
    kinds = Counter(example.kind for example in train)
    assert set(kinds) == set(KINDS)
    assert sum(share for _, share in KINDS.values()) == 100
    assert min(kinds.values()) > 0.03 * len(train)
    fitting = sum(4 <= len(example.source) <= 16 for example in train)
    assert fitting > 0.99 * len(train)


def test_every_word_is_frequent_in_training_and_the_others_have_no_new_one(
    train: list[Example], validation: list[Example], test: list[Example]
) -> None:
    source = Counter(word for example in train for word in example.source)
    target = Counter(word for example in train for word in example.target)
    assert min(source.values()) >= 10
    assert min(target.values()) >= 8
    for example in [*validation, *test, *showcase()]:
        assert set(example.source) <= set(source)
        assert set(example.target) <= set(target)


def adjective_noun_pairs(example: Example) -> set[tuple[str, str]]:
    """Read from the tags alone: an adjective, and the noun that it stands before."""
    pairs = set()
    for index, tag in enumerate(example.tags):
        following = example.tags[index + 1 :]
        if tag == "ADJ" and following[:1] == ("NOUN",):
            pairs.add((example.source[index], example.source[index + 1]))
        if tag == "ADJ" and following[:2] == ("ADJ", "NOUN"):
            pairs.add((example.source[index], example.source[index + 2]))
    return pairs


def test_no_held_out_combination_is_in_training(
    train: list[Example], validation: list[Example], test: list[Example]
) -> None:
    assert {split_of(combination) for example in train for combination in example.combinations} == {"train"}
    for name, examples in (("validation", validation), ("test", test)):
        for example in examples:
            assert {split_of(combination) for combination in example.combinations} in ({name}, {name, "train"})
    seen = set().union(*map(adjective_noun_pairs, train))
    unseen = [bool(adjective_noun_pairs(example) - seen) for example in test]
    assert ("small", "cat") in seen
    assert ("black", "cat") not in seen
    assert sum(unseen) > 100
    ate = {example.source[i + 2] for example in train for i in eaten_at(example)}
    assert {"rabbit", "hens", "cake"} <= ate
    assert not {"mouse", "mice"} & ate


def eaten_at(example: Example) -> list[int]:
    """Where "ate the NOUN" starts."""
    return [
        index
        for index, word in enumerate(example.source[:-2])
        if word in ("eat", "eats", "ate") and example.tags[index + 1 : index + 3] == ("DET", "NOUN")
    ]


def test_validation_and_test_are_disjoint(validation: list[Example], test: list[Example]) -> None:
    assert not {example.source for example in validation} & {example.source for example in test}


def test_the_recorded_combinations_are_those_in_the_text(train: list[Example]) -> None:
    for example in train[:5_000]:
        recorded = {adjective for kind, adjective, _ in example.combinations if kind == "adjective"}
        used = {word for word, tag in zip(example.source, example.tags, strict=True) if tag == "ADJ"}
        assert used - recorded <= {"last", "next", "scared"}


def noun_phrases(example: Example) -> list[tuple[str, list[str], str, list[str]]]:
    """(determiner, adjectives before, noun, adjectives after) of each French noun phrase, from its tags."""
    found = []
    for index, tag in enumerate(example.target_tags):
        if tag != "NOUN":
            continue
        start = index
        while start and example.target_tags[start - 1] == "ADJ":
            start -= 1
        end = index + 1
        while end < len(example.target) and example.target_tags[end] == "ADJ":
            end += 1
        words = example.target
        found.append((words[start - 1], list(words[start:index]), words[index], list(words[index + 1 : end])))
    return found


def test_determiners_and_adjectives_agree_with_their_noun(train: list[Example]) -> None:
    checked: Counter[str] = Counter()
    readings: dict[str, set[tuple[str, bool]]] = {}
    for gender, table in (("m", MASCULINE), ("f", FEMININE)):
        for singular, plural in table.items():
            readings.setdefault(singular, set()).add((gender, False))
            readings.setdefault(plural, set()).add((gender, True))
    for example in train:
        for determiner, before, noun, after in noun_phrases(example):
            if noun not in readings or determiner not in DETERMINERS:
                continue
            features = readings[noun] & DETERMINERS[determiner]
            assert len(features) == 1, example.target_text
            ((gender, plural),) = features
            for adjective in before + after:
                if adjective in FORMS:
                    masculine, _, feminine, masculine_plural, feminine_plural = FORMS[adjective]
                    right = (feminine, feminine_plural) if gender == "f" else (masculine, masculine_plural)
                    # beau and bel are told apart below
                    allowed = {right[plural]} | ({FORMS[adjective][1]} if (gender, plural) == ("m", False) else set())
                    assert adjective in allowed, example.target_text
                    checked[adjective] += 1
    assert min(checked[form] for form in FORMS if form not in ("bel", "vieil", "nouvel", "nouveaux")) >= 2


def test_forms_before_a_vowel(train: list[Example]) -> None:
    """l'homme, cet arbre, mon école, un bel oiseau, n'a, qu'elle, but: le hibou, le vieux hibou."""
    only_before_vowel = {"cet", "bel", "vieil", "nouvel"}
    never_before_vowel = {"le", "la", "ne", "que", "je", "de", "ce", "ma", "sa"}
    seen: Counter[str] = Counter()
    for example in train:
        words = example.target
        for word, tag, following in zip(words, example.target_tags, words[1:], strict=False):
            if word in only_before_vowel or word.endswith("'"):
                assert begins_with_vowel(following), example.target_text
                seen[word] += 1
            assert not (word in never_before_vowel and begins_with_vowel(following)), example.target_text
            masculine = word in ("beau", "vieux", "nouveau") and tag == "ADJ" and following in MASCULINE
            if masculine and following != "ours":
                assert not begins_with_vowel(following), example.target_text
    assert min(seen[word] for word in (*only_before_vowel, "l'", "n'", "qu'", "d'", "j'", "c'") if word != "d'") > 5
    assert not begins_with_vowel("hibou")
    assert all(map(begins_with_vowel, ("homme", "œuf", "église", "Alice", "île")))


def test_no_uncontracted_article_and_no_indefinite_article_after_a_negation(train: list[Example]) -> None:
    for example in train:
        pairs = set(zip(example.target, example.target[1:], strict=False))
        assert not pairs & {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")}
        if example.kind == "negation":
            negator = next(index for index, word in enumerate(example.target) if word in ("pas", "jamais"))
            assert not {"un", "une", "des"} & set(example.target[negator : negator + 3])


def test_negation_encloses_the_finite_verb(train: list[Example]) -> None:
    negated = [example for example in train if {"not", "never"} & set(example.source)]
    assert len(negated) > 2_000
    for example in negated:
        for index, word in enumerate(example.target):
            if word in ("ne", "n'"):
                assert example.target[index + 2] in ("pas", "jamais"), example.target_text


@pytest.mark.parametrize(
    ("participle", "feminine"), [("mangé", "mangée"), ("vu", "vue"), ("pris", "prise"), ("suivi", "suivie")]
)
def test_participle_agrees_with_the_object_in_front_of_it(train: list[Example], participle: str, feminine: str) -> None:
    """la souris que le chat a mangée, but: le chat a mangé la souris."""
    nouns = {**dict.fromkeys(FEMININE, feminine), **dict.fromkeys(MASCULINE, participle)}
    del nouns["souris"], nouns["ours"], nouns["repas"]  # one form for both numbers
    counts: Counter[object] = Counter()
    for example in train:
        words = example.target
        if example.kind != "relative" or not {participle, feminine} & set(words):
            continue
        index = next(i for i, word in enumerate(words) if word in (participle, feminine))
        before = [i for i in range(index) if words[i] in ("que", "qu'") and example.target_tags[i] == "PRON"]
        if not before:
            assert words[index] == participle, example.target_text
            continue
        head = [i for i in range(before[0]) if example.target_tags[i] == "NOUN"][-1]
        if words[head] in nouns and "AUX" in example.target_tags[before[0] : index]:
            assert words[index] == nouns[words[head]], example.target_text
            counts[words[index]] += 1
    assert counts[participle] > 1
    assert counts[feminine] > 1


def test_participle_with_etre_agrees_with_the_subject(train: list[Example]) -> None:
    """Les souris grises sont parties: the noun is that of the first noun phrase, if the sentence starts with one."""
    nouns = {"": MASCULINE.keys(), "e": FEMININE.keys(), "s": MASCULINE.values(), "es": FEMININE.values()}
    endings = {stem + end: end for stem in ("parti", "arrivé", "tombé", "resté", "revenu") for end in nouns}
    counts: Counter[str] = Counter()
    for example in train:
        words = example.target
        if example.kind != "intransitive" or words[0] not in DETERMINERS or not set(words) & set(endings):
            continue
        noun = words[example.target_tags.index("NOUN")]
        (participle,) = set(words) & set(endings)
        if any(noun in table for table in nouns.values()):
            assert noun in nouns[endings[participle]], example.target_text
            counts[endings[participle]] += 1
    assert len(counts) == 4
    assert min(counts.values()) >= 3


def test_pronouns_have_the_gender_of_their_antecedent(train: list[Example]) -> None:
    counts: Counter[object] = Counter()
    for example in train:
        assert [link.kind for link in example.links] == ([example.kind] if example.kind in ("pronoun", "bank") else [])
        if example.kind != "pronoun":
            continue
        (link,) = example.links
        assert example.source[link.word] in ("he", "she", "it", "they")
        assert example.tags[link.antecedent] == "NOUN"
        french = {source: example.target[target] for source, target in example.alignment}
        noun, pronoun = french[link.antecedent], french[link.word]
        if noun in {*MASCULINE, *MASCULINE.values()}:
            assert pronoun in ("il", "ils"), example.target_text
        if noun in {*FEMININE, *FEMININE.values()}:
            assert pronoun in ("elle", "elles"), example.target_text
        counts[example.source[link.word], pronoun] += 1
        nouns = [index for index, tag in enumerate(example.tags) if tag == "NOUN"]
        counts["first" if link.antecedent == nouns[0] else "second"] += 1
    assert all(counts["it", word] > 100 for word in ("il", "elle"))
    assert all(counts["they", word] > 100 for word in ("ils", "elles"))
    # neither "always the first noun" nor "always the nearest" would do
    assert 0.35 < counts["first"] / (counts["first"] + counts["second"]) < 0.65


def test_bank_is_decided_by_its_cue(train: list[Example]) -> None:
    money = {"street", "avenue", "square", "road", "customer", "banker", "thief", "customers", "bankers", "thieves"}
    counts: Counter[object] = Counter()
    for example in (example for example in train if example.kind == "bank"):
        (link,) = example.links
        assert example.source[link.word] == "bank"
        bank = next(example.target[target] for source, target in example.alignment if source == link.word)
        assert bank == ("banque" if example.source[link.antecedent] in money else "rive"), example.source_text
        counts[bank, link.antecedent < link.word] += 1
    assert min(counts.values()) > 100  # both senses, the cue before and after
    assert len(counts) == 4


def test_sentiment_is_that_of_the_last_clause(train: list[Example]) -> None:
    praise = {"good", "excellent", "wonderful", "funny", "interesting", "fascinating", "beautiful"}
    reviews = [example for example in train if example.kind == "review"]
    assert {example.sentiment for example in train if example.kind != "review"} == {None}
    for example in reviews:
        words = list(example.source)
        clause = words[words.index("but") :] if "but" in words else words
        negated = bool({"not", "never"} & set(clause))
        verdicts = {"loved", "love", "liked", "like", "hated", "hate"} & set(clause)
        praised = bool((verdicts or praise & set(clause)) - {"hated", "hate"})
        assert example.sentiment == ("positive" if praised != negated else "negative"), example.source_text
    assert sum("but" in example.source for example in reviews) > 300
    assert sum("not" in example.source for example in reviews) > 300


def test_spans_point_at_the_words_of_the_text(train: list[Example]) -> None:
    for example in train[:5_000]:
        for text, words, spans in (
            (example.source_text, example.source, example.source_spans),
            (example.target_text, example.target, example.target_spans),
        ):
            found = [text[start:end] for start, end in spans]
            assert [found[0].lower(), *found[1:]] == [words[0].lower(), *words[1:]]
            covered = sum(end - start for start, end in spans)
            assert covered + text.count(" ") == len(text)  # nothing else but spaces
            assert text[0] == text[0].upper()
            assert "' " not in text
            assert " ." not in text


def test_question_marks_are_spaced_as_each_language_does(train: list[Example]) -> None:
    asked = next(example for example in train if example.kind == "question")
    assert asked.source_text[-2] != " "
    assert asked.target_text.endswith(" ?")


def test_bad_arguments_are_named() -> None:
    with pytest.raises(UnknownNameError, match="no split 'dev'"):
        generate(3, seed=0, split="dev")
    with pytest.raises(OptionError, match="-1"):
        generate(-1, seed=0)


def test_sentences_of_one_kind_can_be_drawn() -> None:
    reviews = generate(40, seed=3, kind="review")
    assert {example.kind for example in reviews} == {"review"}
    assert {example.sentiment for example in reviews} == {"positive", "negative"}
    assert len({example.source for example in reviews}) == 40
    with pytest.raises(UnknownNameError, match="There is no kind of sentence 'poem'"):
        generate(1, seed=3, kind="poem")
