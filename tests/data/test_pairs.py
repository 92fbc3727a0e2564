"""Files of pairs: what is read, what is dropped and said, what is refused and how."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import Cleaning, Pair, read_parallel, read_table
from saccade.errors import FileError, OptionError


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def parallel(folder: Path, source: str | bytes, target: str | bytes) -> tuple[Path, Path]:
    return write(folder / "a.en", source), write(folder / "a.fr", target)


def test_line_n_of_one_file_belongs_to_line_n_of_the_other(tmp_path: Path) -> None:
    pairs, report = read_parallel(*parallel(tmp_path, "The cat.\nA dog.\n", "Le chat.\nUn chien.\n"))
    assert pairs == [Pair("The cat.", "Le chat.", 1), Pair("A dog.", "Un chien.", 2)]
    assert (report.read, report.kept, report.dropped) == (2, 2, 0)


def test_byte_order_mark_carriage_returns_and_a_missing_last_line_feed_are_tolerated(tmp_path: Path) -> None:
    pairs, _ = read_parallel(*parallel(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n", b"un\ndeux"))
    assert pairs == [Pair("one", "un", 1), Pair("two", "deux", 2)]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    pairs, _ = read_parallel(*parallel(tmp_path, f"a{separator}b\nc\n", "x\ny\n"))
    assert [pair.source for pair in pairs] == [f"a{separator}b", "c"]


def test_what_is_dropped_is_named_with_its_line(tmp_path: Path) -> None:
    source = ["a b", "", "c", " ", "a b", "a b", "1 2 3 4 5 6", "1 2 3 4"]
    target = ["x", "", "\t", "y", "x", "z", "1 2 3 4 5 6", "1"]
    files = parallel(tmp_path, "\n".join(source), "\n".join(target))
    pairs, report = read_parallel(*files, Cleaning(max_length=5, max_ratio=3))
    assert pairs == [Pair("a b", "x", 1), Pair("a b", "z", 6)]
    found = {finding.kind: (finding.first, finding.dropped) for finding in report.findings}
    assert found == {
        "empty": ((2,), True),
        "unpaired": ((3, 4), True),
        "long": ((7,), True),
        "uneven": ((8,), True),
        "duplicate": ((5,), True),
    }
    assert report.dropped == 6


def test_a_test_set_can_be_read_as_it_is_and_is_still_reported(tmp_path: Path) -> None:
    files = parallel(tmp_path, "a\n\na\n", "x\n\nx\n")
    pairs, report = read_parallel(*files, Cleaning(empty=False, duplicates=False))
    assert [pair.line for pair in pairs] == [1, 2, 3]
    assert report.finding("duplicate").first == (3,)
    assert report.finding("empty").first == (2,)
    assert not report.finding("empty").dropped


def test_unequal_files_name_both_counts_and_the_first_line_without_partner(tmp_path: Path) -> None:
    source, target = parallel(tmp_path, "a\nb\nc\n", "x\ny\n")
    with pytest.raises(FileError) as caught:
        read_parallel(source, target)
    assert str(caught.value) == (
        f"{source} has 3 lines, but {target} has 2; both must have the same number of lines (the first without a "
        f"partner is line 3 of {source})."
    )
    with pytest.raises(FileError, match=rf"the first without a partner is line 3 of {source}"):
        read_parallel(target, source)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("naïve\nça\n".encode() + b"na\xefve\n", "line 3: byte 3 of the line (0xef) is not UTF-8"),
        ("20 € – cut ".encode() + b"\xe2\x82\n", "line 1: byte 16 of the line (0xe2) is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "line 1: byte 1 of the line (0x89) is not UTF-8"),
    ],
)
def test_an_encoding_error_names_file_and_line(tmp_path: Path, data: bytes, sentence: str) -> None:
    source, target = parallel(tmp_path, "a\nb\n", data)
    with pytest.raises(FileError) as caught:
        read_parallel(source, target)
    assert str(caught.value).startswith(f"{target}, {sentence}")


def test_a_missing_file_a_folder_and_nothing_left_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", "a\n")
    with pytest.raises(FileError, match=r"There is no file .*nowhere\.fr"):
        read_parallel(source, tmp_path / "nowhere.fr")
    with pytest.raises(FileError, match="is a folder"):
        read_parallel(source, tmp_path)
    empty = write(tmp_path / "empty", "")
    with pytest.raises(FileError, match="the file is empty"):
        read_parallel(empty, empty)
    blank = write(tmp_path / "blank", "\n\n")
    with pytest.raises(FileError, match=r"2 were read, and 2 dropped \(empty on both sides\)"):
        read_parallel(blank, blank)


@pytest.mark.parametrize("options", [{"max_length": 0}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}])
def test_cleaning_refuses_limits_that_drop_everything(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="must be"):
        Cleaning(**options)  # type: ignore[arg-type]


EXPECTED = [("The cat, it sat.", "Le chat"), ('A "dog"', "Un chien")]


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        ("a.tsv", 'id\tsource\ttarget\n7\tThe cat, it sat.\tLe chat\n8\tA "dog"\tUn chien\n', [2, 3]),
        ("a.csv", 'target,source\r\nLe chat,"The cat, it sat."\r\n"Un\nchien","A ""dog"""\r\n', [2, 3]),
        (
            "a.jsonl",
            '{"source": "The cat, it sat.", "target": "Le chat"}\n{"target": "Un\\nchien", "source": "A \\"dog\\""}',
            [1, 2],
        ),
    ],
)
def test_tables_by_name(tmp_path: Path, name: str, data: str, lines: list[int]) -> None:
    pairs, _ = read_table(write(tmp_path / name, data))
    assert [(pair.source, pair.target) for pair in pairs] == EXPECTED
    assert [pair.line for pair in pairs] == lines


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.tsv", "z\tx\ty\n"), ("a.csv", "z,x,y\n"), ("a.jsonl", '["z", "x", "y"]\n')],
)
def test_tables_by_number(tmp_path: Path, name: str, data: str) -> None:
    pairs, _ = read_table(write(tmp_path / name, data), source=1, target=2)
    assert pairs == [Pair("x", "y", 1)]


