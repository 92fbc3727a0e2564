import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import beam_search, draws, filter_logits, sample
from saccade.errors import OptionError

START, END = 1, 0


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def kept(logits, **options):
    """The probabilities that are left of each row."""
    return filter_logits(torch.tensor(logits), **options).softmax(-1).tolist()


HALVES = [math.log(8), math.log(4), math.log(1), math.log(3)]  # probabilities 8, 4, 1, 3 of 16


def test_temperature_divides_the_logits():
    assert kept(HALVES, temperature=0.5) == pytest.approx([64 / 90, 16 / 90, 1 / 90, 9 / 90])


def test_temperature_0_is_the_first_of_the_best():
    assert kept([1.0, 3.0, 3.0], temperature=0) == [0, 1, 0]


def test_top_k_leaves_the_best_and_what_equals_the_last():
    assert kept(HALVES, top_k=2) == pytest.approx([8 / 12, 4 / 12, 0, 0])
    assert kept([2.0, 0.0, 2.0, 2.0], top_k=2) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert kept(HALVES, top_k=9) == pytest.approx([8 / 16, 4 / 16, 1 / 16, 3 / 16])


@pytest.mark.parametrize(
    ("top_p", "weights"),
    [
        (0.01, [8, 0, 0, 0]),
        (0.49, [8, 0, 0, 0]),
        (0.51, [8, 4, 0, 0]),
        (0.74, [8, 4, 0, 0]),
        (0.76, [8, 4, 0, 3]),
        (0.95, [8, 4, 1, 3]),
        (1.0, [8, 4, 1, 3]),
    ],
)
def test_top_p_leaves_the_fewest_that_reach_it(top_p, weights):
    assert kept(HALVES, top_p=top_p) == pytest.approx([weight / sum(weights) for weight in weights])


def test_top_p_counts_what_top_k_left():
    """Of (8, 4, 3) the first has 8/15 = .53, so .52 needs no second; of all sixteen it would."""
    assert kept(HALVES, top_p=0.52, top_k=3) == [1, 0, 0, 0]
    assert kept(HALVES, top_p=0.52)[1] > 0


def test_rows_are_filtered_apart():
    rows = torch.tensor([HALVES, HALVES[::-1], [0.0, 0.0, 5.0, 0.0]])
    together = filter_logits(rows, 0.7, 3, 0.8)
    assert torch.equal(together, torch.stack([filter_logits(row, 0.7, 3, 0.8) for row in rows]))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), top_k=st.integers(1, 12), top_p=st.floats(0.01, 1.0))
def test_filters_keep_the_best_tokens_and_their_ratios(seed, top_k, top_p):
    logits = torch.randn(11, generator=seeded(seed))
    left = filter_logits(logits, top_k=top_k, top_p=top_p)
    stays = left > -math.inf
    assert 1 <= stays.sum() <= top_k
    assert torch.equal(left[stays], logits[stays])
    assert not logits[~stays].gt(logits[stays].min()).any()


def chi_square(counts, expected):
    return sum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True))


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, [2, 1, 4, 3]),
        ({"temperature": 0.5}, [4, 1, 16, 9]),
        ({"top_k": 3}, [2, 0, 4, 3]),
        ({"top_p": 0.65}, [0, 0, 4, 3]),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(markov_model, options, weights):
    row = [0.2, 0.1, 0.4, 0.3]
    size = 20_000
    drawn = sample(
        markov_model([row] * 4),
        None,
        batch_size=size,
        start_token=START,
        end_token=None,
        max_length=1,
        generator=seeded(0),
        **options,
    )
    counts = [0] * 4
    for hypothesis in drawn:
        [token] = hypothesis.tokens
        counts[token] += 1
        assert hypothesis.log_probability == pytest.approx(math.log(row[token]))
    pairs = [(n, size * w / sum(weights)) for n, w in zip(counts, weights, strict=True) if w > 0]
    assert sum(n for n, _ in pairs) == size
    assert chi_square(*zip(*pairs, strict=True)) < 16.3  # exceeded once in 1,000 at 3 degrees of freedom


def test_whole_sequences_are_drawn_as_often_as_they_are_probable(prefix_model):
    """All 31 outputs of up to four steps, of one sentence: the state must follow the rows as others end."""
    model = prefix_model(num_tokens=3, seed=6, sharpness=0.5)
    size = 20_000
    drawn = sample(
        model,
        model.start([9] * size),
        batch_size=size,
        start_token=START,
        end_token=END,
        max_length=4,
        generator=seeded(1),
    )
    outputs = model.exhaustive(9, START, END, 4, 0.0)
    counts = {(tuple(tokens), finished): 0 for tokens, _, finished in outputs}
    for h in drawn:
        counts[tuple(h.tokens), h.finished] += 1
    expected = [size * math.exp(score) for _, score, _ in outputs]
    assert len(outputs) == 31
    assert min(expected) > 5  # what the chi-square approximation asks for
    assert chi_square(counts.values(), expected) < 59.7  # once in 1,000 at 30 degrees of freedom


