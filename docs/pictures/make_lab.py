"""Write a page with its picture for each experiment, and what the studio's Learn page shows of it, from what
`saccade lab all -o lab` measured.

python docs/pictures/make_lab.py lab
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.lab import EXPERIMENTS, experiment_named
from saccade.lab.results import Results

PICTURES = Path(__file__).parent
PAGES = PICTURES.parent / "lab"
STUDIO = PICTURES.parents[1] / "src" / "saccade" / "serving" / "studio" / "learn"
VERDICTS = """// What the lab measured; docs/pictures/make_lab.py writes this file and the pictures in lab/.

/**
 * @typedef {object} Verdict
 * @property {string} claim
 * @property {"holds" | "refuted" | "undecided"} verdict
 * @property {string} method  how it was measured
 * @property {string} measure  the number that decides
 * @property {number} seeds  so many trainings
 * @property {number} mean  of the number over all trainings
 * @property {number} low  of its 95 % confidence interval
 * @property {number} high
 * @property {string} direction  of the bound: "at least" or "at most"
 * @property {number} bound  for the claim to hold
 */

/** @type {Record<string, Verdict>} */
export const VERDICTS = %s;
"""

INTERVALS = (
    "The intervals are Student's t intervals over the seeds. With few seeds they are wide, and that of a percentage "
    "can reach beyond 0 or 100."
)


def main() -> None:
    results = Path(sys.argv[1])
    PAGES.mkdir(exist_ok=True)
    (STUDIO / "lab").mkdir(exist_ok=True)
    verdicts = {}
    for name in EXPERIMENTS:
        trials = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["trials"]
        found = Results(experiment_named(name), False, {int(seed): numbers for seed, numbers in trials.items()})
        (PAGES / f"{name}.md").write_text(page(found), encoding="utf-8")
        picture = PICTURES / f"lab-{name}.png"
        found.figure().savefig(picture, dpi=120, metadata={"Software": None})
        Image.open(picture).convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)
        shutil.copy(picture, STUDIO / "lab" / f"{name}.png")
        verdicts[name] = verdict(found)
    (STUDIO / "verdicts.js").write_text(VERDICTS % json.dumps(verdicts, indent=2, ensure_ascii=False), encoding="utf-8")


def verdict(found: Results) -> dict[str, Any]:
    """Return what the studio says about an experiment."""
    one, interval = found.experiment, found.decisive
    low, high = (max(interval.low, 0), min(interval.high, 100)) if "percent" in one.decisive else interval[1:]
    mean, low, high, bound = (float(f"{number:.4g}") for number in (interval.mean, low, high, one.bound))
    return {
        "claim": one.claim,
        "verdict": found.verdict,
        "method": one.method,
        "measure": one.decisive,
        "seeds": len(found.trials),
        "mean": mean,
        "low": low,
        "high": high,
        "direction": one.direction,
        "bound": bound,
    }


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
    return "\n".join([*lines, "", INTERVALS, "", f"To run this experiment, use `saccade lab run {one.name}`.", ""])


if __name__ == "__main__":
    main()
