"""Compares every recurrent cell with torch.nn.LSTM: time of a training step per floating-point operation.

    python benchmarks/recurrent.py [--batch 32] [--steps 50] [--widths 128 256 512] [--rounds 15]

A step is a forward and a backward pass over a whole batch. Only the operations of the matrix products are counted: 2
per weight, step and row in the forward pass, and twice as many in the backward pass. Every round times each cell once,
in random order, and divides by the time of torch.nn.LSTM in the same round, so that a slow moment of the machine
affects all alike. The table shows the median over the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from saccade.recurrent import CELLS, Kernel, Recurrent

PEER = "torch.nn.LSTM"


def candidates(width: int) -> dict[str, nn.Module]:
    """All networks to time: torch's own, then each cell with its equation and with its fused kernel."""
    networks: dict[str, nn.Module] = {PEER: nn.LSTM(width, width, batch_first=True)}
    kernels: tuple[Kernel, ...] = ("equation", "fused")
    for name, kernel in itertools.product(CELLS, kernels):
        networks[f"{name}, {kernel}"] = Recurrent(name, width, width, kernel=kernel)
    return networks


def operations(network: nn.Module, batch: int, steps: int) -> int:
    """The number of floating-point operations in the matrix products, forward and backward."""
    weights = sum(parameter.numel() for parameter in network.parameters() if parameter.dim() == 2)
    return 6 * weights * batch * steps


def training_step(network: nn.Module, x: Tensor) -> Callable[[], None]:
    def run() -> None:
        network.zero_grad(set_to_none=True)
        network(x)[0].sum().backward()

    return run


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(width: int, batch: int, steps: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """For each network: median milliseconds, operations per nanosecond, and time per operation relative to torch's."""
    networks = candidates(width)
    x = torch.randn(batch, steps, width, requires_grad=True)
    runs = {name: training_step(network, x) for name, network in networks.items()}
    count = {name: operations(network, batch, steps) for name, network in networks.items()}
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            times[name].append(seconds(runs[name]))
    table = {}
    for name, taken in times.items():
        per_operation = [value / count[name] for value in taken]
        ratios = [own / (peer / count[PEER]) for own, peer in zip(per_operation, times[PEER], strict=True)]
        speed = 1e-9 / statistics.median(per_operation)
        table[name] = (1e3 * statistics.median(taken), speed, statistics.median(ratios))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the speed of every recurrent cell with torch.nn.LSTM.")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    threads = torch.get_num_threads()
    for width in options.widths:
        title = f"batch {options.batch}, {options.steps} steps, width {width}, {threads} threads"
        table = Table("network", title=title)
        for column in ("ms per step", "operations per ns", f"time per operation / {PEER}"):
            table.add_column(column, justify="right")
        for name, row in measure(width, options.batch, options.steps, options.rounds).items():
            table.add_row(name, f"{row[0]:.1f}", f"{row[1]:.1f}", f"{row[2]:.2f}")
        Console().print(table)


if __name__ == "__main__":
    main()
