"""The report: its numbers by hand, and its rows."""

from __future__ import annotations

from saccade.data.report import FINDINGS, Finding, Lengths, Report


def test_lengths_by_hand() -> None:
    lengths = Lengths.of([1, 2, 3, 4, 20])
    assert lengths.mean == 6
    assert lengths.median == 3
    assert lengths.longest == 20
    assert abs(lengths.percentile_95 - (4 + 0.8 * 16)) < 1e-9  # 95% of 4 steps is 3.8: between 4 and 20
    assert str(lengths) == "mean 6.0, median 3, 95th percentile 16.8, longest 20"


def test_a_finding_names_its_first_lines_and_how_many_more() -> None:
    assert str(Finding("empty", 0, (), True)) == "none"
    assert str(Finding("empty", 1, (4,), True)) == "1 dropped: line 4"
    assert str(Finding("duplicate", 2, (4, 9), False)) == "2 kept: lines 4, 9"
    assert str(Finding("long", 1234, tuple(range(1, 11)), True)) == (
        "1,234 dropped: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 1,224 more"
    )


def test_rows_show_everything_once() -> None:
    report = Report(
        files=("a.en", "a.fr"),
        read=1_003,
        kept=1_002,
        distinct_sources=997,
        unit="words",
        source_lengths=Lengths.of([2]),
        target_lengths=Lengths.of([3]),
        findings=tuple(Finding(kind, int(kind == "long"), (7,) * (kind == "long"), True) for kind in FINDINGS),
        notes=("columns 0, 1",),
    )
    assert report.dropped == 1
    assert report.rows() == [
        ("files", "a.en, a.fr"),
        ("note", "columns 0, 1"),
        ("pairs read", "1,003"),
        ("pairs kept", "1,002"),
        ("different sources", "997"),
        ("source length in words", "mean 2.0, median 2, 95th percentile 2, longest 2"),
        ("target length in words", "mean 3.0, median 3, 95th percentile 3, longest 3"),
        ("empty on both sides", "none"),
        ("text on one side only", "none"),
        ("too long", "1 dropped: line 7"),
        ("lengths too different", "none"),
        ("duplicates", "none"),
    ]
