"""What a run reports as it goes: ``metrics.jsonl``, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["MetricsLog", "read_metrics"]


class MetricsLog:
    """Appends lines; a continued run first drops those after the step that it continues from."""

    def __init__(self, path: Path, continue_after: int) -> None:
        kept = [line for line in read_metrics(path) if line["step"] <= continue_after]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        path.write_text(text, encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, **values: Any) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


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
