"""Texts with a label each: tables and lines, what is said and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.inputs import read_texts
from saccade.data.labelled import LabelledText, read_labelled
from saccade.errors import FileError


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    ("name", "text", "columns", "lines"),
    [
        ("a.txt", "1 so  good\n\n0 bad\n", (), (1, 3)),
        ("stsa.train", "1\tso good\n0\tbad\n", (), (1, 2)),
        ("a.csv", 'text,label\n"so\ngood",1\nbad,0\n', (), (2, 4)),
        ("a.tsv", "id\tsentence\ty\n7\tso good\t1\n8\tbad\t0\n", ("sentence", "y"), (2, 3)),
        ("a.tsv", "so good\t1\nbad\t0\n", (0, 1), (1, 2)),
        ("a.tsv", "1\tso good\n0\tbad\n", (), (1, 2)),
        ("a.jsonl", '{"text": "so good", "label": 1}\n{"label": "0", "text": "bad"}\n', (), (1, 2)),
    ],
)
def test_the_same_texts_from_every_form(
    tmp_path: Path, name: str, text: str, columns: tuple[str, str], lines: tuple[int, int]
) -> None:
    file = write(tmp_path / name, text)
    texts, report = read_labelled(file, *columns)
    assert texts == [
        LabelledText("so good", "1", lines[0], str(file)),
        LabelledText("bad", "0", lines[1], str(file)),
    ]
    assert report.labels == {"1": 1, "0": 1}
    assert report.lengths.longest == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'label,text\n1,"so\ngood"\n,bad\n'),
        ("a.tsv", "text\tid\nso good\t7\nbad\t8\n"),
        ("a.tsv", "so good\nbad\n"),
        ("a.jsonl", '{"text": "so good", "label": 1.5}\n{"text": "bad"}\n'),
    ],
)
def test_texts_are_read_without_labels(tmp_path: Path, name: str, text: str) -> None:
    assert read_texts(write(tmp_path / name, text), ("label", "text"), 1)[0] == ["so good", "bad"]


@pytest.mark.parametrize("prose", ["un café naïve", "café"])
def test_a_few_western_letters_are_not_taken_for_a_code_page_of_dos(tmp_path: Path, prose: str) -> None:
    texts, report = read_labelled(write(tmp_path / "a.csv", f"text,label\n{prose},pos\n".encode("latin-1")))
    assert texts[0].text == prose
    assert "it was read as cp1252" in report.notes[0]


def test_json_truth_values_are_labels_and_no_texts(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"text": "x", "label": true}\n')
    assert read_labelled(file)[0][0].label == "true"
    with pytest.raises(FileError, match=r"line 1: column 'label' is 1.5; expected text\."):
        read_labelled(write(file, '{"text": "x", "label": 1.5}\n'))
    with pytest.raises(FileError, match=r"line 1: column 'text' is 3; expected text\."):
        read_labelled(write(file, '{"text": 3, "label": 1}\n'))


def test_a_text_with_two_labels_is_reported(tmp_path: Path) -> None:
    _, report = read_labelled(write(tmp_path / "a.txt", "1 fine\n0 fine\n1 fine\n"))
    rows = dict(report.rows())
    assert rows["same text, other labels"] == "1 kept: line 2"
    assert rows["duplicates"] == "1 kept: line 3"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "There are no texts in {file}: the file is empty."),
        ("a.txt", "1 good\n0\n", "{file}, line 2: the label '0' has no text; expected a label and a text."),
        ("a.csv", "label,text\n1,\n", "{file}, line 2: the label '1' has no text; expected a label and a text."),
        ("a.csv", "label,text\n,good\n", "{file}, line 2: the text has no label; expected a label and a text."),
        ("a.csv", "label,text\n1\n", "{file}, line 2: the line has 1 column; expected 2, as in the first line."),
        (
            "a.csv",
            "y,a,b\n1,x,z\n",
            "{file}, line 1: there is no column named 'label'; the line has: 'y', 'a', 'b'; if the file has no header "
            "line, give the columns by number, such as 0,1.",
        ),
        ("a.jsonl", '{"text": "x"}\n', "{file}, line 1: there is no column 'label'; the line has: 'text'."),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(FileError) as caught:
        read_labelled(file)
    assert str(caught.value) == message.format(file=file)


def test_bad_rows_are_skipped_on_request_and_counted(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("good\ta text\nbad\nbad\t\n\ttwo texts\ngood\tthree\ttexts\nbad\tlast\n")
    with pytest.raises(FileError, match="line 2: the line has 1 column"):
        read_labelled(path)
    found, report = read_labelled(path, skip_bad=True)
    assert [(one.label, one.text, one.line) for one in found] == [("good", "a text", 1), ("bad", "last", 6)]
    assert report.notes[-1] == (
        f"4 bad rows were skipped, the first: {path}, line 2: the line has 1 column; expected 2, as in the first line"
    )
    assert report.read == 2
