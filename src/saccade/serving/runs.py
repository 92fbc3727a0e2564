"""Trainings as their folders tell of them: what was measured, and how one example was seen while the model learned.

The folder of a run is where training and serving meet; nothing of the training itself is needed to read it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.serving.http.refusals import Refused
from saccade.storage.locks import lock

__all__ = ["Run", "find_runs", "read_metrics"]

_PROBE = re.compile(r"step-(\d{1,12})\.json")
#: Bytes of a log that are read at once.
MOST_BYTES = 32 << 20


@dataclass(frozen=True)
class Run:
    """The folder of a run, under a name."""

    name: str
    folder: Path

    def describe(self) -> dict[str, Any]:
        """What it learns, how far it is, and how good."""
        recipe, result = self._recipe(), _json(self.folder / "result.json")
        metrics, _ = self.metrics()
        validated = [line["validation"] for line in metrics if isinstance(line.get("validation"), dict)]
        return {
            "name": self.name,
            "task": recipe.get("task", "translation"),
            "metric": recipe.get("metric"),
            "step": metrics[-1]["step"] if metrics else 0,
            "steps": recipe.get("training", {}).get("steps"),
            "finished": bool(result),
            "running": self.is_running,
            "scores": result.get("scores") or (validated[-1] if validated else {}),
        }

    def metrics(self) -> tuple[list[dict[str, Any]], int]:
        """All lines of the log, and the place after the last."""
        return read_metrics(self.folder / "metrics.jsonl")

    def probes(self) -> list[int]:
        """The updates after which one example was looked at."""
        found = (_PROBE.fullmatch(path.name) for path in _entries(self.folder / "probes"))
        return sorted(int(match[1]) for match in found if match)

    def probe(self, step: int) -> dict[str, Any]:
        if step not in self.probes():
            raise Refused(404, f"There is no probe of {self.name} after {step} updates.")
        found = _json(self.folder / "probes" / f"step-{step:08d}.json")
        if not found:
            raise Refused(404, f"The probe of {self.name} after {step} updates cannot be read.")
        return found

    @property
    def finished(self) -> bool:
        return (self.folder / "result.json").exists()

    @property
    def is_running(self) -> bool:
        """Whether a process trains in the folder: it then holds the lock of the run, which no dead process does."""
        try:
            with lock(self.folder / ".lock", shared=True) as is_free:
                return not is_free
        except OSError:
            return False

    def _recipe(self) -> dict[str, Any]:
        try:
            return tomllib.loads((self.folder / "recipe.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}


def find_runs(parents: Iterable[Path], folders: Iterable[tuple[str, Path]]) -> dict[str, Run]:
    """The runs of these models, and all runs right below these folders, by name."""
    found: dict[str, Run] = {}
    below = ((path.name, path) for parent in parents for path in sorted(_entries(parent)))
    for name, folder in (*folders, *below):
        if (folder / "metrics.jsonl").is_file() and (folder / "recipe.toml").is_file():
            found.setdefault(name, Run(name, folder))
    return found


def read_metrics(path: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a log from a place on, and where they end; what is no line of numbers is left out."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(MOST_BYTES)
    except OSError:
        return [], start
    whole = content[: content.rfind(b"\n") + 1]
    lines = []
    for text in whole.decode("utf-8", errors="replace").splitlines():
        line = _parsed(text)
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            lines.append(line)
    return lines, start + len(whole)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        value = None
    return value if isinstance(value, dict) else {}


def _parsed(text: str) -> Any:
    """A value; NaN, which a loss may have become, is null to who reads it."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except ValueError:
        return None


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
