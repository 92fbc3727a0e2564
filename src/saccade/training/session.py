"""``saccade.train``: train a model from Python."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from saccade.errors import OptionError
from saccade.storage.run_log import METRICS, read_metrics
from saccade.tasks.base.data import joined_columns
from saccade.tasks.base.model_folder import open_model
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.registry import DEFAULT_TASK, task_named
from saccade.training.display import Display
from saccade.training.distributed import this_process
from saccade.training.interrupt import Stopped
from saccade.training.recipe import Recipe, read_recipe, read_tables
from saccade.training.recommendation import Request, recipe_for_run
from saccade.training.run import train as train_run
from saccade.training.run_folder import RunFolder

__all__ = ["Run", "train"]


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, and the contents of its ``result.json``."""

    folder: Path
    result: dict[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """The final scores on the test data, or on the validation data if there is no test (``result["part"]``)."""
        scores: dict[str, float] = self.result["scores"]
        return scores

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The log of the run, one dictionary per line: losses, learning rates and validation scores by step."""
        return read_metrics(self.folder / METRICS)[0]

    def open(self, device: str = "cpu") -> Predictor:
        """Open the trained model, as ``saccade.open(run.folder)`` does."""
        return open_model(self.folder, device)


def train(
    recipe: str | Path | Mapping[str, Any] | None = None,
    *,
    output: str | Path,
    files: str | Path | Sequence[str | Path] = (),
    task: str = DEFAULT_TASK,
    columns: str | Sequence[str | int] | None = None,
    minutes: float | None = None,
    size: str | None = None,
    settings: Mapping[str, Any] | None = None,
    init: str | Path | None = None,
    device: str = "cpu",
    quiet: bool = False,
) -> Run:
    """Train a model and return the run, as ``saccade train`` does; also available as ``saccade.train``.

    ``recipe`` is the path of a recipe, or its tables as dictionaries. Instead of a recipe, ``files`` names the data, in
    the order of ``saccade new``, with ``task``, ``columns``, ``minutes`` and ``size`` as on the command line.
    ``columns`` may also be a list of names or numbers.
    ``settings`` overrides keys, such as ``{"training.lr": 3e-4}``. ``init`` is the folder of a model to start from,
    ``device`` is cpu, cuda or mps, and ``quiet`` prints nothing. ``output`` is the folder for the run. If it already
    contains this run, a stopped run continues, and a finished one is returned as it is.

    Examples:
        >>> run = saccade.train(files="reviews.csv", task="classification", columns="text,label", output="run")
        >>> run.scores["accuracy"], run.open().predict("A gorgeous, witty film.")[0].text
    """
    began = time.monotonic()
    folder, start = Path(output), None if init is None else Path(init)
    overrides = tuple(f"{key}={json.dumps(value)}" for key, value in (settings or {}).items())
    processes = this_process()
    with Display(Console(quiet=quiet or processes.rank > 0, highlight=False), 0) as display:
        if recipe is not None:
            if files or minutes is not None or size is not None:
                raise OptionError("A recipe has its own data, size and time; give no files, minutes or size with it.")
            chosen = _read(recipe, overrides, start)
        else:
            given = [files] if isinstance(files, str | Path) else files
            table = task_named(task).data.table([Path(file) for file in given], joined_columns(columns))
            request = Request(task, table, overrides, start, size, minutes, device, "saccade.train", began)
            text = processes.lead(lambda: recipe_for_run(request, folder, display.say).toml())
            chosen = read_tables(tomllib.loads(text), "the recipe")
        display.steps = chosen.training.steps
        device = processes.begin(chosen.distributed, device)
        run = processes.in_turn(lambda: RunFolder(chosen, folder, start))
        if run.finished:
            return Run(folder, run.result())
        try:
            return Run(folder, train_run(run, display, device, began, processes))
        except Stopped:
            raise KeyboardInterrupt from None  # everything is saved; the same call continues


def _read(recipe: str | Path | Mapping[str, Any], overrides: Sequence[str], init: Path | None) -> Recipe:
    if isinstance(recipe, str | Path):
        return read_recipe(Path(recipe), overrides, init=init)
    tables = {name: dict(table) if isinstance(table, Mapping) else table for name, table in recipe.items()}
    return read_tables(tables, "The recipe", overrides, init=init)
