"""Plain text: what a document is, what is refused and how, and how the end is held out."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data import documents
from saccade.data.documents import Document, LongText, document_rows, read_documents, read_text_column, split_end
from saccade.errors import FileError, OptionError


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_whole_file_is_taken_character_by_character(tmp_path: Path) -> None:
    text = "One.\n\n Two\u2028.\n\rx\n"
    for written in (text, text.replace("\n", "\r\n")):  # which a language model would learn as a character of its own
        found = read_documents(write(tmp_path / "a.txt", b"\xef\xbb\xbf" + written.encode()), "file")
        assert found == [Document(text, 1)]


def test_a_long_text_with_windows_line_endings_is_cut_where_it_is_cut_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "é\r\n\r\nb\rc\r\n\r\r\nd"
    path = write(tmp_path / "a.txt", text)
    whole = text.replace("\r\n", "\n")
    for size in (1, 2, 3, 5, 100):
        monkeypatch.setattr(documents, "BLOCK", size)
        long = LongText.whole(path)
        assert (long.text, long.characters) == (whole, len(whole))
        for place in range(len(whole) + 1):
            parts = long.cut([place, len(whole)])
            assert [part.text for part in parts] == [whole[:place], whole[place:]]
            assert parts[1].line == 1 + whole.count("\n", 0, place)


def test_lines_and_paragraphs_know_where_they_begin(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n\none\ntwo\n \n\nthree\n")
    assert read_documents(path, "paragraph") == [Document("one\ntwo", 3), Document("three", 7)]
    assert read_documents(write(tmp_path / "b.txt", "one\ntwo\n"), "line") == [Document("one", 1), Document("two", 2)]


def test_labels_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "1 good film\n0 bad  one\n")
    assert read_documents(path, "line", labelled=True) == [Document("good film", 1), Document("bad  one", 2)]
    with pytest.raises(FileError, match=r"a.txt, line 2: expected a label, a space and a text; got '0'"):
        read_documents(write(path, "1 good\n0\n"), "line", labelled=True)
    with pytest.raises(OptionError, match="documents must be lines, not 'file'"):
        read_documents(path, "file", labelled=True)


@pytest.mark.parametrize("unit", ["file", "line", "paragraph"])
def test_a_file_without_text_is_refused(tmp_path: Path, unit: str) -> None:
    for data in ("", " \n\n"):
        with pytest.raises(FileError, match=r"a.txt, line 1: the file contains no text; expected at least one"):
            read_documents(write(tmp_path / "a.txt", data), unit)


def test_an_empty_document_is_named_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"a.txt, line 2: the document is empty; .* --set data.documents=paragraph"):
        read_documents(write(tmp_path / "a.txt", "one\n\ntwo\n"), "line")
    with pytest.raises(FileError, match=r"a.csv, line 3: the document is empty; expected text in column 'text'"):
        read_text_column(write(tmp_path / "a.csv", "label,text\n1,good\n0,\n"), "text")


def test_a_column_of_a_table_is_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "label\ttext\n1\tgood\n0\tbad\n")
    assert read_text_column(path, "text") == [Document("good", 2), Document("bad", 3)]
    with pytest.raises(FileError, match="there is no column named 'body'"):
        read_text_column(path, "body")


@pytest.mark.parametrize("unit", ["file", "line", "paragraph"])
def test_what_is_not_utf_8_is_named_by_line_and_byte(tmp_path: Path, unit: str) -> None:
    with pytest.raises(FileError, match=r"a.txt, line 2: byte 3 of the line \(0xe9\) is not UTF-8"):
        read_documents(write(tmp_path / "a.txt", "été\n".encode() + b"ca\xe9\n"), unit)
    with pytest.raises(FileError, match="There is no file"):
        read_documents(tmp_path / "none.txt", unit)


def test_the_end_of_one_text_is_held_out_by_characters() -> None:
    text = "0123\n56789abcdefghijk"  # 21 characters: 0.9 · 21 = 18.9
    train, validation, test = split_end([Document(text, 4)], [0.1, 0.0])
    assert train == [Document(text[:18], 4)]
    assert validation == [Document(text[18:], 5)]
    assert test == []


def test_the_end_of_many_documents_is_held_out_by_their_number() -> None:
    documents = [Document(str(number), number) for number in range(1, 11)]
    train, validation, test = split_end(documents, [0.2, 0.1])
    assert [len(part) for part in (train, validation, test)] == [7, 2, 1]
    assert [*train, *validation, *test] == documents


def test_the_report_says_what_was_found() -> None:
    assert dict(document_rows("a.txt", [Document("ab\nba", 1)])) == {
        "file": "a.txt",
        "characters": "5",
        "different characters": "3",
        "lines": "2",
    }
    assert dict(document_rows("a.txt", [Document("ab\nba\n", 1)]))["lines"] == "2"
    many = dict(document_rows("a.txt", [Document("ab", 1), Document("cdef", 2)]))
    assert many["documents"] == "2"
    assert many["characters per document"].startswith("mean 3.0, median 3")
