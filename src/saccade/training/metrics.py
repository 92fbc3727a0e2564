"""What a run reports as it goes: ``metrics.jsonl``, one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from saccade.errors import OptionError

__all__ = ["MetricsLog", "read_metrics"]


class MetricsLog:
    """Appends lines; a continued run first drops those after the step that it continues from."""

    def __init__(self, path: Path, continue_after: int, tensorboard: bool = False) -> None:
        kept = [line for line in read_metrics(path) if line["step"] <= continue_after]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        path.write_text(text, encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")
        self._board = _event_writer(path.parent / "tensorboard", continue_after) if tensorboard else None

    def write(self, step: int, **values: Any) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _flat(values):
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", number) for inner, number in _flat(value))
        else:
            yield name, value


def _event_writer(folder: Path, continue_after: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise OptionError(
            "training.tensorboard needs the package tensorboard: pip install 'saccade[tensorboard]'."
        ) from None
    return SummaryWriter(folder, purge_step=continue_after + 1)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; a last line cut short by a kill is left out."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("step"), int):
                lines.append(line)
    return lines
