"""Sentences with a label for each word: what is read, what is said, what is refused and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.data.labels import note_unseen
from saccade.data.lines import InheritedEncoding
from saccade.data.tagged import TaggedSentence, read_tagged
from saccade.errors import FileError, OptionError

ROWS = [
    "1\tYou\tyou\tPRON\tPRP\tCase=Nom\t2\tnsubj\t_\t_",
    "2-3\tcannot\t_\t_\t_\t_\t_\t_\t_\t_",
    "2\tcan\tcan\tAUX\tMD\tVerbForm=Fin\t0\troot\t_\t_",
    "3\tnot\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_",
    "3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t2:conj\t_",
]
CONLLU = (
    "# sent_id = 1\n# text = You cannot\n" + "\n".join(ROWS) + "\n\n# sent_id = 2\n1\tGo\tgo\tVERB" + "\t_" * 6 + "\n"
)


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_words_of_a_multi_word_token_are_taken_and_empty_nodes_are_not(tmp_path: Path) -> None:
    file = write(tmp_path / "a.conllu", CONLLU)
    sentences, report = read_tagged(file)
    assert sentences == [
        TaggedSentence(("You", "can", "not"), ("PRON", "AUX", "PART"), (3, 5, 6), str(file)),
        TaggedSentence(("Go",), ("VERB",), (10,), str(file)),
    ]
    assert (report.read, report.kept, report.lengths.longest) == (2, 2, 3)
    assert report.labels == {"PRON": 1, "AUX": 1, "PART": 1, "VERB": 1}


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("xpos", ("PRP", "MD", "RB")),
        ("feats", ("Case=Nom", "VerbForm=Fin", "_")),
        ("deprel", ("nsubj", "root", "advmod")),
    ],
)
def test_any_column_of_conllu_can_be_the_label(tmp_path: Path, column: str, labels: tuple[str, ...]) -> None:
    sentences, _ = read_tagged(write(tmp_path / "a.conllu", CONLLU), label_column=column)
    assert sentences[0].labels == labels
    by_lemma, _ = read_tagged(write(tmp_path / "a.conllu", CONLLU), "lemma", column)
    assert by_lemma[0].words == ("you", "can", "not")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.txt", "The DET\ncat NOUN\n\nGo VERB\n", {}),
        ("a.txt", "The  DET \r\ncat\u00a0NOUN\r\n\r\n\r\nGo VERB", {}),
        ("a.tsv", "The\tx\tDET\ncat\ty\tNOUN\n\nGo\tz\tVERB\n", {}),
        ("a.conll", "-DOCSTART- -X- O\n\nThe x DET\ncat y NOUN\n\nGo z VERB\n", {}),
        (
            "a.csv",
            "word,pos\n-DOCSTART-,O\nThe,DET\ncat,NOUN\n-DOCSTART-\nGo,VERB\n",
            {"word_column": "word", "label_column": "pos"},
        ),
        ("a.txt", "x|DET|The\ny|NOUN|cat\n\nz|VERB|Go\n", {"separator": "|", "word_column": "2", "label_column": "1"}),
        ("a.csv", 'pos,word\nDET,The\nNOUN,"cat"\n\nVERB,Go\n', {"word_column": "word", "label_column": "pos"}),
    ],
)
def test_columns_with_any_separator(tmp_path: Path, name: str, text: str, options: dict[str, str]) -> None:
    sentences, _ = read_tagged(write(tmp_path / name, text), **options)  # type: ignore[arg-type]
    assert [(sentence.words, sentence.labels) for sentence in sentences] == [
        (("The", "cat"), ("DET", "NOUN")),
        (("Go",), ("VERB",)),
    ]


def test_what_was_chosen_and_found_is_in_the_report(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "a X\n\na X\n\na Y\n\nb X\nb X\nb X\n")
    sentences, report = read_tagged(file, max_length=2)
    assert len(sentences) == 3
    assert dict(report.rows()) == {
        "file": str(file),
        "note": "columns 0 and 1, numbered from 0, separated by white space",
        "sentences read": "4",
        "sentences kept": "3",
        "length in words": "mean 1.0, median 1, 95th percentile 1, longest 1",
        "2 labels": "X 2, Y 1",
        "too long": "1 dropped: line 7",
        "duplicates": "1 kept: line 3",
        "same text, other labels": "1 kept: line 5",
    }


def test_another_encoding_is_found_and_said_or_given(tmp_path: Path) -> None:
    prose = (
        "déjà l'élève était assis près de la fenêtre quand le garçon entra dans la forêt où tombait la première neige"
    )
    lines = "".join(f"{word} X\n" for word in prose.split() * 3)
    for encoding in ("cp1252", "utf-16"):
        file = write(tmp_path / f"{encoding}.txt", lines.encode(encoding))
        sentences, report = read_tagged(file)
        assert sentences[0].words[:3] == ("déjà", "l'élève", "était")
        assert encoding.upper() in report.notes[0] or "was read as" in report.notes[0]
        given, report = read_tagged(file, encoding=encoding)
        assert given == sentences
        assert "read as" not in report.notes[0]
    for name in ("latin-99", "idna", "undefined", "a\0"):
        with pytest.raises(OptionError, match=r"There is no encoding .*; try utf-8,"):
            read_tagged(file, encoding=name)
    with pytest.raises(FileError, match=r"cp1252\.txt, after line 0: the text is not utf-16 \("):
        read_tagged(write(tmp_path / "cp1252.txt", b"\xe9 N\n\n"), encoding="utf-16")
    for given in map(InheritedEncoding, ("utf-16", "latin-1")):  # is for files that are not UTF-8
        assert read_tagged(write(tmp_path / "a.txt", "é N\n".encode()), encoding=given)[0][0].words == ("é",)
    japanese = write(tmp_path / "j.txt", "日本 N\n".encode("iso-2022-jp"))  # has only ASCII bytes
    assert read_tagged(japanese, encoding="iso-2022-jp")[0][0].words == ("日本",)


NONE = "There are no sentences in {file}: "
LINE = "{file}, line "


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.conllu", "", {}, NONE + "the file is empty."),
        ("a.txt", "\n\n", {}, NONE + "the file is empty."),
        ("a.txt", "a X\nb X\n", {"max_length": 1}, NONE + "1 read, all longer than 1 word."),
        (
            "a.txt",
            "a X\nb\n",
            {},
            LINE + "2: the line has 1 column; expected 2, as in line 1, or a blank line between sentences.",
        ),
        (
            "a.txt",
            "\na\nb\n",
            {},
            LINE + "2: there is only one column (separator: white space); expected a word and a label.",
        ),
        ("a.tsv", "a\tX\nb\t\n", {}, LINE + "2: there is no label; expected a word and its label."),
        (
            "a.txt",
            "a X\n",
            {"label_column": "2"},
            LINE + "1: there is no column 2; the line has 2 columns, numbered from 0; choose the columns with "
            "--columns or, in a recipe, in [data].",
        ),
        (
            "a.txt",
            "word pos\na X\n",
            {"word_column": "word", "label_column": "tag"},
            LINE + "1: there is no column named 'tag'; the line has: 'word', 'pos'; choose columns with "
            "--columns, by number (such as 0,1) if the file has no header line.",
        ),
        (
            "a.conll",
            "# text\n1-2\t" + "x\t" * 8 + "_\n1\t" + "x\t" * 8 + "_\n",
            {},
            "{file} looks like CoNLL-U, whose words are not in the first column; rename it to end in .conllu, or say "
            "which columns have the words and the labels, such as --columns 1,3.",
        ),
        (
            "a.csv",
            "Word,POS\nform,X\n",
            {},
            "{file}: the first line, 'Word POS', looks like a header; say which columns have the words and the labels, "
            "such as --columns Word,POS, or --columns 0,-1 if the line is data.",
        ),
        ("a.jsonl", "[]", {}, "{file} is a JSON file; words and labels are read from CoNLL-U files or columns only."),
        ("a.conllu", "1\tGo\n", {}, LINE + "1: the line has 2 columns; CoNLL-U has 10, separated by tabs."),
        (
            "a.conllu",
            "# x\nGo VERB\n",
            {},
            LINE
            + "2: this is not a line of CoNLL-U (Invalid line format, line must contain either tabs or two spaces.).",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(
    tmp_path: Path, name: str, text: str, options: dict[str, str], message: str
) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(FileError) as caught:
        read_tagged(file, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message.format(file=file)


def test_a_column_that_conllu_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"CoNLL-U has no column 'pos'; its columns are id, form,"):
        read_tagged(write(tmp_path / "a.conllu", CONLLU), label_column="pos")


def test_a_label_that_was_never_learned_is_named_with_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "a X\n\nb X\nc Z\n")
    sentences, _ = read_tagged(file)
    assert note_unseen(sentences, {"X", "Z"}) == []
    assert note_unseen(sentences, {"Y", "X"}) == [
        f"1 of 3 labels are not in training and count as errors: Z 1 (first: {file}, line 4)"
    ]
    with pytest.raises(FileError) as caught:
        note_unseen(sentences, {"Y", "Z"})
    assert str(caught.value) == (
        f"{file}, line 1: the label 'X' is not in the training data; most of the other labels are unknown too. The "
        "known labels are Y, Z. If the labels are in another column, choose the columns with --columns."
    )
