"""Write a page with its picture for each experiment, and what the studio's Learn page shows of it, from what
`saccade lab all -o lab` measured. Experiments without results in the folder keep their pages.

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
 * @property {number} low  of its 95 %% confidence interval
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

#: What to know about the numbers of an experiment, written after they were measured.
REMARKS = {
    "masked-pretraining": "Pre-training helped with every seed, but by very different amounts: 14.7, 3.0 and 25.7 "
    "points. If the mean and the spread stay as they are, about nine seeds are needed to decide; `saccade lab run "
    "masked-pretraining --seeds 9` continues with the seeds that are missing.",
    "residuals-and-norms": "Residual connections alone and norms alone do not help here: both stay close to the 6 % of "
    "guessing. With another learning rate or other initial weights, one of them may be enough; this was not tried.",
    "several-heads": "One head can give the two items different weights, and the feed-forward layer can then tell the "
    "two values apart in their sum; we have not examined whether it does so. The experiment refutes the claim as it is "
    "worded. It does not show that several heads are useless in larger networks.",
    "three-ways": "With every seed, attention finds the word at distance 32, but after this short training it still "
    "misses many words at distances 8 and 16, and there the seeds differ widely. So the experiment shows that a large "
    "distance is no obstacle to attention, not that attention is better at every distance.",
    "weights-and-effects": "The correlation is over all links, most of which have small weights and small effects. It "
    "does not show that the link with the largest weight of a single word is the one that matters most.",
}


def main() -> None:
    results = Path(sys.argv[1])
    PAGES.mkdir(exist_ok=True)
    (STUDIO / "lab").mkdir(exist_ok=True)
    written = (STUDIO / "verdicts.js").read_text(encoding="utf-8")
    verdicts = json.loads(written.partition("VERDICTS = ")[2].rstrip(";\n"))
    for name in EXPERIMENTS:
        if not (results / f"{name}.json").exists():
            continue
        trials = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["trials"]
        found = Results(experiment_named(name), False, {int(seed): numbers for seed, numbers in trials.items()})
        (PAGES / f"{name}.md").write_text(page(found), encoding="utf-8")
        picture = PICTURES / f"lab-{name}.png"
        found.figure().savefig(picture, dpi=120, metadata={"Software": None})
        Image.open(picture).convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)
        shutil.copy(picture, STUDIO / "lab" / f"{name}.png")
        verdicts[name] = verdict(found)
    ordered = json.dumps({name: verdicts[name] for name in EXPERIMENTS}, indent=2, ensure_ascii=False)
    (STUDIO / "verdicts.js").write_text(VERDICTS % ordered, encoding="utf-8")


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
    remark = [REMARKS[one.name], ""] if one.name in REMARKS else []
    return "\n".join(
        [*lines, "", *remark, INTERVALS, "", f"To run this experiment, use `saccade lab run {one.name}`.", ""]
    )


if __name__ == "__main__":
    main()
