"""Several processes that run one command together, as torchrun starts them, but forked like the others here.

Like torchrun, the test keeps the store at which they meet, so that it outlives each of them.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from tiny_runs import MODELS, Command, tables

from saccade.storage.run_log import METRICS, read_metrics

TRANSFORMER = {"kind": "transformer", "width": 12, "num_heads": 3, "feedforward_width": 10, "dropout": 0.0}
#: What is done at which call of a function, by one of the processes.
Action = tuple[Callable[[], object], str | None, int]


class Together:
    """The same command in ``count`` processes."""

    def __init__(self, count: int, *arguments: str | Path, log: Path, do_at: dict[int, Action] | None = None) -> None:
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
                environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(count)
        ]

    def end(self) -> list[int | None]:
        """Wait for all processes, and return their exit codes."""
        return [command.exit_code() for command in self.commands]

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


def run_out() -> None:
    raise MemoryError


def divide_by_zero() -> None:
    print(1 / 0)
