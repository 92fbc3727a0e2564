"""NETtalk: letters, sounded symbols and the links between them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saccade.data import Pair, nettalk_splits, read_nettalk
from saccade.errors import FileError


def test_silent_symbols_are_dropped_and_links_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "nettalk.data"
    path.write_text(
        "NETtalk corpus, a description.\n\n"
        "aback\txb@k-\t0>1<<\t0\n# remark\nabbe\t@b-e\t0<>1\t0\n\n"
        "aisle\t-A-l-\t1<<<<\t0\n"
    )
    pairs, report = read_nettalk(path)
    assert pairs == [
        Pair("aback", "xb@k", 1, ((0, 0), (1, 1), (2, 2), (3, 3))),
        Pair("abbe", "@be", 2, ((0, 0), (1, 1), (3, 2))),
        Pair("aisle", "Al", 3, ((1, 0), (3, 1))),
    ]
    assert report.unit == "characters"
    assert report.source_lengths.longest == 5


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("abbe\t@b-e\t0<>1", "the line has 3 columns; expected 4 (word, phonemes, stress, class), separated by tabs."),
        ("abbe\t@be\t0<>1\t0", "there are 4 letters, 3 phonemes and 4 stress marks; expected the same number of each"),
        ("no tab", "the line has 1 column; expected 4"),
    ],
)
def test_a_bad_line_names_file_and_line(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "nettalk.data"
    path.write_text(f"aback\txb@k-\t0>1<<\t0\n{line}\n")
    with pytest.raises(FileError) as caught:
        read_nettalk(path)
    assert str(caught.value).startswith(f"{path}, line 2: {sentence}")


def test_splits_by_tens_without_the_spellings_of_test_and_validation(tmp_path: Path) -> None:
    words = [chr(ord("a") + number) for number in range(20)]
    words[2] = words[9]  # line 3 spells as line 10, a test line
    path = tmp_path / "nettalk.data"
    path.write_text("".join(f"{word}\t{word.upper()}\t1\t0\n" for word in words))
    parts = nettalk_splits(read_nettalk(path)[0])
    assert [pair.line for pair in parts.test] == [10, 20]
    assert [pair.line for pair in parts.validation] == [9, 19]
    assert [pair.line for pair in parts.removed] == [3]
    assert len(parts.train) == 15


@pytest.mark.skipif("SACCADE_DATA" not in os.environ, reason="needs $SACCADE_DATA with nettalk/")
def test_the_published_words() -> None:
    pairs, report = read_nettalk(Path(os.environ["SACCADE_DATA"]) / "nettalk" / "nettalk.data")
    assert report.kept == 20_007
    parts = nettalk_splits(pairs)
    assert (len(parts.test), len(parts.validation)) == (2_000, 2_000)
    assert len(parts.train) + len(parts.removed) == 16_007
    held_out = {pair.source for pair in parts.test + parts.validation}
    assert not held_out & {pair.source for pair in parts.train}
    for pair in pairs:
        assert [symbol for _, symbol in pair.alignment or ()] == list(range(len(pair.target)))
        assert all(letter < len(pair.source) for letter, _ in pair.alignment or ())
