"""Compares training and decoding on Multi30k English-German with JoeyNMT, transformers and CTranslate2.

    python benchmarks/translation.py --model runs/multi30k-en-de --json translation.json
    python benchmarks/translation.py --model runs/multi30k-en-de --only decoding --beams 5
    python benchmarks/translation.py --model runs/multi30k-en-de --quick

`--model` is a Transformer trained with recipes/multi30k-en-de.toml; its recipe defines the data ($SACCADE_DATA), the
network and the training. All systems use the ids of its tokenizer.

Training: the same batches, with each system's own step (loss, clipping, AdamW), in target tokens per second. Decoding:
the same weights, which is verified by comparing logits before anything is timed, with `--workers` workers of 1 thread,
in output tokens per second. Every round times each system once, in random order, and divides by the other system's
speed in the same round, so that a slow moment of the machine affects all alike. The tables show the median, smallest
and largest ratio.

The systems differ in some ways. transformers' Marian normalises after each layer; ours and JoeyNMT normalise before.
JoeyNMT has one dropout rate for everything, including attention weights. For decoding, transformers runs Pegasus, which
is Marian with the norms before. transformers and CTranslate2 limit the length of all outputs by the longest source in
the call, ours limits each output by its own source. Outputs count as identical if they agree up to our limit, and as
"too long" if they reach it. Only a poorly trained model has many of these, and its ratios then flatter us, because one
endless sentence keeps a whole batch of transformers busy. CTranslate2 sorts and splits the sentences itself.

`--threads 1 --clock cpu` measures processor time, which is fairer on a busy machine. Decoding then shows the total
speed of all workers as if each had a processor to itself.
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
        description="Compare the training and decoding speed of a translation model with other systems.", epilog=EXAMPLE
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder or run folder of a trained Transformer")
    parser.add_argument("--only", choices=("training", "decoding"), help="run only this part")
    parser.add_argument("--quick", action="store_true", help="a short check: few batches, sentences and rounds")
    parser.add_argument("--rounds", type=int, help="number of rounds (default 5, quick 2)")
    parser.add_argument("--steps", type=int, help="training batches per round (default 15, quick 3)")
    parser.add_argument("--sentences", type=int, help="test sentences to decode (default 1000, quick 100)")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5], help="beam sizes; 1 is greedy search")
    parser.add_argument("--threads", type=int, default=2, help="threads for training")
    parser.add_argument(
        "--clock", choices=training.CLOCKS, default="wall", help="clock to measure with; cpu needs --threads 1"
    )
    parser.add_argument("--workers", type=int, default=2, help="decoding processes, with one thread each")
    parser.add_argument(
        "--joeynmt-venv",
        type=Path,
        default=ENVIRONMENT,
        help="folder of JoeyNMT's environment, created if missing (default: %(default)s)",
    )
    parser.add_argument("--no-joeynmt", action="store_true", help="do not compare with JoeyNMT")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    for name, whole, short in (("rounds", 5, 2), ("steps", 15, 3), ("sentences", 1000, 100)):
        if getattr(options, name) is None:
            setattr(options, name, short if options.quick else whole)
    if options.no_joeynmt:
        options.joeynmt_venv = None
    return options


def ratio_table(title: str, speed: str, measured: dict[str, Measured], peers: list[str], more: list[str]) -> Table:
    """Print the medians, and the ratios to each other system round by round."""
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
    """Run each part and print its table as soon as it is done; returns all figures."""
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
    console.print(f"{seconds / 60:.1f} minutes in total.")
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(options, results, seconds), indent=2) + "\n")


if __name__ == "__main__":
    main()
