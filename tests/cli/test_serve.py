"""``saccade serve``: what it refuses before it listens, and the demonstration's model that is trained first."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from commands import Capture, assert_refused, run

COMMAND = [sys.executable, "-m", "saccade.cli", "serve", "--no-browser"]


def test_beyond_this_machine_a_key_is_needed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACCADE_API_KEY", raising=False)
    assert_refused(run(capsys, "serve", "--host", "0.0.0.0", "--no-browser"), "0.0.0.0", "--api-key", "--no-api-key")
    both = run(capsys, "serve", "--host", "0.0.0.0", "--api-key", "a", "--no-api-key")
    assert_refused(both, "not both")


def test_what_cannot_be_served_is_said(capsys: Capture, tmp_path: Path) -> None:
    assert_refused(run(capsys, "serve", tmp_path / "none", "--no-browser"), "none")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run(capsys, "serve", "--port", str(port), "--no-browser")
    assert_refused(result, f"127.0.0.1:{port}", "Address already in use")


def test_names_are_given_once(capsys: Capture, tiny_run: Path) -> None:
    assert_refused(run(capsys, "serve", tiny_run, tiny_run, "--no-browser"), "Two models are named 'run'")
    assert_refused(run(capsys, "serve", f"a/b={tiny_run}", "--no-browser"), "'a/b'")


def listed(url: str) -> list[dict[str, Any]]:
    with urlopen(f"{url}api/models", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def test_without_a_model_the_demonstration_is_trained_and_shown(tmp_path: Path) -> None:
    """Its progress is there from the start; told to end, the server ends the training too, which can go on later."""
    with subprocess.Popen([*COMMAND, "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        (demo,) = listed(url)
        assert (demo["name"], demo["ready"], demo["failure"]) == ("demo", False, None)
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"{url}translate", b"q=a&source=en&target=fr", timeout=30)
        while (demo := listed(url)[0])["steps"] is None:  # until the run has its recipe
            with pytest.raises(subprocess.TimeoutExpired):  # it goes on
                process.wait(0.5)
        assert demo["steps"] == 1200
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 0
    assert (tmp_path / "runs" / "demo" / "recipe.toml").exists()
    assert not (tmp_path / "runs" / "demo" / "result.json").exists()
