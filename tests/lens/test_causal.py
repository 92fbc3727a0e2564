"""Before and after: the same numbers as two models have, one of them changed by hand."""

from __future__ import annotations

import copy
import math
from typing import cast

import pytest
import torch
from rich.console import Console

from saccade import MultiHead, edit
from saccade.errors import OptionError, UnknownNameError
from saccade.lens.axis import Axis
from saccade.lens.causal import Change, Scored, find_places, replace_word
from saccade.tasks.base.predictor import Predictor

TEXT = "the black cat eats the fish."


def test_without_a_head_is_a_model_whose_head_is_zeroed_by_hand(tiny_model: Predictor) -> None:
    by_hand = copy.copy(tiny_model)
    by_hand.model = copy.deepcopy(tiny_model.model)
    layer = cast(MultiHead, by_hand.model.get_submodule("decoder.0.cross"))
    with torch.no_grad():
        layer.output.weight[:, layer.head_width :] = 0.0  # of two heads, the second
    change = tiny_model.compare(TEXT, without_heads=["decoder.0.cross:1"])
    (before,), (after,) = tiny_model.predict([TEXT]), by_hand.predict([TEXT])
    assert (change.before.text, change.after.text) == (before.text, after.text)
    assert change.before.tokens == [*before.tokens, "</s>"]
    assert change.before.log_probability_before == pytest.approx(before.log_probability, abs=1e-4)
    assert change.after.log_probability_after == pytest.approx(after.log_probability, abs=1e-4)
    (expected,) = by_hand.score([TEXT], [before.text])
    assert change.before.log_probability_after == pytest.approx(expected, abs=1e-4)
    assert abs(expected - before.log_probability) > 0.01
    assert change.changed == ["without head decoder.0.cross:1"]


def test_words_of_a_link_are_found_in_the_text_and_in_the_answer(tiny_model: Predictor) -> None:
    by_words = tiny_model.compare(TEXT, without_links=[("decoder.0.cross", "chat", "black")])
    # START is row 0, so "le chat noir" has its "chat" in row 2
    by_positions = tiny_model.compare(TEXT, without_links=[("decoder.0.cross", 2, 1)])
    assert by_words == by_positions
    assert by_words.changed == ["without link decoder.0.cross:2:1"]
    assert by_words.before.before != by_words.before.after
    with edit(tiny_model.model, without_links=[("decoder.0.cross", 2, 1)]):
        (edited,) = tiny_model.score([TEXT], [by_words.before.text])
    assert by_words.before.log_probability_after == pytest.approx(edited, abs=1e-5)
    # what is before the link in the answer is as it was
    assert by_words.before.before[:2] == pytest.approx(by_words.before.after[:2], abs=1e-6)
    assert by_words.before.before[2] != pytest.approx(by_words.before.after[2], abs=1e-6)


def test_another_word(tiny_model: Predictor) -> None:
    change = tiny_model.compare(TEXT, replace=("black", "small"))
    (before,), (after,) = tiny_model.predict([TEXT]), tiny_model.predict([TEXT.replace("black", "small")])
    assert (change.before.text, change.after.text) == (before.text, after.text)
    assert not change.is_same
    assert change.changed == ["with 'small' instead of 'black'"]
    assert change.before.log_probability_after < change.before.log_probability_before
    assert change.after.log_probability_after > change.after.log_probability_before


def test_the_model_is_as_it_was_afterwards(tiny_model: Predictor) -> None:
    before = tiny_model.score([TEXT], ["le chat"])
    tiny_model.compare(TEXT, without_heads=["encoder.0.self:0"])
    assert tiny_model.score([TEXT], ["le chat"]) == before


def test_what_cannot_be_compared_is_refused(tiny_model: Predictor) -> None:
    with pytest.raises(OptionError, match="There is nothing to change"):
        tiny_model.compare(TEXT)
    with pytest.raises(UnknownNameError, match=r"'encoder.9.self'; allowed: decoder.0.cross, decoder.0.self, encoder"):
        tiny_model.compare(TEXT, without_heads=["encoder.9.self:0"])
    with pytest.raises(UnknownNameError, match=r"'encoder.9.self'"):
        tiny_model.compare(TEXT, without_links=[("encoder.9.self", "cat", 0)])
    with pytest.raises(OptionError, match=r"'the' occurs 2 times; give one of its positions: 0, 4"):
        tiny_model.compare(TEXT, without_links=[("encoder.0.self", "the", "cat")])
    with pytest.raises(OptionError, match="There is no word 'dog' in: the black cat"):
        tiny_model.compare(TEXT, without_links=[("encoder.0.self", "dog", "cat")])
    with pytest.raises(OptionError, match=r"The link encoder.0.self:50:0 does not exist"):
        tiny_model.compare(TEXT, without_links=[("encoder.0.self", 50, 0)])


def test_an_empty_text(tiny_model: Predictor) -> None:
    change = tiny_model.compare("", without_heads=["encoder.0.self:0"])
    assert change.before.tokens == ["</s>"]


def test_the_terminal_shows_both() -> None:
    before = Scored("a [b]", ["a", "[b]"], [0.0, math.log(0.5)], [math.log(0.25), math.log(0.5)])
    after = Scored("c", ["c"], [math.log(0.125)], [0.0])
    console = Console(width=60, no_color=True)
    with console.capture() as printed:
        console.print(Change(["without head x:0"], before, after))
    lines = [line.split() for line in printed.get().splitlines()]
    assert ["before", "a", "[b]"] in lines
    assert ["after", "c"] in lines
    assert ["without", "head", "x:0"] in lines
    assert ["a", "1.0000", "0.2500"] in lines
    assert ["[b]", "0.5000", "0.5000"] in lines
    assert ["log-probability", "-0.693", "-2.079"] in lines
    assert ["c", "0.1250", "1.0000"] in lines


def test_places_are_positions_or_words() -> None:
    axis = Axis.of(["▁un", "know", "n", "▁3", "▁a", "▁a"], [0, 0, 0, 1, 2, 3])
    assert find_places(axis, "unknown") == [0, 1, 2]
    assert find_places(axis, "know") == [1]  # a piece
    assert find_places(axis, "3") == [3] == find_places(axis, 3)
    with pytest.raises(OptionError, match="positions: 4, 5"):
        find_places(axis, "a")
    with pytest.raises(OptionError, match="no token at position 6; there are 6"):
        find_places(axis, 6)


def test_a_whole_word_is_replaced_where_it_is_once() -> None:
    assert replace_word("the cat, the caterpillar", "cat", "dog") == "the dog, the caterpillar"
    assert replace_word("a b a", "b a", "c") == "a c"
    with pytest.raises(OptionError, match="occurs 2 times"):
        replace_word("a b a", "a", "c")
    with pytest.raises(OptionError, match="does not occur"):
        replace_word("a b a", "", "c")
