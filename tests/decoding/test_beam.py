import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import beam_search, sample
from saccade.errors import OptionError, ShapeError

START, END = 1, 0


def search(model, sentences, **options):
    options = {"start_token": START, "end_token": END, "max_length": 7, **options}
    return beam_search(model, model.start(sentences), batch_size=len(sentences), **options)


def greedy(model, sentence, max_length):
    """Argmax after argmax, by hand."""
    state, token, tokens = model.start([sentence]), START, []
    for _ in range(max_length):
        logits, state = model.step(torch.tensor([token]), state)
        token = int(logits.argmax())
        if token == END:
            return tokens, True
        tokens.append(token)
    return tokens, False


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -0.7])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_what_exhaustive_search_finds(prefix_model, seed, length_penalty):
    model = prefix_model(num_tokens=3, seed=seed)
    found = search(model, [5, 11], beam=40, n_best=20, max_length=4, length_penalty=length_penalty, start_token=START)
    for sentence, hypotheses in zip([5, 11], found, strict=True):
        every = model.exhaustive(sentence, START, END, 4, length_penalty)[:20]
        assert [(h.tokens, h.finished) for h in hypotheses] == [(t, f) for t, _, f in every]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score, _ in every])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    length_penalty=st.floats(-1.5, 3.0),
    n_best=st.integers(1, 4),
    min_length=st.integers(0, 3),
)
def test_stopping_early_loses_nothing(prefix_model, seed, length_penalty, n_best, min_length):
    model = prefix_model(num_tokens=4, seed=seed, sharpness=2.5)
    [found] = search(
        model,
        [3],
        beam=30,
        n_best=n_best,
        max_length=3,
        length_penalty=length_penalty,
        min_length=min_length,
    )
    every = model.exhaustive(3, START, END, 3, length_penalty, min_length)[:n_best]
    assert [h.score for h in found] == pytest.approx([score for _, score, _ in every])
    assert [h.tokens for h in found] == [tokens for tokens, _, _ in every]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), length_penalty=st.floats(-1.0, 2.0))
def test_beam_1_is_greedy_at_any_length_penalty(prefix_model, seed, length_penalty):
    model = prefix_model(num_tokens=5, seed=seed)
    sentences = [2, 3, 5]
    for sentence, [best] in zip(
        sentences, search(model, sentences, beam=1, length_penalty=length_penalty), strict=True
    ):
        assert (best.tokens, best.finished) == greedy(model, sentence, 7)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 6),
    length_penalty=st.sampled_from([0.0, 1.0]),
    sentences=st.lists(st.integers(0, 900), min_size=1, max_size=5),
)
def test_a_sentence_comes_out_alike_alone_and_in_a_batch(prefix_model, seed, beam, length_penalty, sentences):
    model = prefix_model(num_tokens=7, seed=seed, dtype=torch.float32)
    options = {"beam": beam, "n_best": (beam + 1) // 2, "length_penalty": length_penalty}
    together = search(model, sentences, **options)
    assert together == [search(model, [sentence], **options)[0] for sentence in sentences]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.integers(1, 6), max_length=st.integers(1, 9))
def test_every_score_is_that_of_its_own_tokens(prefix_model, seed, beam, max_length):
    """Wrong were a hypothesis to go on from another's state, or from one that was written over."""
    model = prefix_model(num_tokens=6, seed=seed)
    sentences = [4, 9, 40]
    found = search(model, sentences, beam=beam, n_best=beam, max_length=max_length, length_penalty=0.8)
    for sentence, hypotheses in zip(sentences, found, strict=True):
        for h in hypotheses:
            output = h.tokens + [END] * h.finished
            assert len(output) == max_length or (h.finished and len(output) < max_length)
            assert h.log_probability == pytest.approx(model.log_probability(sentence, [START], output))
            assert h.score == pytest.approx(h.log_probability / len(output) ** 0.8)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.integers(2, 6), min_length=st.integers(0, 5))
def test_n_best_are_sorted_and_distinct(prefix_model, seed, beam, min_length):
    model = prefix_model(num_tokens=6, seed=seed)
    for hypotheses in search(model, [4, 9], beam=beam, n_best=beam, min_length=min_length, length_penalty=1):
        ranks = [(not h.finished, -h.score) for h in hypotheses]
        assert ranks == sorted(ranks)
        assert len({(tuple(h.tokens), h.finished) for h in hypotheses}) == len(hypotheses) == beam
        assert all(len(h.tokens) + 1 >= min_length for h in hypotheses if h.finished)


class ThreeWords:
    """p(end) = .6 at once; otherwise (.4) the word three times and then, surely, the end."""

    def __init__(self):
        self.steps = 0

    def step(self, tokens, state):
        probabilities = [[0.6, 0.4], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]][self.steps]
        self.steps += 1
        return torch.tensor(probabilities).log().expand(len(tokens), 2), None

    def reorder(self, state, index):
        return None


