"""Measures how much the estimate of ``--minutes`` depends on what else the machine does.

    SACCADE_DATA=... OMP_NUM_THREADS=1 python benchmarks/estimates.py                     a quarter of an hour
    SACCADE_DATA=... OMP_NUM_THREADS=1 python benchmarks/estimates.py --others 0 8 --rounds 2

``saccade new ... --minutes 10`` estimates the seconds of an update on two data sets while some other processes multiply
matrices and write to memory without a pause. Each line gives the number of these processes, the estimates of all rounds
in seconds, and how far they are from the median over all numbers of processes. All estimates are for the same number
of threads: on an idle machine with two cores, ``--minutes`` may choose two, with which an update takes less time.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

SETS = {
    "SST-2": "$D/sst2/stsa.binary.train --task classification",
    "Multi30k": "$D/multi30k/train.de $D/multi30k/train.en --size small",
}
BUSY = """
import torch
torch.set_num_threads(1)
square, row = torch.randn(512, 512), torch.randn(8_000_000)
while True:
    square = torch.tanh(square @ square * 0.01)
    row.mul_(1.0000001)
"""


@contextmanager
def others(count: int) -> Iterator[None]:
    """A context in which this many other processes keep the machine busy."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def estimate(options: str, folder: Path) -> float:
    """The seconds of an update by the recommended recipe, as the command prints them."""
    given = options.replace("$D", os.environ["SACCADE_DATA"]).split()
    command = [sys.executable, "-m", "saccade.cli", "new", *given, "--minutes", "10", "--force"]
    run = subprocess.run([*command, "-o", str(folder / "recipe.toml")], check=True, capture_output=True, text=True)
    found = re.search(r"([\d.]+) s per update", run.stdout + run.stderr)
    assert found is not None, run.stdout
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=int, nargs="+", default=[0, 2, 4, 8], help="numbers of other processes")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name, given in SETS.items():
        found: dict[int, list[float]] = {}
        with TemporaryDirectory() as folder:
            for count in options.others:
                with others(count):
                    found[count] = [estimate(given, Path(folder)) for _ in range(options.rounds)]
        middle = statistics.median(seconds for several in found.values() for seconds in several)
        for count, several in found.items():
            seconds = " ".join(f"{one:.3f}" for one in several)
            apart = ", ".join(f"{one / middle - 1:+.0%}" for one in several)
            print(f"{name}, {count} other processes: {seconds} s ({apart})", flush=True)


if __name__ == "__main__":
    main()
