"""The notebooks: without outputs, in ten cells, and every cell runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
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
def test_a_notebook_has_ten_cells_and_no_outputs(path: Path) -> None:
    found = cells(path)
    assert len(found) == 10
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in found)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:saccade", "-c", RUN, str(path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cell-7" in done.stdout  # the interactive page
    assert (tmp_path / "look.html").stat().st_size > 10_000


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS
