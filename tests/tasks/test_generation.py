"""Text as it is written: whole characters, stop strings, tries, and beyond the positions that a model knows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from saccade.errors import OptionError
from saccade.models import DecoderOnly, RecurrentConfig, RecurrentLanguageModel, TransformerConfig
from saccade.tasks.base.task import Bundle
from saccade.tasks.language_model.answer import LanguageModelAnswer
from saccade.tasks.language_model.generation import (
    GenerationOptions,
    Prompt,
    Written,
    generate,
    log_probabilities,
    write,
)
from saccade.tasks.language_model.predictor import LanguageModelPredictor
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.text import END, SPECIAL_TOKENS, UNKNOWN, Tokenizer

TEXTS = ["abc abd", "abd é"]


def add(written: Written, ids: list[int]) -> list[str]:
    pieces = []
    for id in ids:
        written.add(id, -1.0)
        pieces.append(written.fresh())
    return pieces


@pytest.fixture(scope="module")
def byte() -> Tokenizer:
    return Tokenizer.train([], "byte")


def test_a_character_is_shown_when_it_is_whole(byte: Tokenizer) -> None:
    ids = byte.encode_ids(["aé€"])[0]
    written = Written(byte)
    assert add(written, ids) == ["a", "", "é", "", "", "€"]
    assert written.text == "aé€"
    assert written.log_probabilities == [-1.0] * 6


def test_bytes_that_make_no_character_are_shown_in_the_end(byte: Tokenizer) -> None:
    written = Written(byte)
    assert add(written, byte.encode_ids(["é"])[0][:1]) == [""]
    written.close()
    assert written.fresh(last=True) == "\ufffd"
    assert not written.finished


def test_what_may_become_a_stop_string_waits(byte: Tokenizer) -> None:
    written = Written(byte, stop=["bcd", "x"])
    assert add(written, byte.encode_ids(["abcb"])[0]) == ["a", "", "", "bc"]
    assert add(written, byte.encode_ids(["cd"])[0]) == ["", ""]
    assert written.finished
    assert written.text == "abc"


def test_the_first_of_several_stop_strings_ends_a_text(byte: Tokenizer) -> None:
    tokenizer = Tokenizer.train(["one two three"], "bpe", vocabulary_size=300)
    written = Written(tokenizer, stop=["wo", "t"], is_start=True)
    add(written, tokenizer.encode_ids(["one two"])[0])
    assert written.text == "one "


def test_a_first_word_has_no_space_in_front(byte: Tokenizer) -> None:
    tokenizer = Tokenizer.train(TEXTS, "word")
    ids = tokenizer.encode_ids(["abc abd"])[0]
    first, later = Written(tokenizer, is_start=True), Written(tokenizer)
    add(first, ids)
    add(later, ids)
    assert (first.text, later.text) == ("abc abd", " abc abd")


def test_one_long_text_has_no_ends(byte: Tokenizer) -> None:
    written = Written(byte, can_end=False)
    assert add(written, [*byte.encode_ids(["a"])[0], END, *byte.encode_ids(["b"])[0]]) == ["a", "", "b"]
    assert not written.finished
    ended = Written(byte)
    add(ended, [END])
    assert ended.finished


def model(position: str = "rotary", **more: Any) -> nn.Module:
    torch.manual_seed(4)
    config = TransformerConfig(width=12, num_heads=3, decoder_layers=2, feedforward_width=10, position=position, **more)
    made = DecoderOnly(config, CHARACTERS.vocabulary_size).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(3)
    return made


def recurrent() -> nn.Module:
    torch.manual_seed(4)
    return RecurrentLanguageModel(RecurrentConfig(width=10, embedding_width=7), CHARACTERS.vocabulary_size).eval()


CHARACTERS = Tokenizer.train(["abcdefgh"], "character")
PROMPT = Prompt(CHARACTERS.encode_ids(["abcab"])[0], can_end=True)
NETWORKS = {
    "rotary": model(),
    "alibi": model("alibi"),
    "sinusoidal": model("sinusoidal"),
    "learned": model("learned", max_length=7),
    "recurrent": recurrent(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_log_probabilities_of_what_is_written_are_those_of_a_forced_pass(name: str) -> None:
    """With learned positions also beyond the last one that the model knows."""
    options = GenerationOptions(max_tokens=17, tries=3, seed=2)
    found = generate(NETWORKS[name], CHARACTERS, PROMPT, options)
    assert len(found) == 3
    for written in found:
        forced = log_probabilities(NETWORKS[name], [*PROMPT.ids, *written.ids], len(written.ids))
        assert written.log_probabilities == pytest.approx(forced, abs=1e-4)
        assert written.finished == (written.ids[-1] == END)
    means = [sum(one.log_probabilities) / len(one.log_probabilities) for one in found]
    assert means == sorted(means, reverse=True)
    assert len({tuple(one.ids) for one in found}) > 1


@pytest.mark.parametrize("can_end", [True, False])
@pytest.mark.parametrize("how", [{"tries": 9}, {"sample": False}, {"sample": False, "beam": 3, "n_best": 3}])
def test_special_tokens_are_never_written(how: dict[str, Any], can_end: bool) -> None:
    """Also by a model that finds them by far the likeliest, whose log-probabilities stay its own."""
    loving: Any = model()
    special = [30.0 if id != END else 0.0 for id in range(len(SPECIAL_TOKENS))]  # else every text would end at once
    others = [0.0] * (CHARACTERS.vocabulary_size - len(special))
    loving.output.words.bias = nn.Parameter(torch.tensor(special + others))
    written = generate(loving, CHARACTERS, PROMPT._replace(can_end=can_end), GenerationOptions(max_tokens=5, **how))
    drawn = {id for one in written for id in one.ids}
    assert drawn & set(range(len(SPECIAL_TOKENS))) <= ({END} if can_end else set())
    for one in written:
        forced = log_probabilities(loving, [*PROMPT.ids, *one.ids], len(one.ids))
        assert one.log_probabilities == pytest.approx(forced, abs=1e-3)


def test_a_vocabulary_of_nothing_but_special_tokens_writes_unknown_ones() -> None:
    nothing = Tokenizer.train(["a b c"], "word", min_frequency=2)
    assert nothing.vocabulary_size == len(SPECIAL_TOKENS)
    config = TransformerConfig(width=12, num_heads=3, decoder_layers=1, feedforward_width=10, position="rotary")
    made = DecoderOnly(config, nothing.vocabulary_size).eval()
    (written,) = generate(made, nothing, Prompt([UNKNOWN], can_end=False), GenerationOptions(max_tokens=3))
    assert written.ids == [UNKNOWN] * 3


@pytest.mark.parametrize("name", NETWORKS)
def test_a_beam_finds_nothing_less_likely_than_greedy_search(name: str) -> None:
    prompt = PROMPT._replace(can_end=False)
    greedy = generate(NETWORKS[name], CHARACTERS, prompt, GenerationOptions(max_tokens=6, sample=False))[0]
    wide = generate(
        NETWORKS[name], CHARACTERS, prompt, GenerationOptions(max_tokens=6, sample=False, beam=40, n_best=2)
    )
    assert len(greedy.ids) == len(wide[0].ids) == 6
    assert sum(wide[0].log_probabilities) >= sum(greedy.log_probabilities) - 1e-4
    cold = GenerationOptions(max_tokens=6, temperature=0.0)
    assert generate(NETWORKS[name], CHARACTERS, prompt, cold)[0].ids == greedy.ids


def test_only_rows_that_have_not_ended_are_drawn_on() -> None:
    options = GenerationOptions(max_tokens=30, tries=4, stop=["a", "c"], seed=5)
    tries = [*write(NETWORKS["rotary"], CHARACTERS, PROMPT, options)][-1]
    for one in tries:
        assert not {"a", "c"} & set(one.text)
        assert one.finished == (len(one.ids) < 30 or CHARACTERS.token(one.ids[-1]) in "ac")
        assert one.text == CHARACTERS.decode(one.ids[:-1] if one.finished else one.ids)


def opened(name: str) -> LanguageModelPredictor:
    network = NETWORKS[name]
    task = LanguageModel(LanguageModelState(CHARACTERS, 5, separated=True))
    return LanguageModelPredictor(
        Bundle(task, "transformer", network.config, network, GenerationOptions(max_tokens=12))
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_a_stream_is_the_text_of_the_answer(name: str) -> None:
    writer = opened(name)
    for options in ({}, {"temperature": 0.5, "seed": 9}, {"stop": ["d"]}, {"tries": 3}, {"sample": False, "beam": 3}):
        pieces = list(writer.stream("ab", **options))
        assert "".join(pieces) == writer.predict(["ab"], **options)[0].text
    assert len(list(writer.stream("ab", temperature=0.0))) > 5


def test_an_answer_tells_everything(tmp_path: Any) -> None:
    writer = opened("rotary")
    (answer,) = writer.predict(["abc"], tries=2, seed=3)
    assert isinstance(answer, LanguageModelAnswer)
    (other,) = answer.alternatives
    assert answer.score >= other.score
    assert answer.score == pytest.approx(answer.log_probability / len(answer.ids))
    assert answer.record()["text"] == answer.text
    assert answer.view.names == ["decoder.0.self", "decoder.1.self"]
    rows, columns = answer.view.axes("decoder.1.self")
    assert rows.tokens == columns.tokens == ["</s>", *"abc", *answer.tokens]
    assert answer.layer == "decoder.1.self"
    assert len(list(answer.terminal())) == 3
    assert answer.figure(dark=False) is not None
    assert writer.token_scores("abc", answer) == pytest.approx(answer.log_probabilities, abs=1e-4)
    seeded = writer.predict(["abc", "abc"], seed=3)
    assert seeded[0].text == writer.predict(["abc"], seed=3)[0].text
    assert seeded[0].text != seeded[1].text


def test_learned_positions_show_the_last_tokens() -> None:
    (answer,) = opened("learned").predict(["abc"], temperature=0.0)
    rows, _ = answer.view.axes("decoder.1.self")
    assert rows.tokens == ["</s>", *"abc", *answer.tokens][-7:]


def test_a_recurrent_model_has_nothing_to_view() -> None:
    (answer,) = opened("recurrent").predict(["abc"])
    with pytest.raises(OptionError, match="no attention"):
        answer.view.names  # noqa: B018
    assert str(list(answer.terminal())[-1]) == "This model has no attention, so there is nothing to view."


def test_a_change_is_seen_in_every_token() -> None:
    writer = opened("rotary")
    change = writer.compare("abc", without_heads=["decoder.1.self:0"])
    assert change.before.before != pytest.approx(change.before.after)
    replaced = writer.compare("abc ab", replace=("ab", "h"))
    assert len(replaced.after.tokens) == 12


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sample": False, "n_best": 2}, "n_best = 2 needs a beam"),
        ({"stop": [""]}, "a stop string must have at least one character"),
        ({"temperature": -1}, "temperature must be at least 0, not -1"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        opened("rotary").predict(["a"], **options)


def test_a_fresh_model_is_as_unsure_as_its_vocabulary_is_large() -> None:
    torch.manual_seed(0)
    fresh = DecoderOnly(TransformerConfig(width=12, num_heads=3, decoder_layers=1), CHARACTERS.vocabulary_size).eval()
    terms = log_probabilities(fresh, PROMPT.ids, 4)
    assert sum(terms) / 4 == pytest.approx(-math.log(CHARACTERS.vocabulary_size), abs=0.1)