def draw(model, sentences, seed=0, **options):
    options = {"start_token": START, "end_token": END, "max_length": 9, **options}
    return sample(model, model.start(sentences), batch_size=len(sentences), generator=seeded(seed), **options)


def test_one_seed_gives_one_result(prefix_model):
    model = prefix_model(num_tokens=6, seed=1)
    sentences = list(range(7))
    assert draw(model, sentences, seed=3) == draw(model, sentences, seed=3)
    assert draw(model, sentences, seed=3) != draw(model, sentences, seed=4)


def test_the_log_probability_is_the_models_own(prefix_model):
    model = prefix_model(num_tokens=6, seed=1)
    for sentence, h in enumerate(draw(model, list(range(13)), temperature=1.7, top_k=4)):
        output = h.tokens + [END] * h.finished
        assert len(output) == 9 or h.finished
        assert h.log_probability == pytest.approx(model.log_probability(sentence, [START], output))
        assert h.score == h.log_probability


def test_temperature_0_is_greedy_search(prefix_model):
    model = prefix_model(num_tokens=6, seed=5)
    sentences = [3, 1, 4, 15]
    searched = beam_search(
        model, model.start(sentences), batch_size=4, start_token=START, end_token=END, max_length=9, beam=1
    )
    drawn = draw(model, sentences, temperature=0)
    assert [(h.tokens, h.finished) for h in drawn] == [(h.tokens, h.finished) for [h] in searched]


def test_rows_that_have_ended_are_not_stepped(prefix_model):
    model = prefix_model(num_tokens=4, seed=2)
    drawn = draw(model, list(range(11)))
    lengths = [len(h.tokens) + h.finished for h in drawn]
    assert model.batch_sizes == [sum(length > step for length in lengths) for step in range(max(lengths))]


def test_draws_are_those_of_sample_one_step_at_a_time(prefix_model):
    model = prefix_model(num_tokens=4, seed=2)
    sentences = list(range(11))
    steps = draws(
        model,
        model.start(sentences),
        batch_size=11,
        start_token=START,
        end_token=END,
        max_length=9,
        generator=seeded(0),
    )
    assert model.batch_sizes == []  # nothing is computed before it is asked for
    first = next(steps)
    assert model.batch_sizes == [11]
    drawn = [[] for _ in sentences]
    for rows, tokens, _ in (first, *steps):
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            drawn[row].append(token)
    assert drawn == [h.tokens + [END] * h.finished for h in draw(model, sentences)]


def test_draws_leave_gradients_on_between_their_steps(markov_model):
    steps = draws(markov_model([[0.5, 0.5]] * 2), None, batch_size=1, start_token=1, end_token=None, max_length=3)
    for _ in steps:
        assert torch.is_grad_enabled()


def test_a_prompt_is_read_first(prefix_model):
    model = prefix_model(num_tokens=6, seed=4)
    prompt = torch.tensor([[1, 4, 2], [3, 3, 5]])
    for sentence, h in enumerate(draw(model, [0, 1], start_token=prompt)):
        output = h.tokens + [END] * h.finished
        expected = model.log_probability(sentence, prompt[sentence].tolist(), output)
        assert h.log_probability == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature must be a finite number, 0 or more, not -0.1"),
        ({"temperature": math.nan}, "temperature .* not nan"),
        ({"temperature": math.inf}, "temperature .* not inf"),
        ({"top_k": 0}, "top_k must be 1 or more, not 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
        ({"top_p": 1.01}, "top_p must be above 0 and at most 1, not 1.01"),
        ({"max_length": 0}, "max_length must be 1 or more, not 0"),
    ],
)
def test_wrong_options_are_named_before_anything_is_drawn(markov_model, options, message):
    model = markov_model([[0.5, 0.5]] * 2)
    options = {"batch_size": 1, "start_token": 1, "end_token": 0, "max_length": 2, **options}
    with pytest.raises(OptionError, match=message):
        sample(model, None, **options)
    with pytest.raises(OptionError, match=message):
        draws(model, None, **options)
    assert model.batch_sizes == []


@pytest.mark.parametrize("temperature", [1e-10, 1e-20, 1e-40, 5e-324])
def test_a_temperature_or_share_next_to_zero_draws_the_best(temperature):
    logits = torch.tensor([[1.0, 3.0, -2.0], [9.0, -1e4, 8.9]])
    assert filter_logits(logits, temperature).softmax(-1).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert filter_logits(logits, top_p=temperature).softmax(-1).tolist() == [[0, 1, 0], [1, 0, 0]]