@pytest.mark.parametrize("beam", [2, 5])
def test_a_length_penalty_does_not_stop_the_search_too_soon(beam):
    """After one step the live log .4 is below the finished log .6, and yet (log .4) / 4 is above it."""
    [[best]] = beam_search(
        ThreeWords(),
        None,
        batch_size=1,
        start_token=1,
        end_token=0,
        max_length=4,
        beam=beam,
        length_penalty=1.0,
    )
    assert best.tokens == [1, 1, 1]
    assert best.score == pytest.approx(math.log(0.4) / 4)
    assert best.log_probability == pytest.approx(math.log(0.4))


@pytest.mark.parametrize(
    ("length_penalty", "max_length", "steps"),
    [
        (0.0, 4, 1),  # log .4 can only fall
        (1.0, 1, 1),  # the greatest length
        (0.4, 4, 1),  # (log .4) / 4^.4 = -.526 is below log .6 = -.511
        (0.5, 4, 4),  # (log .4) / 4^.5 = -.458 is above it
        (-1.0, 4, 1),
    ],
)
def test_the_search_stops_as_soon_as_nothing_better_can_be_reached(length_penalty, max_length, steps):
    model = ThreeWords()
    beam_search(
        model,
        None,
        batch_size=1,
        start_token=1,
        end_token=0,
        max_length=max_length,
        beam=3,
        length_penalty=length_penalty,
    )
    assert model.steps == steps


def test_a_negative_length_penalty_does_not_stop_the_search_too_soon(markov_model):
    """The live log .7 ends surely at length 2: 2·log .7 = -.71 beats log .3 = -1.20, which 4·log .7 would not."""
    model = markov_model([[1, 0, 0], [0.3, 0, 0.7], [1, 0, 0]])
    [[best]] = beam_search(
        model, None, batch_size=1, start_token=1, end_token=0, max_length=4, beam=3, length_penalty=-1.0
    )
    assert best.tokens == [2]
    assert best.score == pytest.approx(2 * math.log(0.7))


def test_the_search_waits_for_as_many_as_are_asked_for():
    """The second best is the long one, hopeless as it is against the first."""
    [[first, second]] = beam_search(
        ThreeWords(), None, batch_size=1, start_token=1, end_token=0, max_length=4, beam=2, n_best=2
    )
    assert (first.tokens, second.tokens) == ([], [1, 1, 1])
    assert (first.score, second.score) == pytest.approx((math.log(0.6), math.log(0.4)))


def test_the_search_ends_when_all_places_are_taken(markov_model):
    """Token 2 ends or goes on with one half each: [2] and [2, 2] fill two places at steps 2 and 3."""
    model = markov_model([[1, 0, 0], [0, 0, 1], [0.5, 0, 0.5]])
    [found] = beam_search(
        model,
        None,
        batch_size=1,
        start_token=1,
        end_token=0,
        max_length=30,
        beam=2,
        n_best=2,
        length_penalty=1.0,
    )
    assert [h.tokens for h in found] == [[2], [2, 2]]
    assert len(model.batch_sizes) == 3


def test_a_finished_hypothesis_is_not_pushed_out_by_live_ones(markov_model):
    """`end` (.2) is only third when it ends; its two rivals then pass through a choice among ten."""
    tenth = [0.0, 0.0, 0.0, 0.0, *[0.1] * 10]
    model = markov_model([[1.0] + [0.0] * 13, [0.2, 0.0, 0.41, 0.39, *[0.0] * 10], tenth, tenth]
                         + [[1.0] + [0.0] * 13] * 10)  # fmt: skip
    [[best]] = beam_search(model, None, batch_size=1, start_token=1, end_token=0, max_length=5, beam=3)
    assert best.tokens == []
    assert best.score == pytest.approx(math.log(0.2))
    [[narrow]] = beam_search(model, None, batch_size=1, start_token=1, end_token=0, max_length=5, beam=2)
    assert narrow.tokens == [2, 4]


def test_sentences_that_are_done_leave_the_batch(prefix_model):
    model = prefix_model(num_tokens=5, seed=3)
    model.table[:, END] = -torch.inf  # nothing ever ends, so the greatest lengths alone decide
    found = search(model, [1, 2, 3], max_length=torch.tensor([4, 1, 3]), beam=2)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [4, 1, 3]
    assert not any(hypotheses[0].finished for hypotheses in found)
    assert model.batch_sizes == [3, 2 * 2, 2 * 2, 2 * 1]


def test_cut_off_hypotheses_come_after_finished_ones(prefix_model):
    model = prefix_model(num_tokens=3, seed=1)
    model.table[:, END] -= 6  # ending is never likely
    [found] = search(model, [8], beam=6, n_best=6, max_length=3)
    assert [h.finished for h in found] == sorted((h.finished for h in found), reverse=True)
    assert {h.finished for h in found} == {True, False}
    assert max(h.score for h in found if not h.finished) > max(h.score for h in found if h.finished)


