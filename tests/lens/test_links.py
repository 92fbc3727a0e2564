"""Links: Pharaoh format, agreement, and the error rate of Och & Ney, by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import FileError, ShapeError
from saccade.lens.links import (
    GoldLinks,
    WordLink,
    agreement,
    alignment_scores,
    hard_links,
    read_pharaoh,
    write_pharaoh,
)

LINKS = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def test_hard_links_are_the_strongest_of_each_row_and_ties_go_to_the_first() -> None:
    matrix = torch.tensor([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 1e-9]])
    assert hard_links(matrix) == {(1, 0), (0, 1), (2, 3)}


def test_hard_links_of_nothing() -> None:
    assert hard_links(torch.zeros(3, 0)) == frozenset()
    assert hard_links(torch.zeros(0, 3)) == frozenset()
    with pytest.raises(ShapeError, match=r"not from shape \(2, 3, 5\)"):
        hard_links(torch.zeros(2, 3, 5))


def test_pharaoh_by_hand() -> None:
    gold = read_pharaoh("0-0 2-1 1-2 3p2 3?4\n")
    assert gold.sure == {(0, 0), (2, 1), (1, 2)}
    assert gold.possible == gold.sure | {(3, 2), (3, 4)}
    assert write_pharaoh(gold) == "0-0 2-1 1-2 3p2 3p4"
    assert write_pharaoh([(2, 1), (0, 0)]) == "0-0 2-1"


@given(LINKS, LINKS)
def test_pharaoh_round_trip(sure: frozenset[WordLink], possible: frozenset[WordLink]) -> None:
    gold = GoldLinks(sure, possible)
    assert read_pharaoh(write_pharaoh(gold)) == gold


@pytest.mark.parametrize("word", ["1", "a-1", "1-", "-1-2", "1-2-3", "1—2", "٣-1"])
def test_what_is_no_link_is_named(word: str) -> None:
    with pytest.raises(FileError, match=rf"^gold.txt, line 7 contains '{word}'"):
        read_pharaoh(f"0-0 {word}", where="gold.txt, line 7")


def test_agreement_by_hand() -> None:
    found = [{(0, 0), (2, 1), (1, 2)}, {(0, 0)}]
    gold = [{(0, 0), (1, 1), (1, 2), (3, 2), (3, 3)}, {(0, 0)}]
    # first sentence: 0 right, 1 wrong, 2 right (one of two), 3 not linked; second: right
    assert agreement(found, gold) == (3, 5)
    assert agreement(found, gold).share == 0.6
    assert agreement(found, gold, words=[{1, 2, 9}, set()]) == (1, 2)
    assert agreement([set()], [set()]).share == 0


def test_agreement_needs_every_link_of_the_word_to_be_gold() -> None:
    assert agreement([{(0, 0), (1, 0)}], [{(0, 0)}]) == (0, 1)


def test_error_rate_by_hand() -> None:
    # A = {00, 11, 22, 33}, S = {00, 11, 44}, P = S + {22}: |A∩S| = 2, |A∩P| = 3, |A| = 4, |S| = 3
    gold = read_pharaoh("0-0 1-1 4-4 2p2")
    scores = alignment_scores([{(0, 0), (1, 1), (2, 2), (3, 3)}], [gold])
    assert scores.precision == 3 / 4
    assert scores.recall == 2 / 3
    assert scores.error_rate == pytest.approx(1 - 5 / 7)


def test_error_rate_is_of_the_corpus_not_a_mean_of_sentences() -> None:
    gold = [read_pharaoh("0-0"), read_pharaoh("0-0 1-1 2-2")]
    scores = alignment_scores([{(1, 0)}, {(0, 0), (1, 1), (2, 2)}], gold)
    assert scores == (3 / 4, 3 / 4, 1 - 6 / 8)


@given(LINKS)
def test_the_truth_has_no_error(links: frozenset[WordLink]) -> None:
    assert alignment_scores([links], [GoldLinks(links)]) == (1, 1, 0)


def test_sentences_must_pair_up() -> None:
    with pytest.raises(ShapeError, match="links has 2 sentences but gold has 1"):
        alignment_scores([set(), set()], [read_pharaoh("")])
    with pytest.raises(ShapeError, match="links has 1 sentence but gold has 0"):
        agreement([set()], [])
