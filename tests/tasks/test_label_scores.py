"""Scores of labels, each checked against numbers that can be counted by hand."""

from __future__ import annotations

import pytest

from saccade.tasks.base.label_scores import (
    Bin,
    LabelScore,
    LabelSpan,
    accuracy,
    are_spans,
    calibration_error,
    confusion,
    label_scores,
    macro_f1,
    reliability,
    span_f1,
    spans,
)

#: 7 words: of 4 A two are right, of 2 B one, the only C is taken for A.
TABLE = confusion([0, 0, 0, 0, 1, 1, 2], [0, 0, 1, 3, 1, 0, 0], 4)


def test_rows_are_the_truth_and_columns_what_was_found() -> None:
    assert TABLE.tolist() == [[2, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert accuracy(TABLE) == 3 / 7


def test_precision_recall_and_their_harmonic_mean() -> None:
    a, b, c, d = label_scores(TABLE, "ABCD")
    assert a == LabelScore("A", 2 / 4, 2 / 4, 1 / 2, 4)
    assert b == LabelScore("B", 1 / 2, 1 / 2, 1 / 2, 2)
    assert c == LabelScore("C", 0.0, 0.0, 0.0, 1)
    assert d == LabelScore("D", 0.0, 0.0, 0.0, 0)
    assert macro_f1([a, b, c, d]) == (1 / 2 + 1 / 2 + 0) / 3  # D is not there


def test_unequal_precision_and_recall() -> None:
    score = label_scores(confusion([0, 0, 0, 1], [0, 1, 1, 1], 2), ["A", "B"])
    assert score[0] == LabelScore("A", 1.0, 1 / 3, pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3)), 3)  # type: ignore[arg-type]
    assert score[1].precision == 1 / 3


def test_nothing_at_all_has_score_0() -> None:
    empty = confusion([], [], 2)
    assert accuracy(empty) == 0.0
    assert macro_f1(label_scores(empty, ["A", "B"])) == 0.0
    assert span_f1([], []) == 0.0
    assert calibration_error(reliability([], [])) == 0.0


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", []),
        ("B-P I-P O B-L", [("P", 0, 2), ("L", 3, 4)]),
        ("B-P B-P I-P", [("P", 0, 1), ("P", 1, 3)]),
        ("I-P I-P O I-P", [("P", 0, 2), ("P", 3, 4)]),  # IOB1: B only between neighbours
        ("I-P B-P", [("P", 0, 1), ("P", 1, 2)]),
        ("B-P I-L I-L", [("P", 0, 1), ("L", 1, 3)]),
        ("O I-P", [("P", 1, 2)]),
        ("S-P B-P I-P E-P S-L", [("P", 0, 1), ("P", 1, 4), ("L", 4, 5)]),
        ("B-P E-P I-P", [("P", 0, 2), ("P", 2, 3)]),
        ("S-P E-P", [("P", 0, 1), ("P", 1, 2)]),
        ("B-P-X I-P-X", [("P-X", 0, 2)]),
    ],
)
def test_spans_as_conll_counts_them(labels: str, expected: list[tuple[str, int, int]]) -> None:
    assert spans(labels.split()) == [LabelSpan(*span) for span in expected]


def test_a_span_is_right_with_its_kind_beginning_and_end() -> None:
    truth = [["B-P", "I-P", "O", "B-L"], ["B-P", "O"]]
    found = [["B-P", "I-P", "O", "B-P"], ["B-P", "I-P"]]
    # 3 true spans, 3 found, 1 right
    assert span_f1(truth, found) == pytest.approx(2 * 1 / (3 + 3))


def test_labels_of_spans_are_told_from_others() -> None:
    assert are_spans(["O", "B-P", "I-P"])
    assert are_spans(["S-X"])
    assert not are_spans(["O"])
    assert not are_spans(["NOUN", "O"])
    assert not are_spans(["B-", "O"])


def test_calibration_of_five_answers() -> None:
    bins = reliability([0.5, 0.55, 0.6, 0.95, 1.0], [True, False, True, True, False], bins=10)
    assert bins[4] == Bin(0.5, 1.0, 1)  # 0.5 ends the part (0.4, 0.5]
    assert bins[5] == Bin(pytest.approx(0.575), 0.5, 2)  # type: ignore[arg-type]
    assert bins[9] == Bin(pytest.approx(0.975), 0.5, 2)  # type: ignore[arg-type]
    assert sum(part.total for part in bins) == 5
    assert calibration_error(bins) == pytest.approx((1 * 0.5 + 2 * 0.075 + 2 * 0.475) / 5)
