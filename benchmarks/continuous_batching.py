"""How much continuous batching could gain: new sentences taking the places of finished ones between two steps.

    python benchmarks/continuous_batching.py runs/demo

Translates texts of mixed length in plain batches, in the order in which they came, and times every step of the decoder.
A finished text leaves its batch at once, so a late step computes few rows; what it wastes is the part of its time that
does not depend on the rows. A line fitted to the steps separates the two parts. The upper bound is what the same rows
would take if every step were full, and if filling a place cost nothing. The last column is what batches of texts of
similar length take, which is what the server makes when enough texts wait.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import saccade
from saccade.data.grammar import generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--longest", type=int, default=6, help="most sentences in a text")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts")
    options = parser.parse_args()
    torch.set_num_threads(1)  # so that the time of this thread is that of the whole computation
    predictor = saccade.open(options.model, device="cpu", engine="torch")
    texts = mixed(options.texts, options.longest)
    print(
        f"{len(texts)} texts of {min(map(words, texts))} to {max(map(words, texts))} words; one thread, processor time"
    )
    print(
        f"{'batch':>5} {'beam':>4} {'filled':>7} {'fixed part of a step':>21} {'a row':>9} {'bound':>6} {'sorted':>7}"
    )
    for size in (8, 16, 64):
        for beam in (1, 4):
            report(predictor, texts, size, beam, options.rounds)
    print(f"load average {os.getloadavg()[0]:.1f}")


def report(predictor: Any, texts: list[str], size: int, beam: int, rounds: int) -> None:
    plain, by_length = batches(texts, size), batches(sorted(texts, key=words), size)
    runs, others = [], []
    for _ in range(rounds):  # in turns, so that both suffer alike from whatever else the machine does
        runs.append(run(predictor, plain, beam))
        others.append(run(predictor, by_length, beam)[0])
    seconds, steps = min(runs, key=lambda one: one[0])
    rows, taken = np.array(steps).T
    per_row, fixed = robust_line(rows, taken)
    full = rows.max()  # very long texts do not share a batch with all the others
    least = seconds - fixed * (len(rows) - rows.sum() / full)  # the same rows in as few steps as possible
    print(
        f"{size:>5} {beam:>4} {100 * rows.mean() / full:>6.0f}% {1e6 * fixed:>18.0f} µs {1e6 * per_row:>6.0f} µs "
        f"{seconds / least:>5.2f}x {seconds / min(others):>6.2f}x",
        flush=True,
    )


def robust_line(rows: np.ndarray, taken: np.ndarray) -> tuple[float, float]:
    """Slope and start of a line through the median time of the steps with each number of rows."""
    counts = np.unique(rows)
    medians = [statistics.median(taken[rows == count]) for count in counts]
    weights = np.sqrt([(rows == count).sum() for count in counts])
    slope, start = np.polyfit(counts, medians, 1, w=weights)
    return float(slope), float(start)


def run(predictor: Any, every: list[list[str]], beam: int) -> tuple[float, list[tuple[int, float]]]:
    """The seconds of all batches, and the rows and seconds of each step."""
    with timed_steps(predictor.model) as steps:
        began = time.thread_time()
        for batch in every:
            predictor.predict(batch, beam=beam, n_best=1)
            steps.append((0, time.thread_time()))
        seconds = time.thread_time() - began
    # A step lasts until the next one begins, so it includes the search; the last of a batch lasts until the answers.
    pairs = itertools.pairwise(steps)
    return seconds, [(rows, later - start) for (rows, start), (_, later) in pairs if rows]


@contextmanager
def timed_steps(model: Any) -> Iterator[list[tuple[int, float]]]:
    """Record the rows of each step and when it began."""
    steps: list[tuple[int, float]] = []
    plain = model.step

    def step(tokens: torch.Tensor, state: Any) -> Any:
        steps.append((len(tokens), time.thread_time()))
        return plain(tokens, state)

    model.step = step
    try:
        yield steps
    finally:
        del model.step


def batches(texts: list[str], size: int) -> list[list[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def mixed(count: int, longest: int) -> list[str]:
    chance = random.Random(7)
    sentences = [example.source_text for example in generate(2000, 7, "test")]
    return [" ".join(chance.sample(sentences, chance.randint(1, longest))) for _ in range(count)]


def words(text: str) -> int:
    return len(text.split())


if __name__ == "__main__":
    main()
