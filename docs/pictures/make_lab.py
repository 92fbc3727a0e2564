"""Write a page with its picture for each experiment, from what `saccade lab all -o lab` measured.

python docs/pictures/make_lab.py lab
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image

from saccade.lab import EXPERIMENTS, experiment_named
from saccade.lab.results import Results

PICTURES = Path(__file__).parent
PAGES = PICTURES.parent / "lab"


def main() -> None:
    results = Path(sys.argv[1])
    PAGES.mkdir(exist_ok=True)
    for name in EXPERIMENTS:
        trials = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["trials"]
        found = Results(experiment_named(name), False, {int(seed): numbers for seed, numbers in trials.items()})
        (PAGES / f"{name}.md").write_text(page(found), encoding="utf-8")
        picture = PICTURES / f"lab-{name}.png"
        found.figure().savefig(picture, dpi=120, metadata={"Software": None})
        Image.open(picture).convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)


def page(found: Results) -> str:
    one = found.experiment
    verdict = {"holds": "**holds**", "refuted": "is **refuted**", "undecided": "is **undecided**"}[found.verdict]
    lines = [
        f"# {one.name}",
        "",
        f"**Claim** (lecture {one.lecture}): {one.claim}",
        "",
        f"**Experiment:** {one.method} {one.refuted_if}",
        "",
        f'**Result:** the claim {verdict}. Over {len(found.trials)} seeds, the mean of "{one.decisive}" is '
        f"{found.decisive}; for the claim to hold, it must be {one.direction} {one.bound:g}.",
        "",
        f"![{one.claim}](../pictures/lab-{one.name}.png)",
        "",
        "| what was measured | mean | 95% interval |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {mean:.4g} | {low:.4g} to {high:.4g} |" for name, (mean, low, high) in found.intervals.items()
    ]
    return "\n".join([*lines, "", f"To run this experiment, use `saccade lab run {one.name}`.", ""])


if __name__ == "__main__":
    main()
