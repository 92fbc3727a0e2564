"""The studio's modules as they are written."""

from __future__ import annotations

from importlib.resources import files

LONGEST = 120  # characters, as in Python


def test_no_line_is_longer_than_a_window() -> None:
    modules = [entry for entry in (files("saccade.serving") / "studio").iterdir() if entry.name.endswith(".js")]
    lines = {
        f"{entry.name}:{place}": len(line)
        for entry in modules
        for place, line in enumerate(entry.read_text(encoding="utf-8").splitlines(), 1)
    }
    assert {place: length for place, length in lines.items() if length > LONGEST} == {}
    assert len(lines) > 1000  # they were found
