"""The report on a data file, as plain data: the first thing that a training run shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["FINDINGS", "SHOWN", "Finding", "Lengths", "Report"]

FINDINGS = {
    "empty": "empty on both sides",
    "unpaired": "text on one side only",
    "long": "too long",
    "uneven": "lengths too different",
    "duplicate": "duplicates",
}
"""Everything that is checked, in the order of the report: key -> description."""

SHOWN = 10  # how many line numbers a finding names


@dataclass(frozen=True)
class Finding:
    """The lines that have a particular fault."""

    kind: str  # a key of FINDINGS
    count: int
    first: tuple[int, ...]  # numbers of the first lines, at most SHOWN
    dropped: bool

    def __str__(self) -> str:
        if not self.count:
            return "none"
        lines = "line" if self.count == 1 else "lines"
        numbers = ", ".join(str(number) for number in self.first)
        more = self.count - len(self.first)
        return (
            f"{self.count:,} {'dropped' if self.dropped else 'kept'}: {lines} {numbers}"
            f"{f' and {more:,} more' if more else ''}"
        )


@dataclass(frozen=True)
class Lengths:
    """How long the texts of one side are."""

    mean: float
    median: float
    percentile_95: float
    longest: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Lengths:
        """The distribution of these lengths; there must be at least one."""
        values = np.asarray(counts)
        median, percentile_95 = np.percentile(values, [50, 95])
        return cls(float(values.mean()), float(median), float(percentile_95), int(values.max()))

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.1f}, median {self.median:g}, 95% up to {self.percentile_95:g}, longest {self.longest:,}"
        )


@dataclass(frozen=True)
class Report:
    """What was read from the files of one split, what was kept, and what was dropped and why."""

    files: tuple[str, ...]
    read: int
    kept: int
    distinct_sources: int
    """Number of distinct source texts among the kept pairs."""
    unit: str
    """The unit of lengths: "words", separated by white space, or "characters"."""
    source_lengths: Lengths
    target_lengths: Lengths
    findings: tuple[Finding, ...]
    """One for each key of `FINDINGS`, in that order, including those with a count of 0."""
    notes: tuple[str, ...] = ()
    """Choices made while reading, such as which columns were used."""

    @property
    def dropped(self) -> int:
        return self.read - self.kept

    def finding(self, kind: str) -> Finding:
        """The finding with this key of `FINDINGS`."""
        return next(finding for finding in self.findings if finding.kind == kind)

    def rows(self) -> list[tuple[str, str]]:
        """The report as (name, value) rows of a table."""
        return [
            ("files", ", ".join(self.files)),
            *(("note", note) for note in self.notes),
            ("pairs read", f"{self.read:,}"),
            ("pairs kept", f"{self.kept:,}"),
            ("different sources", f"{self.distinct_sources:,}"),
            (f"source length in {self.unit}", str(self.source_lengths)),
            (f"target length in {self.unit}", str(self.target_lengths)),
            *((FINDINGS[finding.kind], str(finding)) for finding in self.findings),
        ]
