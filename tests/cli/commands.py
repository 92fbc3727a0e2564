"""Commands run in this process: what they print, and that they refuse in one sentence."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from saccade.cli import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    code = left.value.code
    assert code is None or isinstance(code, int)
    return code or 0, printed.out, printed.err


def succeed(capsys: Capture, *arguments: str | Path) -> str:
    """What a command prints that has nothing to complain about; it may say how it read a file, and note something."""
    code, out, err = run(capsys, *arguments)
    assert (code, [line for line in err.splitlines() if not line.startswith(("Read ", "Note: "))]) == (0, [])
    return out


def assert_refused(result: tuple[int, str, str], *parts: str) -> None:
    """Exit code 2, nothing on stdout, and one sentence that holds these parts."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert re.fullmatch(r"(Read .+\n)?saccade: .+\n", err), "one line, after how a file was read"
    assert "Traceback" not in err
    assert all(part in err for part in parts), err


def give_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let the command read this from its standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
