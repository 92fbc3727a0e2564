"""Read the log of a run, ``metrics.jsonl``: one JSON object with a checksum per line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from saccade.errors import StorageError
from saccade.storage.manifest import AS_IT_IS
from saccade.storage.sealing import unseal

__all__ = ["METRICS", "read_metrics"]

METRICS = "metrics.jsonl"
FIELDS = ("step", "loss", "rate", "seconds", "validation")


def read_metrics(path: Path, start: int = 0, most: int = -1) -> tuple[list[dict[str, Any]], int]:
    """Read at most ``most`` bytes of a log from byte ``start``; return the complete lines and where they end.

    Damaged lines are left out. A log that does not exist yet has no lines.
    """
    try:
        with open(os.open(path, os.O_RDONLY | AS_IT_IS), "rb") as file:
            file.seek(start)
            content = file.read(most)
    except FileNotFoundError:
        return [], start
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error.strerror}.") from error
    whole = content[: content.rfind(b"\n") + 1]
    lines = (unseal(text, FIELDS) for text in whole.decode("utf-8", errors="replace").splitlines())
    return [line for line in lines if line is not None and isinstance(line.get("step"), int)], start + len(whole)
