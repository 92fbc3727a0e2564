"""Heat maps in the terminal: readable without colour, at any width, token text as text."""

from __future__ import annotations

import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from saccade.errors import OptionError, ShapeError
from saccade.lens.terminal.heatmap import TerminalHeatmap


def printed(heatmap: TerminalHeatmap, width: int = 80, encoding: str = "utf-8") -> list[str]:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding, newline="\n")
    Console(file=stream, width=width, color_system=None, force_terminal=False).print(heatmap)
    stream.flush()
    return buffer.getvalue().decode(encoding).splitlines()


def test_every_shade_in_its_place() -> None:
    weights = torch.tensor([[0.04, 0.05, 0.2], [0.45, 0.6, 0.8]])
    assert printed(TerminalHeatmap(weights, ["le", "chat"], ["the", "black", "cat"], "decoder.1.cross")) == [
        "decoder.1.cross",
        "     the black cat",
        "  le     ···   ░░░   cat   0.20",
        "chat ▒▒▒ ▓▓▓   ███   cat   0.80",
        "·· 0.05  ░░ 0.2  ▒▒ 0.4  ▓▓ 0.6  ██ 0.8",
    ]


def test_labels_stand_upright_where_they_do_not_fit_flat() -> None:
    lines = printed(TerminalHeatmap(torch.eye(2, 3), ["a", "b"], ["the", "black", "cats"]), width=14)
    assert lines[:7] == [
        "      b",
        "      l   c",
        "  t   a   a",
        "  h   c   t",
        "  e   k   s",
        "a ███",
        "b     ███",
    ]


@pytest.mark.parametrize("count", [12, 20])
def test_twenty_columns_fit_into_eighty(count: int) -> None:
    words = ["internationalisation"] * count
    lines = printed(TerminalHeatmap(torch.eye(count), words, words))
    assert not any("left out" in line for line in lines)
    rows = [line for line in lines if line.startswith("internat")]
    assert [line.count("█") // 2 for line in rows] == [1] * count
    assert all(cell_len(line) <= 80 for line in lines)


def test_columns_that_do_not_fit_are_counted() -> None:
    lines = printed(TerminalHeatmap(torch.eye(1, 60), ["a"], ["word"] * 60))
    assert lines[-1].startswith("34 of 60 columns are left out;")  # 78 cells hold 26 columns
    assert lines[-2].startswith("·· 0.05")


def test_of_columns_that_do_not_fit_those_with_the_largest_weights_are_shown() -> None:
    weights = torch.full((2, 60), 0.01)
    weights[0, 59], weights[1, 40], weights[1, 7] = 0.9, 0.5, 0.3
    words = [f"{chr(97 + column // 10)}{column % 10}" for column in range(60)]  # a0 ... f9
    lines = printed(TerminalHeatmap(weights, ["x", "y"], words), width=11)  # 9 cells hold 3 columns
    assert lines[:4] == ["  a  e  f", "  7  0  9", "x       ██", "y ░░ ▒▒"]
    assert lines[-1] == "weights."


def test_token_text_is_never_markup() -> None:
    lines = printed(TerminalHeatmap(torch.eye(2), ["[red]x[/red]", "[/]"], ["[b]", "\x1b[31m"], "[bold]t[/bold]"))
    assert lines[0] == "[bold]t[/bold]"
    assert "[b]" in lines[1]
    assert "⟨U+001B⟩[31m" in lines[1]
    assert lines[2].startswith("[red]x[/red] ███")
    assert lines[3].lstrip().startswith("[/]")


def test_wide_letters_and_words_from_right_to_left_keep_the_columns_straight() -> None:
    lines = printed(TerminalHeatmap(torch.ones(3, 1), ["国际", "שלום", "ab"], ["x"]))
    starts = [cell_len(line.split("█")[0]) for line in lines[1:4]]
    assert starts == [5, 5, 5]
    assert "שלום\u200e" in lines[2]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    lines = printed(TerminalHeatmap(torch.tensor([[0.1, 0.9]]), ["é"], ["a", "b"]), encoding="ascii")
    assert lines[1].startswith(r"\xe9 ... ###")
    assert lines[-1] == ".. 0.05  :: 0.2  ++ 0.4  ** 0.6  ## 0.8"


@given(st.lists(st.text(max_size=30), max_size=12), st.lists(st.text(max_size=30), max_size=30), st.integers(10, 120))
def test_no_line_is_wider_than_the_terminal(rows: list[str], columns: list[str], width: int) -> None:
    weights = torch.full((len(rows), len(columns)), 0.5)
    lines = printed(TerminalHeatmap(weights, rows, columns), width=width)
    assert len(lines) >= len(rows)
    assert all(cell_len(line) <= width for line in lines)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"1 by 2 cells needs weights of that shape, not \(2, 1\)"):
        TerminalHeatmap(torch.ones(2, 1), ["a"], ["b", "c"])
    with pytest.raises(OptionError, match="finite"):
        TerminalHeatmap(torch.tensor([[float("inf")]]), ["a"], ["b"])
