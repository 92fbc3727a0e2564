"""Run by test_long_attention in a process of its own: watched attention over 16k positions, and what it allocates.

Prints one JSON line: the largest tensor that was made beside the inputs, and how far the peak of the process's
memory rose, which also counts what kernels allocate inside. ``python long_attention.py causal``
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from saccade import attend, causal, padding, watch, window
from saccade.attention import Mask

LENGTH, HEADS, WIDTH = 16384, 8, 16
LENGTHS = torch.tensor([9000])
MASKS: dict[str, Mask] = {
    "causal": causal,
    "padding": padding(LENGTHS),
    "causal & padding": causal & padding(LENGTHS),
    "window": window(100),
}


class Allocations(TorchDispatchMode):
    """The largest storage of any tensor that an operation gave."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor):
                self.largest = max(self.largest, result.untyped_storage().nbytes())
        return results


def peak_bytes() -> int:
    """The peak of this process's memory. (Linux hands a child the ru_maxrss of its parent; VmHWM is its own.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


def run(length: int, mask: Mask) -> None:
    query, key, value = (torch.randn(1, HEADS, length, WIDTH) for _ in range(3))
    with watch() as seen:
        attend(query, key, value, mask=mask)
    trace = seen["attention"]
    last = LENGTHS.item() - 1
    row = trace.row(last, head=3, batch=0)
    assert abs(row.sum().item() - 1) < 1e-5
    tile = trace.tile(slice(last - 256, last), slice(last - 256, last), head=3, batch=0)
    assert torch.equal(tile, tile.clamp(0, 1))
    assert trace.overview(64, head=3).values.shape == (64, 64)


def main(name: str) -> None:
    warm = padding(torch.tensor([300])) if "padding" in name else MASKS[name]
    query = torch.randn(1, HEADS, 512, WIDTH)
    with watch() as seen:
        attend(query, query, query, mask=warm)
    seen["attention"].overview(64)
    before = peak_bytes()
    with Allocations() as allocations, torch.no_grad():
        run(LENGTH, MASKS[name])
    print(json.dumps({"largest": allocations.largest, "growth": peak_bytes() - before}))


if __name__ == "__main__":
    main(sys.argv[1])
