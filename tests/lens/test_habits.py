"""What heads are for, with numbers that are computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

import saccade
from saccade.lens.habits import Habits, habits

TOKENS = ["The", "cat", "saw", "the", "dog"]


def view_of(*heads: torch.Tensor) -> saccade.lens.View:
    return saccade.view({"encoder.0.self": torch.stack(heads)[None]}, TOKENS)


def test_heads_that_do_one_thing() -> None:
    itself = torch.eye(5)
    before = torch.eye(5).roll(-1, dims=1)  # row i looks at i - 1; the first row at the last token
    equal = torch.full((5, 5), 0.2)
    same = torch.eye(5)
    same[[0, 3]] = same[[3, 0]]  # "The" looks at "the", and back
    found = habits(view_of(itself, before, equal, same), "encoder.0.self")
    assert found[0] == Habits(entropy=0, distance=0, previous=0, itself=1, same=0)
    assert found[1] == Habits(entropy=0, distance=pytest.approx(8 / 5), previous=1, itself=0, same=0)
    assert found[2].entropy == pytest.approx(math.log2(5))
    assert found[2].distance == pytest.approx(1.6)  # the sum of |i - j| over 25 cells is 40
    assert (found[2].previous, found[2].itself, found[2].same) == pytest.approx((0.2, 0.2, 0.2))
    assert found[3] == Habits(entropy=0, distance=pytest.approx(6 / 5), previous=0, itself=0.6, same=1)


def test_without_a_word_that_stands_twice_there_is_nothing_to_measure() -> None:
    seen = saccade.view({"encoder.0.self": torch.eye(3)[None, None]}, ["a", "b", "c"])
    assert habits(seen, "encoder.0.self")[0].same is None


def test_two_sequences_have_only_a_spread() -> None:
    weights = torch.full((1, 1, 2, 4), 0.25)
    seen = saccade.view({"decoder.0.cross": weights}, ["e", "f"], source_tokens=["a", "b", "c", "d"])
    assert habits(seen, "decoder.0.cross") == [Habits(entropy=pytest.approx(2.0))]
