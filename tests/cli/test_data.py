"""``saccade data``: the list, and what is refused; taking and fetching are tested with the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from commands import Capture, assert_refused, run, succeed

from saccade.data import CATALOGUE


def test_the_list_has_source_terms_and_size(capsys: Capture) -> None:
    out = succeed(capsys, "data")
    joined = " ".join(out.split())
    for name, entry in CATALOGUE.items():
        assert f"{name}: {entry.size / 1e6:.1f} MB" in joined
        assert entry.what in joined
        assert entry.source in joined
        assert f"terms: {entry.terms}" in joined
    assert max(map(len, out.splitlines())) <= 80


def test_checksums_are_listed_as_sha256sum_writes_them(capsys: Capture) -> None:
    lines = succeed(capsys, "data", "--checksums").splitlines()
    assert all(re.fullmatch(r"[0-9a-f]{64}  \w+/\S+", line) for line in lines)
    assert len(lines) == sum(len(entry.files) for entry in CATALOGUE.values())


def test_a_set_is_taken_only_whole_and_right(capsys: Capture, tmp_path: Path) -> None:
    mine, there = tmp_path / "mine", tmp_path / "data"
    mine.mkdir()
    given = ["data", "tiny_shakespeare", "--from", mine, "--to", there]
    assert_refused(run(capsys, *given), "neither input.txt nor input.txt.gz in", str(mine))
    (mine / "input.txt").write_text("First Citizen:\n")
    assert_refused(run(capsys, *given), str(mine / "input.txt"), "15 bytes")
    assert not (there / "tiny_shakespeare" / "input.txt").exists()


def test_names_and_options_that_do_not_fit(capsys: Capture, tmp_path: Path) -> None:
    assert_refused(run(capsys, "data", "multi30"), "Did you mean 'multi30k'?")
    assert_refused(run(capsys, "data", "../multi30k"), "no data set '../multi30k'")
    assert_refused(run(capsys, "data", "--from", tmp_path), "name of a data set")
    assert_refused(run(capsys, "data", "nettalk", "--to", tmp_path), "--from FOLDER")
    assert list(tmp_path.iterdir()) == []
