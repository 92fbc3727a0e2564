"""Run notebooks from top to bottom, and write them as pages with their outputs.

python notebooks/run.py                             # runs every notebook, and writes docs/notebooks
python notebooks/run.py 000 --pages /tmp/pages      # those whose names begin with 000

A cell that fails stops the run. A cell's output is what it prints, the value of its last line, and its figures.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent


def run_cell(source: str, names: dict[str, Any]) -> Iterator[str | Figure]:
    """Run a cell, and yield what it prints and shows."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if printed.getvalue():
        yield printed.getvalue()
    figures = [plt.figure(number) for number in plt.get_fignums()]
    if isinstance(value, Figure) and value not in figures:
        figures.append(value)
    elif hasattr(value, "_repr_html_"):
        yield "(an interactive page: run the notebook to see it)"
    elif value is not None and not source.rstrip().endswith(";"):
        yield repr(value)
    yield from figures
    plt.close("all")


def run_notebook(path: Path) -> Iterator[tuple[dict[str, Any], list[str | Figure]]]:
    """Run the cells of a notebook in a folder of its own, and yield each cell with its outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    torch.set_printoptions(profile="default")  # a notebook that ran before may have changed them
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            try:
                yield cell, list(run_cell(source, names)) if cell["cell_type"] == "code" else []
            except Exception as error:
                error.add_note(f"This happened in {cell['id']} of {path.name}.")
                raise


def write_page(path: Path, pages: Path) -> None:
    """Run a notebook, and write it as Markdown, with its figures beside it."""
    parts = []
    for cell, outputs in run_notebook(path):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for number, output in enumerate(outputs):
            if isinstance(output, str):
                parts.append(f"```text\n{output.rstrip()}\n```")
            else:
                picture = f"{path.stem}-{cell['id']}-{number}.png"
                output.savefig(pages / picture, dpi=80, bbox_inches="tight", metadata={"Software": None})
                parts.append(f"![A figure that the cell above draws]({picture})")
    note = f"This page is `notebooks/{path.name}` with its outputs; `make notebooks` runs it and writes the page again."
    title, _, rest = "\n\n".join(parts).partition("\n")
    (pages / f"{path.stem}.md").write_text(f"{title}\n\n*{note}*\n{rest}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="the beginnings of names of notebooks; by default all")
    parser.add_argument("--pages", type=Path, default=FOLDER.parent / "docs" / "notebooks", help="folder for the pages")
    options = parser.parse_args()
    found = sorted(
        path for path in FOLDER.glob("*.ipynb") if not options.names or path.stem.startswith(tuple(options.names))
    )
    if not found:
        parser.error(f"no notebook in {FOLDER} begins with {' or '.join(options.names)}")
    options.pages.mkdir(parents=True, exist_ok=True)
    pages = options.pages.resolve()
    for path in found:
        start = time.perf_counter()
        write_page(path, pages)
        print(f"{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
