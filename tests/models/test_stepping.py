"""One way to step them all: step by step is all at once, reordering is starting afresh, and so on, for each network."""

import pytest
import torch
from generators import (
    LANGUAGE_MODELS,
    MAX_LENGTH,
    SEQ2SEQ,
    SOURCE_VOCABULARY,
    VOCABULARY,
    language_model,
    seq2seq,
)

import saccade
from saccade.decoding import beam_search
from saccade.errors import OptionError, PositionError, ShapeError

BATCH, SOURCE, TARGET = 4, 7, 6
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
each_seq2seq = pytest.mark.parametrize(("kind", "variant"), SEQ2SEQ)
each_language_model = pytest.mark.parametrize(("kind", "variant"), LANGUAGE_MODELS)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def source():
    torch.manual_seed(1)
    return torch.randint(SOURCE_VOCABULARY, (BATCH, SOURCE))


@pytest.fixture
def lengths():
    return torch.tensor([SOURCE, 3, 5, 1])


@pytest.fixture
def target():
    torch.manual_seed(2)
    return torch.randint(VOCABULARY, (BATCH, TARGET))


def run(model, state, target):
    """The logits of all steps, and the last state."""
    logits = []
    for tokens in target.unbind(1):
        step, state = model.step(tokens, state)
        logits.append(step)
    return torch.stack(logits, dim=1), state


# --- step by step = all at once ---------------------------------------------------------------------------


@each_seq2seq
def test_steps_are_the_whole(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    stepped, _ = run(model, model.start(source, lengths, TARGET), target)
    torch.testing.assert_close(stepped, model(source, lengths, target), **TOLERANCE)


@pytest.mark.parametrize("prompt", [0, 1, 4])
@each_language_model
def test_steps_after_a_prompt_are_the_whole(kind, variant, prompt, target):
    model = language_model(kind, variant)
    stepped, _ = run(model, model.start(target[:, :prompt], TARGET), target[:, prompt:])
    torch.testing.assert_close(stepped, model(target)[:, prompt:], **TOLERANCE)


@each_seq2seq
def test_the_past_alone_decides(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    changed = target.clone()
    changed[:, 3:] = (changed[:, 3:] + 1) % VOCABULARY
    before, after = model(source, lengths, target), model(source, lengths, changed)
    torch.testing.assert_close(after[:, :3], before[:, :3], **TOLERANCE)
    assert not torch.allclose(after[:, 3:], before[:, 3:], **TOLERANCE)


# --- padding ----------------------------------------------------------------------------------------------


@each_seq2seq
def test_a_padded_batch_is_its_sentences_one_by_one(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    together = model(source, lengths, target)
    for row, length in enumerate(lengths.tolist()):
        alone = model(source[row : row + 1, :length], None, target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, **TOLERANCE)


# --- reorder ----------------------------------------------------------------------------------------------

CHOICES = {"permuted_and_repeated": [2, 0, 0, 3, 1, 1], "selected": [3, 1]}


@pytest.mark.parametrize("choice", CHOICES)
@each_seq2seq
def test_reordered_is_started_afresh(kind, variant, choice, source, lengths, target):
    model, index = seq2seq(kind, variant), torch.tensor(CHOICES[choice])
    _, state = run(model, model.start(source, lengths, TARGET), target[:, :3])
    found, _ = run(model, model.reorder(state, index), target[index, 3:])
    expected, _ = run(model, model.start(source[index], lengths[index], TARGET), target[index])
    torch.testing.assert_close(found, expected[:, 3:], **TOLERANCE)


@pytest.mark.parametrize("choice", CHOICES)
@each_language_model
def test_reordered_language_model_is_started_afresh(kind, variant, choice, target):
    model, index = language_model(kind, variant), torch.tensor(CHOICES[choice])
    _, state = run(model, model.start(target[:, :2], TARGET), target[:, 2:4])
    found, _ = run(model, model.reorder(state, index), target[index, 4:])
    torch.testing.assert_close(found, model(target[index])[:, 4:], **TOLERANCE)


#: Old rows of each step of a search: two, three, then one hypothesis of each sentence, which may also leave.
GENEALOGY = ([[0, 0], [1, 1], [2, 2], [3, 3]], [[1, 0, 1], [4, 4, 5], [7, 6, 6]], [[2], [3], [8]], [[2, 2], [0, 0]])


def descend(model, state, target):
    """The logits of the last of the steps above, each row's true tokens, and the sentence it belongs to."""
    tokens, sentence = target[:, :2], torch.arange(BATCH)
    _, state = run(model, state, tokens)
    for number, index in enumerate(map(torch.tensor, GENEALOGY)):
        state = model.reorder(state, index)
        tokens, sentence = tokens[index.flatten()], sentence[index.flatten()]
        new = (tokens[:, -1] * 3 + torch.arange(len(tokens)) + number) % VOCABULARY  # brothers differ
        logits, state = model.step(new, state)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
    return logits, tokens, sentence


@each_seq2seq
def test_hypotheses_of_one_sentence_are_sequences_of_their_own(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    logits, tokens, sentence = descend(model, model.start(source, lengths, TARGET), target)
    expected = model(source[sentence], lengths[sentence], tokens)[:, -1]
    torch.testing.assert_close(logits, expected, **TOLERANCE)


@pytest.mark.parametrize("max_length", [None, TARGET])
@each_language_model
def test_hypotheses_of_one_prompt_are_sequences_of_their_own(kind, variant, max_length, target):
    model = language_model(kind, variant)
    logits, tokens, _ = descend(model, model.start(target[:, :0], max_length), target)
    torch.testing.assert_close(logits, model(tokens)[:, -1], **TOLERANCE)


def test_a_state_can_be_reordered_before_its_first_step(source, lengths, target):
    index = torch.tensor([3, 3, 0])
    for kind, variant in (("transformer", "learned"), ("recurrent", "lstm_state"), ("convolutional", "kernel_3")):
        model = seq2seq(kind, variant)
        found, _ = run(model, model.reorder(model.start(source, lengths, TARGET), index), target[index])
        torch.testing.assert_close(found, model(source, lengths, target)[index], **TOLERANCE)


# --- watching ---------------------------------------------------------------------------------------------


@each_seq2seq
def test_attention_of_the_steps_is_that_of_the_whole(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    with saccade.watch(model) as whole:
        model(source, lengths, target)
    with saccade.watch(model) as stepped:
        run(model, model.start(source, lengths, TARGET), target)
    assert set(whole) == set(stepped) == expected_names(model)
    for name, trace in whole.items():
        assert trace.shape == stepped[name].shape
        torch.testing.assert_close(stepped[name].weights(), trace.weights(), **TOLERANCE)


def expected_names(model):
    """Every attention of the model, by its place in it."""
    return {name for name, _ in model.named_modules() if name.split(".")[-1] in ("self", "cross")}


@each_language_model
def test_attention_of_a_language_models_steps_is_that_of_the_whole(kind, variant, target):
    model = language_model(kind, variant)
    with saccade.watch(model) as whole:
        model(target)
    with saccade.watch(model) as stepped:
        run(model, model.start(target[:, :2], TARGET), target[:, 2:])
    assert set(whole) == set(stepped) == expected_names(model)
    for name, trace in whole.items():
        torch.testing.assert_close(stepped[name].weights(), trace.weights(), **TOLERANCE)


@each_seq2seq
def test_watching_changes_no_bit(kind, variant, source, lengths, target):
    model = seq2seq(kind, variant)
    plain = model(source, lengths, target)
    stepped, _ = run(model, model.start(source, lengths, TARGET), target)
    with saccade.watch(model):
        assert torch.equal(model(source, lengths, target), plain)
        assert torch.equal(run(model, model.start(source, lengths, TARGET), target)[0], stepped)


# --- searching --------------------------------------------------------------------------------------------


@each_seq2seq
def test_beam_1_takes_the_best_token_of_each_step(kind, variant, source, lengths):
    model = seq2seq(kind, variant)
    state = model.start(source, lengths, MAX_LENGTH)
    tokens, written = torch.ones(BATCH, dtype=torch.long), []
    for _ in range(9):
        logits, state = model.step(tokens, state)
        tokens = logits.argmax(dim=-1)
        written.append(tokens)
    rows = torch.stack(written, dim=1).tolist()
    found = search(model, model.start(source, lengths, MAX_LENGTH), beam=1)
    assert found == [row[: row.index(0)] if 0 in row else row for row in rows]


@each_seq2seq
def test_wide_beams_find_what_the_sentences_alone_would(kind, variant, source, lengths):
    model = seq2seq(kind, variant)
    together = search(model, model.start(source, lengths, MAX_LENGTH), beam=3)
    for row in (1, 2):
        one = slice(row, row + 1)
        alone = search(model, model.start(source[one], lengths[one], MAX_LENGTH), beam=3, batch_size=1)
        assert [together[row]] == alone


def search(model, state, beam, batch_size=BATCH):
    found = beam_search(model, state, batch_size=batch_size, start_token=1, end_token=0, max_length=9, beam=beam)
    return [hypotheses[0].tokens for hypotheses in found]


# --- where it ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "variant"), [("transformer", "learned"), ("convolutional", "kernel_3")])
def test_past_the_learned_positions_is_an_error(kind, variant, source, lengths):
    model = seq2seq(kind, variant)
    state = model.start(source, lengths, MAX_LENGTH + 1)
    target = torch.zeros(BATCH, MAX_LENGTH + 1, dtype=torch.long)
    _, state = run(model, state, target[:, :MAX_LENGTH])
    with pytest.raises(PositionError, match=f"has {MAX_LENGTH} learned positions; the input needs {MAX_LENGTH + 1}"):
        model.step(target[:, 0], state)
    with pytest.raises(PositionError, match=f"needs {MAX_LENGTH + 1}"):
        model(source, lengths, target)
    with pytest.raises(PositionError, match=f"needs {MAX_LENGTH + 1}"):
        model.start(torch.zeros(1, MAX_LENGTH + 1, dtype=torch.long), None, 3)


def test_past_the_cache_is_an_error(source, lengths, target):
    model = seq2seq("transformer", "sinusoidal")
    _, state = run(model, model.start(source, lengths, 3), target[:, :3])
    with pytest.raises(ShapeError, match="has room for 3 positions, but needs 4"):
        model.step(target[:, 3], state)
    with pytest.raises(ShapeError, match=f"has room for 3 positions, but needs {TARGET}"):
        language_model("transformer", "rotary").start(target, 3)


def test_a_watched_beam_search_shows_no_false_picture(source, lengths):
    model = seq2seq("transformer", "sinusoidal")
    with saccade.watch(model) as seen:
        state = model.start(source, lengths, 9)
        beam_search(model, state, batch_size=BATCH, start_token=1, end_token=0, max_length=5, beam=3)
    assert "attention" not in seen
    with pytest.raises(OptionError, match="hypotheses of a beam search"):
        seen["decoder.0.self"]
    assert seen["encoder.0.self"].shape[2:] == (SOURCE, SOURCE)
