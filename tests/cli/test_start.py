"""Where a person starts: the bare command, help, the version."""

from __future__ import annotations

import re

import pytest
from commands import Capture, run, succeed

COMMANDS = [
    "demo",
    "new",
    "train",
    "tune",
    "predict",
    "look",
    "words",
    "evaluate",
    "score",
    "compare",
    "export",
    "explain",
    "data",
]
COMMANDS += ["serve", "open", "lab"]


def test_alone_it_shows_where_to_start(capsys: Capture) -> None:
    out = succeed(capsys)
    for line in ("saccade demo", "saccade look runs/demo", "saccade new a.en a.fr", "saccade explain", "saccade serve"):
        assert line in out
    assert max(map(len, out.splitlines())) <= 80


def test_version(capsys: Capture) -> None:
    assert re.fullmatch(r"saccade \d+\.\d+\.\d+\n", succeed(capsys, "--version"))


def test_help_lists_every_command(capsys: Capture) -> None:
    listed = re.findall(r"^  (\w+) ", succeed(capsys, "--help").partition("Commands:")[2], re.MULTILINE)
    assert listed == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_of_the_command(capsys: Capture, command: str) -> None:
    out = succeed(capsys, command, "--help")
    assert re.search(rf"Examples?:\n\s+saccade {command}", out)
    assert not re.search(r"\[\[|\.\.\.[\]}]", out.partition("\n")[0]), "brackets and dots come once"


@pytest.mark.parametrize("arguments", [["predikt"], ["predict"], ["predict", "run", "text", "--bean", "3"]])
def test_a_usage_error_has_exit_code_2(capsys: Capture, arguments: list[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Error: " in err
    assert "Traceback" not in err
