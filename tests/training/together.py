"""Several processes that run one command together, as torchrun starts them, but forked like the others here.

Like torchrun, the test keeps the store at which they meet, so that it outlives each of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from tiny_runs import MODELS, Command, tables

from saccade.storage.run_log import METRICS, read_metrics
from saccade.training.distributed import Processes, Torchrun, this_process

TRANSFORMER = {"kind": "transformer", "width": 12, "num_heads": 3, "feedforward_width": 10, "dropout": 0.0}
#: Seconds by which a process that lags is behind the others in every update.
LAG = 0.3
#: What is done at which call of a function, by one of the processes.
Action = tuple[Callable[[], object], str | None, int]


class Together:
    """The same command in ``count`` processes; a single one is started without torchrun."""

    def __init__(
        self,
        count: int,
        *arguments: str | Path,
        log: Path,
        do_at: dict[int, Action] | None = None,
        seen: Path | None = None,
    ) -> None:
        """``seen`` names the files in which the processes note the examples of each update, for ``seen``."""
        self._seen = [] if seen is None else [seen.with_name(f"{seen.name}-{rank}.seen") for rank in range(count)]
        if seen is not None:
            do_at = {rank: (partial(note_examples, path), "Trainer.run", 1) for rank, path in enumerate(self._seen)}
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        shared = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "WORLD_SIZE": str(count),
            "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        self.commands = [
            Command(
                arguments,
                log.with_name(f"{log.name}-{rank}"),
                do_at=(do_at or {}).get(rank),
                environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} if count > 1 else {},
            )
            for rank in range(count)
        ]

    def end(self) -> list[int | None]:
        """Wait for all processes, and return their exit codes."""
        return [command.exit_code() for command in self.commands]

    def seen(self) -> dict[int, Counter[int]]:
        """The lines of the examples that all processes have computed in each update so far, and how often."""
        found: dict[int, Counter[int]] = {}
        for path in self._seen:
            text = path.read_text() if path.exists() else ""
            for line in text[: text.rfind("\n") + 1].splitlines():
                step, *lines = json.loads(line)
                found.setdefault(step, Counter()).update(lines)
        return found

    @property
    def out(self) -> str:
        return "".join(command.out for command in self.commands)

    @property
    def err(self) -> str:
        return "".join(command.err for command in self.commands)


def losses(run: Path) -> dict[int, float]:
    """The loss of each step that a run recorded."""
    return {line["step"]: line["loss"] for line in read_metrics(run / METRICS)[0] if "loss" in line}


def kinds(folder: Path, **training: Any) -> dict[str, dict[str, Any]]:
    """A recipe of each kind of task, with data in ``folder``: no dropout, and updates of four batches."""
    draw = random.Random(3)
    words = [[draw.choice(["ba", "do", "fida", "ku", "mesa"]) for _ in range(draw.randint(2, 7))] for _ in range(90)]
    tagged = ("".join(f"{word}\t{word[0]}\n" for word in sentence) for sentence in words)
    (folder / "tagged.tsv").write_text("\n".join(tagged) + "\n")
    (folder / "text.txt").write_text("\n".join(" ".join(sentence) for sentence in words) + "\n")
    pixels = np.random.default_rng(0)
    labels = np.array(["up", "down", "left"] * 30)
    np.savez(folder / "images.npz", images=pixels.integers(0, 255, (90, 4, 6), dtype=np.uint8), labels=labels)
    common = {"warmup": 2, "lr": 5e-3, "log_every": 1, "accumulate": 4} | training
    by_token, by_image = common | {"batch_tokens": 40}, common | {"batch_images": 5}
    translation = {name: tables(folder, name, **by_token) for name in MODELS}
    for name, recipe in translation.items():
        recipe["model"] = MODELS[name] | {"dropout": 0.0}
    reader = {"word_width": 5, "word_dropout": 0.0, "piece_width": 4, "spelling_width": 6, "character_width": 3}
    return {
        "translation, Transformer": translation["transformer"],
        "translation, recurrent": translation["recurrent"],
        "tagging": {
            "task": "tagging",
            "data": {"file": str(folder / "tagged.tsv")},
            "model": {**TRANSFORMER, "encoder_layers": 1, **reader},
            "training": by_token,
        },
        "images": {
            "task": "images",
            "data": {"images": str(folder / "images.npz")},
            "model": {**TRANSFORMER, "patch": 2, "image_size": [4, 6], "encoder_layers": 1},
            "training": by_image,
        },
        "language model": {
            "task": "language-model",
            "data": {"text": str(folder / "text.txt")},
            "text": {"kind": "character", "context": 7},
            "model": {**TRANSFORMER, "decoder_layers": 2},
            "training": by_token,
        },
    }


# --- what a process may do ---


def send_term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def note_examples(path: Path) -> None:
    """From now on, write down the step and the lines of the examples whenever this process computes a batch."""
    kind = type(this_process())
    turns = kind.turns

    def noted(self: Processes, batches: Any, network: Any, seed: tuple[int, int]) -> Iterator[tuple[Any, int]]:
        with path.open("a") as file:
            for batch, factor in turns(self, batches, network, seed):
                if factor:
                    print([seed[1], *batch.lines], file=file, flush=True)
                yield batch, factor

    kind.turns = noted  # type: ignore[method-assign]


def lag() -> None:
    """From now on, take longer to make a batch."""
    divide = Torchrun.divide

    def slowly(self: Torchrun, group: list[list[int]]) -> list[list[int]]:
        time.sleep(LAG)
        return divide(self, group)

    Torchrun.divide = slowly  # type: ignore[method-assign]


def run_out() -> None:
    raise MemoryError


def divide_by_zero() -> None:
    print(1 / 0)
