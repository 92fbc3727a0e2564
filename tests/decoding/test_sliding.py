"""Drawing step by step with an end of one's own, and writing beyond the positions that a model knows."""

import pytest
import torch

from saccade.decoding import Sliding, beam_search, draws, sample
from saccade.errors import OptionError
from saccade.models import DecoderOnly, TransformerConfig

START, END, VOCABULARY, KNOWN = 1, 0, 13, 7


@pytest.fixture(scope="module")
def model() -> DecoderOnly:
    torch.manual_seed(5)
    config = TransformerConfig(
        width=12, num_heads=3, decoder_layers=2, feedforward_width=10, position="learned", max_length=KNOWN
    )
    made = DecoderOnly(config, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(4)  # fresh weights write one token over and over
    return made


def greedy(model: DecoderOnly, text: list[int], steps: int) -> list[int]:
    """The last tokens that the model knows positions for, read anew for each token."""
    for _ in range(steps):
        logits = model(torch.tensor([text[-KNOWN:]]))[0, -1]
        text = [*text, int(logits.argmax())]
    return text


@pytest.mark.parametrize("prompt", [[3], [3, 9, 4], [3, 9, 4, 2, 5, 6, 8], [3, 9, 4, 2, 5, 6, 8, 11, 12]])
def test_beyond_its_positions_a_model_reads_the_last_tokens_anew(model: DecoderOnly, prompt: list[int]) -> None:
    with torch.no_grad():
        expected = greedy(model, prompt, 12)
        stepper = Sliding(model, KNOWN)
        rows = torch.tensor([prompt])
        state = stepper.start(rows[:, :-1], len(prompt) + 12)
        found = draws(
            stepper,
            state,
            batch_size=1,
            start_token=rows[:, -1],
            end_token=None,
            max_length=12,
            temperature=0.0,
        )
        assert prompt + [int(draw.tokens) for draw in found] == expected


def test_the_rows_of_a_search_keep_their_own_text(model: DecoderOnly) -> None:
    stepper = Sliding(model, KNOWN)
    prompt = torch.tensor([[3, 9, 4, 2, 5]])
    (found,) = beam_search(
        stepper,
        stepper.start(prompt[:, :-1]),
        batch_size=1,
        start_token=prompt[:, -1],
        end_token=END,
        max_length=6,
        min_length=6,
        beam=5,
        n_best=5,
    )
    for hypothesis in found:
        text = [*prompt[0].tolist(), *hypothesis.tokens]
        with torch.no_grad():
            terms = [
                model(torch.tensor([text[:place][-KNOWN:]]))[0, -1].log_softmax(-1)[text[place]]
                for place in range(prompt.shape[1], len(text))
            ]
        assert hypothesis.log_probability == pytest.approx(float(sum(terms)), abs=1e-4)
    assert len({tuple(hypothesis.tokens) for hypothesis in found}) == 5


def test_a_limit_is_at_least_1(model: DecoderOnly) -> None:
    with pytest.raises(OptionError, match="limit must be 1 or more, not 0"):
        Sliding(model, 0)


def test_draws_are_those_of_sample_with_their_log_probabilities(prefix_model) -> None:
    table = prefix_model(num_tokens=5, seed=2)
    options = {"batch_size": 3, "start_token": START, "end_token": END, "max_length": 9}
    expected = sample(table, table.start([4, 5, 6]), generator=torch.Generator().manual_seed(1), **options)
    tokens: list[list[int]] = [[], [], []]
    totals = [0.0, 0.0, 0.0]
    for draw in draws(table, table.start([4, 5, 6]), generator=torch.Generator().manual_seed(1), **options):
        for row, token, term in zip(*(part.tolist() for part in draw), strict=True):
            totals[row] += term
            tokens[row] += [token] if token != END else []
    assert tokens == [hypothesis.tokens for hypothesis in expected]
    assert totals == pytest.approx([hypothesis.log_probability for hypothesis in expected])


def test_a_row_ends_where_the_caller_says(prefix_model) -> None:
    table = prefix_model(num_tokens=5, seed=2)
    seen: list[tuple[int, int]] = []

    def ends(row: int, token: int) -> bool:
        seen.append((row, token))
        return row == 1 or len(seen) > 8

    found = list(
        draws(
            table,
            table.start([4, 5, 6]),
            batch_size=3,
            start_token=START,
            end_token=None,
            max_length=9,
            generator=torch.Generator().manual_seed(1),
            ends=ends,
        )
    )
    assert [draw.rows.tolist() for draw in found] == [[0, 1, 2], [0, 2], [0, 2], [0, 2], [0]]
    assert seen == [pair for draw in found for pair in zip(draw.rows.tolist(), draw.tokens.tolist(), strict=True)]
