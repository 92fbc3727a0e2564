"""What a training prints where there is no terminal: a log that can be followed."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from tiny_runs import write_recipe

from saccade.tasks.base.task import Probe
from saccade.training import display as shown
from saccade.training import run as training_run
from saccade.training.display import Display
from saccade.training.recipe import read_recipe
from saccade.training.run_folder import RunFolder
from saccade.training.trainer import Progress


def plain() -> tuple[Display, io.StringIO]:
    written = io.StringIO()
    return Display(Console(file=written, width=200), steps=300), written


def test_a_log_has_a_line_per_minute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 1000.0
    monkeypatch.setattr(shown, "time", SimpleNamespace(monotonic=lambda: now))
    display, written = plain()
    recipe = read_recipe(write_recipe(tmp_path, steps=300))
    display.model(training_run.nn.Linear(3, 5), recipe, step=100)
    for step in range(101, 231):  # 2 s and 70 tokens each: 130 updates take 260 s
        now += 2.0
        display.updated(Progress(step=step), loss=0.5, rate=0.00125, tokens=70)
    lines = [line for line in written.getvalue().splitlines() if line.startswith("step")]
    assert [line.split(":")[0] for line in lines] == [f"step {step} of 300" for step in (130, 160, 190, 220)]
    assert lines[0] == "step 130 of 300: loss 0.500, rate 0.0013, 35 tokens/s, about 6 min left"
    assert lines[3].endswith("about 3 min left")


def test_an_example_is_shown_with_its_source_and_truth() -> None:
    display, written = plain()
    probe = Probe([], [], "an answer", [])
    display.validated(
        Progress(step=1200, scores={"bleu": 3.14159, "words": 1234}), True, probe, ("a  source", "x" * 200)
    )
    assert written.getvalue().splitlines() == [
        "step 1,200: bleu 3.14  words 1,234  (best so far)",
        "  source: a source",
        "  answer: an answer",
        f"  truth: {'x' * 99}…",
    ]


def test_a_run_says_how_to_watch_it(tmp_path: Path) -> None:
    written = io.StringIO()
    recipe = read_recipe(write_recipe(tmp_path, steps=2, warmup=0, validate_every=2))
    with Display(Console(file=written, width=600), 2) as display:
        training_run.train(RunFolder(recipe, tmp_path / "runs" / "one"), display)
    said = written.getvalue()
    assert f": saccade serve {tmp_path / 'runs' / 'one'} --runs {tmp_path / 'runs'}\n" in said
    assert "  source: " in said
    assert "  truth: " in said
