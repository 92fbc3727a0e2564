"""Merging pieces into words, and tokens with nothing hidden."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from saccade.errors import OptionError, ShapeError
from saccade.lens.words import letters, merge, right_to_left, shorten, visible


def test_merging_sums_over_keys_and_averages_over_queries() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    merged = merge(weights, [0, 0], [0, 1, 1])
    torch.testing.assert_close(merged, torch.tensor([[0.3, 0.7]]))


def test_pieces_of_a_word_need_not_stand_together() -> None:
    merged = merge(torch.tensor([[0.1, 0.2, 0.7]]), [0], [0, 1, 0])
    torch.testing.assert_close(merged, torch.tensor([[0.8, 0.2]]))


@st.composite
def words_of_pieces(draw: st.DrawFn) -> list[int]:
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return [word for word, length in enumerate(lengths) for _ in range(length)]


@given(words_of_pieces(), words_of_pieces(), st.integers(0, 2**16))
def test_rows_still_sum_to_one(query_words: list[int], key_words: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, len(query_words), len(key_words), generator=generator, dtype=torch.float64)
    merged = merge(scores.softmax(-1), query_words, key_words)
    assert merged.shape == (2, 3, query_words[-1] + 1, key_words[-1] + 1)
    torch.testing.assert_close(merged.sum(-1), torch.ones(merged.shape[:-1], dtype=torch.float64))


def test_words_that_are_pieces_change_nothing() -> None:
    weights = torch.rand(2, 5, 7)
    assert torch.equal(merge(weights, range(5), range(7)), weights)


def test_words_must_fit_the_weights() -> None:
    with pytest.raises(ShapeError, match=r"a word for each of the 3 key pieces; it got 2"):
        merge(torch.ones(2, 3), [0, 1], [0, 1])
    with pytest.raises(OptionError, match=r"without gaps; 1 is missing"):
        merge(torch.ones(2, 3), [0, 2], [0, 1, 2])
    with pytest.raises(OptionError, match=r"-1 is negative"):
        merge(torch.ones(2, 3), [0, -1], [0, 1, 2])


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "·the"),
        ("a\tb\n", "a⇥b↵"),
        ("fin\u202f!", "fin⍽!"),
        ("", "∅"),
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("\x1b[31m", "⟨U+001B⟩[31m"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\uffff\ufffe", "a⟨U+FFFF⟩⟨U+FFFE⟩"),
        ("\ufdd0\U0010fffe\ufffd", "⟨U+FDD0⟩⟨U+10FFFE⟩\ufffd"),
        ("\u0301", "◌\u0301"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("نمی\u200cدانم", "نمی\u200cدانم"),
        ("<script>$x_1$[b]", "<script>$x_1$[b]"),
    ],
)
def test_nothing_is_hidden(token: str, shown: str) -> None:
    assert visible(token) == shown


@given(st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Cs"]), min_size=1))
def test_what_cannot_be_seen_alone_is_always_named(token: str) -> None:
    # The joiners need letters beside them, of which there are none here that are not ASCII or hidden.
    shown = visible(token)
    assert not any(character in shown for character in token if character not in "\u200c\u200d")


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("mouse", 5, "mouse"),
        ("unbelievable", 7, "unb…ble"),
        ("unbelievable", 6, "unb…le"),
        ("unbelievable", 1, "…"),
        ("国际化本地化", 6, "国…化"),
        ("e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301"),
    ],
)
def test_long_words_lose_their_middle(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short


@given(st.text(), st.integers(1, 12))
def test_a_shortened_word_fits(text: str, width: int) -> None:
    assert cell_len(shorten(text, width)) <= width


def test_code_points_are_never_cut() -> None:
    assert shorten("⟨U+732B⟩⟨U+304C⟩⟨U+1F680⟩", 20) == "⟨U+732B⟩…⟨U+1F680⟩"
    assert shorten("⟨U+732B⟩⟨U+304C⟩", 8) == "…"


def test_a_width_of_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 1, not 0"):
        shorten("word", 0)


def test_letters_keep_their_marks() -> None:
    assert letters("e\u0301a👩\u200d🚀x") == ["e\u0301", "a", "👩\u200d🚀", "x"]


def test_direction() -> None:
    assert right_to_left("abc سلام")
    assert right_to_left("שלום")
    assert not right_to_left("naïve 国际")
