"""Ctrl-C while a command is still being loaded ends it without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Sends the process the signal of Ctrl-C at the moment when a package is first looked for.
SCRIPT = """
import os, runpy, signal, sys
package, sys.argv = sys.argv[1], ["saccade", "explain"]
class Interrupting:
    def find_spec(self, name, *_):
        if name == package:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
runpy.run_module("saccade.cli", run_name="__main__")
"""


@pytest.mark.parametrize("package", ["typer", "saccade.cli.look", "torch", "saccade.tasks"])
def test_no_traceback(package: str) -> None:
    command = [sys.executable, "-c", SCRIPT, package]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (130, -2), ended
    assert "Traceback" not in ended.stderr
