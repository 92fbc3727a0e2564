"""Report on files of labelled examples, and check for labels that do not occur in the training data."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from saccade.data.images import LabelledImage
from saccade.data.report import SHOWN, Finding, Lengths
from saccade.errors import FileError, counted

__all__ = ["LabelReport", "Labelled", "collect", "note_unseen"]

#: The faults that are counted, in the order of the report: key -> description.
FINDINGS = {"long": "too long", "duplicate": "duplicates", "contradiction": "same text, other labels"}
#: The number of labels that a report or an error names.
NAMED = 40


class Labelled(Protocol):
    """A sentence with one label per word, or a text with one label."""

    @property
    def source(self) -> str:
        """The text that is labelled."""
        ...

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def length(self) -> int:
        """The number of words."""
        ...

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def label_lines(self) -> Sequence[int]:
        """The line number of each label."""
        ...


Item = TypeVar("Item", bound=Labelled)


@dataclass(frozen=True)
class LabelReport:
    """How many examples of a file were read and kept, and why the others were dropped; the lengths and the labels of
    those that were kept."""

    file: str
    unit: str  # what the examples are called: "sentences" or "texts"
    read: int
    kept: int
    lengths: Lengths
    labels: dict[str, int]  # how often each label occurs, most frequent first
    findings: tuple[Finding, ...]  # one for each key of `FINDINGS`, in that order, including those with a count of 0
    notes: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Return the report as (name, value) rows of a table."""
        named = [f"{label} {count:,}" for label, count in list(self.labels.items())[:NAMED]]
        more = [f"{len(self.labels) - NAMED} more"] if len(self.labels) > NAMED else []
        return [
            ("file", self.file),
            *(("note", note) for note in self.notes),
            (f"{self.unit} read", f"{self.read:,}"),
            (f"{self.unit} kept", f"{self.kept:,}"),
            ("length in words", str(self.lengths)),
            (counted(len(self.labels), "label"), ", ".join(named + more)),
            *((FINDINGS[finding.kind], str(finding)) for finding in self.findings),
        ]


def collect(
    file: str, examples: Iterable[Item], *, unit: str, max_length: int | None = None, notes: Sequence[str] = ()
) -> tuple[list[Item], LabelReport]:
    """Return the examples of at most ``max_length`` words, and a report on all examples of the file.

    Duplicates are reported but kept, because they may show how frequent a text is.
    """
    found: dict[str, list[int]] = defaultdict(list)
    seen: dict[str, tuple[str, ...]] = {}
    kept: list[Item] = []
    read = 0
    for example in examples:
        read += 1
        if max_length is not None and example.length > max_length:
            found["long"].append(example.line)
            continue
        labels = tuple(example.labels)
        if example.source in seen:
            found["duplicate" if seen[example.source] == labels else "contradiction"].append(example.line)
        seen.setdefault(example.source, labels)
        kept.append(example)
    if not kept:
        dropped = (
            f": {read:,} read, all longer than {counted(max_length or 0, 'word')}" if read else ": the file is empty"
        )
        raise FileError(f"There are no {unit} in {file}{dropped}.")
    counts = Counter(label for example in kept for label in example.labels)
    findings = tuple(
        Finding(kind, len(found[kind]), tuple(found[kind][:SHOWN]), dropped=kind == "long") for kind in FINDINGS
    )
    lengths = Lengths.of([example.length for example in kept])
    return kept, LabelReport(file, unit, read, len(kept), lengths, dict(counts.most_common()), findings, tuple(notes))


def note_unseen(examples: Iterable[Labelled | LabelledImage], known: Collection[str]) -> list[str]:
    """Return a list with a note on the labels that do not occur in the training data (``known``), or an empty list. A
    model cannot predict such labels, so they count as errors. If most labels are unknown, the file must be meant for
    another model, and an error is raised."""
    total, unseen = 0, []  # the unseen labels, with the place of each in words
    for example in examples:
        labels = _labels(example)
        total += len(labels)
        unseen += [(label, _where(example, place)) for place, label in enumerate(labels) if label not in known]
    if not unseen:
        return []
    label, where = unseen[0]
    if 2 * len(unseen) > total:
        names = sorted(known, key=lambda name: (int(name) if name.isdecimal() else math.inf, name))
        more = f", ... ({len(names)} in all)" if len(names) > NAMED else ""
        is_text = not isinstance(example, LabelledImage)
        advice = " If the labels are in another column, choose the columns with --columns." if is_text else ""
        raise FileError(
            f"{where}: the label {label!r} is not in the training data; most of the other labels are unknown too. The "
            f"known labels are {', '.join(names[:NAMED])}{more}.{advice}"
        )
    counts = [f"{label} {count:,}" for label, count in Counter(label for label, _ in unseen).items()]
    some = f"{', '.join(counts[:NAMED])}{', ...' if len(counts) > NAMED else ''}"
    return [f"{len(unseen):,} of {total:,} labels are not in training and count as errors: {some} (first: {where})"]


def _labels(example: Labelled | LabelledImage) -> Sequence[str]:
    return (example.label,) if isinstance(example, LabelledImage) else example.labels


def _where(example: Labelled | LabelledImage, place: int) -> str:
    """Return the file and line of a label, for a message."""
    if isinstance(example, LabelledImage):
        return example.where
    return f"{example.file}, line {example.label_lines[place]}"
