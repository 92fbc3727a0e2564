"""A few examples for each task, as a person's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from toy_language import toy_pairs, write_lines

TASKS = (
    "translation", "tagging", "classification", "language-model", "masked-language-model", "images", "captions",
    "text-autoencoder", "image-autoencoder", "trajectories", "base-pairs",
)  # fmt: skip


def data_of(task: str, folder: Path) -> dict[str, Any]:
    """A few examples for each task."""
    lines = [f"{'good' if n % 2 else 'bad'} a text of number {n}" for n in range(40)]
    if task == "translation":
        return {"table": str(write_lines(folder / "a.tsv", ["\t".join(pair) for pair in toy_pairs(40, seed=1)]))}
    if task == "tagging":
        return {"file": str(write_lines(folder / "a.txt", [f"word{n} {'AB'[n % 2]}\n" for n in range(40)]))}
    if task in ("images", "image-autoencoder", "captions"):
        arrays = {"images": np.random.default_rng(1).integers(0, 256, (40, 6, 4), dtype=np.uint8)}
        np.savez(folder / "a.npz", **arrays, labels=np.arange(40) % 3, texts=[f"it is {n % 3}" for n in range(40)])
        return {"table" if task == "captions" else "images": str(folder / "a.npz")}
    if task == "trajectories":
        rows = [f"{frame} {agent} {frame / 7} {agent / 3}" for frame in range(60) for agent in (1, 2, 3)]
        return {"files": [str(write_lines(folder / "a.txt", rows))]}
    if task == "base-pairs":
        bases = ["GGGAAACCC", "GCGAAAGCA", "ACGUACGUA"]
        molecules = [f"{bases[n % 3]}{'ACGU'[n % 4]}{'ACGU'[n // 4]}\t(((...))).." for n in range(16)]
        molecules.append("GGAAGGAACCAACC\t((..[[..))..]]")
        return {"file": str(write_lines(folder / "a.tsv", ["sequence\tstructure", *molecules]))}
    file = str(write_lines(folder / "a.txt", lines))
    return {{"classification": "file", "text-autoencoder": "texts"}.get(task, "text"): file}
