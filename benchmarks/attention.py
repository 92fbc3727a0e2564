"""Compares the speed of attend, watched attend, tiles and overviews with the torch operations that they use.

    python benchmarks/attention.py [--lengths 256 1024 4096] [--heads 8] [--width 64] [--rounds 15] [--long]

Every round times each candidate once, in random order, and divides by the time of the baseline in the same round, so
that a slow moment of the machine affects all alike. The tables show the median over the rounds. ``--long`` adds the
overview of 64k positions, which takes minutes. Set OMP_NUM_THREADS to the number of free cores.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

from saccade import Trace, attend, causal, padding, watch
from saccade.attention import Mask, ScaledDot, Softmax
from saccade.attention.equation import Call

Candidates = dict[str, Callable[[], object]]


def interleaved(candidates: Candidates, rounds: int) -> dict[str, list[float]]:
    """The seconds of each candidate in each round; the first rounds are for warming up and are dropped."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for count in range(-2, rounds):
        for name in random.sample(list(candidates), len(candidates)):
            start = time.perf_counter()
            candidates[name]()
            if count >= 0:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio(taken: dict[str, list[float]], name: str, peer: str) -> float:
    return statistics.median(ours / theirs for ours, theirs in zip(taken[name], taken[peer], strict=True))


# --- attend and scaled_dot_product_attention -----------------------------------------------------------------


def masks(length: int) -> dict[str, tuple[Mask | None, dict[str, object]]]:
    """Each kind of mask, with the arguments that torch takes for it."""
    lengths = torch.tensor([length * 3 // 4, length])
    allowed = (torch.arange(length) < lengths[:, None])[:, None, None]
    return {
        "none": (None, {}),
        "causal": (causal, {"is_causal": True}),
        "padding": (padding(lengths), {"attn_mask": allowed}),
    }


def attend_rows(lengths: Sequence[int], heads: int, width: int, rounds: int) -> Table:
    table = Table("positions", "mask", "torch, ms", "attend / torch", "watched / torch", title="attend")
    for length in lengths:
        query, key, value = (torch.randn(2, heads, length, width) for _ in range(3))
        for name, (mask, theirs) in masks(length).items():

            def ours(mask: Mask | None = mask, inputs: tuple[Tensor, ...] = (query, key, value)) -> Tensor:
                return attend(*inputs, mask=mask)

            def watched(ours: Callable[[], Tensor] = ours) -> Tensor:
                with watch():
                    return ours()

            def bare(options: dict = theirs, inputs: tuple[Tensor, ...] = (query, key, value)) -> Tensor:
                return F.scaled_dot_product_attention(*inputs, **options)

            taken = interleaved({"torch": bare, "attend": ours, "watched": watched}, rounds)
            milliseconds = statistics.median(taken["torch"]) * 1e3
            shares = [f"{ratio(taken, one, 'torch'):.3f}" for one in ("attend", "watched")]
            table.add_row(f"{length:,}", name, f"{milliseconds:.2f}", *shares)
    return table


# --- looking ----------------------------------------------------------------------------------------------------


def tile_rows(heads: int, width: int, rounds: int) -> Table:
    query, key = (torch.randn(1, heads, 4096, width) for _ in range(2))
    with watch() as seen:
        attend(query, key, key, mask=causal)
    trace = seen["attention"]
    rows, columns = slice(3000, 3256), slice(1000, 1256)
    trace.tile(rows, slice(0, 1), head=1, batch=0)  # normalises the rows
    query, key = (torch.randn(256, width, dtype=torch.float64) for _ in range(2))
    taken = interleaved(
        {
            "tile": lambda: trace.tile(rows, columns, head=1, batch=0),
            "torch": lambda: torch.exp(query @ key.T),
        },
        10 * rounds,
    )
    table = Table("256×256 tile of one head", "ms", "tile / exp(q@kᵀ) in float64", title="tile, rows normalised")
    table.add_row(
        "causal, 4,096 positions",
        f"{statistics.median(taken['tile']) * 1e3:.3f}",
        f"{ratio(taken, 'tile', 'torch'):.2f}",
    )
    return table


def blocked_exponential(query: Tensor, key: Tensor, tall: int = 256, wide: int = 2048) -> None:
    """The minimum work of an overview: the product and exponential of every tile, in float32."""
    for row in range(0, len(query), tall):
        for column in range(0, len(key), wide):
            torch.exp(query[row : row + tall] @ key[column : column + wide].T)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def overview_rows(lengths: Sequence[int], width: int, rounds: int) -> Table:
    table = Table(
        "positions",
        "reduce",
        "exp(q@kᵀ), s",
        "first overview / exp(q@kᵀ)",
        "again / exp(q@kᵀ)",
        "MB beyond q and k",
        title="exact overview of one head, 512×512",
    )
    for length in lengths:
        for reduce in ("mean", "max"):
            query, key = torch.randn(1, 1, length, width), torch.randn(1, 1, length, width)
            fresh_trace(query[:, :, :2048], key[:, :, :2048]).overview(512, reduce)  # loads what any first call loads
            before = peak_megabytes()
            trace = fresh_trace(query, key)
            trace.overview(512, reduce)
            grown = peak_megabytes() - before
            taken = interleaved(
                {
                    "torch": lambda: blocked_exponential(query[0, 0], key[0, 0]),  # noqa: B023
                    "first": lambda: fresh_trace(query, key).overview(512, reduce),  # noqa: B023
                    "again": lambda: trace.overview(512, reduce),  # noqa: B023
                },
                rounds if length <= 16384 else 1,
            )
            seconds = statistics.median(taken["torch"])
            shares = [f"{ratio(taken, one, 'torch'):.2f}" for one in ("first", "again")]
            table.add_row(f"{length:,}", reduce, f"{seconds:.2f}", *shares, f"{grown:.1f}")
    return table


def fresh_trace(query: Tensor, key: Tensor) -> Trace:
    """A trace without statistics, as a watched call records it, without computing the output of 64k rows."""
    return Trace("attention", Call(query, key, ScaledDot(), Softmax()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n")[0],
        epilog="example: OMP_NUM_THREADS=2 python benchmarks/attention.py --lengths 256 1024 --rounds 9",
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 1024, 4096], help="positions to attend over")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="width of a head")
    parser.add_argument("--rounds", type=int, default=15, help="number of times that each candidate is timed")
    parser.add_argument("--long", action="store_true", help="also time the overview of 64k positions")
    options = parser.parse_args()
    torch.manual_seed(0)
    console = Console(width=120)
    console.print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    with torch.no_grad():
        # The overview comes first, because the peak memory of a process never goes down again.
        console.print(
            overview_rows([16384, 65536] if options.long else [16384], options.width, max(3, options.rounds // 3))
        )
        console.print(tile_rows(options.heads, options.width, options.rounds))
        console.print(attend_rows(options.lengths, options.heads, options.width, options.rounds))


if __name__ == "__main__":
    main()
