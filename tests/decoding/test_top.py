import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding.top import top_tokens


def by_sorting(values, count):
    """The same by a stable sort of everything."""
    tokens = values.argsort(dim=1, descending=True, stable=True)[:, :count].sort(dim=1).values
    return values.gather(1, tokens), tokens


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.sampled_from([2, 13, 63, 64, 500, 1_000, 2_100]),
    count=st.integers(1, 7),
    values=st.sampled_from([2, 9, 10**6]),
)
def test_the_best_are_those_of_a_stable_sort(seed, vocabulary, count, values):
    """Few different values make many ties; large vocabularies take the two stages."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(values, (5, vocabulary), generator=generator).float()
    found, expected = top_tokens(numbers, count), by_sorting(numbers, count)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


@settings(max_examples=40, deadline=None)
@given(peaks=st.sets(st.integers(0, 2_099), min_size=1, max_size=9), count=st.integers(1, 7), seed=st.integers(0, 99))
def test_equal_peaks_far_apart_go_to_the_lower_tokens(peaks, count, seed):
    """Each peak lies in a block of its own, or behind the last whole block."""
    values = torch.rand(1, 2_100, generator=torch.Generator().manual_seed(seed))
    values[0, sorted(peaks)] = 2.0
    _, tokens = top_tokens(values, count)
    assert torch.equal(tokens, by_sorting(values, count)[1])


@pytest.mark.parametrize("vocabulary", [5, 3_000])
def test_a_row_with_fewer_possible_tokens_than_asked(vocabulary):
    values = torch.full((2, vocabulary), -torch.inf)
    values[:, 3] = 1.0
    best, tokens = top_tokens(values, 3)
    assert best.isfinite().sum(1).tolist() == [1, 1]
    assert tokens[best.isfinite()].tolist() == [3, 3]
