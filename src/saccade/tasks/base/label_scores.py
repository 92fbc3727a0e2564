"""Scores for predicted labels: accuracy, the F1 of each label and of spans, and calibration.

Everything is computed from counts that can be checked by hand. Scores are shares from 0 to 1, not percentages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

__all__ = [
    "BINS",
    "UNSEEN",
    "Bin",
    "LabelScore",
    "LabelSpan",
    "accuracy",
    "are_spans",
    "calibration_error",
    "confusion",
    "label_scores",
    "macro_f1",
    "numbered",
    "reliability",
    "span_f1",
    "spans",
]

#: The id of a label that does not occur in training; losses ignore it.
UNSEEN = -100
#: The number of bins of equal width that confidence is divided into.
BINS = 10
_SPAN_LABEL = re.compile(r"O|[BIES]-.+")


class LabelScore(NamedTuple):
    """The scores of one label, from 0 to 1. A score that would be a division by zero is 0."""

    label: str
    precision: float
    recall: float
    f1: float
    total: int  # the number of times that it is the true label


def confusion(truth: Sequence[int], found: Sequence[int], labels: int) -> Int[np.ndarray, "L L"]:
    """Count how often each true label (row) was predicted as each label (column)."""
    table = np.zeros((labels, labels), dtype=np.int64)
    np.add.at(table, (np.asarray(truth, dtype=np.int64), np.asarray(found, dtype=np.int64)), 1)
    return table


def numbered(gold: Sequence[str], labels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the gold labels as numbers, and the names of all labels: ``labels``, then the other gold labels."""
    names = [*labels, *sorted(set(gold) - set(labels))]
    numbers = {name: number for number, name in enumerate(names)}
    return [numbers[label] for label in gold], names


def accuracy(table: Int[np.ndarray, "L L"]) -> float:
    """Return the fraction of correct predictions."""
    return _share(int(table.trace()), int(table.sum()))


def label_scores(table: Int[np.ndarray, "L L"], labels: Sequence[str]) -> list[LabelScore]:
    """Return the precision, recall and F1 (their harmonic mean) of each label."""
    scores = []
    for number, label in enumerate(labels):
        right, taken, true = (int(n) for n in (table[number, number], table[:, number].sum(), table[number].sum()))
        scores.append(
            LabelScore(label, _share(right, taken), _share(right, true), _share(2 * right, taken + true), true)
        )
    return scores


def macro_f1(scores: Iterable[LabelScore]) -> float:
    """Return the mean F1 of the labels that occur as true labels. Each counts the same, however rare it is."""
    there = [score.f1 for score in scores if score.total]
    return sum(there) / max(len(there), 1)


# --- spans -------------------------------------------------------------------------------------------------


class LabelSpan(NamedTuple):
    """Consecutive words that make up one unit, such as a name."""

    kind: str
    start: int
    stop: int  # one past the last word


def are_spans(labels: Iterable[str]) -> bool:
    """Return whether the labels mark spans: O, B-X and I-X, and E-X and S-X in schemes that mark where spans end."""
    known = set(labels)
    return bool(known - {"O"}) and all(_SPAN_LABEL.fullmatch(label) for label in known)


def spans(labels: Sequence[str]) -> list[LabelSpan]:
    """Return the spans of a sentence, as the CoNLL shared tasks count them (Tjong Kim Sang 2000).

    A span begins at B and S, after E and S, and at any label that does not continue the previous span: an I of
    another kind, or an I after O. So every word whose label is not O is in exactly one span, whichever scheme is used
    (IOB1, IOB2 or BIOES).
    """
    found: list[LabelSpan] = []
    before, before_kind = "O", ""
    for place, label in enumerate(labels):
        tag, _, kind = label.partition("-")
        goes_on = tag in "IE" and before in "BI" and kind == before_kind
        if tag != "O":
            if goes_on:
                found[-1] = found[-1]._replace(stop=place + 1)
            else:
                found.append(LabelSpan(kind, place, place + 1))
        before, before_kind = tag, kind
    return found


def span_f1(truth: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> float:
    """Return the F1 of spans. A span is correct if its kind, start and end are all correct."""
    right = taken = true = 0
    for one, other in zip(truth, found, strict=True):
        expected, given = set(spans(one)), set(spans(other))
        right, taken, true = right + len(expected & given), taken + len(given), true + len(expected)
    return _share(2 * right, taken + true)


# --- calibration -------------------------------------------------------------------------------------------


class Bin(NamedTuple):
    """The mean confidence, accuracy and number of answers with similar confidence."""

    confidence: float  # the mean confidence
    accuracy: float
    total: int


def reliability(confidence: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """Group the answers by confidence into bins of equal width: (0, 0.1], (0.1, 0.2], ... (Guo 2017)."""
    sure, correct = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
    place = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    found = []
    for number in range(bins):
        inside = place == number
        count = int(inside.sum())
        found.append(
            Bin(float(sure[inside].mean()), float(correct[inside].mean()), count) if count else Bin(0.0, 0.0, 0)
        )
    return found


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return ``Σ n_b / n · |accuracy_b − confidence_b|``, how far confidence is from accuracy (Guo 2017, eq. 5)."""
    total = sum(part.total for part in bins)
    return sum(part.total * abs(part.accuracy - part.confidence) for part in bins) / max(total, 1)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
