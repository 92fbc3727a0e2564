"""Read NETtalk (Sejnowski & Rosenberg 1987): English words and their sounds, with one phoneme symbol per letter.

A line has a word, its phonemes, its stress and a class, separated by tabs, such as `aback`, `xb@k-`, `0>1<<`, `0`. A
letter without a sound has the symbol "-". Because there is one symbol for each letter, the true alignment is known even
after the silent symbols are dropped, and attention can be compared with it.
"""

from __future__ import annotations

from pathlib import Path

from saccade.data.lines import read_lines
from saccade.data.pairs import Cleaning, Pair, PairCollector
from saccade.data.report import Report
from saccade.data.split import Parts, split_by_line
from saccade.errors import FileError, counted

__all__ = ["SILENT", "nettalk_splits", "read_nettalk"]

SILENT = "-"
_COLUMNS = ("word", "phonemes", "stress", "class")


def read_nettalk(path: str | Path) -> tuple[list[Pair], Report]:
    """Read the words in a nettalk.data file. The source of a pair is the letters of a word, and the target its phoneme
    symbols without the silent ones.

    Empty lines, lines that start with "#", and the description at the start of the published file are skipped.
    `Pair.line` is the number of a word, counting from 1 without skipped lines. `Pair.alignment` has the links between
    letters and symbols, as pairs of indices. Words with several pronunciations and repeated lines are kept, because
    dropping them would change the test set.
    """
    collector = PairCollector(Cleaning(empty=False, duplicates=False), unit="characters", length=len)
    number = 0
    for line, text in read_lines(path):
        if not text.strip() or text.startswith("#") or (number == 0 and "\t" not in text):
            continue
        number += 1
        collector.add(_pair(path, line, text, number))
    return collector.pairs, collector.report((path,))


def _pair(path: str | Path, line: int, text: str, number: int) -> Pair:
    cells = text.split("\t")
    if len(cells) != len(_COLUMNS):
        raise FileError(
            f"{path}, line {line}: the line has {counted(len(cells), 'column')}; expected {len(_COLUMNS)} "
            f"({', '.join(_COLUMNS)}), "
            "separated by tabs."
        )
    word, phonemes, stress, _ = cells
    if not word or not len(word) == len(phonemes) == len(stress):
        raise FileError(
            f"{path}, line {line}: there are {len(word)} letters, {len(phonemes)} phonemes and {len(stress)} stress "
            "marks; expected the same number of each, and at least one."
        )
    sounded = [letter for letter, symbol in enumerate(phonemes) if symbol != SILENT]
    return Pair(
        source=word,
        target="".join(phonemes[letter] for letter in sounded),
        line=number,
        alignment=tuple((letter, position) for position, letter in enumerate(sounded)),
    )


def nettalk_splits(pairs: list[Pair]) -> Parts[Pair]:
    """Split the words: those whose number is divisible by 10 go to the test part, those with remainder 9 to
    validation, and the rest to training, except for spellings that also occur in test or validation."""
    return split_by_line(pairs, every=10, test_remainder=0, validation_remainder=9)
