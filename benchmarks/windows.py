"""Compares lecture 004's two solutions before attention: a window of neighbours, and one window over everything.

python benchmarks/windows.py
python benchmarks/windows.py --sentences 2000

The lecture says of the second: it "requires the FC to use more parameters, which is not only computationally expensive,
but also may lead to over-fitting problem". Accuracy is that of the training sentences and of the test sentences, whose
combinations of words do not occur in training.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import saccade
from saccade.tasks.tagging.data import TaggingData, TaggingFiles

RECIPE = Path(__file__).parents[1] / "recipes" / "grammar-window.toml"
NETWORKS: dict[str, dict[str, Any]] = {
    "window, 2 neighbours on each side": {},
    "whole window, 18 words": {"model.whole_length": 18},
    "whole window, 24 words": {"model.whole_length": 24},
    "whole window, 48 words": {"model.whole_length": 48},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=500, help="training sentences")
    options = parser.parse_args()
    examples = TaggingFiles.read(TaggingData(builtin="grammar", sentences=options.sentences), seed=1).train
    print("| network | parameters | training sentences | test sentences |")
    print("|---|---|---|---|")
    for name, settings in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            settings = settings | {"data.sentences": options.sentences}
            run = saccade.train(RECIPE, output=Path(folder) / "run", settings=settings, quiet=True)
            opened = run.open()
        known = opened.task.evaluate(opened.model, opened.task.encode(examples)).scores["accuracy"]
        size = sum(parameter.numel() for parameter in opened.model.parameters())
        print(f"| {name} | {size:,} | {known:.1f} % | {run.scores['accuracy']:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
