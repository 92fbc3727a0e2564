"""One client does its worst; another's sentence takes at most ten times what it takes alone, or a second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "fairness.py"
WAYS = ("128 texts of 16,000 characters, beam 32", "as much as is taken, beam 32", "quick texts, beam 16", "streams")


@pytest.mark.slow
def test_a_sentence_does_not_wait_for_another_client(folders: dict[str, Path]) -> None:
    command = [sys.executable, str(BENCHMARK), str(folders["tiny"]), "--requests", "100", "--connections", "32"]
    ended = subprocess.run([*command, "--only", *WAYS], capture_output=True, text=True, timeout=590, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
