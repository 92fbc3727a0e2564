"""Every row of docs/lectures.md says where its slide is: in a file, a command and a recipe that exist."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from typer.main import get_command

from saccade.cli.main import app
from saccade.lab.registry import EXPERIMENTS
from saccade.lens import EXAMPLES
from saccade.recurrent import CELLS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
TABLES = PAGE[: PAGE.index("## The decks' vectors")]
ROWS = [line for line in TABLES.splitlines() if line.startswith("| ") and not line.startswith("| slide")]
SCENES = re.findall(r'title: "(.+)"', files("saccade").joinpath("serving/studio/learn/scenes.js").read_text("utf-8"))


@pytest.mark.parametrize("row", ROWS)
def test_every_slide_has_an_entry(row: str) -> None:
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 5
    assert all(cells)
    assert cells[4] in {*SCENES, "none"}


def test_only_search_and_speech_are_left_out_for_a_reason() -> None:
    assert [row.split("|")[1].strip() for row in ROWS if "not built, because" in row] == [
        "Neural architecture search",
        "Speech recognition",
    ]


def test_what_the_page_names_exists() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(re.findall(r"`saccade (\w+)", PAGE)) <= set(commands)
    assert set(re.findall(r"--example (\w+)", PAGE)) == set(EXAMPLES)
    assert set(re.findall(r"lab run ([\w-]+)", PAGE)) <= set(EXPERIMENTS)
    assert set(re.findall(r"`cell = \"(\w+)\"|`(lstm_\w+)`", PAGE)) <= {
        pair for name in CELLS for pair in ((name, ""), ("", name))
    }
    for name, option in re.findall(r"`saccade (\w+) (?:\S+ )?--([\w-]+)", PAGE):
        if name != "lab":
            assert any(f"--{option}" in parameter.opts for parameter in commands[name].params), (name, option)


def test_the_scenes_for_teachers_exist() -> None:
    table = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| 00")]
    assert {row[3].strip() for row in rows} <= {*SCENES, ""}
