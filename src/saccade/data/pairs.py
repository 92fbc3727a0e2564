"""Read pairs of texts, with a report, from two parallel text files, or from a TSV, CSV or JSONL table.

Nothing is dropped silently: the report says why pairs were dropped, and gives their line numbers. Formats are not
guessed either: for a file in the wrong format, an error names the file and the line.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from saccade.data.lines import InheritedEncoding, choose_encoding, read_lines, suffix
from saccade.data.report import FINDINGS, SHOWN, Finding, Lengths, Report
from saccade.data.tables import note_skipped, read_columns, refuse_header
from saccade.errors import FileError, OptionError, counted

__all__ = ["Cleaning", "Pair", "PairCollector", "read_parallel", "read_table"]

Alignment = tuple[tuple[int, int], ...]  # (source index, target index) links


@dataclass(frozen=True)
class Pair:
    """A text and its translation."""

    source: str
    target: str
    line: int  # its line number, counting from 1; in CSV, the line where its row begins
    alignment: Alignment | None = None  # the true links between words or characters, if the data has them


@dataclass(frozen=True)
class Cleaning:
    """Which faulty pairs are dropped. Faulty pairs that are kept are still counted in the report.

    To score a test set unchanged, use `Cleaning(empty=False, duplicates=False)`.
    """

    empty: bool = True  # drop pairs that have no text on one side or on both
    duplicates: bool = True  # drop later copies of a pair; the same source with another target is not a copy
    max_length: int | None = None  # the maximum number of words, separated by white space, on either side
    max_ratio: float | None = None  # the maximum ratio of the longer side to the shorter one, in words

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise OptionError(f"max_length must be at least 1 word, not {self.max_length}.")
        if self.max_ratio is not None and not 1 <= self.max_ratio < math.inf:
            raise OptionError(f"max_ratio must be a finite number that is at least 1, not {self.max_ratio}.")


def count_words(text: str) -> int:
    return len(text.split())


class PairCollector:
    """Collects pairs as they are read, drops the faulty ones that ``cleaning`` excludes, and counts all faults."""

    def __init__(
        self, cleaning: Cleaning | None = None, *, unit: str = "words", length: Callable[[str], int] = count_words
    ) -> None:
        self.pairs: list[Pair] = []
        self._cleaning = cleaning or Cleaning()
        self._unit = unit
        self._length = length
        self._read = 0
        self._lengths: list[tuple[int, int]] = []
        self._seen: set[tuple[str, str]] = set()
        self._found: dict[str, list[int]] = defaultdict(list)  # finding -> line numbers

    def add(self, pair: Pair) -> None:
        """Add the pair to ``pairs``, unless it is dropped, and record its fault, if it has one."""
        self._read += 1
        lengths = (self._length(pair.source), self._length(pair.target))
        fault = self._fault(pair, lengths)
        if fault is not None:
            self._found[fault].append(pair.line)
        if fault is None or not self._drops(fault):
            self.pairs.append(pair)
            self._lengths.append(lengths)
            self._seen.add((pair.source, pair.target))

    def _fault(self, pair: Pair, lengths: tuple[int, int]) -> str | None:
        cleaning, shorter, longer = self._cleaning, min(lengths), max(lengths)
        if longer == 0:
            return "empty"
        if shorter == 0:
            return "unpaired"
        if cleaning.max_length is not None and longer > cleaning.max_length:
            return "long"
        if cleaning.max_ratio is not None and longer > cleaning.max_ratio * shorter:
            return "uneven"
        return "duplicate" if (pair.source, pair.target) in self._seen else None

    def _drops(self, fault: str) -> bool:
        if fault in ("empty", "unpaired"):
            return self._cleaning.empty
        return self._cleaning.duplicates if fault == "duplicate" else True

    def report(self, files: tuple[str | Path, ...], notes: tuple[str, ...] = ()) -> Report:
        """Return the report on all pairs that were added. Raises an error if no pair is left."""
        names = " and ".join(str(file) for file in files)
        if not self.pairs:
            raise FileError(
                f"No pairs from {names} are left: {self._read:,} were read, and "
                f"{', '.join(f'{len(lines):,} dropped ({FINDINGS[kind]})' for kind, lines in self._found.items())}."
                if self._read
                else f"There are no pairs in {names}: the file is empty."
            )
        sources, targets = zip(*self._lengths, strict=True)
        return Report(
            files=tuple(str(file) for file in files),
            read=self._read,
            kept=len(self.pairs),
            distinct_sources=len({pair.source for pair in self.pairs}),
            unit=self._unit,
            source_lengths=Lengths.of(sources),
            target_lengths=Lengths.of(targets),
            findings=tuple(
                Finding(kind, len(self._found[kind]), tuple(self._found[kind][:SHOWN]), self._drops(kind))
                for kind in FINDINGS
            ),
            notes=notes,
        )


def read_parallel(
    source_path: str | Path,
    target_path: str | Path,
    cleaning: Cleaning | None = None,
    *,
    encoding: str | None = None,
) -> tuple[list[Pair], Report]:
    """Read pairs from two files, where each line of one is the translation of the same line of the other.

    White space around a line is removed. Files of different lengths are an error, because one missing line would pair
    every later sentence with the wrong one.
    """
    collector = PairCollector(cleaning)
    counts = [0, 0]
    (source_name, source_notes), (target_name, target_notes) = _encodings((source_path, target_path), encoding)
    for source, target in zip_longest(read_lines(source_path, source_name), read_lines(target_path, target_name)):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None:
            collector.add(Pair(source[1].strip(), target[1].strip(), source[0]))
    if counts[0] != counts[1]:
        longer = (source_path, target_path)[counts[1] > counts[0]]
        raise FileError(
            f"{source_path} has {counted(counts[0], 'line')}, but {target_path} has {counts[1]:,}; both must "
            "have the same "
            f"number of lines (the first without a partner is line {min(counts) + 1} of {longer})."
        )
    return collector.pairs, collector.report((source_path, target_path), source_notes + target_notes)


def _encodings(paths: Sequence[str | Path], given: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Choose the encoding of each file. If only some files are UTF-8, the given encoding is meant for the others."""
    found = [choose_encoding(path, None if given is None else InheritedEncoding(given)) for path in paths]
    if all(name == "utf-8" for name, _ in found):
        return [choose_encoding(path, given) for path in paths]
    return found


