"""The notebooks: without outputs, of a length that a lesson has, and every cell runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LECTURES = [path for path in NOTEBOOKS if path.stem[0].isdigit()]
QUICK = ("000", "003", "004")  # notebooks that train nothing
FROM_A_FILE, EXERCISES = FOLDER / "from-a-file-to-a-look.ipynb", FOLDER / "exercises.ipynb"


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def test_every_lecture_has_a_notebook() -> None:
    assert [path.stem[:4] for path in LECTURES] == ["000-", "001-", "002-", "003-", "004-"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path: Path) -> None:
    found = cells(path)
    assert len(found) == 10 or path != FROM_A_FILE  # as its title promises
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in found)


@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
def test_a_lecture_notebook_has_questions_an_exercise_and_a_page(path: Path) -> None:
    found = cells(path)
    text = "\n".join("".join(cell["source"]) for cell in found if cell["cell_type"] == "markdown")
    assert 10 <= len(found) <= 20
    assert "$$" in text  # an equation
    assert text.count("**Question.**") == text.count("<details>") == text.count("</details>") >= 1
    assert "## Exercise" in text
    page = (FOLDER.parent / "docs" / "notebooks" / f"{path.stem}.md").read_text(encoding="utf-8")
    for cell in found:
        assert "".join(cell["source"]).partition("\n")[2] in page, f"make notebooks: {path.stem}, {cell['id']}"


def run(path: Path, folder: Path) -> str:
    """Run a notebook, and return the page that it becomes."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:saccade",
            str(FOLDER / "run.py"),
            path.stem,
            "--pages",
            str(folder),
        ],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return (folder / f"{path.stem}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem.startswith(QUICK) else pytest.mark.slow, id=path.stem)
        for path in LECTURES
    ],
)
def test_a_lecture_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    """The answers are asserted in the notebooks themselves; exercises without an answer say so."""
    page = run(path, tmp_path)
    assert page.count("Replace ... above by your answer.\n") == 1
    assert all((tmp_path / name.partition(")")[0]).stat().st_size > 1000 for name in page.split("above draws](")[1:])


@pytest.mark.slow
def test_from_a_file_to_a_look(tmp_path: Path) -> None:
    assert "an interactive page" in run(FROM_A_FILE, tmp_path)


def test_the_answers_to_the_exercises_hold(tmp_path: Path) -> None:
    """The answers are asserted in the notebook itself; here some of its output is compared with the lectures."""
    printed = run(EXERCISES, tmp_path)
    assert "3 matrices, with 36 numbers" in printed
    assert "correlation: 0.9967" in printed
    assert "黑猫吃了老鼠。" in printed


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    """A notebook beside a copy of the runner, so that the project's own folder is not written to."""
    cell = {"cell_type": "code", "id": "cell-7", "source": ["assert 1 == 2"]}
    (tmp_path / "broken.ipynb").write_text(json.dumps({"cells": [cell]}))
    runner = tmp_path / "run.py"
    runner.write_text((FOLDER / "run.py").read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, str(runner), "--pages", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "This happened in cell-7 of broken.ipynb." in done.stderr