def test_a_header_is_found_and_can_be_denied_or_demanded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "source\ttarget\na\tx\n")
    assert [pair.line for pair in read_table(path)[0]] == [2]
    assert [pair.line for pair in read_table(path, header=False)[0]] == [1, 2]
    assert [pair.line for pair in read_table(path, 0, 1)[0]] == [1, 2]
    pairs, report = read_table(path, 1, 0, header=True)
    assert [pair.line for pair in pairs] == [2]
    assert report.notes == ("columns 1 (target), 0 (source), numbered from 0, after a header in line 1",)
    bare = write(tmp_path / "b.tsv", "a\tx\nb\ty\n")
    pairs, report = read_table(bare)
    assert [pair.source for pair in pairs] == ["a", "b"]
    assert report.notes == ("columns source, target, read as numbers 0, 1: no header, so line 1 is data",)


def test_rows_after_a_quoted_line_break_keep_their_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'source,target\n"a\nb",x\nc,y\n')
    assert [(pair.source, pair.line) for pair in read_table(path)[0]] == [("a b", 2), ("c", 4)]


def test_empty_rows_are_reported_not_refused(tmp_path: Path) -> None:
    for name, data in [("a.tsv", "a\tx\n\nb\ty\n"), ("a.csv", "a,x\n\nb,y\n"), ("a.jsonl", '["a","x"]\n\n["b","y"]\n')]:
        _, report = read_table(write(tmp_path / name, data), 0, 1)
        assert report.finding("empty").first == (2,)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.tsv", "source\ttarget\na\tb\tc\n", "line 2: the line has 3 columns; expected 2, as in the first line."),
        ("a.csv", "source,target\na\n", "line 2: the line has 1 column; expected 2, as in the first line."),
        ("a.csv", 'source,target\na,b\n"open,\nc,d\n', "line 3: this is not a CSV row"),
        ("a.tsv", "en\tfr\tde\n", "line 1: there is no column named 'source'; the line has: 'en', 'fr', 'de'; if"),
        ("a.tsv", "source\tsource\ttarget\n", "line 1: 2 columns are named 'source'; expected one."),
        (
            "a.jsonl",
            '{"source": "a"}\n',
            "line 1: there is no column 'target'; the line has: 'source'; choose columns with --columns.",
        ),
        ("a.jsonl", '{"source": "a", "target": 3}\n', "line 1: column 'target' is 3; expected text."),
        ("a.jsonl", '{"source": "a", "target": NaN}\n', "line 1: this is not JSON (NaN is not a JSON value)."),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"so', "line 2: this is not JSON"),
        ("a.jsonl", '"text"\n', "line 1: expected an object or an array"),
        ("a.jsonl", '{"source": "\\ud800", "target": "b"}\n', "line 1: column 'source' contains half of a surrogate"),
    ],
)
def test_a_bad_row_names_file_and_line(tmp_path: Path, name: str, data: str, sentence: str) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(FileError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}, {sentence}")


def test_what_to_do_about_data_that_looks_like_a_header(tmp_path: Path) -> None:
    sentences = "".join(f"see {number}\tvois {number}\n" for number in range(11))
    with pytest.raises(FileError, match=r"'Go!', 'Va!' looks like a header.* for evaluate, move the line further down"):
        read_table(write(tmp_path / "first.tsv", f"Go!\tVa!\n{sentences}"), 0, 1)
    assert len(read_table(write(tmp_path / "last.tsv", f"{sentences}Go!\tVa!\n"), 0, 1)[0]) == 12


def test_bad_columns_and_endings_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tx\n")
    with pytest.raises(
        FileError, match=r"there is no column 2; the line has 2 columns.* choose the columns with --columns"
    ):
        read_table(path, 0, 2)
    with pytest.raises(FileError, match="there is no column -1"):
        read_table(path, -1, 0)
    with pytest.raises(FileError, match=r"expected a \.tsv, \.csv or \.jsonl file"):
        read_table(write(tmp_path / "a.xlsx", "a"))
    with pytest.raises(FileError, match=r"a\.json is one JSON value, which has no rows; write it as JSONL \(\.jsonl\)"):
        read_table(write(tmp_path / "a.json", '[\n{"source": "a"}\n]'))
    with pytest.raises(OptionError, match="has no header line"):
        read_table(write(tmp_path / "a.jsonl", "[]"), header=True)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(alphabet="ab \t\r\x85é", max_size=5), st.text(alphabet="xy ", max_size=4))))
def test_every_line_is_kept_or_reported(rows: list[tuple[str, str]]) -> None:
    """Kept lines and dropped lines together are all lines, whatever they hold."""
    rows = [("certain", "sure"), *rows]
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder) / "a.en", "".join(row[0] + "\n" for row in rows))
        target = write(Path(folder) / "a.fr", "".join(row[1] + "\n" for row in rows))
        pairs, report = read_parallel(source, target)
    assert report.read == len(rows)
    assert len(pairs) + sum(finding.count for finding in report.findings) == len(rows)
    kept = [(pair.source, pair.target) for pair in pairs]
    assert len(set(kept)) == len(kept)
    assert all(rows[pair.line - 1][0].strip() == pair.source for pair in pairs)
