"""Without the division by √d, the softmax of long vectors saturates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from saccade.lab.experiment import Experiment, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WIDTHS, KEYS = (4, 16, 64, 256, 1024), 32


def largest_weight(width: int, *, scaled: bool, queries: int = 500) -> tuple[float, float]:
    """Return the mean, over random queries and keys, of the largest attention weight, and of the norm of the softmax's
    derivative."""
    query, key = torch.randn(queries, 1, width), torch.randn(queries, KEYS, width)
    scores = (query @ key.transpose(1, 2))[:, 0] / (math.sqrt(width) if scaled else 1.0)
    weights = scores.softmax(-1)
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
    return float(weights.max(-1).values.mean()), float(torch.linalg.matrix_norm(jacobian).mean())


def measure(trial: Trial) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for width in WIDTHS:
        for scaled in (False, True):
            name = f"{'scaled' if scaled else 'unscaled'}, d = {width}"
            found[name], found[f"gradient, {name}"] = largest_weight(width, scaled=scaled)
    last = WIDTHS[-1]
    found["largest weight, unscaled minus scaled"] = found[f"unscaled, d = {last}"] - found[f"scaled, d = {last}"]
    return found


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for kind in ("unscaled", "scaled"):
        axes.plot(WIDTHS, [found[f"{kind}, d = {width}"].mean for width in WIDTHS], marker="o", label=kind)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("width d")
    axes.set_ylabel(f"largest weight over {KEYS} keys")
    axes.legend()


EXPERIMENT = Experiment(
    name="scaled-scores",
    lecture="003",
    claim="Dividing scores by √d keeps the softmax from saturating as vectors get longer.",
    method=f"Queries and {KEYS} keys are drawn from N(0, 1). We measure the mean of the largest softmax weight, with "
    "and without the division, and the norm of the softmax's derivative.",
    measure=measure,
    decisive="largest weight, unscaled minus scaled",
    direction="at least",
    bound=0.5,
    draw=draw,
)
