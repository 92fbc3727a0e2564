"""Views in the terminal: bars, blocks, and what is said where not all fits."""

from __future__ import annotations

import io

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console, RenderableType

import saccade
from saccade.errors import OptionError, UnknownNameError
from saccade.lens.view import View, view

KEYS = ["the", "cat", "[b]ate[/b]", "\u202emouse", "שלום", "国际"]


def printed(shown: RenderableType, width: int = 60, encoding: str = "utf-8") -> list[str]:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding, newline="\n")
    Console(file=stream, width=width, color_system=None, force_terminal=False).print(shown)
    stream.flush()
    return buffer.getvalue().decode(encoding).splitlines()


def one_hot(num_keys: int, num_heads: int = 3) -> View:
    """Query i of head h looks at key i + h, and at nothing else."""
    query = torch.stack([100 * torch.eye(num_keys).roll(head, 1) for head in range(num_heads)])[None]
    key = torch.eye(num_keys).expand(1, num_heads, -1, -1)
    with saccade.watch() as seen:
        saccade.attend(query, key, key)
    return view({"encoder.0.self": seen["attention"]}, (KEYS * num_keys)[:num_keys])


def test_bars_and_heads_of_one_token() -> None:
    lines = printed(one_hot(4).terminal("arcs", row=1))
    assert lines[0] == "cat in encoder.0.self, mean of 3 heads"
    assert lines[1].split() == ["0", "1", "2"]
    assert lines[2] == "          the                      0.00"
    assert lines[3] == "          cat ██████▋              0.33  ██"
    assert lines[4] == "   [b]ate[/b] ██████▋              0.33    ██"
    assert lines[5] == "⟨U+202E⟩mouse ██████▋              0.33      ██"


def test_the_bar_of_one_head() -> None:
    lines = printed(one_hot(4).terminal("arcs", row=1, head=2))
    assert [line.count("█") for line in lines[2:6]] == [0, 2, 2, 22]


def test_of_many_keys_the_strongest_are_shown() -> None:
    lines = printed(one_hot(40).terminal("arcs", row=37, most=2))
    assert [line.split()[:2] for line in lines[2:4]] == [["37", "cat"], ["38", "[b]ate[/b]"]]
    assert lines[-1] == "The 2 strongest of 40 keys are shown."
    with pytest.raises(OptionError, match="most must be at least 1, not 0"):
        one_hot(4).terminal("arcs", most=0)


@pytest.mark.parametrize("kind", ["heatmap", "arcs"])
def test_an_attention_that_is_not_there_is_named(kind: str) -> None:
    with pytest.raises(UnknownNameError, match=r"no attention 'encoder.9.self'; allowed: encoder.0.self"):
        one_hot(4).terminal(kind, name="encoder.9.self")


def test_a_block_for_each_head() -> None:
    lines = printed(one_hot(5).terminal("grid"), width=80)
    assert lines[0] == "encoder.0.self"
    assert lines[1].split() == ["0", "1", "2"]
    assert [line.index("█") for line in lines[2:7]] == [0, 1, 2, 3, 4]  # of head 0, the diagonal
    assert lines[-1].endswith("largest weight of each cell")
    long = printed(one_hot(60).terminal("grid"), width=80)
    assert len(long) == 2 + 5 + 1 + 1
    assert all("██" in line for line in long[2:7])


def test_heads_that_do_not_fit_are_counted() -> None:
    assert printed(one_hot(5, num_heads=12).terminal("grid"), width=30)[-1] == "Showing 10 of 12 heads."


def test_a_heat_map_with_the_exact_numbers() -> None:
    lines = printed(one_hot(3).terminal("heatmap", head=1))
    assert lines[0] == "encoder.0.self, head 1"
    assert [line.split()[-1] for line in lines[2:5]] == ["1.00"] * 3


@pytest.mark.parametrize("kind", ["arcs", "grid", "heatmap"])
@pytest.mark.parametrize("width", [24, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(kind: str, width: int, encoding: str) -> None:
    assert all(cell_len(line) <= width for line in printed(one_hot(6).terminal(kind), width, encoding))
