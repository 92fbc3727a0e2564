"""Measures training with 1, 2 and 4 processes: tokens per second, bytes per update, and what a checkpoint costs.

    python benchmarks/distributed.py

A Transformer learns the built-in English-French corpus. All runs do the same updates (`training.accumulate = 4`), so
their ratio of seconds is that of tokens per second. Bytes are counted at the loopback device, where all traffic between
the processes passes. The machine's load average is printed too: on a busy machine the figures mean little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli_w

from saccade.storage.run_log import METRICS, read_metrics
from saccade.training.recipe import read_tables
from saccade.training.trainer import Trainer

RECIPE = {
    "data": {"builtin": "grammar", "sentences": 3000},
    "text": {"kind": "word"},
    "model": {"kind": "transformer", "dropout": 0.0},
    "training": {"warmup": 10, "log_every": 1, "accumulate": 4, "validation_sample": 1},
}
#: The updates before which nothing is counted: the first ones allocate memory.
SETTLED = 10
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    options = parser.parse_args()
    tables = json.loads(json.dumps(RECIPE))
    tables["model"] |= {"width": options.width, "feedforward_width": 4 * options.width}
    tables["training"] |= {
        "steps": options.steps,
        "validate_every": options.steps,
        "batch_tokens": options.batch_tokens,
    }
    tokens, parameters = sizes(tables)
    print(f"{parameters:,} parameters; {tokens:,.0f} predictions in an update; load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(tomli_w.dumps(tables))
        for threads, count, shard in ((1, 1, False), (2, 1, False), (1, 2, False), (1, 2, True), (1, 4, False)):
            run = Path(folder) / f"{threads}-{count}-{shard}"
            command = [sys.executable] if count == 1 else [*TORCHRUN, "--nproc-per-node", str(count)]
            shared = ["--set", f"distributed.shard={str(shard).lower()}"]
            before = loopback()
            result = subprocess.run(
                [*command, "-m", "saccade", "train", str(recipe), "-o", str(run), *shared],
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                stdout=subprocess.DEVNULL,
                check=False,
            )
            assert result.returncode == 0
            sent = (loopback() - before) / options.steps
            seconds = {line["step"]: line["seconds"] for line in read_metrics(run / METRICS)[0] if "loss" in line}
            each = (seconds[options.steps] - seconds[SETTLED]) / (options.steps - SETTLED)
            print(
                f"{count} processes of {threads} threads{', sharded' * shard}: {tokens / each:8,.0f} tokens/s, "
                f"{each:.3f} s and {sent / 1e6:6.1f} MB an update",
                flush=True,
            )
        print(f"saving a checkpoint: {saving(tables, Path(folder)):.2f} s; load {os.getloadavg()[0]:.2f}")


def trainer_of(tables: dict[str, object]) -> Trainer:
    recipe = read_tables(tables, "the recipe")
    splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed)
    task = recipe.build_task(recipe.task.prepare(recipe.settings, splits.train))
    return Trainer(
        task, task.build(recipe.kind, recipe.model), task.encode(splits.train), task.encode(splits.validation)
    )


def sizes(tables: dict[str, object]) -> tuple[float, int]:
    """The mean number of predictions in an update, and the number of parameters."""
    trainer = trainer_of(tables)
    groups = trainer.groups()
    counts = [
        sum(trainer.task.batch([trainer.train[i] for i in part]).count for part in next(groups)) for _ in range(20)
    ]
    return sum(counts) / len(counts), sum(parameter.numel() for parameter in trainer.model.parameters())


def saving(tables: dict[str, object], folder: Path) -> float:
    """The seconds that training waits for a checkpoint."""
    from saccade.training.checkpoint import CheckpointStore

    trainer = trainer_of(tables)
    trainer.update(next(trainer.groups()))
    before = time.monotonic()
    CheckpointStore(folder / "checkpoints").save(1, trainer.tensors(), trainer.state())
    return time.monotonic() - before


def loopback() -> int:
    """The bytes that the loopback device has sent."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    (line,) = [line for line in lines if line.strip().startswith("lo:")]
    return int(line.split()[9])


if __name__ == "__main__":
    main()
