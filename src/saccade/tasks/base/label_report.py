"""Reports on predicted labels: the scores of each label, the most frequent confusions, and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from saccade.lens.figures.bars import bars
from saccade.lens.figures.canvas import label
from saccade.lens.figures.matrix import Scale, draw_matrix, places
from saccade.tasks.base.label_scores import BINS, Bin, LabelScore, calibration_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["confusion_figure", "confusion_lines", "label_lines", "reliability_figure"]

#: The number of labels that a figure shows, most frequent first, and the number of confusions that a list shows.
MOST_LABELS, MOST_CONFUSIONS = 60, 5
#: A figure with at most this many labels has the shares written in its cells.
FEW_LABELS = 20


def label_lines(scores: Sequence[LabelScore]) -> list[str]:
    """Return a table of the precision, recall and F1 of each label in percent, most frequent labels first."""
    there = sorted((score for score in scores if score.total), key=lambda score: -score.total)
    width = max([len("label"), *(len(score.label) for score in there)])
    lines = [f"{'label':<{width}}  precision  recall     F1    count"]
    return lines + [
        f"{score.label:<{width}}  {100 * score.precision:9.1f}  {100 * score.recall:6.1f}  {100 * score.f1:5.1f}  "
        f"{score.total:7,}"
        for score in there
    ]


def confusion_lines(table: Int[np.ndarray, "L L"], labels: Sequence[str]) -> list[str]:
    """Return a line that lists the most frequent confusions, if there are any."""
    wrong = table - np.diag(table.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CONFUSIONS]
    pairs = [(int(place) // len(labels), int(place) % len(labels)) for place in order]
    said = [f"{labels[i]} mistaken for {labels[j]} {wrong[i, j]:,}" for i, j in pairs if wrong[i, j]]
    return [f"most often: {', '.join(said)}"] if said else []


def confusion_figure(table: Int[np.ndarray, "L L"], labels: Sequence[str], dark: bool) -> Figure:
    """Draw a confusion matrix: rows are true labels, columns are predicted labels, cells are fractions of the row."""
    frequent = np.sort(np.argsort(-table.sum(axis=1), kind="stable")[:MOST_LABELS])
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    names = places([label(labels[number]) for number in frequent])
    return draw_matrix(
        shares[np.ix_(frequent, frequent)],
        names,
        names,
        Scale(name="share"),
        title="true label (rows) and predicted label (columns)",
        dark=dark,
        values=len(frequent) <= FEW_LABELS,
    )


def reliability_figure(parts: Sequence[Bin], dark: bool) -> Figure:
    """Draw for each group of similar confidence how often the model was right (bar) and how confident it was (line)."""
    shown = [(number, part) for number, part in enumerate(parts) if part.total]
    return bars(
        [f"{number / BINS:.1f} to {(number + 1) / BINS:.1f} ({part.total:,})" for number, part in shown],
        [part.accuracy for _, part in shown],
        marks=[part.confidence for _, part in shown],
        title=f"accuracy (bar) and confidence (line): calibration error {100 * calibration_error(parts):.1f}",
        dark=dark,
    )
