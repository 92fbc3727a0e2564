"""Write the log of a run, ``metrics.jsonl``, and show it in TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from saccade.extras import needs_extra
from saccade.storage import seal, write_file
from saccade.storage.replacing import storage_errors
from saccade.storage.run_log import read_metrics

__all__ = ["MetricsLog"]


class MetricsLog:
    """Appends lines to the log. When a run continues, the lines that it will write again are removed first.

    These are the lines after ``step``, where the run continues, and the validations after ``validated``, because a run
    that was stopped during a validation repeats it.
    """

    def __init__(self, path: Path, step: int, validated: int, tensorboard: bool = False) -> None:
        kept = [line for line in read_metrics(path)[0] if line["step"] <= (validated if "validation" in line else step)]
        write_file(path, "".join(seal(line) + "\n" for line in kept).encode())
        self.validations = [line["step"] for line in kept if "validation" in line]
        self._path = path
        with storage_errors(path):
            self._file = path.open("a", encoding="utf-8")
        self._board: Any = None
        if tensorboard:
            with needs_extra("tensorboard", "training.tensorboard"):
                from torch.utils.tensorboard import SummaryWriter
            self._board = SummaryWriter(path.parent / "tensorboard", purge_step=step + 1)

    def write(self, step: int, **values: Any) -> None:
        with storage_errors(self._path):
            self._file.write(seal({"step": step, **values}) + "\n")
            self._file.flush()
        if "validation" in values:
            self.validations.append(step)
        if self._board is not None:
            for name, value in _flat(values):
                self._board.add_scalar(name, value, step)

    def sync(self) -> None:
        """Flush the lines to disk. This must happen before a checkpoint is written, so that no line about a step before
        the checkpoint can be lost."""
        with storage_errors(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with storage_errors(self._path):  # closing tries again to write what did not fit on a full disk
            self._file.close()
        if self._board is not None:
            self._board.close()


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers in nested dictionaries, with names such as ``validation/bleu``."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", number) for inner, number in _flat(value))
        else:
            yield name, value
