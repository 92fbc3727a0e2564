"""Measures what four networks recall and count in longer and longer texts (lecture 002: recurrent networks are
forgetful, convolutions see only so far, attention sees everything).

python benchmarks/recall.py
python benchmarks/recall.py --tasks recall --networks recurrent transformer --steps 3000

Each network has width 64 and answers from the last word alone, which is the word that the question asks about. All have
two layers, but the convolutional one has four with a kernel of 9, so that its last word sees 16 words back. The table
shows how many of the 250 test texts of each distance (recall) or length (counting) are right. Guessing would be right
for 1 of 6; in recall, for 1 of 2 if the network knows which two colours were named.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import saccade

RECIPES = Path(__file__).parents[1] / "recipes"
NETWORKS: dict[str, dict[str, Any]] = {
    "recurrent": {"model.bidirectional": False},  # an LSTM
    "convolutional": {"model.encoder_layers": 4, "model.kernel": 9, "training.lr": 2e-3},
    "transformer": {"model.feedforward_width": 128, "model.position": "rotary", "training.lr": 2e-3},
    "rwkv": {"model.feedforward_width": 128},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["recall", "counting"], choices=["recall", "counting"])
    parser.add_argument("--networks", nargs="+", default=[*NETWORKS], choices=[*NETWORKS])
    parser.add_argument("--steps", type=int, help="updates; those of the recipes if not given")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for task in options.tasks:
        shown = False
        for network in options.networks:
            settings = {"model.kind": network, "training.seed": options.seed, **NETWORKS[network]}
            settings |= {} if options.steps is None else {"training.steps": options.steps}
            started = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                run = saccade.train(
                    RECIPES / f"{task}.toml", output=Path(folder) / "run", settings=settings, quiet=True
                )
                size = sum(parameter.numel() for parameter in run.open().model.parameters())
                kinds = json.loads((Path(folder) / "run" / "result.json").read_text())["kinds"]
            if not shown:
                print(f"| {task} | parameters | {' | '.join(kinds)} | processor time |\n|{'---|' * (len(kinds) + 3)}")
                shown = True
            rights = " | ".join(f"{100 * right / total:.0f} %" for right, total in kinds.values())
            print(f"| {network} | {size:,} | {rights} | {time.process_time() - started:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
