"""Run by test_long in a process of its own: a long input through a small model, watched and looked at.

Prints one JSON line: how far the peak of the process's memory rose beyond the loaded model, the seconds of each part,
and the largest error against a direct computation. ``python long_look.py 65536 encoder``
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

import saccade
from saccade.models import LAST, DecoderOnly, EncoderOnly, TransformerConfig

LAYERS, HEADS, WIDTH, VOCABULARY = 2, 2, 32, 20_000


def peak_bytes() -> int:
    """The peak of this process's memory. (Linux hands a child the ru_maxrss of its parent; VmHWM is its own.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


def make(kind: str) -> EncoderOnly | DecoderOnly:
    torch.manual_seed(0)
    config = TransformerConfig.read(
        {"width": WIDTH, "num_heads": HEADS, "feedforward_width": 64, f"{kind}_layers": LAYERS}, "long"
    )
    model = EncoderOnly(config, VOCABULARY) if kind == "encoder" else DecoderOnly(config, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # so that heads have preferences
    return model.eval()


def direct(inputs: Tensor, model: EncoderOnly | DecoderOnly, kind: str, row: int, head: int) -> Tensor:
    """One row of the first layer's weights, from its own projections in float64."""
    block = model.get_submodule(f"{kind}.0")
    layer, norm = block.get_submodule("self"), block.get_submodule("self_norm")
    x = norm(inputs)[0]
    cut = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
    query = layer.get_submodule("query")(x[row])[cut].double()
    keys = layer.get_submodule("key_value")(x)[:, :WIDTH][:, cut].double()
    scores = keys @ query / (WIDTH // HEADS) ** 0.5
    if kind == "decoder":
        scores[row + 1 :] = float("-inf")
    return scores.softmax(0)


@torch.inference_mode()
def run(length: int, kind: str) -> dict[str, object]:
    model = make(kind)
    tokens = torch.randint(0, VOCABULARY, (1, length))
    model(tokens[:, :512], at=LAST)  # warm
    before, start = peak_bytes(), time.perf_counter()
    told: list[tuple[str, float]] = []
    with saccade.watch(model, progress=lambda name, share: told.append((name, share))) as seen:
        model(tokens, at=LAST)
    read = time.perf_counter() - start
    view = saccade.view(seen)
    name = f"{kind}.0.self"
    inputs, error = model.input(tokens), 0.0
    for row in (0, length // 3, length - 1):
        for head in range(HEADS):
            expected = direct(inputs, model, kind, row, head)
            error = max(error, float((view.row(name, row)[head] - expected).abs().max()))
            first = max(0, row - 100)
            tile = view.tile(name, head, slice(first, row + 1), slice(first, row + 1))
            error = max(error, float((tile[-1] - expected[first : row + 1]).abs().max()))
    start = time.perf_counter()
    shares: list[float] = []
    overview = view.overview(name, 0, 64, progress=shares.append)
    cell = overview.cell[0]
    expected = torch.stack([direct(inputs, model, kind, row, 0) for row in range(cell)]) if cell <= 256 else None
    if expected is not None:  # the first row of cells
        error = max(error, float((overview.values[0, 0] - expected[:, :cell].max()).abs()))
    return {
        "growth": peak_bytes() - before,
        "error": error,
        "read": read,
        "overview": time.perf_counter() - start,
        "blocks": sum(told_name == name for told_name, _ in told),
        "told": told[-1] if told else None,
        "shares": len(shares),
        "shape": list(seen[name].shape),
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), sys.argv[2])))
