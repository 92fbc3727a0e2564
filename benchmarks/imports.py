"""Measures how long imports take, compared with importing only PyTorch: python benchmarks/imports.py

Each command runs in a new process, and all take turns, so that a slow moment of the machine affects them alike. The
median of the rounds is printed. The first round only fills the disk cache and is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "import torch": ["-c", "import torch"],
    "import saccade": ["-c", "import saccade"],
    "import saccade; saccade.attend": ["-c", "import saccade; saccade.attend"],
    "import saccade; saccade.open": ["-c", "import saccade; saccade.open"],
    "saccade --help": ["-m", "saccade.cli", "--help"],
    "saccade look --help": ["-m", "saccade.cli", "look", "--help"],
}


def seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for counted in [False] + [True] * rounds:
        for name, arguments in COMMANDS.items():
            found = seconds(arguments)
            if counted:
                taken[name].append(found)
    torch = statistics.median(taken["import torch"])
    for name, times in taken.items():
        median = statistics.median(times)
        print(
            f"{name:32} {median:6.3f} s  {median / torch:5.2f} × import torch  ({min(times):.3f} to {max(times):.3f})"
        )


if __name__ == "__main__":
    main()
