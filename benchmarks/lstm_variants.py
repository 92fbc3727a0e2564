"""Trains the LSTM and its variants (Greff et al. 2015) on tiny_shakespeare, one thing changed at a time.

SACCADE_DATA=... python benchmarks/lstm_variants.py
SACCADE_DATA=... python benchmarks/lstm_variants.py --steps 3000 --seeds 1 2 3

One layer of width 128 reads characters and carries its state from window to window. The table shows the loss on the
validation text, in nats per character.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

import saccade
from saccade.recurrent import CELLS

RECIPE = Path(__file__).parents[1] / "recipes" / "shakespeare-recurrent.toml"
SIZES = {"model.width": 128, "model.embedding_width": 64, "model.decoder_layers": 1, "model.dropout": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="updates of 16 windows of 64 characters")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| cell | parameters | loss | processor time of a seed |\n|---|---|---|---|")
    for cell in (name for name in CELLS if name.startswith("lstm")):
        losses, started = [], time.process_time()
        for seed in options.seeds:
            settings = SIZES | {"model.cell": cell, "training.seed": seed, "training.steps": options.steps}
            settings |= {"training.batch_tokens": 1024, "training.lr": 5e-3, "training.validate_every": options.steps}
            with tempfile.TemporaryDirectory() as folder:
                run = saccade.train(RECIPE, output=Path(folder) / "run", settings=settings, quiet=True)
                size = sum(parameter.numel() for parameter in run.open().model.parameters())
            losses.append(f"{run.scores['loss']:.3f}")
        seconds = (time.process_time() - started) / len(options.seeds)
        print(f"| {cell} | {size:,} | {', '.join(losses)} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
