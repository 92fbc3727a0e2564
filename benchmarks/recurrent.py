"""Every recurrent cell against torch.nn.LSTM: time of a training step per floating-point operation.

    python benchmarks/recurrent.py [--batch 32] [--steps 50] [--widths 128 256 512] [--rounds 15]

A step is a forward and a backward pass over a whole batch. The operations counted are those of the matrix
products: 2 a weight, step and row forward, twice that backward. Every round times every cell once, in an order of
its own, and divides by what torch.nn.LSTM took in the same round, so that a machine that slows down slows all
alike; the table shows the median over the rounds.
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
    """Every network to time: torch's own, then each cell by its equation and by its kernel."""
    networks: dict[str, nn.Module] = {PEER: nn.LSTM(width, width, batch_first=True)}
    kernels: tuple[Kernel, ...] = ("equation", "fused")
    for name, kernel in itertools.product(CELLS, kernels):
        networks[f"{name}, {kernel}"] = Recurrent(name, width, width, kernel=kernel)
    return networks


def operations(network: nn.Module, batch: int, steps: int) -> int:
    """Floating-point operations of the matrix products, forward and backward."""
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
    """For each network its median milliseconds, operations per nanosecond, and time per operation over the peer's."""
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
    parser = argparse.ArgumentParser(description="Time every recurrent cell against torch.nn.LSTM.")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    threads = torch.get_num_threads()
    for width in options.widths:
        title = f"batch {options.batch}, {options.steps} steps, width {width}, {threads} threads"
        table = Table("network", title=title)
        for column in ("ms a step", "operations a ns", f"time an operation / {PEER}"):
            table.add_column(column, justify="right")
        for name, row in measure(width, options.batch, options.steps, options.rounds).items():
            table.add_row(name, f"{row[0]:.1f}", f"{row[1]:.1f}", f"{row[2]:.2f}")
        Console().print(table)


if __name__ == "__main__":
    main()