def read_table(
    path: str | Path,
    source: str | int = "source",
    target: str | int = "target",
    cleaning: Cleaning | None = None,
    *,
    header: bool | None = None,
    encoding: str | None = None,
    skip_bad: bool = False,
    separator: str | None = None,
) -> tuple[list[Pair], Report]:
    """Read pairs from two columns of a .tsv, .csv or .jsonl file, given by name or by number from 0.

    `header` says whether the first line of a TSV or CSV file names the columns, and `separator` separates the cells of
    a CSV file; if one of them is None, it is detected (see `read_columns`). White space around a text is removed, and a
    line break inside it becomes a space.
    """
    collector = PairCollector(cleaning)
    bad: list[str] | None = [] if skip_bad else None
    in_order = ("source", "target")
    notes, rows = read_columns(
        path, (source, target), header=header, encoding=encoding, in_order=in_order, bad=bad, separator=separator
    )
    for line, (source_text, target_text) in rows:
        collector.add(Pair(_one_line(source_text), _one_line(target_text), line))
    if header is None and suffix(path) != ".jsonl":
        _refuse_header(path, collector.pairs)
    return collector.pairs, collector.report((path,), (*notes, *note_skipped(bad)))


def _refuse_header(path: str | Path, pairs: Sequence[Pair]) -> None:
    """Refuse a file of sentences whose first line is two single words: the names of its columns."""
    sentences = sum(" " in pair.source and " " in pair.target for pair in pairs)
    if len(pairs) > 10 and pairs[0].line == 1 and sentences == len(pairs) - 1:
        refuse_header(path, (pairs[0].source, pairs[0].target))


def _one_line(text: str) -> str:
    """Remove line breaks from a text, because predictions are written one per line."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").strip()
