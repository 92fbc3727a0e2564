"""Training and decoding of Multi30k English-German beside JoeyNMT, transformers and CTranslate2, in one run.

    python benchmarks/translation.py --model runs/multi30k-en-de --json translation.json
    python benchmarks/translation.py --model runs/multi30k-en-de --only decoding --beams 5
    python benchmarks/translation.py --model runs/multi30k-en-de --quick

`--model` names a trained Transformer of recipes/multi30k-en-de.toml; its recipe says the data ($SACCADE_DATA), the
shape and the training. All systems are given the ids of its tokenizer.

Training: the same batches, each system's own step (loss, clipping, AdamW), in target tokens a second. Decoding: the
same weights, proved by equal logits before anything is timed, `--workers` workers of 1 thread, in output tokens a
second. Every round times each system once, in an order of its own, and divides by what the peer did in the same round,
so that a machine that slows down slows all alike; the tables show medians, with the least and the greatest ratio.

What differs between the systems: transformers' Marian norms after each layer; ours and JoeyNMT's norm before. JoeyNMT
has one share of dropout for all places, attention weights too. For decoding, transformers is its Pegasus: Marian with
the norms before. transformers and CTranslate2 limit all outputs of a call by the longest source, ours each by its own.
Outputs are "identical" if they are so up to our limit; "too long" counts those that reach it. Only a model that is not
well trained has many, and its ratios flatter us: one endless sentence keeps a whole batch of transformers' at work.
CTranslate2 sorts and divides the sentences itself.

`--threads 1 --clock cpu` counts the time of the processor, the fairer one beside other work: decoding then shows what
all workers would do together if each had a processor of its own that is never idle.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import translation_decoding as decoding
import translation_training as training
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from translation_peers import obstacle
from translation_timing import Measured, median_and_range

import saccade
from saccade.errors import SaccadeError
from saccade.training.recipe import read_recipe

ENVIRONMENT = Path("~/.cache/saccade/benchmarks/joeynmt").expanduser()
EXAMPLE = "example: python benchmarks/translation.py --model runs/multi30k-en-de --json translation.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Time training and decoding of a translation model beside other systems.", epilog=EXAMPLE
    )
    parser.add_argument("--model", type=Path, required=True, help="folder of a trained Transformer, or of its run")
    parser.add_argument("--only", choices=("training", "decoding"), help="leave the other out")
    parser.add_argument("--quick", action="store_true", help="a short check: few batches, sentences and rounds")
    parser.add_argument("--rounds", type=int, help="times that each system is timed (default 5, quick 2)")
    parser.add_argument("--steps", type=int, help="training batches in a round (default 15, quick 3)")
    parser.add_argument("--sentences", type=int, help="test sentences that are decoded (default 1000, quick 100)")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], help="1 is greedy")
    parser.add_argument("--threads", type=int, default=2, help="for training")
    parser.add_argument("--clock", choices=training.CLOCKS, default="wall", help="cpu goes with --threads 1")
    parser.add_argument("--workers", type=int, default=2, help="for decoding, of one thread each")
    parser.add_argument("--joeynmt-venv", type=Path, default=ENVIRONMENT, help="made if missing (default: %(default)s)")
    parser.add_argument("--no-joeynmt", action="store_true", help="leave JoeyNMT out")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    for name, whole, short in (("rounds", 5, 2), ("steps", 15, 3), ("sentences", 1000, 100)):
        if getattr(options, name) is None:
            setattr(options, name, short if options.quick else whole)
    if options.no_joeynmt:
        options.joeynmt_venv = None
    return options


def ratio_table(title: str, speed: str, measured: dict[str, Measured], peers: list[str], more: list[str]) -> Table:
    """Medians, and how many times as fast as each peer, round by round."""
    table = Table("system", title=title)
    present = [peer for peer in peers if peer in measured]
    for column in (speed, *(f"/ {peer}" for peer in present), *more):
        table.add_column(column, justify="right")
    for name, found in measured.items():
        ratios = [median_and_range(found.against(measured[peer])) for peer in present]
        table.add_row(name, f"{found.speed:,.0f}", *ratios, *(_shown(found.about[key]) for key in more))
    return table


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.1e}"
    return f"{value:,}"


def measure(options: argparse.Namespace, console: Console) -> dict[str, dict[str, Measured]]:
    """Print a table for each kind of work as soon as it is done; all figures."""
    opened = saccade.open(options.model)
    why = obstacle(opened.model.config)
    if why is not None:
        raise SystemExit(f"The other systems cannot express the model in {options.model}: {why}.")
    recipe = read_recipe(options.model / "recipe.toml")
    splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed)
    results = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        if options.only != "decoding":
            examples = opened.task.encode(splits.train)
            found = training.measure_training(opened.task, recipe, examples, options, console, progress)
            results["training"] = found
            title = f"Training, {options.threads} threads, {options.rounds} rounds of {options.steps} batches"
            peers = [training.MARIAN, training.MARIAN_FUSED, training.JOEYNMT]
            console.print(ratio_table(title, "target tokens/s", found, peers, ["parameters"]))
        if options.only != "training":
            pairs = opened.task.encode(splits.test[: options.sentences])
            for beam, found in decoding.measure_decoding(opened, pairs, options, console, progress).items():
                what = "greedy" if beam == 1 else f"beam {beam}"
                results[what] = found
                title = (
                    f"Decoding, {what}, {len(pairs):,} sentences, {options.workers} workers, {options.rounds} rounds"
                )
                peers = [decoding.PEGASUS, decoding.CTRANSLATE2, decoding.CTRANSLATE2_INT8]
                more = ["batch", "bleu", "identical", "largest gap", "too long"]
                console.print(ratio_table(title, "output tokens/s", found, peers, more))
    return results


def as_json(options: argparse.Namespace, results: dict[str, dict[str, Measured]], seconds: float) -> dict[str, Any]:
    return {
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()},
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "ctranslate2": _version("ctranslate2"),
        "seconds": round(seconds),
        "results": {
            part: {
                name: {
                    "tokens_per_second": found.speed,
                    "rounds": found.speeds,
                    "times_as_fast_as": {peer: found.against(other) for peer, other in measured.items()},
                    **found.about,
                }
                for name, found in measured.items()
            }
            for part, measured in results.items()
        },
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def main() -> None:
    options = arguments()
    console = Console()
    random.seed(0)
    start = time.perf_counter()
    try:
        results = measure(options, console)
    except SaccadeError as error:
        raise SystemExit(str(error)) from None
    seconds = time.perf_counter() - start
    console.print(f"{seconds / 60:.1f} minutes in all.")
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(options, results, seconds), indent=2) + "\n")


if __name__ == "__main__":
    main()
