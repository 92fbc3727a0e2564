"""Read run folders: the metrics of a training run, and its probes, which record the attention for one example.

Training writes a run folder, and the server reads it; they share nothing else.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import SaccadeError, StorageError
from saccade.serving.http.refusals import Refused
from saccade.storage import unseal
from saccade.storage.locks import lock
from saccade.storage.manifest import read_regular
from saccade.storage.run_log import METRICS, read_metrics
from saccade.tasks.base.task import Probe
from saccade.tasks.registry import DEFAULT_TASK

__all__ = ["ServedRun", "find_runs"]

_PROBE = re.compile(r"step-(\d{1,12})\.json")
#: The most bytes of a file that are read at once; how many bytes at the end of a log are read to find out how far a run
#: has come; and how deep values may be nested.
MOST_BYTES, END_BYTES, DEEPEST = 32 << 20, 1 << 20, 64


@dataclass(frozen=True)
class ServedRun:
    """A run folder and its name."""

    name: str
    folder: Path

    def describe(self) -> dict[str, Any]:
        """Return the task, progress and scores of the run."""
        result = _json(self.folder / "result.json")
        try:
            recipe: dict[str, Any] = _plain(tomllib.loads(_read(self.folder / "recipe.toml")))
        except (OSError, ValueError, RecursionError, SaccadeError):
            recipe = {}
        metrics, _ = self.metrics(max(0, _size(self.folder / METRICS) - END_BYTES))
        validated = [line["validation"] for line in metrics if isinstance(line.get("validation"), dict)]
        training = recipe.get("training")
        return {
            "name": self.name,
            "task": recipe.get("task", DEFAULT_TASK),
            "metric": recipe.get("metric"),
            "step": metrics[-1]["step"] if metrics else 0,
            "steps": training.get("steps") if isinstance(training, dict) else None,
            "finished": bool(result),
            "running": self.is_running,
            "scores": result.get("scores") or (validated[-1] if validated else {}),
            "part": result.get("part", "test") if result.get("scores") else "validation",
        }

    def metrics(self, start: int = 0, most: int = MOST_BYTES) -> tuple[list[dict[str, Any]], int]:
        """Return the lines of the log from a position in the file, in bytes, and the position at which they end."""
        try:
            lines, end = read_metrics(self.folder / METRICS, start, most)
        except StorageError:
            return [], start
        return [plain for line in lines if (plain := _plain_line(line)) is not None], end

    def probes(self) -> list[int]:
        """Return the training steps at which a probe, the attention for one example, was recorded."""
        folder = self.folder / "probes"
        found = (_PROBE.fullmatch(path.name) for path in ([] if folder.is_symlink() else _entries(folder)))
        return sorted(int(match[1]) for match in found if match)

    def probe(self, step: int) -> dict[str, Any]:
        if step not in self.probes():
            raise Refused(404, f"The run {self.name} has no probe at step {step}.")
        try:
            found = unseal(_read(self.folder / "probes" / f"step-{step:08d}.json"), Probe._fields)
        except (OSError, ValueError, SaccadeError):
            found = None
        plain = None if found is None else _plain_line(found)
        if plain is None:
            raise Refused(404, f"The probe of {self.name} at step {step} is damaged.")
        return plain

    @property
    def finished(self) -> bool:
        return _is_file(self.folder / "result.json")

    @property
    def is_running(self) -> bool:
        """Whether a process is training in the folder; such a process holds the run's lock until it ends."""
        try:
            with lock(self.folder / ".lock", shared=True) as is_free:
                return not is_free
        except OSError:
            return False


def find_runs(parents: Iterable[Path], folders: Iterable[tuple[str, Path]]) -> dict[str, ServedRun]:
    """Return runs by name: those among ``folders``, given with their names, and all directly inside ``parents``."""
    found: dict[str, ServedRun] = {}
    # Symbolic links are not followed, because they can lead anywhere.
    entries = (path for parent in parents for path in sorted(_entries(parent)) if not path.is_symlink())
    below = ((_plain_name(path), path) for path in entries)
    for name, folder in (*folders, *below):
        if _is_file(folder / METRICS) and _is_file(folder / "recipe.toml"):
            found.setdefault(name, ServedRun(name, folder))
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        value = _plain(json.loads(_read(path)))
    except (OSError, ValueError, RecursionError, SaccadeError):
        value = None
    return value if isinstance(value, dict) else {}


def _read(path: Path) -> str:
    if path.lstat().st_size > MOST_BYTES:
        raise ValueError
    return read_regular(path).decode("utf-8")


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _plain_name(path: Path) -> str:
    """The name of a file, with a replacement character for each byte that is not UTF-8."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _plain_line(record: dict[str, Any]) -> dict[str, Any] | None:
    """A record with only values that JSON can hold; None if it is nested too deeply."""
    try:
        plain: dict[str, Any] = _plain(record)
    except ValueError:
        return None
    return plain


def _plain(value: Any, depth: int = DEEPEST) -> Any:
    """Replace NaN and infinity, which a loss may become, by null, because JSON has neither."""
    if not depth:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {_plain(key): _plain(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, depth - 1) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # replaces lone surrogates
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
