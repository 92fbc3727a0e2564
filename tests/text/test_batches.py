"""Batches: a partition within its limits, the same for the same seed and epoch; padding by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import OptionError, ShapeError
from saccade.text import PAD, pad, plan_batches

PAIRS = st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23)), max_size=60)


@settings(deadline=None)
@given(
    lengths=PAIRS,
    max_tokens=st.integers(23, 200),
    max_sentences=st.one_of(st.none(), st.integers(1, 9)),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 5),
    bucket=st.integers(1, 7),
    shuffle=st.booleans(),
)
def test_each_example_is_in_one_batch_within_the_limits(
    lengths: list[tuple[int, int]],
    max_tokens: int,
    max_sentences: int | None,
    seed: int,
    epoch: int,
    bucket: int,
    shuffle: bool,
) -> None:
    array = np.array(lengths, dtype=np.int32).reshape(-1, 2)
    batches = plan_batches(
        array,
        max_tokens=max_tokens,
        max_sentences=max_sentences,
        seed=seed,
        epoch=epoch,
        bucket=bucket,
        shuffle=shuffle,
    )
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert len(batch) * max(max(lengths[index]) for index in batch) <= max_tokens
        assert max_sentences is None or len(batch) <= max_sentences


def test_batches_by_hand() -> None:
    """Sorted lengths 1 2 2 3 4 5; 3 × 2 fits in 8, 4 × 3 does not; 2 × 4 fits; 5 is left alone."""
    batches = plan_batches([5, 2, 3, 1, 2, 4], max_tokens=8, shuffle=False)
    assert batches == [[3, 1, 4], [2, 5], [0]]
    assert plan_batches([5, 2, 3, 1, 2, 4], max_tokens=8, max_sentences=1, shuffle=False) == [
        [3],
        [1],
        [4],
        [2],
        [5],
        [0],
    ]


def test_the_longer_side_counts() -> None:
    assert plan_batches([[1, 4], [4, 1], [1, 1]], max_tokens=8, shuffle=False) == [[2, 0], [1]]
    assert plan_batches([[1, 4], [4, 1], [1, 1]], max_tokens=12, shuffle=False) == [[2, 0, 1]]


LENGTHS = np.random.default_rng(7).integers(1, 31, size=(997, 2))


def test_seed_and_epoch_decide_everything() -> None:
    def plan(seed: int, epoch: int) -> list[list[int]]:
        return plan_batches(LENGTHS, max_tokens=311, seed=seed, epoch=epoch)

    first = plan(1, 0)
    assert first == plan(1, 0)
    assert first != plan(1, 1)
    assert first != plan(2, 0)
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in plan(1, 1)}


def test_the_order_of_batches_is_not_that_of_lengths() -> None:
    peaks = [int(LENGTHS[batch].max()) for batch in plan_batches(LENGTHS, max_tokens=311, seed=1)]
    assert peaks != sorted(peaks)
    sorted_peaks = [int(LENGTHS[batch].max()) for batch in plan_batches(LENGTHS, max_tokens=311, shuffle=False)]
    assert sorted_peaks == sorted(sorted_peaks)


def test_sorting_saves_most_of_the_padding() -> None:
    lengths = LENGTHS[:, 0]

    def waste(batches: list[list[int]]) -> float:
        return 1 - int(lengths.sum()) / sum(int(lengths[batch].max()) * len(batch) for batch in batches)

    in_file_order = [list(range(start, min(start + 10, 997))) for start in range(0, 997, 10)]
    assert waste(plan_batches(lengths, max_tokens=311, seed=1)) < waste(in_file_order) / 5


def test_empty_input_and_impossible_limits() -> None:
    assert plan_batches([], max_tokens=5) == []
    assert plan_batches([0, 0], max_tokens=5, shuffle=False) == [[0, 1]]
    with pytest.raises(OptionError, match=r"Example 2 has 9 tokens, more than a batch may have \(max_tokens=8\)"):
        plan_batches([[3, 2], [1, 9]], max_tokens=8)
    for option in ("max_tokens", "max_sentences", "bucket"):
        with pytest.raises(OptionError, match=f"{option} must be 1 or more, not 0"):
            plan_batches([1], **{"max_tokens": 5, option: 0})
    with pytest.raises(ShapeError, match=r"shape \(1, 1, 1\)"):
        plan_batches(np.ones((1, 1, 1), dtype=int), max_tokens=5)


def test_padding_by_hand() -> None:
    rows, lengths = pad([[7, 8, 9], [], [5]])
    assert rows.tolist() == [[7, 8, 9], [PAD, PAD, PAD], [5, PAD, PAD]]
    assert lengths.tolist() == [3, 0, 1]
    assert rows.dtype == lengths.dtype == torch.int64
    assert pad([[1], [2, 3]], value=-100)[0].tolist() == [[1, -100], [2, 3]]
    assert pad([])[0].shape == (0, 0)
