"""Words, tokens and the links between them."""

from __future__ import annotations

import pytest
import torch

from saccade.data.grammar import generate
from saccade.data.pairs import Pair
from saccade.tasks.translation.gold import (
    GoldPair,
    from_characters,
    from_grammar,
    from_pair,
    spaced_words,
    token_links,
    word_agreement,
)
from saccade.text import Tokenizer


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    return Tokenizer.train(["abcdefg "], kind="character", vocabulary_size=20)


def test_words_of_a_pair_are_separated_by_any_space() -> None:
    gold = from_pair(Pair("the  the\tcat.", "le chat", 4, ((0, 0), (2, 1))))
    assert gold.source_words == ((0, 3), (5, 8), (9, 13))
    assert gold.target_words == ((0, 2), (3, 7))
    assert gold.links == {(0, 0), (2, 1)}
    assert gold.content == {0, 1}
    assert from_pair(Pair("a", "b", 1)).links is None


def test_words_of_characters_are_characters() -> None:
    gold = from_characters(Pair("abc", "xy", 1, ((0, 0), (2, 1))))
    assert gold.source_words == ((0, 1), (1, 2), (2, 3))
    assert gold.target_words == ((0, 1), (1, 2))


def test_every_link_of_the_grammar_is_between_words_that_are_there() -> None:
    for gold in from_grammar(generate(50, 3, "train")):
        assert gold.links
        assert all(s < len(gold.source_words) and t < len(gold.target_words) for s, t in gold.links)
        assert all(gold.source[a:b].strip() == gold.source[a:b] for a, b in gold.source_words)


@pytest.mark.parametrize(
    ("text", "spans", "words"),
    [
        ("ab c", [(0, 1), (1, 2), (2, 3), (3, 4)], [0, 0, 1, 1]),  # the space goes with the word after
        ("ab", [(0, 0), (0, 2)], [0, 0]),
        ("a b ", [(0, 1), (2, 3), (3, 4)], [0, 1, 1]),  # a last space has no word after
        ("  ", [(0, 2)], [0]),
        ("", [], []),
    ],
)
def test_each_token_has_a_word(text: str, spans: list[tuple[int, int]], words: list[int]) -> None:
    assert spaced_words(text, spans) == words


def test_links_of_words_become_links_of_their_tokens(letters: Tokenizer) -> None:
    gold = from_pair(Pair("ab c", "d ef", 1, ((0, 1), (1, 0))))
    # source tokens a0 b1 space2 c3, target tokens d0 space1 e2 f3
    assert token_links(gold, letters, letters) == {(0, 2), (1, 2), (0, 3), (1, 3), (3, 0)}
    assert token_links(from_pair(Pair("a", "b", 1)), letters, letters) is None


def test_agreement_adds_the_tokens_of_a_word(letters: Tokenizer) -> None:
    gold = GoldPair(
        "ab c", "d e", 1, ((0, 2), (3, 4)), ((0, 1), (2, 3)), frozenset({(0, 0), (0, 1)}), frozenset({0, 1})
    )
    matrix = torch.tensor(
        [
            [0.3, 0.3, 0.0, 0.4],  # d: "ab" has 0.6 together, though "c" is the strongest token
            [0.0, 0.0, 1.0, 0.0],  # the space
            [0.2, 0.2, 0.0, 0.6],  # e: "c"
        ]
    )
    assert word_agreement(gold, matrix, letters, letters) == (1, 2)
