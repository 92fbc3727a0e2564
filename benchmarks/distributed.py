"""Measures training with 1, 2 and 4 processes: tokens per second, bytes per update, and what a checkpoint costs.

    python benchmarks/distributed.py
    unshare --net sh -c 'ip link set lo up; python benchmarks/distributed.py'     # as root: counts no other traffic

A Transformer learns the built-in English-French corpus. All runs do the same updates (`training.accumulate = 4`), so
their ratio of seconds is that of tokens per second. Bytes are counted at the loopback device, where all traffic between
the processes passes. The machine's load average is printed too: on a busy machine the seconds mean little, and the
processor time (of all processes, with the threads of each) says more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli_w

from saccade.training.recipe import read_tables
from saccade.training.trainer import Trainer

RECIPE = {
    "data": {"builtin": "grammar", "sentences": 3000},
    "text": {"kind": "word"},
    "model": {"kind": "transformer", "dropout": 0.0},
    "training": {"warmup": 10, "log_every": 1, "accumulate": 4, "validation_sample": 1},
}
#: Threads, processes, and whether the weights are sharded.
CASES = {
    "1x1": (1, 1, False),
    "1x2": (2, 1, False),
    "2x1": (1, 2, False),
    "2x1-sharded": (1, 2, True),
    "4x1": (1, 4, False),
}
#: The updates before which nothing is counted: the first ones allocate memory.
SETTLED = 5
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--checkpoints", type=int, default=10, help="number of checkpoints that are saved and timed")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES], help="processes x threads")
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], sys.argv[3:])
        return
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
        for threads, count, shard in (CASES[name] for name in options.cases):
            each, processor, sent = measure(recipe, threads, count, shard)
            print(
                f"{count} processes of {threads} threads{', sharded' * shard}: {tokens / each:8,.0f} tokens/s, "
                f"{each:.3f} s, {processor:.3f} s of processors and {sent / 1e6:6.2f} MB an update; "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        if not options.checkpoints:
            return
        seconds = saving(tables, Path(folder), options.checkpoints)
        print(f"saving a checkpoint: {seconds:.2f} s, {seconds / 60:.2%} of a minute; load {os.getloadavg()[0]:.1f}")


def measure(recipe: Path, threads: int, count: int, shard: bool) -> tuple[float, float, float]:
    """The seconds, the processor time of all processes and the bytes of an update."""
    run = recipe.with_name(f"{threads}-{count}-{shard}")
    command = [sys.executable] if count == 1 else [*TORCHRUN, "--nproc-per-node", str(count)]
    shared = ["--set", f"distributed.shard={str(shard).lower()}"]
    result = subprocess.run(
        [*command, __file__, "--worker", str(run), "train", str(recipe), "-o", str(run), *shared],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 0
    spent = [json.loads(Path(f"{run}-{rank}.json").read_text()) for rank in range(count)]
    seconds, _, sent = (value / spent[0]["updates"] for value in spent[0]["spent"])
    return seconds, sum(one["spent"][1] / one["updates"] for one in spent), sent


def work(run: str, arguments: list[str]) -> None:
    """One of the processes: train, and write down what the updates cost after the first ones."""
    from saccade.cli.main import main as saccade

    update, marks = Trainer.update, []

    def counted(self: Trainer, group: list[list[int]]) -> tuple[float, float, int]:
        found = update(self, group)
        marks.append((time.monotonic(), time.process_time(), loopback()))
        if self.progress.step == self.settings.steps:
            first, last = marks[SETTLED - 1], marks[-1]
            spent = {"updates": len(marks) - SETTLED, "spent": [b - a for a, b in zip(first, last, strict=True)]}
            Path(f"{run}-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(spent))
        return found

    Trainer.update = counted  # type: ignore[method-assign]
    saccade(arguments)


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


def saving(tables: dict[str, object], folder: Path, count: int) -> float:
    """The median seconds that training waits for a checkpoint."""
    from saccade.training.checkpoint import CheckpointStore

    trainer = trainer_of(tables)
    trainer.update(next(trainer.groups()))
    seconds = []
    for step in range(1, count + 1):
        before = time.monotonic()
        CheckpointStore(folder / "checkpoints").save(step, trainer.tensors(), trainer.state())
        seconds.append(time.monotonic() - before)
    return statistics.median(seconds)


def loopback() -> int:
    """The bytes that the loopback device has sent."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    (line,) = [line for line in lines if line.strip().startswith("lo:")]
    return int(line.split()[9])


if __name__ == "__main__":
    main()
