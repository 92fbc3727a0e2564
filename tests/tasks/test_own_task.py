"""A task of numbers in a package outside of Saccade, found by its entry point, through every command and the page."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

PACKAGE = Path(__file__).parent / "own_task_package"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NUMBERS = [1.0, 9.0, 3.0, 7.0]


#: Runs commands one after another, so that PyTorch is loaded only once.
LOOP = """if True:
    import contextlib, io, json, sys
    from saccade.cli import main
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(json.loads(line))
                code = 0
            except SystemExit as left:
                code = left.code or 0
        print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Commands:
    """A process in which the package is installed, and which runs commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([str(one) for one in arguments]), file=self.process.stdin, flush=True)
        code, out, err = json.loads(self.process.stdout.readline())
        return code, out, err


@pytest.fixture(scope="module")
def saccade() -> Iterator[Commands]:
    start = [sys.executable, "-c", LOOP]
    pipe = subprocess.PIPE
    with subprocess.Popen(start, env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        yield Commands(process)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "saccade.cli", *map(str, arguments)]


def environment(path: Path = PACKAGE) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}


def said(result: tuple[int, str, str]) -> str:
    code, out, err = result
    assert code == 0, err
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, saccade: Commands) -> Path:
    """With data, a recipe that ``new`` wrote, and a run."""
    folder = tmp_path_factory.mktemp("extremes")
    draw = random.Random(1)
    lines = []
    for _ in range(400):
        numbers = [round(draw.uniform(0, 10), 2) for _ in range(4)]
        lines.append(json.dumps({"numbers": numbers, "extremes": [max(numbers), min(numbers)]}) + "\n")
    (folder / "data.jsonl").write_text("".join(lines))
    said(saccade("new", folder / "data.jsonl", "--task", "extremes", "-o", folder / "recipe.toml"))
    assert "batch_examples = 32         # Examples in a batch" in (folder / "recipe.toml").read_text()
    trained = said(saccade("train", folder / "recipe.toml", "-o", folder / "run"))
    assert "lines                400" in trained
    return folder


def test_it_predicts_evaluates_and_looks(folder: Path, saccade: Commands) -> None:
    largest, smallest = map(float, said(saccade("predict", folder / "run", json.dumps(NUMBERS))).split())
    assert (largest, smallest) == (pytest.approx(9, abs=0.5), pytest.approx(1, abs=0.5))
    (folder / "inputs.jsonl").write_text("[1, 2]\n[4, 3, 5]\n")
    assert len(said(saccade("predict", folder / "run", folder / "inputs.jsonl")).splitlines()) == 2
    scores = said(saccade("evaluate", folder / "run", "--data", folder / "data.jsonl")).split()
    assert scores[0] == "error"
    assert float(scores[1]) < 0.5
    looked = said(saccade("look", folder / "run", json.dumps(NUMBERS), "--png", folder / "look.png"))
    assert "smallest" in looked
    assert (folder / "look.png").exists()
    code, _, refused = saccade("predict", folder / "run", '["a"]')
    assert (code, refused.count("\n")) == (2, 1)
    assert "The input is a list of numbers" in refused


def test_a_folder_of_a_task_that_is_not_installed_is_refused_and_imports_nothing(folder: Path, tmp_path: Path) -> None:
    # importable is not installed: without an entry point, a module of the same name is not touched
    (tmp_path / "extremes.py").write_text("raise SystemExit('imported')")
    predict = command("predict", folder / "run", json.dumps(NUMBERS))
    refused = subprocess.run(predict, env=environment(tmp_path), capture_output=True, text=True, timeout=300)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the task 'extremes', which is not installed; install the package that provides it" in refused.stderr


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    serve = command("serve", folder / "run", "--port", "0", "--no-browser")
    with subprocess.Popen(serve, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3]
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 0


def asked(url: str, **body: object) -> dict[str, object]:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        found: dict[str, object] = json.load(answer)
    return found


def test_it_is_served(server: str) -> None:
    with urlopen(f"{server}api/models", timeout=60) as answer:
        (model,) = json.load(answer)
    assert (model["task"], model["input"]["kind"]) == ("extremes", "json")
    found = asked(f"{server}api/models/run/predict", inputs=[NUMBERS])
    assert found["answers"][0]["extremes"] == pytest.approx([9, 1], abs=0.5)  # type: ignore[index]
    with pytest.raises(HTTPError, match="400"):
        asked(f"{server}api/models/run/predict", inputs=["nine"])


def test_it_has_a_page(server: str) -> None:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: THE PAGE WAS NOT TESTED")
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{server}ask?m=run&t=%5B1%2C9%2C3%2C7%5D")
        expect(page.locator(".sentence:visible .answer").first).to_have_text(said_numbers(server), timeout=30_000)
        browser.close()


def said_numbers(server: str) -> str:
    found = asked(f"{server}api/models/run/predict", inputs=[NUMBERS])
    extremes: list[float] = found["answers"][0]["extremes"]  # type: ignore[index]
    return " ".join(f"{number:.1f}" for number in extremes)
