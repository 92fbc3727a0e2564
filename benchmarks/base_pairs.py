"""Measures models of base pairs: what each part of the network is good for, and molecules of unknown families.

SACCADE_DATA=... python benchmarks/base_pairs.py parts --output runs      the network with parts left out, same training
SACCADE_DATA=... python benchmarks/base_pairs.py families --output runs   one family left out of training at a time

Both train ``recipes/rna-archiveii.toml`` with ``--steps`` updates, and print precision, recall and F1 on the test
molecules. Copying the most similar training molecule and RNAfold are in the same table, because neither needs the
network. Runs that are complete are not repeated, so the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np

from saccade.data.structures import pairs_of
from saccade.tasks.base_pairs.baselines import copied_structure, folded_by_vienna
from saccade.tasks.base_pairs.data import BasePairsData, BasePairsFiles
from saccade.tasks.base_pairs.folding import pair_scores

RECIPE = Path(__file__).parents[1] / "recipes" / "rna-archiveii.toml"
FAMILIES = ("tRNA", "5s")
PARTS = {
    "pair bias, triangles, convolution": (),
    "without pair bias": ("model.pair_bias=false",),
    "without triangles": ("model.triangle_multiplication=false",),
    "convolution alone": ("model.pair_bias=false", "model.triangle_multiplication=false"),
}


def trained(name: str, changes: tuple[str, ...], steps: int, output: Path) -> list[float]:
    """Train the recipe with changes, and return its scores on the test molecules."""
    folder = output / f"rna-{re.sub('[^a-z0-9]+', '-', name.lower())}"
    if not (folder / "result.json").is_file():
        given = (f"training.steps={steps}", f"training.validate_every={steps}", *changes)
        options = [part for one in given for part in ("--set", one)]
        command = [sys.executable, "-m", "saccade.cli", "train", str(RECIPE), "-o", str(folder), "--device", "cpu"]
        subprocess.run([*command, *options], check=True, stdout=sys.stderr)
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return [found["scores"][score] for score in ("precision", "recall", "f1")]


def other_methods(changes: dict[str, str]) -> list[tuple[str, list[float]]]:
    """Return the scores of methods that are not trained, on the same test molecules."""
    data = tomllib.loads(RECIPE.read_text(encoding="utf-8"))["data"] | changes
    splits = BasePairsFiles.read(BasePairsData(**data), 1)
    known = [(one.sequence, one.partners or ()) for one in splits.train]
    methods = {
        "copy the most similar training molecule": lambda sequence: copied_structure(sequence, known),
        "RNAfold (ViennaRNA)": folded_by_vienna,
    }
    rows = []
    for name, method in methods.items():
        found = [(method(one.sequence), one.partners or ()) for one in splits.test]
        if all(partners is not None for partners, _ in found):
            each = [pair_scores(set(pairs_of(one or ())), set(pairs_of(true))) for one, true in found]
            rows.append((name, (100 * np.mean(each, axis=0)).tolist()))
    return rows


def table(rows: list[tuple[str, list[float]]]) -> None:
    print("| method | precision | recall | F1 |")
    print("|---|---|---|---|")
    for name, scores in rows:
        print(f"| {name} | " + " | ".join(f"{score:.1f}" for score in scores) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["parts", "families"])
    parser.add_argument("--output", type=Path, default=Path("runs"))
    parser.add_argument("--steps", type=int, default=700)
    given = parser.parse_args()
    if given.command == "parts":
        rows = [(name, trained(name, changes, given.steps, given.output)) for name, changes in PARTS.items()]
        table([*rows, *other_methods({})])
        return
    for family in FAMILIES:
        data = {"folds": "$SACCADE_DATA/rna/archiveii_famfold.csv", "fold_column": "fold_name", "fold": family}
        changes = tuple(f"data.{key}={value}" for key, value in data.items())
        print(f"\n{family} left out:\n")
        table([("this model", trained(f"{family} left out", changes, given.steps, given.output)), *other_methods(data)])


if __name__ == "__main__":
    main()
