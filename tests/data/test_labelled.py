"""Texts with a label each: tables and lines, what is said and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.inputs import read_texts
from saccade.data.labelled import LabelledText, read_labelled
from saccade.data.tables import find_separator
from saccade.errors import FileError
from saccade.tasks.registry import TASKS


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


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Съешь же ещё этих мягких булок", "cp1251"),
        ("Привет", "koi8-r"),
        ("これは良い映画でした", "shift_jis"),
        ("这部电影很好看", "gb18030"),
        ("jego mały żółw chciał całą noc być blisko wody", "cp1250"),
        ("Příliš žluťoučký kůň", "iso8859_2"),
        ("l'élève était déjà là, à la fenêtre", "cp850"),
        ("l'élève était déjà là, à la fenêtre", "mac_roman"),
    ],
)
def test_other_encodings_are_not_guessed(tmp_path: Path, text: str, encoding: str) -> None:
    """A wrong guess would garble every text without an error."""
    file = write(tmp_path / "a.csv", f"text,label\n{text.replace(',', '')},pos\n".encode(encoding))
    with pytest.raises(FileError, match=r"is neither UTF-8 nor western text .*; give its encoding, such as cp1250"):
        read_labelled(file)
    assert read_labelled(file, encoding=encoding)[0][0].text == text.replace(",", "")


@pytest.mark.parametrize("text", ["Żeby…", "été", "à", "l’été — «déjà»", "naïve", "Ærø på Ål", "¿Qué?", "25\xa0°C"])
def test_short_western_texts_are_read(tmp_path: Path, text: str) -> None:
    text = text.replace("Ż", "Z")
    file = write(tmp_path / "a.txt", f"pos {text}\n".encode("cp1252"))
    assert read_labelled(file)[0][0].text == text.replace("\xa0", " ")


def test_json_truth_values_are_labels_and_no_texts(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"text": "x", "label": true}\n')
    assert read_labelled(file)[0][0].label == "true"
    for written, label in (("1.5", "1.5"), ("1.0", "1"), ("1", "1"), ("-0.0", "0"), ("1e3", "1000")):
        assert read_labelled(write(file, f'{{"text": "x", "label": {written}}}\n'))[0][0].label == label
    for written in ("1e999", "null", "[1]"):
        with pytest.raises(FileError, match=r"line 1: column 'label' is .*; expected text\."):
            read_labelled(write(file, f'{{"text": "x", "label": {written}}}\n'))
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
        (
            "a.jsonl",
            '{"text": "x"}\n',
            "{file}, line 1: there is no column 'label'; the line has: 'text'; choose columns with --columns.",
        ),
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


SEMICOLONS = [f"{('pos', 'neg')[n % 2]};the film {n}, was {('fine', 'dull')[n % 2]}" for n in range(30)]


@pytest.mark.parametrize("header", [[], ["label;text"]])
def test_a_file_that_two_separators_divide_is_asked_about(tmp_path: Path, header: list[str]) -> None:
    """Exactly one comma in each line divides it like the semicolon, but into other texts."""
    file = write(tmp_path / "a.csv", "".join(f"{line}\n" for line in [*header, *SEMICOLONS]))
    expected = [tuple(line.split(";")) for line in SEMICOLONS]
    if header:
        found, report = read_labelled(file)
        assert "separated by semicolons" in report.notes
    else:
        asked = r"line 1: the cells .* by commas \(2 cells\) or semicolons \(2 cells\); say which it is, such as --set"
        with pytest.raises(FileError, match=asked):
            read_labelled(file)
        found, _ = read_labelled(file, separator=";")
    assert [(one.label, one.text) for one in found] == expected


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        (["pos;one, two", "neg;three"], ";"),  # only semicolons divide each line
        (["pos,one; two", "neg,three"], ","),
        (["pos\tone, two", "neg\tthree"], "\t"),
        (['pos,"one; two"', 'neg,"three; four"'], ","),  # with ; there would be quotes inside cells
        (['"pos";"one, two"', '"neg";"three, four"'], ";"),
        (['pos;"one ""two"", or so"', 'neg;"three, four"'], ";"),
        (["pos;a, b, c", "neg;d, e, f"], ";"),  # with commas there would be three columns, which nobody named
        (["pos,one", "neg,two, three"], ","),  # none divides all lines: the line that does not fit is named
    ],
)
def test_the_separator_is_the_only_one_that_divides_each_line(tmp_path: Path, lines: list[str], mark: str) -> None:
    file = write(tmp_path / "a.csv", "".join(f"{line}\n" for line in lines))
    assert find_separator(file, "utf-8", ("label", "text"), ("label", "text")) == mark


def test_rows_over_many_lines_have_one_separator(tmp_path: Path) -> None:
    rows = [f'pos;"a\nb, {"c" * (n % 3)}"' for n in range(700)]  # more lines than are looked at
    file = write(tmp_path / "a.csv", "".join(f"{row}\n" for row in rows))
    assert len(read_labelled(file)[0]) == 700


def test_a_tab_in_a_text_of_fasttext_ends_no_label(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        file = write(tmp_path / "a.txt", "__label__a so\tgood\n__label__b not\tbad\n".encode(encoding))
        assert [(one.label, one.text) for one in read_labelled(file)[0]] == [
            ("__label__a", "so good"),
            ("__label__b", "not bad"),
        ]
    with pytest.raises(FileError, match=r"line 1: the line begins with several labels; .* set data\.label_separator\."):
        read_labelled(write(file, "__label__a __label__b so good\n"))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a b\tso good\nc d\tnot\tbad\n", ["a b", "c d"]),  # each line has a tab: it ends the label
        ("a so\tgood\nb not bad\n", ["a", "b"]),  # a line has none: a space does
        ("a\tso good\nb not\tbad\nc fine\n", ["a", "b", "c"]),
    ],
)
def test_what_ends_a_label_is_the_same_in_all_lines(tmp_path: Path, text: str, labels: list[str]) -> None:
    assert [one.label for one in read_labelled(write(tmp_path / "a.txt", text))[0]] == labels


def test_a_cell_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    """Python's csv module would refuse cells of more than 128 KiB."""
    path, text = tmp_path / "a.csv", "word " * 200_000
    path.write_text(f'text,label\n"{text}",good\n')
    assert [one.text for one in read_labelled(path)[0]] == [text.strip()]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("blank", ["", "  ", " \t"])
