"""Measures what ``--minutes 10`` achieves on six data sets, one after another; run it on an idle machine.

SACCADE_DATA=... python benchmarks/minutes.py                     all six, about an hour
SACCADE_DATA=... python benchmarks/minutes.py --only sst2 ewt --minutes 2 --output /tmp/minutes

The score is the one in each run's ``result.json``: on the test data, or on the validation data if there is no test. A
run must also end within 1.2 times its minutes, everything included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table


class Set(NamedTuple):
    """A data set: the command after ``saccade train``, and the score that 10 minutes must reach."""

    options: str
    score: str
    limit: float
    lower_is_better: bool = False


EWT, SST2, FASHION = "ud_english_ewt/en_ewt-ud", "sst2/stsa.binary", "fashion_mnist"
SETS = {
    "multi30k": Set(
        " ".join(
            f"--source $D/multi30k/{part}.de --target $D/multi30k/{part}.en"
            for part in ("train", "val", "test_2016_flickr")
        ),
        "bleu",
        25.0,
    ),
    "ewt": Set(
        "--task tagging " + " ".join(f"--data $D/{EWT}-{part}.conllu" for part in ("train", "dev", "test")),
        "accuracy",
        93.0,
    ),
    "sst2": Set(
        "--task classification " + " ".join(f"--data $D/{SST2}.{part}" for part in ("train", "dev", "test")),
        "accuracy",
        79.0,
    ),
    "fashion": Set(
        "--task images "
        + " ".join(
            f"--data $D/{FASHION}/{part}-{what}-ubyte.gz"
            for part in ("train", "t10k")
            for what in ("images-idx3", "labels-idx1")
        ),
        "accuracy",
        86.0,
    ),
    "shakespeare": Set("--task language-model --data $D/tiny_shakespeare/input.txt", "loss", 1.9, True),
    "nettalk": Set("--data $D/nettalk/nettalk.data --columns 0,1", "exact", 60.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--output", type=Path, default=Path("runs/minutes"))
    options = parser.parse_args()
    table = Table("set", "score", "found", "limit", "part", "minutes", "good")
    for name in options.only:
        table.add_row(*_row(name, options.minutes, options.output / name))
        Console().print(table)


def _row(name: str, minutes: float, folder: Path) -> list[str]:
    one = SETS[name]
    given = one.options.replace("$D", os.environ["SACCADE_DATA"]).split()
    command = [sys.executable, "-m", "saccade.cli", "train", *given, "-o", str(folder), "--minutes", f"{minutes:g}"]
    Console().print(" ".join(command), markup=False)
    began = time.monotonic()
    subprocess.run(command, check=True)
    took = (time.monotonic() - began) / 60
    result = json.loads((folder / "result.json").read_text())
    found = result["scores"][one.score]
    good = (found <= one.limit if one.lower_is_better else found >= one.limit) and took <= 1.2 * minutes
    limit = f"{'≤' if one.lower_is_better else '≥'} {one.limit:g}"
    return [name, one.score, f"{found:.2f}", limit, result["part"], f"{took:.1f}", "yes" if good else "NO"]


if __name__ == "__main__":
    main()
