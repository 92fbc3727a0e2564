"""Tiny runs, and the command that makes them, each in a process of its own.

The processes are forks of one that has imported everything, so that a run costs its training and not the import of
torch; what runs in them is the command itself, with one thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import tomli_w
import torch

from saccade.cli.main import main
from saccade.storage.run_log import read_metrics

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["saccade.cli.main", "torch._dynamo"])  # an optimizer imports the second
#: Seconds after which a process is taken to hang.
PATIENCE = 120.0
WORDS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "red": "rouge"}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {
        "kind": "transformer",
        "width": 16,
        "num_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "feedforward_width": 24,
        "dropout": 0.2,
    },
    "recurrent": {
        "kind": "recurrent",
        "cell": "gru",
        "width": 16,
        "embedding_width": 16,
        "attention_width": 16,
        "dropout": 0.2,
    },
}


def sentences(count: int = 200, seed: int = 4) -> list[tuple[str, str]]:
    """Different sentences of number words, each with its translation word by word, the colours after the numbers."""
    chance = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        words = chance.choices(list(WORDS), k=chance.randint(1, 7))
        found[" ".join(words)] = " ".join(WORDS[word] for word in sorted(words, key="red".__eq__))
    return list(found.items())


def tables(folder: Path, model: str = "transformer", **training: Any) -> dict[str, Any]:
    """The tables of a recipe, and its data in ``folder``."""
    table = folder / "pairs.tsv"
    if not table.exists():
        lines = [f"{source}\t{target}\n" for source, target in [("source", "target"), *sentences()]]
        table.write_text("".join(lines))
    settings = {
        "steps": 40,
        "batch_tokens": 256,
        "warmup": 5,
        "lr": 5e-3,
        "validate_every": 10,
        "validation_sample": 5,
        "log_every": 1,
    }
    return {
        "task": "translation",
        "data": {"table": str(table), "validation": 0.1},
        "text": {"kind": "word"},
        "model": MODELS[model],
        "training": settings | training,
        "decoding": {"beam": 2},
    }


def write_recipe(folder: Path, model: str = "transformer", **training: Any) -> Path:
    """The same as a file in ``folder``."""
    path = folder / f"{model}.toml"
    path.write_text(tomli_w.dumps(tables(folder, model, **training)))
    return path


class Command:
    """``saccade ARGUMENTS`` in a process that has begun; what it says goes into files beside ``log``."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        log: Path,
        *,
        signal_at: tuple[int, str | None, int] | None = None,
        do_at: tuple[Callable[[], object], str | None, int] | None = None,
        file_size: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """``signal_at`` is a signal, a function of Python and which call of it; None means any call of anything.

        ``do_at`` is the same with something to do instead of a signal to send.
        """
        if signal_at is not None:
            do_at = (partial(_send, signal_at[0]), *signal_at[1:])
        self._paths = (log.with_suffix(".out"), log.with_suffix(".err"))
        words = [str(argument) for argument in arguments]
        self.process = CONTEXT.Process(target=_run, args=(words, *self._paths, do_at, file_size, environment or {}))
        self.process.start()

    def exit_code(self, seconds: float = PATIENCE) -> int | None:
        """How it ended; None, and it is killed, if it has not within so many seconds."""
        self.process.join(seconds)
        code: int | None = self.process.exitcode
        if code is None:
            self.process.kill()
        return code

    @property
    def out(self) -> str:
        return self._paths[0].read_text()

    @property
    def err(self) -> str:
        return self._paths[1].read_text()


def saccade(log: Path, *arguments: str | Path, **options: Any) -> tuple[int | None, str, str]:
    """Run a command to its end: exit code, stdout and stderr."""
    command = Command(arguments, log, **options)
    return command.exit_code(), command.out, command.err


def final_weights(run: Path) -> bytes:
    """The model that a run made, if it has ended."""
    assert json.loads((run / "result.json").read_text())["steps"] > 0
    return (run / "model" / "model.safetensors").read_bytes()


def last_step(run: Path) -> int:
    """The last step that a run told of."""
    return max((line["step"] for line in read_metrics(run / "metrics.jsonl")[0]), default=0)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files of a folder: their bytes and when they were written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def _run(
    arguments: list[str],
    out: Path,
    err: Path,
    do_at: tuple[Callable[[], object], str | None, int] | None,
    file_size: int | None,
    environment: dict[str, str],
) -> None:
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["saccade", *arguments]
    if file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    torch.set_num_threads(1)
    if do_at is not None:
        sys.setprofile(_doer(*do_at))
    main(arguments)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)


def _doer(action: Callable[[], object], function: str | None, call: int) -> Callable[[FrameType, str, object], None]:
    """Does something in this process at the moment that we choose, whatever it does then."""
    seen = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        if function is None or (event == "call" and frame.f_code.co_qualname == function):
            seen += 1
            if seen == call:
                sys.setprofile(None)
                action()

    return profile
