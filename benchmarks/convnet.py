"""Compares the Vision Transformer with a ConvNet on the same images: accuracy, operations, time and parameters.

python benchmarks/convnet.py recipes/digits.toml recipes/digits-convolutional.toml

Lecture 002 says of the Vision Transformer: "more expensive than ConvNets". Operations are the multiplications and
additions of one image, as torch counts them. Times are of processes that ran one after the other on one thread, so only
their ratio means something.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import saccade


def measure(recipe: Path, steps: int | None) -> dict[str, Any]:
    """Train a recipe, and return what its row of the table has."""
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        settings = {} if steps is None else {"training.steps": steps}
        run = saccade.train(recipe, output=Path(folder) / "run", settings=settings, quiet=True)
        trained = time.process_time() - started
        model = run.open().model.eval()
    config = model.config
    images = torch.randn(256, config.channels, *config.image_size)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(images[:1])
    with torch.inference_mode():
        model(images)
        started = time.process_time()
        for _ in range(8):
            model(images)
    return {
        "recipe": recipe.stem,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "operations": counter.get_total_flops(),
        "accuracy": run.scores["accuracy"],
        "training": trained,
        "image": (time.process_time() - started) / (8 * len(images)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", type=Path, help="recipes for images")
    parser.add_argument("--steps", type=int, help="updates of all recipes; their own if not given")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| recipe | parameters | operations for an image | accuracy | training, s of processor | an image, µs |")
    print("|---|---|---|---|---|---|")
    for recipe in options.recipes:
        row = measure(recipe, options.steps)
        print(
            f"| {row['recipe']} | {row['parameters']:,} | {row['operations']:,} | {row['accuracy']:.1f} % "
            f"| {row['training']:.0f} | {1e6 * row['image']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