def test_a_line_of_white_space_is_blank(tmp_path: Path, name: str, blank: str) -> None:
    path, mark = tmp_path / name, "," if name == "a.csv" else "\t"
    path.write_text(f"text{mark}label\nso fine{mark}good\n{blank}\nso bad{mark}bad\n{blank}\n")
    assert [one.text for one in read_labelled(path)[0]] == ["so fine", "so bad"]


def test_a_single_bad_row_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\nso fine\tgood\nso\n")
    assert any(
        note.startswith("1 bad row was skipped, the first:") for note in read_labelled(path, skip_bad=True)[1].notes
    )


def test_the_names_in_line_1_are_proposed_for_columns(tmp_path: Path) -> None:
    """The columns 0,1 would be refused next, because line 1 is no label and text."""
    path, reader = tmp_path / "a.csv", TASKS["classification"].data
    rows = "".join(f"a film of {n},{('good', 'bad')[n % 2]}\n" for n in range(30))
    path.write_text(f"review,sentiment\n{rows}")
    with pytest.raises(FileError, match=r"such as --columns review,sentiment if line 1 names the columns"):
        reader.read(reader.settings.read({"file": str(path)}, "the test"), 1)
    found = reader.read(reader.settings.read(reader.table([path], "review,sentiment"), "the test"), 1)
    assert {one.label for one in found.train} == {"good", "bad"}
