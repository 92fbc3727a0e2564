"""Splits: by source, stable, and never with a sentence in two parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import Overlap, Pair, overlap, split, split_by_line, without_sources
from saccade.errors import OptionError


def numbered(*sources: str) -> list[Pair]:
    return [Pair(source, f"target {line}", line) for line, source in enumerate(sources, start=1)]


MANY = numbered(*(f"sentence {number % 701}" for number in range(1_009)))  # 308 sources occur twice


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.sampled_from([0, 0.0, 0.05, 0.2, 7, 100]), st.sampled_from([0, 0.1, 1, 53]))
def test_every_pair_is_in_one_part_and_every_source_too(seed: int, validation: float, test: float) -> None:
    parts = split(MANY, validation, test, seed)
    together = parts.train + parts.validation + parts.test
    assert sorted(pair.line for pair in together) == list(range(1, 1_010))
    sources = [{pair.source for pair in part} for part in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, sources)) == 701
    for asked, part in ((validation, parts.validation), (test, parts.test)):
        if isinstance(asked, int):
            assert asked <= len(part) <= asked + (asked > 0)  # a source brings at most two pairs


def test_shares_are_met_and_the_seed_matters() -> None:
    parts = split(MANY, 0.2, 0.1, seed=3)
    sources = {pair.source for pair in parts.validation}
    assert 0.15 * 701 < len(sources) < 0.25 * 701
    assert sources != {pair.source for pair in split(MANY, 0.2, 0.1, seed=4).validation}
    assert parts == split(MANY, 0.2, 0.1, seed=3)


def test_adding_lines_or_changing_their_order_moves_no_sentence() -> None:
    before = split(MANY[:500], 0.1, 0.1, seed=5)
    after = split([*reversed(MANY[:500]), *numbered("new one", "another")], 0.1, 0.1, seed=5)
    for part in ("train", "validation", "test"):
        assert {pair.source for pair in getattr(before, part)} <= {pair.source for pair in getattr(after, part)}


def test_the_size_of_test_does_not_change_validation() -> None:
    assert split(MANY, 0.1, 0.1).validation == split(MANY, 0.1, 0.3).validation


def test_a_share_of_few_sentences_is_at_least_one() -> None:
    parts = split(numbered("a", "b", "c", "b"), 0.01, 0.01)
    assert parts.validation
    assert parts.test
    assert parts.train


@pytest.mark.parametrize(
    ("validation", "test", "sentence"),
    [
        (
            1.0,
            0.1,
            "The validation size must be a fraction (at least 0 and below 1) or a number of pairs, not 1.0.",
        ),
        (0.1, -1, "or a number of pairs, not -1."),
        (True, 0.1, "or a number of pairs, not True."),
        (float("nan"), 0.1, "or a number of pairs, not nan."),
        (0.1, 2_000, "The test part needs 2,000 pairs, but there are only 1,009."),
        (
            0.5,
            0.6,
            "nothing is left for training (1,009 examples with 701 different texts)",
        ),
    ],
)
def test_impossible_sizes_are_refused(validation: float, test: float, sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        split(MANY, validation, test)
    assert sentence in str(caught.value)


def test_two_sources_are_too_few_for_three_parts() -> None:
    with pytest.raises(OptionError, match=r"nothing is left for training \(3 examples with 2 different texts\)"):
        split(numbered("a", "b", "b"), 1, 1)
    with pytest.raises(OptionError, match=r"2\*\*64 - 1, not -1"):
        split(MANY, seed=-1)


def test_by_line_with_held_out_spellings_removed() -> None:
    pairs = numbered("a", "b", "c", "d", "c", "e", "b", "f")  # every 4: test 4, 8; validation 3, 7
    parts = split_by_line(pairs, every=4, test_remainder=0, validation_remainder=3)
    assert [pair.line for pair in parts.test] == [4, 8]
    assert [pair.line for pair in parts.validation] == [3, 7]
    assert [pair.line for pair in parts.train] == [1, 6]
    assert [pair.line for pair in parts.removed] == [2, 5]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((1, 0, 0), "every must be at least 3, so that lines are left for training, not 1"),
        ((2, 0, 1), "every must be at least 3"),
        ((10, 10, 9), "must be from 0 to 9, not 10 and 9"),
        ((10, 0, -1), "must be from 0 to 9, not 0 and -1"),
        ((10, 4, 4), "both 4; they must be different"),
    ],
)
def test_by_line_refuses_remainders_that_cannot_be(options: tuple[int, int, int], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        split_by_line(MANY, *options)


def test_overlap_counts_both_sides() -> None:
    train = numbered("a", "b", "b", "c")
    test = numbered("b", "d", "c", "b", "b")
    assert overlap(train, test) == Overlap(sources=2, train_pairs=3, other_pairs=4, other_total=5)
    assert overlap(without_sources(train, {"b", "c"}), test).sources == 0
