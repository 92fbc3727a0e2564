"""Measures what ``--minutes 10`` achieves on six data sets, one after another; run it on an idle machine.

SACCADE_DATA=... python benchmarks/minutes.py                     all six, about an hour
SACCADE_DATA=... python benchmarks/minutes.py sst2                one of them
SACCADE_DATA=... python benchmarks/minutes.py sst2 ewt --minutes 2 --output kept

For each set, one line says the score in the run's ``result.json`` (on the test data, or on the validation data if there
is no test), its limit, and the time that the whole command took, which must be at most 1.2 times the minutes. The log
of the training goes to standard error. The exit status is 1 if a score or a time misses its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple


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
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(SETS)}; by default all")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--output", type=Path, help="a new folder for the runs, which are otherwise deleted")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SETS]:
        parser.error(f"there is no set {unknown[0]!r}; the sets are {', '.join(SETS)}")
    with TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        good = [_train(name, options.minutes, folder / name) for name in options.names or SETS]
    sys.exit(0 if all(good) else 1)


def _train(name: str, minutes: float, folder: Path) -> bool:
    """Train on a set, print a line, and return whether both limits were kept."""
    if folder.exists():
        sys.exit(f"{folder} exists; give another folder with --output, because a finished run takes no time.")
    one = SETS[name]
    given = one.options.replace("$D", os.environ["SACCADE_DATA"]).split()
    command = [sys.executable, "-m", "saccade.cli", "train", *given, "-o", str(folder), "--minutes", f"{minutes:g}"]
    print(shlex.join(command), file=sys.stderr, flush=True)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=sys.stderr)
    took = (time.monotonic() - began) / 60
    result = json.loads((folder / "result.json").read_text())
    found = result["scores"][one.score]
    good = (found <= one.limit if one.lower_is_better else found >= one.limit) and took <= 1.2 * minutes
    print(
        f"{name}: {one.score} {found:.2f} on {result['part']} (limit {'≤' if one.lower_is_better else '≥'} "
        f"{one.limit:g}), {took:.2f} minutes (limit {1.2 * minutes:g}), {result['steps']:,} updates: "
        f"{'good' if good else 'NOT GOOD'}",
        flush=True,
    )
    return good


if __name__ == "__main__":
    main()
