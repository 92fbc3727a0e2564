"""The report on the files from which pairs of texts were read, which a training run shows before it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["FINDINGS", "SHOWN", "Finding", "Lengths", "Report"]

#: The faults that are counted, in the order of the report: key -> description.
FINDINGS = {
    "empty": "empty on both sides",
    "unpaired": "text on one side only",
    "long": "too long",
    "uneven": "lengths too different",
    "duplicate": "duplicates",
}
#: The maximum number of line numbers that a finding lists.
SHOWN = 10


@dataclass(frozen=True)
class Finding:
    """How many lines have a given kind of fault, which lines have it first, and whether these lines were dropped."""

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
    """A summary of the lengths of texts: their mean, median, 95th percentile and maximum."""

    mean: float
    median: float
    percentile_95: float
    longest: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Lengths:
        """Summarise these lengths, of which there must be at least one."""
        values = np.asarray(counts)
        median, percentile_95 = np.percentile(values, [50, 95])
        return cls(float(values.mean()), float(median), float(percentile_95), int(values.max()))

    def __str__(self) -> str:
        middle = f"mean {self.mean:.1f}, median {self.median:g}"
        return f"{middle}, 95th percentile {self.percentile_95:g}, longest {self.longest:,}"


@dataclass(frozen=True)
class Report:
    """How many pairs were read from the files, how many were kept, and how many were dropped and why."""

    files: tuple[str, ...]
    read: int
    kept: int
    distinct_sources: int  # the number of different source texts among the pairs that were kept
    unit: str  # the unit of lengths: "words", separated by white space, or "characters"
    source_lengths: Lengths
    target_lengths: Lengths
    findings: tuple[Finding, ...]  # one for each key of `FINDINGS`, in that order, including those with a count of 0
    notes: tuple[str, ...] = ()  # choices that were made while reading, such as which columns were used

    @property
    def dropped(self) -> int:
        return self.read - self.kept

    def finding(self, kind: str) -> Finding:
        """Return the finding of this kind, which is a key of `FINDINGS`."""
        return next(finding for finding in self.findings if finding.kind == kind)

    def rows(self) -> list[tuple[str, str]]:
        """Return the report as (name, value) rows of a table."""
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