def test_ties_go_to_the_lower_tokens(markov_model):
    """Four words alike and no other choice; token 5 ends."""
    alike = [0.25] * 4 + [0.0] * 2
    model = markov_model([alike] * 6)
    [found] = beam_search(model, None, batch_size=1, start_token=4, end_token=5, max_length=2, beam=3, n_best=3)
    assert [h.tokens for h in found] == [[0, 0], [0, 1], [0, 2]]


def test_fewer_come_back_where_fewer_exist(markov_model):
    model = markov_model([[1, 0, 0], [0.5, 0, 0.5], [1, 0, 0]])
    [found] = beam_search(model, None, batch_size=1, start_token=1, end_token=0, max_length=9, beam=5, n_best=5)
    assert sorted(h.tokens for h in found) == [[], [2]]
    assert all(h.finished for h in found)


def test_a_forbidden_end_does_not_raise_the_other_probabilities(markov_model):
    model = markov_model([[1, 0, 0], [0.9, 0, 0.1], [0.8, 0, 0.2]])
    [[best]] = beam_search(model, None, batch_size=1, start_token=1, end_token=0, max_length=9, min_length=3, beam=2)
    assert best.tokens == [2, 2]
    assert best.log_probability == pytest.approx(math.log(0.1 * 0.2 * 0.8))


def test_barred_tokens_are_not_written_and_the_others_keep_their_probabilities(markov_model):
    model = markov_model([[1, 0, 0, 0], [0, 0, 0.3, 0.7], [0.4, 0, 0, 0.6], [0.5, 0.5, 0, 0]])
    for beam in (1, 2):
        [[best]] = beam_search(
            model, None, batch_size=1, start_token=1, end_token=0, max_length=9, beam=beam, barred=[3]
        )
        assert best.tokens == [2]
        assert best.log_probability == pytest.approx(math.log(0.3 * 0.4))
    [drawn] = sample(model, None, batch_size=1, start_token=1, end_token=0, max_length=9, barred=[3])
    assert drawn.tokens == [2]
    assert drawn.log_probability == pytest.approx(math.log(0.3 * 0.4))


def test_a_prompt_is_read_before_the_search(prefix_model):
    model = prefix_model(num_tokens=6, seed=2)
    prompt = torch.tensor([[1, 4, 2], [3, 3, 5]])
    found = search(model, [7, 8], start_token=prompt, beam=3)
    for sentence, start, [best] in zip([7, 8], prompt.tolist(), found, strict=True):
        output = best.tokens + [END] * best.finished
        assert best.log_probability == pytest.approx(model.log_probability(sentence, start, output))
    per_sentence = search(model, [7, 8], start_token=torch.tensor([2, 5]), beam=3)
    assert per_sentence[1] == search(model, [8], start_token=5, beam=3)[0]


def test_no_sentences_give_no_results(prefix_model):
    assert search(prefix_model(num_tokens=3), [], beam=2) == []


def test_no_gradient_is_kept(prefix_model):
    model = prefix_model(num_tokens=4)
    model.table.requires_grad_()
    kept = []

    class Watching:
        reorder = model.reorder

        def step(self, tokens, state):
            logits, state = model.step(tokens, state)
            kept.append(logits.requires_grad)
            return logits, state

    beam_search(Watching(), model.start([1]), batch_size=1, start_token=1, end_token=0, max_length=3)
    assert kept
    assert not any(kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be 1 or more, not 0"),
        ({"beam": 3, "n_best": 4}, r"n_best must be between 1 and beam \(3\), not 4"),
        ({"n_best": 0}, "n_best must be between 1"),
        ({"min_length": -1}, "min_length must be 0 or more, not -1"),
        ({"max_length": 0}, "max_length must be 1 or more"),
        ({"min_length": 9}, "max_length must be 9 or more"),
        ({"max_length": torch.tensor([5, 2]), "min_length": 3}, "max_length must be 3 or more .* not 2"),
        ({"length_penalty": math.nan}, "length_penalty must be a finite number, not nan"),
        ({"end_token": -1}, "end_token must be 0 or more, not -1"),
    ],
)
def test_wrong_options_are_named(prefix_model, options, message):
    with pytest.raises(OptionError, match=message):
        search(prefix_model(num_tokens=4), [1, 2], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": torch.tensor([3, 4, 5])}, r"max_length .* \(2,\), not of shape \(3,\)"),
        ({"start_token": torch.tensor([1, 1, 1])}, r"start_token .* not of shape \(3,\)"),
        ({"start_token": torch.ones(2, 0)}, r"start_token .* not of shape \(2, 0\)"),
    ],
)
def test_wrong_shapes_are_named(prefix_model, options, message):
    with pytest.raises(ShapeError, match=message):
        search(prefix_model(num_tokens=4), [1, 2], **options)
