"""Whatever texts a file has, in whatever format and encoding: every way to read it gives the same inputs."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from toy_labels import classification, tagging, toy_sentences, toy_texts

from saccade.data.documents import Document
from saccade.data.labelled import LabelledText, read_labelled
from saccade.data.tagged import TaggedSentence
from saccade.errors import FileError
from saccade.models import Config
from saccade.tasks.base.predictor import NoOptions, Predictor
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.registry import TASKS
from saccade.tasks.translation.gold import GoldPair
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer

WORDS = Tokenizer.train(["a dog", "un chien"], "word")
#: Letters of Latin-1, so that every encoding here can write them, and what has a meaning in some format.
WORD = st.text("abcéüß0127\"',;:|#{}[]<>-_.&%", min_size=1, max_size=6)
TEXT = st.lists(WORD, min_size=1, max_size=5).map(" ".join)
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-8-sig": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda text: text.encode("utf-16"),
    "latin-1": lambda text: text.encode("latin-1"),
}


class Kind(NamedTuple):
    """A task that reads a table of texts: the names of its columns and of the keys that name them in a recipe."""

    task: Task
    names: tuple[str, ...]
    keys: tuple[str, ...]
    cells: st.SearchStrategy[tuple[str, ...]]  # one row; the first cell is the input
    source: Callable[[Any], Any]


KINDS = {
    "classification": Kind(
        classification(toy_texts(20, seed=1)),
        ("text", "label"),
        ("text_column", "label_column"),
        st.tuples(TEXT, st.sampled_from(["good", "bad"])),
        lambda one: one.text,
    ),
    "translation": Kind(
        Translation(TranslationState(WORDS, WORDS)),
        ("source", "target"),
        ("source_column", "target_column"),
        st.tuples(TEXT, TEXT),
        lambda one: one.source,
    ),
    "language-model": Kind(
        LanguageModel(LanguageModelState(WORDS, 8, separated=True)),
        ("text",),
        ("column",),
        st.tuples(TEXT),
        lambda one: one.text,
    ),
}


SLOWLY = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TAGGING = tagging(toy_sentences(20, seed=1))


def table(kind: str, header: list[str], rows: list[list[str]], line_end: str) -> str:
    """The rows in a format."""
    if kind == ".jsonl":
        return "".join(json.dumps(dict(zip(header, row, strict=True))) + line_end for row in rows)
    written = io.StringIO()
    if kind == ".csv":
        csv.writer(written, lineterminator=line_end).writerows([header, *rows])
        return written.getvalue()
    return "".join("\t".join(row) + line_end for row in [header, *rows])


def opened(kind: str, read_as: dict[str, Any]) -> Predictor:
    made = TAGGING if kind == "tagging" else KINDS[kind].task
    options = SearchOptions() if isinstance(made, Translation) else NoOptions()
    return TASKS[kind].predictor(Bundle(made, "transformer", Config(), nn.Identity(), options, read_as))


def rows_of(one: Any) -> list[list[str]]:
    """The words of a sentence with their features."""
    return [[word, *more] for word, more in zip(one.words, one.features, strict=True)]


def assert_alike(
    kind: str,
    data: dict[str, Any],
    content: bytes,
    name: str,
    source: Callable[[Any], Any],
    is_trained: bool = True,
) -> list[Any]:
    """The inputs in a file, which are those of training, of scoring, of a stream and of the server."""
    reader = TASKS[kind].data
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        held_out = path.with_name(f"validation-{name}")
        for file in (path, held_out):
            file.write_bytes(content)
        read_as = data | reader.table([path, held_out], None)
        checked = reader.settings.read(read_as, "the test")
        scored = [source(one) for one in reader.read_for_scoring(checked)]
        if is_trained:  # which drops empty and repeated pairs
            assert [source(one) for one in reader.read(checked, 1).train] == scored
        predictor = opened(kind, read_as)
        assert predictor.read_file(path)[0] == scored
        assert predictor.read_stream(io.BytesIO(content))[0] == scored
        assert predictor.read_bytes(content)[0] == scored
    return scored


@SLOWLY
@given(
    st.lists(st.tuples(TEXT, st.sampled_from(["good", "bad"])), min_size=2, max_size=6, unique_by=lambda row: row[0]),
    st.sampled_from(["lines", "first", "numbers"]),
    st.sampled_from(list(ENCODINGS)),
    st.booleans(),
)
def test_labelled_texts_without_a_header(rows: list[tuple[str, str]], form: str, encoding: str, explicit: bool) -> None:
    """Lines with a label and a text; a table whose columns nobody chose; and columns by number, with another one."""
    if form == "lines":
        name, lines = "a.txt", [f"{label} {text}" for text, label in rows]
    else:
        name = "a.tsv"
        lines = [f"{label}\t{text}" if form == "first" else f"{text}\tx\t{label}" for text, label in rows]
    read_as: dict[str, Any] = {"text_column": "0", "label_column": "2"} if form == "numbers" else {}
    if encoding == "latin-1":
        read_as["encoding"] = encoding
    content = ENCODINGS[encoding]("".join(f"{line}\n" for line in lines))
    assert assert_alike("classification", read_as, content, name, lambda one: one.text) == [text for text, _ in rows]
    if form == "first" and explicit:  # names that somebody chose must be in the file
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")  # a guessed encoding could fail
            with pytest.raises(FileError, match="there is no column named"):
                TASKS["classification"].data.table([path], "text,label")


@SLOWLY
@given(st.data(), st.sampled_from(["classification", "translation"]), st.sampled_from([".csv", ".jsonl"]))
def test_bad_rows_are_skipped_alike(data: st.DataObject, kind: str, suffix: str) -> None:
    """Rows that lack a cell or a column, among good ones."""
    one = KINDS[kind]
    good = data.draw(st.lists(one.cells, min_size=2, max_size=4, unique_by=lambda row: row[0]))
    bad = data.draw(st.lists(st.sampled_from([["only"], ["a", ""], ["", "good"], ["a", "b", "c"], []]), max_size=3))
    first, *others = [list(row) for row in good]
    rows = [first, *data.draw(st.permutations([*others, *bad]))]
    if suffix == ".csv":
        written = io.StringIO()
        csv.writer(written).writerows([one.names, *rows])
        text = written.getvalue()
    else:
        text = "".join(json.dumps(dict(zip(one.names, row, strict=False))) + "\n" if row else "\n" for row in rows)
    assert_alike(kind, {"skip_bad_rows": True}, text.encode(), f"a{suffix}", one.source, is_trained=False)


@SLOWLY
@given(
    st.lists(
        st.lists(st.tuples(WORD, st.sampled_from(["NOUN", "VERB", "DET"])), min_size=1, max_size=4),
        min_size=2,
        max_size=4,
    ),
    st.permutations(["word", "feature", "label"]),
    st.booleans(),
)
def test_words_with_a_feature_with_and_without_labels(
    sentences: list[list[tuple[str, str]]], order: list[str], has_labels: bool
) -> None:
    columns = [str(order.index(name)) for name in ("word", "label", "feature")]
    read_as = {"word_column": columns[0], "label_column": columns[1], "feature_columns": [columns[2]]}
    shown = order if has_labels else [name for name in order if name != "label"]
    cells = [[{"word": word, "feature": f"f{tag}", "label": tag} for word, tag in one] for one in sentences]
    text = "\n".join("".join("\t".join(word[name] for name in shown) + "\n" for word in one) for one in cells)
    predictor = opened("tagging", read_as | {"file": "train.txt"})
    expected = [[[word, f"f{tag}"] for word, tag in one] for one in sentences]
    for read in (predictor.read_bytes(text.encode()), predictor.read_stream(io.BytesIO(text.encode()))):
        assert read[0] == expected
    if has_labels:
        assert_alike("tagging", read_as, text.encode(), "a.txt", lambda one: rows_of(one), is_trained=False)


@SLOWLY
@given(st.data(), st.sampled_from([*KINDS, "tagging"]), st.booleans())
def test_what_data_split_writes_is_read_by_all(data: st.DataObject, kind: str, numbered: bool) -> None:
    """With the columns of the training files, whatever they are, and nothing else."""
    reader = TASKS[kind].data
    if kind == "tagging":
        words = st.tuples(
            WORD.filter(lambda word: word[0] != "#"), st.sampled_from(["NOUN", "VERB", "DET"]), st.sampled_from("xy")
        )
        sentences = data.draw(st.lists(st.lists(words, min_size=1, max_size=4), min_size=1, max_size=4))
        names = {"word_column": "1", "label_column": "3"} if numbered else {"word_column": "w", "label_column": "t"}
        read_as: dict[str, Any] = names | {"feature_columns": ["0" if numbered else "f"]}
        examples = [
            TaggedSentence(tuple(w), tuple(t), (1,) * len(w), "here", tuple((f,) for f in more))
            for w, t, more in (zip(*one, strict=True) for one in sentences)
        ]
        source = rows_of
    else:
        one = KINDS[kind]
        cells = data.draw(st.lists(one.cells, min_size=2, max_size=4, unique_by=lambda row: row[0]))
        read_as = dict(zip(one.keys, ["2", "0"] if numbered else ["my a", "b"], strict=False))
        source = one.source
        made = {
            "classification": lambda a, b: LabelledText(a, b, 1, "here"),
            "translation": lambda a, b: GoldPair(a, b, 1),
        }
        examples = [made.get(kind, lambda a, b="": Document(a, 1))(*row) for row in cells]
        if kind == "language-model":
            read_as = {"documents": "line"}
    with TemporaryDirectory() as folder:
        given = {"source": "x", "target": "y"} if kind == "translation" else {}
        file = {"text" if kind == "language-model" else "file": "train.txt"} if kind != "translation" else {}
        settings = reader.settings.read(read_as | given | file, "the test")
        options = reader.write(settings, examples, Path(folder) / "part")
        path = Path(options[1])
        expected = [source(example) for example in examples]
        predictor = opened(kind, read_as | given | file)
        assert predictor.read_file(path)[0] == expected
        if kind != "translation":  # whose parts are two files
            assert [
                source(one)
                for one in reader.read_for_scoring(reader.settings.read(read_as | reader.table([path], None), ""))
            ] == expected


def read_or_refused(read: Callable[[Any], Any], given: Any) -> tuple[Any, str]:
    """What is read, or why it is refused."""
    try:
        return read(given), ""
    except FileError as error:
        return None, str(error)


def packed(text: str, encoding: str, compressed: bool) -> bytes:
    content = ENCODINGS[encoding](text)
    return gzip.compress(content) if compressed else content


@SLOWLY
@given(
    st.lists(st.tuples(st.sampled_from(["good", "bad"]), TEXT), min_size=1, max_size=6),
    st.sampled_from(",;\t"),
    st.booleans(),
)
def test_cells_are_split_where_they_were_joined_or_not_at_all(
    rows: list[tuple[str, str]], mark: str, named: bool
) -> None:
    """Whatever other marks the texts contain, a file is read as it was written, or refused with what decides."""
    written = io.StringIO()
    csv.writer(written, delimiter=mark).writerows([("label", "text")] * named + rows)
    content, reader = written.getvalue().encode(), TASKS["classification"].data
    expected = [text for _, text in rows]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(content)
        for separator in (None, mark):
            data = {"file": str(path), "separator": separator}
            scored, said = read_or_refused(reader.read_for_scoring, reader.settings.read(data, "the test"))
            if said:
                assert separator is None
                assert not named
                assert "--set data.separator=" in said
                continue
            predictor = opened("classification", data)
            assert [one.text for one in scored] == expected
            assert predictor.read_file(path)[0] == predictor.read_stream(io.BytesIO(content))[0] == expected


@SLOWLY
@given(
    st.lists(st.tuples(st.sampled_from(["good", "bad"]), TEXT), min_size=2, max_size=6),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([".tsv", ".txt", ".csv"]),
)
def test_quotes_around_cells_are_removed_or_told(rows: list[tuple[str, str]], quoting: int, suffix: str) -> None:
    """Programs put them around the cells of a table with tabs; a .tsv does not say whether they belong to the texts."""
    written = io.StringIO()
    csv.writer(written, delimiter="\t", quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_text(written.getvalue())
        read, said = read_or_refused(lambda given: read_labelled(given, 1, 0), path)
    if said:  # each text has, say, one semicolon
        assert "--set data.separator=" in said
        return
    texts, report = read
    found = [(one.label, one.text) for one in texts]
    assert found == rows or (suffix != ".csv" and any("quotes around cells" in note for note in report.notes))


@SLOWLY
@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.txt"]))
def test_texts_on_a_stream_are_those_of_a_text_file_or_refused(texts: list[str], trained: str) -> None:
    content = "".join(f"{text}\n" for text in texts).encode()
    for kind, key in (("classification", "file"), ("translation", "table")):
        predictor = opened(kind, {key: trained})
        with TemporaryDirectory() as folder:
            path = Path(folder) / "a.txt"
            path.write_bytes(content)
            read, said = read_or_refused(predictor.read_stream, io.BytesIO(content))
            if said:
                assert "add --lines if each line is a text" in said
            else:
                assert read[0] == predictor.read_file(path)[0] == texts


FORMS = st.tuples(
    st.sampled_from([".csv", ".tsv", ".jsonl"]), st.sampled_from(list(ENCODINGS)), st.sampled_from(["\n", "\r\n"])
)


@SLOWLY
@given(st.data(), st.sampled_from(list(KINDS)), FORMS, st.booleans(), st.booleans(), st.permutations([0, 1, 2]))
def test_tables(
    data: st.DataObject, kind: str, form: tuple[str, str, str], compressed: bool, named: bool, order: list[int]
) -> None:
    """Tables with a further column, with the columns in any order and of any names."""
    one, (suffix, encoding, line_end) = KINDS[kind], form
    rows = data.draw(st.lists(one.cells, min_size=2, max_size=6, unique_by=lambda row: row[0]))
    names = [f"my {name}" for name in one.names] if named else list(one.names)
    places = [place for place in order if place <= len(names)]  # one column more than is needed
    header = [[*names, "more"][place] for place in places]
    cells = [[[*row, f"x{number}"][place] for place in places] for number, row in enumerate(rows)]
    read_as = dict(zip(one.keys, names, strict=True))
    if encoding == "latin-1":
        read_as["encoding"] = encoding
    content = packed(table(suffix, header, cells, line_end), encoding, compressed)
    found = assert_alike(kind, read_as, content, f"a{suffix}{'.gz' * compressed}", one.source)
    assert found == [row[0] for row in rows]


@SLOWLY
@given(
    st.lists(
        st.lists(
            st.tuples(WORD.filter(lambda word: word[0] != "#"), st.sampled_from(["NOUN", "VERB", "DET"])),
            min_size=1,
            max_size=4,
        ),
        min_size=2,
        max_size=5,
        unique_by=str,
    ),
    st.sampled_from([" ", "\t"]),
    st.sampled_from(list(ENCODINGS)),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_words_in_columns(
    sentences: list[list[tuple[str, str]]], separator: str, encoding: str, line_end: str, compressed: bool
) -> None:
    lines = ["".join(f"{word}{separator}{label}{line_end}" for word, label in one) for one in sentences]
    read_as = {"encoding": encoding} if encoding == "latin-1" else {}
    content = packed(line_end.join(lines), encoding, compressed)
    found = assert_alike("tagging", read_as, content, f"a.txt{'.gz' * compressed}", lambda one: list(one.words))
    assert found == [[word for word, _ in one] for one in sentences]
