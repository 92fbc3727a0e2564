"""The notebooks: without outputs, and every cell runs; the first has ten cells, as its title promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
FOLDER = Path(__file__).parents[1] / "notebooks"
FROM_A_FILE, EXERCISES = FOLDER / "from-a-file-to-a-look.ipynb", FOLDER / "exercises.ipynb"
#: Runs the cells of a notebook in one namespace. As in a notebook, the value of the last line of a cell is displayed.
RUN = """
import ast, json, sys
import matplotlib
matplotlib.use("agg")
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), cell["id"], "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
        shown = getattr(value, "_repr_html_", lambda: None)() or repr(value)
        print(cell["id"], len(shown), shown[:200])
"""


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs(path: Path) -> None:
    found = cells(path)
    assert len(found) == 10 or path != FROM_A_FILE
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in found)


def run(path: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:saccade", "-c", RUN, str(path)],
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_from_a_file_to_a_look(tmp_path: Path) -> None:
    assert "cell-7" in run(FROM_A_FILE, tmp_path)  # the interactive page
    assert (tmp_path / "look.html").stat().st_size > 10_000


def test_the_answers_to_the_exercises_hold(tmp_path: Path) -> None:
    """The answers are asserted in the notebook itself; here some of its output is compared with the lectures."""
    printed = run(EXERCISES, tmp_path)
    assert "3 matrices, with 36 numbers" in printed
    assert "correlation: 0.9967" in printed
    assert "黑猫吃了老鼠。" in printed


def test_all_notebooks_are_tested() -> None:
    assert set(NOTEBOOKS) == {FROM_A_FILE, EXERCISES}
