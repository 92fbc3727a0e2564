"""What a run prints: a summary of the data, a progress bar, the scores of each validation."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from torch import nn

from saccade.tasks.base.data import Splits
from saccade.tasks.base.task import Probe
from saccade.training import trainer
from saccade.training.recipe import Recipe

__all__ = ["Display"]


#: Seconds between progress lines where there is no progress bar, and the maximum length of a printed example.
LINE_SECONDS, WIDEST = 60.0, 100


class Display:
    """Prints the progress of a run: a bar in a terminal, a line per minute elsewhere."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.steps = steps
        self._bar: Progress | None = None
        self._row: TaskID | None = None
        self._metric = "loss"
        self._counted = "tokens"
        self._tokens = 0
        self._since = self._told = self._began = time.monotonic()
        self._first = 0  # the step where this session began

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        self.console.print(Text(text))

    def warn(self, text: str) -> None:
        self.console.print(Text(text, style="yellow"))

    def data(self, splits: Splits[Any]) -> None:
        table = Table(title="Data", title_justify="left", show_header=False, box=None, pad_edge=False)
        for what, value in splits.rows:
            table.add_row(Text(what), Text(value))
        for what, part in (("training", splits.train), ("validation", splits.validation), ("test", splits.test)):
            table.add_row(f"{what} examples", f"{len(part):,}")
        self.console.print(table)
        for note in splits.notes:
            self.say(f"Note: {note}.")

    def model(self, model: nn.Module, recipe: Recipe, step: int) -> None:
        self._metric, self._counted, self._first = recipe.metric, recipe.task.counted, step
        self._since = self._told = self._began = time.monotonic()
        parameters = sum(parameter.numel() for parameter in model.parameters())
        self.say(f"Model: {recipe.kind}, {parameters:,} parameters.")
        if step:
            self.say(f"Continuing from step {step:,} of {self.steps:,}.")
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn(f"loss {{task.fields[loss]:.3f}}  {{task.fields[speed]:,.0f}} {self._counted}/s"),
            TextColumn("{task.fields[score]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._row = self._bar.add_task("", total=self.steps, completed=step, loss=float("nan"), speed=0.0, score="")
        self._bar.start()

    def updated(self, progress: trainer.Progress, loss: float, rate: float, tokens: int) -> None:
        self._tokens += tokens
        passed = time.monotonic() - self._since
        if passed < 0.5 or self._bar is None or self._row is None:
            return
        if not self.console.is_terminal:
            self._say_progress(progress, loss, rate)
            return
        total = self.steps if progress.end is None else progress.end
        self._bar.update(self._row, completed=progress.step, total=total, loss=loss, speed=self._tokens / passed)
        self._tokens, self._since = 0, time.monotonic()

    def _say_progress(self, progress: trainer.Progress, loss: float, rate: float) -> None:
        """Print a line for a log file, at most once per minute."""
        now = time.monotonic()
        if now - self._told < LINE_SECONDS:
            return
        step, last = progress.step, self.steps if progress.end is None else progress.end
        left = (now - self._began) / (step - self._first) * (last - step)
        self.say(
            f"step {step:,} of {last:,}: loss {loss:.3f}, rate {rate:.2g}, "
            f"{self._tokens / (now - self._since):,.0f} {self._counted}/s, about {left / 60:.0f} min left"
        )
        self._tokens, self._since, self._told = 0, now, now

    def validated(
        self, progress: trainer.Progress, improved: bool, probe: Probe, source_and_truth: tuple[str, str] = ("", "")
    ) -> None:
        """Print the validation scores, and one example with the model's current answer."""
        mark = "  (best so far)" if improved else ""
        self.say(f"step {progress.step:,}: {_scores(progress.scores)}{mark}")
        source, truth = source_and_truth
        for name, text in (("source", source), ("answer", probe.text), ("truth", truth)):
            line = " ".join(text.split())
            if line or name == "answer":
                self.say(f"  {name}: {line if len(line) <= WIDEST else line[: WIDEST - 1] + '…'}")
        if self._bar is not None and self._row is not None:
            text = f"{self._metric} {progress.scores[self._metric]:.2f}"
            self._bar.update(self._row, completed=progress.step, score=text)
        self._tokens, self._since = 0, time.monotonic()

    def stopped(self, *, is_saved: bool) -> None:
        """Say how to continue a run that the user stopped; ``is_saved`` is False before its first checkpoint."""
        if self._bar is not None:
            self._bar.stop()
        said = "Stopped and saved." if is_saved else "Stopped before anything was trained."
        self.say(f"{said} Continue with the same command: {_command()}")

    def abandoned(self) -> None:
        """Say what is kept when the process ends during work that cannot be interrupted."""
        self.say(
            "Stopped in the middle of a long step; everything that was saved before is kept. "
            f"Continue with the same command: {_command()}"
        )

    def result(self, part: str, scores: dict[str, float], lines: Sequence[str]) -> None:
        if self._bar is not None:
            self._bar.stop()
        self.say(f"{part}: {_scores(scores)}")
        for line in lines:
            self.say(line)


def _command() -> str:
    """The command that the user gave. The options of torchrun are not known."""
    start = "torchrun ... -m saccade" if "TORCHELASTIC_RUN_ID" in os.environ else "saccade"
    return f"{start} {shlex.join(sys.argv[1:])}"


def _scores(scores: dict[str, float]) -> str:
    """Scores with two decimals, and counts as whole numbers."""
    return "  ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.2f}" for name, value in scores.items()
    )
