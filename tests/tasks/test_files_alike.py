"""A file that a task is trained on and scored by is the file that is predicted: one reader for all three."""

from __future__ import annotations

import codecs
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn
from toy_labels import classification, tagging, toy_sentences, toy_texts

from saccade.data.lines import ChosenEncoding, InheritedEncoding
from saccade.data.structures import Molecule, from_dot_bracket, to_connectivity_table
from saccade.data.tagged import TaggedSentence
from saccade.errors import FileError, InputTypeError, OptionError
from saccade.models import Config
from saccade.tasks.base.predictor import NoOptions, Predictor
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.masked.task import MaskedLanguageModel, MaskedLanguageModelState
from saccade.tasks.registry import TASKS
from saccade.tasks.text_autoencoder.task import TextAutoencoder, TextAutoencoderState
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer

TEXTS = [
    ("good", "a great film"),
    ("bad", "not, at all, great"),
    ("good", "so — très — fine"),
    ("bad", "good it was not"),
]
SENTENCES = [[("the", "DET"), ("film", "NOUN")], [("rugi", "NOUN"), ("naïveing", "VERB"), (".", "PUNCT")]]
PAIRS = [("a dog", "un chien"), ("no, a cat", "non, un chat"), ("the end", "la fin"), ("café, naïve", "été, Noël")]
WORDS = Tokenizer.train([text for pair in PAIRS for text in pair], "word")


def opened(task: Task, data: dict[str, Any]) -> Predictor:
    options = SearchOptions() if isinstance(task, Translation) else NoOptions()
    return TASKS[task.name].predictor(Bundle(task, "transformer", Config(), nn.Identity(), options, data))


def quoted(cells: tuple[str, ...]) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def json_row(**cells: str) -> str:
    return "{" + ", ".join(f'"{name}": "{cell}"' for name, cell in cells.items()) + "}"


CLASSIFIED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "lines.txt": ({}, [" ".join(one) for one in TEXTS]),
    "tabs.txt": ({}, ["\t".join(one) for one in TEXTS]),
    "plain.tsv": ({}, ["\t".join(one) for one in TEXTS]),
    "headed.txt": ({}, ["text\tlabel", *(f"{text}\t{label}" for label, text in TEXTS)]),
    "three.data": ({"text_column": "2", "label_column": "1"}, [f"x\t{label}\t{text}" for label, text in TEXTS]),
    "packed.tsv.gz": ({}, ["\t".join(one) for one in TEXTS]),
    "headed.tsv": ({}, ["text\tlabel", *(f"{text}\t{label}" for label, text in TEXTS)]),
    "named.tsv": (
        {"text_column": "review", "label_column": "stars"},
        ["id\treview\tstars", *(f"{number}\t{text}\t{label}" for number, (label, text) in enumerate(TEXTS))],
    ),
    "numbered.tsv": (
        {"text_column": "2", "label_column": "0"},
        [f"{label}\tx\t{text}" for label, text in TEXTS],
    ),
    "headed.csv": ({}, ["label,text", *map(quoted, TEXTS)]),
    "plain.csv": ({}, list(map(quoted, TEXTS))),
    "rows.jsonl": ({}, [json_row(label=label, text=text) for label, text in TEXTS]),
    "named.jsonl": (
        {"text_column": "review", "label_column": "stars"},
        [json_row(stars=label, id="7", review=text) for label, text in TEXTS],
    ),
}
TAGGED: dict[str, tuple[dict[str, Any], Callable[[str, str], str], list[str]]] = {
    "spaces.txt": ({}, "{} {}".format, []),
    "tabs.conll": ({}, "{}\t{}".format, []),
    "middle.tsv": ({"word_column": "1", "label_column": "2"}, "x\t{}\t{}\ty".format, []),
    "named.tsv": ({"word_column": "form", "label_column": "pos"}, "{}\t{}".format, ["form\tpos"]),
    "commas.csv": ({}, '"{}",{}'.format, []),
    "bars.txt": ({"separator": "|"}, "{}|{}".format, []),
    "packed.conllu.gz": ({}, "1\t{0}\t_\t{1}\t_\t_\t_\t_\t_\t_".format, ["# sent_id = 1"]),
    "corpus.conllu": ({}, "1\t{0}\t_\t{1}\t_\t_\t_\t_\t_\t_".format, ["# sent_id = 1"]),
}
TRANSLATED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "plain.tsv": ({}, ["\t".join(pair) for pair in PAIRS]),
    "headed.tsv": ({}, ["target\tsource", *(f"{target}\t{source}" for source, target in PAIRS)]),
    "three.tsv": ({"source_column": "0", "target_column": "1"}, [f"{'	'.join(pair)}\tCC-BY" for pair in PAIRS]),
    "headed.csv": ({"source_column": "en", "target_column": "fr"}, ["en,fr", *map(quoted, PAIRS)]),
    "plain.csv": ({}, list(map(quoted, PAIRS))),
    "bad.tsv": ({"skip_bad_rows": True}, [*("\t".join(pair) for pair in PAIRS), "x\ty\tz\t"]),
    "bad.jsonl": (
        {"skip_bad_rows": True},
        [*(json_row(source=source, target=target) for source, target in PAIRS), "{", '["x"]'],
    ),
    "tabs.txt": ({}, ["\t".join(pair) for pair in PAIRS]),
    "packed.csv.gz": ({}, list(map(quoted, PAIRS))),
    "letters.data": ({"source_column": "0", "target_column": "2"}, [f"{a}\tx\t{b}" for a, b in PAIRS]),
    "rows.jsonl": ({}, [json_row(source=source, target=target) for source, target in PAIRS]),
}
FEATURES: dict[str, tuple[dict[str, Any], Callable[[str, str], str], list[str]]] = {
    "spaces.txt": ({"feature_columns": ["1"]}, "{0} f{1} {1}".format, []),
    "named.csv": (
        {"word_column": "form", "label_column": "pos", "feature_columns": ["more"]},
        '"{0}",f{1},{1}'.format,
        ["form,more,pos"],
    ),
    "corpus.conllu": ({"feature_columns": ["xpos"]}, "1\t{0}\t_\t{1}\tf{1}\t_\t_\t_\t_\t_".format, []),
}
ENCODINGS = {
    "utf-8": lambda text: text.encode(),
    "mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "windows": lambda text: text.replace("\n", "\r\n").encode("cp1252"),
    "utf-16": lambda text: text.encode("utf-16"),
    "gzip": lambda text: gzip.compress(text.encode()),
}


def assert_alike(task: Task, path: Path, data: dict[str, Any], source: Callable[[Any], Any]) -> None:
    """The file read to be scored, to be predicted, from a stream, and by the server, without any of its answers."""
    reader = TASKS[task.name].data
    table = {key: value for key, value in data.items() if key not in ("file", "table")} | reader.table([path], None)
    scored = [source(one) for one in reader.read_for_scoring(reader.settings.read(table, "the test"))]
    predictor = opened(task, data)
    predicted, said = predictor.read_file(path)
    assert predicted == scored
    assert said
    assert predictor.read_stream(io.BytesIO(path.read_bytes()))[0] == scored
    assert predictor.read_bytes(path.read_bytes())[0] == scored  # a file that is sent to the server
    assert [predictor.from_json(json.loads(json.dumps(one))) for one in scored] == scored


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", CLASSIFIED)
def test_labelled_texts(tmp_path: Path, name: str, encoding: str) -> None:
    read_as, lines = CLASSIFIED[name]
    path = tmp_path / name
    path.write_bytes(ENCODINGS[encoding]("".join(f"{line}\n" for line in lines)))
    task = classification(toy_texts(20, seed=1))
    assert_alike(task, path, read_as | {"file": str(path)}, lambda one: one.text)
    assert opened(task, read_as | {"file": str(path)}).read_file(path)[0] == [text for _, text in TEXTS]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", TAGGED)
def test_words_in_columns(tmp_path: Path, name: str, encoding: str) -> None:
    read_as, line, header = TAGGED[name]
    path = tmp_path / name
    sentences = ["".join(f"{line(*word)}\n" for word in sentence) for sentence in SENTENCES]
    path.write_bytes(ENCODINGS[encoding]("".join(f"{one}\n" for one in header) + "\n".join(sentences)))
    task = tagging(toy_sentences(20, seed=1))
    assert_alike(task, path, read_as | {"file": str(path)}, lambda one: list(one.words))
    assert opened(task, read_as).read_file(path)[0] == [[word for word, _ in sentence] for sentence in SENTENCES]


@pytest.mark.parametrize("name", FEATURES)
def test_words_with_features_in_columns(tmp_path: Path, name: str) -> None:
    read_as, line, header = FEATURES[name]
    path = tmp_path / name
    sentences = ["".join(f"{line(*word)}\n" for word in sentence) for sentence in SENTENCES]
    path.write_bytes(ENCODINGS["windows"]("".join(f"{one}\n" for one in header) + "\n".join(sentences)))
    reader = TASKS["tagging"].data
    read = reader.read_for_scoring(reader.settings.read(read_as | {"file": str(path)}, "the test"))
    task = tagging(read)
    assert_alike(
        task,
        path,
        read_as | {"file": str(path)},
        lambda one: [list(row) for row in zip(one.words, *zip(*one.features, strict=True), strict=True)],
    )
    assert [one.entries for one in task.state.features] == [["fNOUN", "fDET", "fPUNCT", "fVERB"]]
    with pytest.raises(OptionError, match=r"takes words with their features"):
        opened(task, read_as).prepare("the film")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", TRANSLATED)
def test_pairs(tmp_path: Path, name: str, encoding: str) -> None:
    read_as, lines = TRANSLATED[name]
    path = tmp_path / name
    path.write_bytes(ENCODINGS[encoding]("".join(f"{line}\n" for line in lines)))
    task = Translation(TranslationState(WORDS, WORDS))
    assert_alike(task, path, read_as | {"table": str(path)}, lambda one: one.source)
    assert opened(task, read_as).read_file(path)[0] == [source for source, _ in PAIRS]


MOLECULES = [("GGGAAACCC", "(((...)))"), ("GGAAGGAACCAACC", "((..[[..))..]]"), ("ACGUN", ".....")]
FOLDED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "headed.csv": ({}, ["structure,sequence", *(f"{structure},{sequence}" for sequence, structure in MOLECULES)]),
    "named.tsv": (
        {"sequence_column": "rna", "structure_column": "fold", "id_column": "id"},
        ["id\trna\tfold", *(f"m{n}\t{one}\t{two}" for n, (one, two) in enumerate(MOLECULES))],
    ),
    "rows.jsonl": ({}, [json_row(sequence=sequence, structure=structure) for sequence, structure in MOLECULES]),
    "records.dbn": ({}, [line for n, pair in enumerate(MOLECULES) for line in (f">m{n}", *pair)]),
    "tables.ct": (
        {},
        [
            line
            for sequence, structure in MOLECULES
            for line in to_connectivity_table(
                Molecule(sequence, from_dot_bracket(structure, len(sequence), "here"), "m", 1, "here")
            ).splitlines()
        ],
    ),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", FOLDED)
def test_molecules(tmp_path: Path, name: str, encoding: str) -> None:
    read_as, lines = FOLDED[name]
    path = tmp_path / name
    path.write_bytes(ENCODINGS[encoding]("".join(f"{line}\n" for line in lines)))
    reader = TASKS["base-pairs"].data
    data = read_as | {"file": str(path)}
    scored = [one.sequence for one in reader.read_for_scoring(reader.settings.read(data, "the test"))]
    assert scored == [sequence for sequence, _ in MOLECULES]
    network = nn.Identity()
    network.config = SimpleNamespace(max_length=99)
    task = SimpleNamespace(name="base-pairs")
    predictor = TASKS["base-pairs"].predictor(Bundle(task, "pairs", Config(), network, NoOptions(), data))
    content = path.read_bytes()
    for read in (
        predictor.read_file(path),
        predictor.read_stream(io.BytesIO(content)),
        predictor.read_bytes(content),
    ):
        assert [one.sequence for one in read[0]] == scored


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("name", ["language-model", "masked-language-model"])
def test_texts_in_a_column(tmp_path: Path, name: str, suffix: str, encoding: str) -> None:
    texts = [source for source, _ in PAIRS]
    rows = {
        ".csv": ["id,body", *(quoted((str(n), text)) for n, text in enumerate(texts))],
        ".tsv": ["id\tbody", *(f"{n}\t{text}" for n, text in enumerate(texts))],
        ".jsonl": [json_row(id=str(n), body=text) for n, text in enumerate(texts)],
    }[suffix]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(ENCODINGS[encoding]("".join(f"{row}\n" for row in rows)))
    task: Task = {
        "language-model": lambda: LanguageModel(LanguageModelState(WORDS, 8, separated=True)),
        "masked-language-model": lambda: MaskedLanguageModel(MaskedLanguageModelState(WORDS, 8)),
    }[name]()
    assert_alike(task, path, {"column": "body", "table": str(path)}, lambda one: one.text)
    assert opened(task, {"column": "body"}).read_file(path)[0] == texts


@pytest.mark.parametrize("trained", ["a.txt", "a.tsv", "a.csv", "a.jsonl", "a.conllu"])
@pytest.mark.parametrize("name", ["translation", "classification", "tagging"])
def test_plain_texts_stay_plain_texts(tmp_path: Path, name: str, trained: str) -> None:
    """Whatever the model was trained on; a comma or a word that is also a label changes nothing, unless the training
    file began each line with a label."""
    task: Task = {
        "translation": Translation(TranslationState(WORDS, WORDS)),
        "classification": classification(toy_texts(20, seed=1)),
        "tagging": tagging(toy_sentences(20, seed=1)),
    }[name]
    predictor = opened(task, {"table" if name == "translation" else "file": trained})
    for texts in (["good as it was, it ended"], ["the film", "", "good film, bad end, no"], ["one"], []):
        data = "".join(f"{text}\n" for text in texts).encode()
        (tmp_path / "a.txt").write_bytes(data)
        if name == "classification" and trained in ("a.txt", "a.conllu") and any("good" in text for text in texts):
            for read in (lambda: predictor.read_file(tmp_path / "a.txt"), lambda: predictor.read_bytes(data)):  # noqa: B023
                with pytest.raises(FileError, match=r"1 of \d lines? begins with a label .* add --lines if each line"):
                    read()
            predictor.read_otherwise(lines=True)
        assert predictor.read_file(tmp_path / "a.txt")[0] == texts
        assert predictor.read_stream(io.BytesIO(data))[0] == texts
        predictor.read_otherwise()


#: Two sentences with one comma each, as a table or as texts.
COMMAS = ["not good, not bad", "so fine, so great"]


@pytest.mark.parametrize("trained", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_texts_with_commas_on_a_stream_are_those_of_a_text_file(tmp_path: Path, trained: str) -> None:
    """A table would have labels of the model, or names of its columns."""
    predictor = opened(classification(toy_texts(20, seed=1)), {"file": trained})
    path, content = tmp_path / "a.txt", "".join(f"{line}\n" for line in COMMAS).encode()
    path.write_bytes(content)
    for read in (predictor.read_file(path), predictor.read_stream(io.BytesIO(content)), predictor.read_bytes(content)):
        assert read[0] == COMMAS
    table = b"good,not great\nbad,so fine\n"
    if trained == "a.csv":
        assert predictor.read_stream(io.BytesIO(table))[0] == ["not great", "so fine"]
        with pytest.raises(FileError, match=r"such as --columns 0, or add --lines if each line is a text"):
            predictor.read_file(path.rename(tmp_path / "a.csv"))


@pytest.mark.parametrize("data", [{}, {"source_column": "0", "target_column": "1"}])
def test_a_stream_that_may_be_a_table_or_texts_is_asked_about(data: dict[str, Any]) -> None:
    predictor = opened(Translation(TranslationState(WORDS, WORDS)), {"table": "a.csv", **data})
    content = "".join(f"{line}\n" for line in COMMAS).encode()
    quoted = [b'"Yes", he said.\n"No", she said.\n', content]
    for lines in quoted:
        with pytest.raises(FileError, match="Standard input may be a table, with 2 cells in each line, or texts; add"):
            predictor.read_stream(io.BytesIO(lines))
    predictor.read_otherwise(lines=True)
    assert predictor.read_stream(io.BytesIO(content))[0] == COMMAS
    predictor.read_otherwise(columns="1,0")
    assert predictor.read_stream(io.BytesIO(content))[0] == ["not bad", "so great"]
    predictor.read_otherwise(separator=",", columns="0")
    assert predictor.read_stream(io.BytesIO(content))[0] == ["not good", "so fine"]


def test_a_semicolon_table_is_read_alike_by_all(tmp_path: Path) -> None:
    lines = [f"{('good', 'bad')[n % 2]};it {n}, {'so ' * (n % 2)}fine" for n in range(12)]
    for setting, extra in (({}, " or,"), ({"separator": ";"}, "")):  # once with other numbers of commas, once as given
        path = tmp_path / "a.csv"
        path.write_text("".join(f"{line}{extra * (n % 3)}\n" for n, line in enumerate(lines)))
        task, data = classification(toy_texts(20, seed=1)), {"file": str(path), **setting}
        assert_alike(task, path, data, lambda one: one.text)
        assert opened(task, data).read_file(path)[0][1].startswith("it 1, so fine")


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.csv"])
def test_two_columns_without_names_are_the_two_texts_of_a_model_that_reads_two(tmp_path: Path, name: str) -> None:
    task = classification([replace(one, second="again") for one in toy_texts(20, seed=1)])
    data = {"file": "a.tsv", "text_column": "premise", "second_column": "claim"}
    mark, path = "," if name == "a.csv" else "\t", tmp_path / name
    path.write_text(f"so fine{mark}not bad\na film{mark}a good film\n")
    predictor = opened(task, data)
    expected = [("so fine", "not bad"), ("a film", "a good film")]
    assert predictor.read_file(path)[0] == expected
    if mark == "\t":
        assert predictor.read_stream(io.BytesIO(path.read_bytes()))[0] == expected
    path.write_text(f"one{mark}two\nso fine{mark}not bad\na film{mark}a good film\n")
    with pytest.raises(FileError, match="line 1: 'one', 'two' looks like a header"):
        predictor.read_file(path)


def test_a_table_without_labels(tmp_path: Path) -> None:
    predictor = opened(classification(toy_texts(20, seed=1)), {})
    for name, lines in {"a.tsv": ["text", "so good"], "a.csv": ["so good"], "a.jsonl": ['{"text": "so good"}']}.items():
        (tmp_path / name).write_text("\n".join(lines))
        assert predictor.read_file(tmp_path / name)[0] == ["so good"]


def test_a_fault_in_a_stream_is_named_by_its_line() -> None:
    predictor = opened(classification(toy_texts(20, seed=1)), {"file": "a.jsonl"})
    lines = b'{"text": "so good", "label": "good"}\n{"label": "good"}\n'
    with pytest.raises(FileError, match=r"^Standard input, line 2: there is no column 'text'"):
        predictor.read_stream(io.BytesIO(lines))


@pytest.mark.parametrize("name", TASKS)
def test_a_lone_text_or_path_is_one_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string is a sequence too, of its characters."""
    predictor = TASKS[name].predictor

    class Echo(str):
        """An answer that is its input, and has no score."""

        is_diverged = False

    monkeypatch.setattr(predictor, "parts", lambda self, given: (given,), raising=False)  # a classifier asks its task
    monkeypatch.setattr(predictor, "prepare", lambda self, given, number: given)
    answers = lambda self, pieces, *_: [[Echo(given) for given in piece] for piece in pieces]  # noqa: E731
    monkeypatch.setattr(predictor, "answer_pieces", answers)
    model = predictor(Bundle(None, "transformer", Config(), nn.Identity(), NoOptions()))
    for given in ("one text", ""):
        assert model.predict(given) == [given]
    if issubclass(Path, predictor.input_types):
        assert model.predict(Path("one.png")) == ["one.png"]
    else:
        with pytest.raises(InputTypeError, match=r"Input 1 must be .*, not PosixPath"):
            model.predict(Path("one.png"))
    assert model.predict(["two", "texts"]) == ["two", "texts"]


PROSE = "déjà l'élève était assis près de la fenêtre quand le garçon entra où tombait la première neige de l'été"
LINES = [PROSE[place + 1 :] for place, letter in enumerate(PROSE) if letter == " "]
FILES = {  # of each task that reads text: a suffix, and the lines of a file that it trains on
    "translation": (".tsv", [f"{text}\t{text}" for text in LINES]),
    "tagging": (".txt", [f"{word} X" if word else "" for text in LINES for word in (*text.split(), "")]),
    "classification": (".csv", ["text,label", *(f"{text},{'ab'[n % 2]}" for n, text in enumerate(LINES))]),
    "language-model": (".txt", LINES),
    "masked-language-model": (".txt", LINES),
    "text-autoencoder": (".txt", LINES),
}


@pytest.mark.parametrize("encoding", ["windows", "utf-16"])
@pytest.mark.parametrize("name", FILES)
def test_every_task_finds_the_encoding_of_its_file_and_says_it(tmp_path: Path, name: str, encoding: str) -> None:
    reader, (suffix, lines) = TASKS[name].data, FILES[name]
    read: dict[str, Any] = {}
    for made in ("utf-8", encoding):
        path = tmp_path / f"{made}{suffix}"
        path.write_bytes(ENCODINGS[made]("".join(f"{line}\n" for line in lines)))
        data = reader.settings.read(reader.table([path], None) | {"validation": 0.3}, "the test")
        read[made] = reader.read(data, 1)
    plain, splits = read["utf-8"], read[encoding]
    assert [reader.identity(one) for one in splits.train] == [reader.identity(one) for one in plain.train]
    said = [*splits.notes, *(value for _, value in splits.rows)]
    assert any(text.startswith(f"{path} is ") and ("cp1252" in text or "UTF-16" in text) for text in said)
    path.write_bytes(ENCODINGS["utf-8"]("".join(f"{line}\n" for line in lines)) + b"caf\xe9\n")
    with pytest.raises(FileError, match=rf"line {len(lines) + 1}: byte 4 of the line \(0xe9\) is not UTF-8"):
        reader.read(data, 1)


@pytest.mark.parametrize("name", [name for name in TASKS if "autoencoder" not in name])  # which takes one file
def test_of_two_files_the_second_is_the_test(tmp_path: Path, name: str) -> None:
    suffix = ".npz" if name in ("images", "captions") else ".tsv"
    for second, part in (("test", "test_"), ("other", "test_"), ("val", "validation_"), ("ud-dev", "validation_")):
        files = [tmp_path / f"{stem}{suffix}" for stem in ("train", second)]
        for file in files:
            file.write_text("a\tb\n")
        table = TASKS[name].data.table(files, None)
        if name == "trajectories":  # each part may have several files
            table = {key: file for key, (file,) in table.items()}
        assert {key.removesuffix(next(iter(table))): file for key, file in table.items()} == {
            "": str(files[0]),
            part: str(files[1]),
        }


@pytest.mark.parametrize("kind", ["word", "character", "byte"])
@pytest.mark.parametrize("name", ["translation", "language-model", "masked-language-model", "text-autoencoder"])
def test_what_a_model_does_not_know_is_found(name: str, kind: str) -> None:
    tokenizer = Tokenizer.train(["a dog, a cat [MASK]"], kind, 300)
    task: Task = {
        "translation": lambda: Translation(TranslationState(tokenizer, WORDS)),
        "language-model": lambda: LanguageModel(LanguageModelState(tokenizer, 8, separated=True)),
        "masked-language-model": lambda: MaskedLanguageModel(MaskedLanguageModelState(tokenizer, 8)),
        "text-autoencoder": lambda: TextAutoencoder(TextAutoencoderState(tokenizer)),
    }[name]()
    model = opened(task, {})
    assert model.unknown("a cat, a dog") == []
    expected = {"word": ["zebu", "dogs"], "character": ["z", "e", "b", "u", "s"], "byte": []}
    assert model.unknown("a zebu, dogs [MASK]" if "masked" in name else "a zebu, dogs") == expected[kind]


def test_a_classifier_and_a_tagger_say_which_words_they_do_not_know() -> None:
    model = opened(classification(toy_texts(20, seed=1)), {})
    assert model.unknown("the film was blorp") == ["blorp"]
    tagger = opened(tagging(toy_sentences(20, seed=1)), {})
    assert tagger.unknown("the BLORP the") == ["BLORP"]
    assert tagger.unknown(["THE", "blorp"]) == ["blorp"]  # it ignores case


def test_lines_that_may_begin_with_labels_are_refused_not_guessed(tmp_path: Path) -> None:
    """Dropping the first word of a text would change its answer without a word."""
    path = tmp_path / "a.txt"
    path.write_text("good film\nbad film\nthe film\n")
    in_lines = opened(classification(toy_texts(20, seed=1)), {"file": "train.txt"})
    in_table = opened(classification(toy_texts(20, seed=1)), {"file": "train.csv"})
    for predictor in (in_lines, in_table):
        with pytest.raises(FileError, match="2 of 3 lines begin with a label of this model"):
            predictor.read_file(path)
        predictor.read_otherwise(columns="1,0")
        assert predictor.read_file(path)[0] == ["film", "film", "film"]
        predictor.read_otherwise(lines=True)
        assert predictor.read_file(path)[0] == ["good film", "bad film", "the film"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_names_in_columns_need_a_header(tmp_path: Path, name: str) -> None:
    """Otherwise texts would become labels, because the label comes first in a table without a header."""
    mark = "," if name.endswith("csv") else "\t"
    path = tmp_path / name
    path.write_text("".join(f"{text.replace(',', '')}{mark}{label}\n" for label, text in TEXTS))
    files = TASKS["classification"].data
    for columns in ("text,label", "review,verdict"):
        with pytest.raises(FileError, match=r"line 1: there is no column named .* give the columns by number, such as"):
            files.table([path], columns)
    data = files.settings.read(files.table([path], "0,1"), "the test")
    assert [(one.label, one.text) for one in files.read_for_scoring(data)] == [
        (label, text.replace(",", "")) for label, text in TEXTS
    ]


def test_texts_in_the_column_of_labels_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"a film of {number},{('good', 'bad')[number % 2]}\n" for number in range(30)))
    files = TASKS["classification"].data
    with pytest.raises(FileError, match=r"30 of 30 texts have a label that no other text has, such as 'a film of 0'"):
        files.read(files.settings.read({"file": str(path)}, "the test"), 1)
    path.write_text(f"common,a\ncommon,b\n{path.read_text()}")
    with pytest.raises(FileError, match=r"30 of 32 texts have a label that no other text has, such as 'a film of 0'"):
        files.read(files.settings.read({"file": str(path)}, "the test"), 1)


def test_a_header_of_other_names_is_not_data(tmp_path: Path) -> None:
    rows = "".join(f"{('good', 'bad')[number % 2]},a film of {number}\n" for number in range(30))
    pairs = "".join(f"a film of {number},un film de {number}\n" for number in range(30))
    for task, text in (("classification", "verdict,review\n" + rows), ("translation", "english,french\n" + pairs)):
        path, reader = tmp_path / f"{task}.csv", TASKS[task].data
        path.write_text(text)
        for columns in (None, "0,1" if task == "translation" else "1,0"):
            table = reader.table([path], columns)
            with pytest.raises(FileError, match=r"line 1: '\w+', '\w+' looks like a header"):
                reader.read_for_scoring(reader.settings.read(table, "the test"))
            for header, count in ((False, 31), (True, 30)):
                if columns or not header:  # a header must name the columns, unless they have numbers
                    read = reader.read_for_scoring(reader.settings.read(table | {"header": header}, "the test"))
                    assert len(read) == count


def test_names_of_columns_may_differ_in_case_and_be_separated_by_semicolons(tmp_path: Path) -> None:
    reader = TASKS["classification"].data
    for line in ("Review,VERDICT\nso, good\n", "review;verdict\nso; good\n", "Verdict;Review\ngood;so\n"):
        path = tmp_path / "a.csv"
        path.write_text(line)
        data = reader.table([path], "review,verdict")
        assert [(one.text, one.label) for one in reader.read_for_scoring(reader.settings.read(data, "the test"))] == [
            ("so", "good")
        ]
        predictor = opened(classification(toy_texts(20, seed=1)), data)
        assert predictor.read_file(path)[0] == predictor.read_stream(io.BytesIO(path.read_bytes()))[0] == ["so"]
    path.write_text("a;b\nso;good\n")
    with pytest.raises(FileError, match=r"line 1: there is no column named 'verdict'; the line has: 'a;b'"):
        reader.table([path], "review,verdict")
    path.write_text("review,verdict\rso,good\r")
    with pytest.raises(FileError, match="end every line with a line feed"):
        reader.read_for_scoring(reader.settings.read(data, "the test"))


@pytest.mark.parametrize(
    ("trained", "columns"),
    [("0 2 1", "{0} f{1}"), ("0 1 2", "{0} f{1}"), ("2 0 1", "f{1} {0}"), ("0 -1 1", "{0} f{1}")],
)
def test_words_with_features_and_no_labels(tmp_path: Path, trained: str, columns: str) -> None:
    """The columns that are there have the same order as in training."""
    word, label, feature = trained.split()
    data = {"word_column": word, "label_column": label, "feature_columns": [feature]}
    cells = {int(word) % 3: "{0}", int(label) % 3: "{1}", int(feature) % 3: "f{1}"}
    reader, labelled, path = TASKS["tagging"].data, tmp_path / "l.txt", tmp_path / "a.txt"
    for file, line in ((labelled, " ".join(cells[place] for place in range(3))), (path, columns)):
        file.write_text("\n".join("".join(f"{line.format(*one)}\n" for one in sentence) for sentence in SENTENCES))
    task = tagging(reader.read_for_scoring(reader.settings.read(data | {"file": str(labelled)}, "the test")))
    predictor = opened(task, data | {"file": str(labelled)})
    expected = [[[word, f"f{tag}"] for word, tag in sentence] for sentence in SENTENCES]
    assert predictor.read_file(labelled)[0] == predictor.read_file(path)[0] == expected
    assert predictor.read_stream(io.BytesIO(path.read_bytes()))[0] == expected
    predictor.read_otherwise(columns="1,-,0" if columns.startswith("f") else "0,-,1")
    assert predictor.read_file(path)[0] == expected


def test_a_column_of_other_labels_is_refused(tmp_path: Path) -> None:
    """The columns are in another order than in training, perhaps; scoring refuses such a file too."""
    predictor, path = opened(tagging(toy_sentences(20, seed=1)), {"file": "a.txt"}), tmp_path / "a.txt"
    path.write_text("DET\tthe\nNOUN\tfilm\n")
    with pytest.raises(FileError, match="most cells of column -1, such as 'the', are not labels of this model; add --"):
        predictor.read_file(path)
    predictor.read_otherwise(columns="1,0")
    assert predictor.read_file(path)[0] == [["the", "film"]]
    path.write_text("the\t_\nfilm\t_\n")  # not labelled yet
    predictor.read_otherwise()
    assert predictor.read_file(path)[0] == [["the", "film"]]


def test_single_words_on_lines_are_refused_not_tagged_one_by_one(tmp_path: Path) -> None:
    predictor, path = opened(tagging(toy_sentences(20, seed=1)), {"file": "a.txt"}), tmp_path / "a.txt"
    path.write_text("the\nfilm\n\nit\n")
    with pytest.raises(FileError, match="may have one word per line or one text per line; add --lines"):
        predictor.read_file(path)
    predictor.read_otherwise(columns="0")
    assert predictor.read_file(path)[0] == [["the", "film"], ["it"]]
    predictor.read_otherwise(lines=True)
    assert predictor.read_file(path)[0] == ["the", "film", "", "it"]


@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
@pytest.mark.parametrize("name", ["classification", "translation"])
def test_the_same_bad_rows_are_skipped_by_all(tmp_path: Path, name: str, kind: str) -> None:
    first, second = ("text", "label") if name == "classification" else ("source", "target")
    if kind == ".csv":
        lines = [f"{first},{second}", "one a,good", "two", "three a,", ",good", "", "four a,bad", 'five,"a",x']
    else:
        rows = [{first: "one a", second: "good"}, {first: "two"}, {first: "three a", second: ""}, {second: "good"}]
        lines = [*map(json.dumps, rows), "", "{", json.dumps({first: "four a", second: "bad"})]
    path = tmp_path / f"a{kind}"
    path.write_text("".join(f"{line}\n" for line in lines))
    task: Task = (
        classification(toy_texts(20, seed=1))
        if name == "classification"
        else Translation(TranslationState(WORDS, WORDS))
    )
    data = {"skip_bad_rows": True, "table" if name == "translation" else "file": str(path)}
    assert_alike(task, path, data, lambda one: one.source)


def test_two_files_of_which_one_is_not_utf8(tmp_path: Path) -> None:
    """The encoding that is given is for the file that is not UTF-8; the other would be garbled without a word."""
    source, target = tmp_path / "a.en", tmp_path / "a.fr"
    source.write_bytes("café noir\n".encode("latin-1") * 3)
    target.write_bytes("déjà vu\n".encode() * 3)
    reader = TASKS["translation"].data
    data = reader.settings.read(reader.table([source, target], None) | {"encoding": "latin-1"}, "the test")
    notes: list[str] = []
    assert {(one.source, one.target) for one in reader.read_for_scoring(data, notes.append)} == {
        ("café noir", "déjà vu")
    }
    assert notes == [f"{target} is UTF-8, so it was not read as latin-1"]


@pytest.mark.parametrize("columns", [("1", "-1"), ("0", "-2"), ("-2", "-1"), ("2", "0"), ("-1", "0"), ("0", "-1", "1")])
def test_words_and_labels_are_written_into_columns_of_their_own(tmp_path: Path, columns: tuple[str, ...]) -> None:
    reader = TASKS["tagging"].data
    word, label, *features = columns
    table = {"word_column": word, "label_column": label, "feature_columns": features}
    sentences = [
        TaggedSentence(words, labels, (1,) * len(words), "a", tuple(("x",) for _ in words) if features else ())
        for words, labels in (tuple(zip(*sentence, strict=True)) for sentence in SENTENCES)
    ]
    path = reader.write(reader.settings.read(table | {"file": "a.txt"}, "the test"), sentences, tmp_path / "part")[1]
    read = reader.read_for_scoring(reader.settings.read(table | {"file": path}, "the test"))
    assert [(one.words, one.labels, one.features) for one in read] == [
        (one.words, one.labels, one.features) for one in sentences
    ]


@pytest.mark.parametrize("header", [None, False])
def test_texts_are_written_as_they_are_read_without_a_header(tmp_path: Path, header: bool | None) -> None:
    reader = TASKS["classification"].data
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{label}\t{text}\n" for label, text in TEXTS))
    data = reader.settings.read({"file": str(path), "header": header}, "the test")
    texts = reader.read_for_scoring(data)
    written = reader.write(data, texts, tmp_path / "part")[1]
    again = reader.read_for_scoring(data.model_copy(update={"file": written}))
    assert [(one.label, one.text) for one in again] == [(one.label, one.text) for one in texts] == TEXTS


def test_columns_of_training_say_nothing_about_lines_without_a_table(tmp_path: Path) -> None:
    """Otherwise every text would lose its first word without a word."""
    data = {"file": "train.tsv", "text_column": "1", "label_column": "0"}
    predictor, path = opened(classification(toy_texts(20, seed=1)), data), tmp_path / "a.txt"
    path.write_text("Great film indeed\nA dull story\n")
    assert predictor.read_file(path)[0] == ["Great film indeed", "A dull story"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [("classification", "text,label"), ("classification", "0"), ("translation", "1,0"), ("language-model", "0")],
)
def test_columns_of_a_file_without_columns_are_refused(tmp_path: Path, name: str, columns: str) -> None:
    task: Task = {
        "classification": lambda: classification(toy_texts(20, seed=1)),
        "translation": lambda: Translation(TranslationState(WORDS, WORDS)),
        "language-model": lambda: LanguageModel(LanguageModelState(WORDS, 8, separated=True)),
    }[name]()
    predictor, path = opened(task, {"source": "a.en"} if name == "translation" else {}), tmp_path / "a.txt"
    path.write_text("a dog\na cat\n")
    assert predictor.read_file(path)[0] == ["a dog", "a cat"]
    predictor.read_otherwise(columns=columns)
    with pytest.raises(FileError, match=r"a\.txt is not a .*, so it has no columns.*; leave out --columns\."):
        predictor.read_file(path)


def test_columns_chosen_in_a_text_file_with_tabs_are_read(tmp_path: Path) -> None:
    """Even if the model was trained on two files of lines."""
    predictor, path = opened(Translation(TranslationState(WORDS, WORDS)), {"source": "a.en"}), tmp_path / "a.txt"
    path.write_text("un chien\ta dog\nun chat\ta cat\n")
    predictor.read_otherwise(columns="1")
    assert predictor.read_file(path)[0] == ["a dog", "a cat"]


def test_a_table_of_bad_rows_is_refused_in_one_sentence(tmp_path: Path) -> None:
    predictor, path = opened(classification(toy_texts(20, seed=1)), {"skip_bad_rows": True}), tmp_path / "a.tsv"
    path.write_text("good\t\nbad\t\n")
    with pytest.raises(
        FileError, match=r"There are no texts in .*a\.tsv: all of its rows are bad, the first: .*line 1"
    ):
        predictor.read_file(path)


@pytest.mark.parametrize("separator", [None, ","])
@pytest.mark.parametrize("second", [None, "b"])
def test_the_same_bad_rows_are_skipped_with_a_second_text_and_several_labels(
    tmp_path: Path, second: str | None, separator: str | None
) -> None:
    path, reader = tmp_path / "a.csv", TASKS["classification"].data
    path.write_text("text,b,label\none,x,good\ntwo,,good\n,y,good\nthree,z,\n,,\nfour\nfive,v,bad\n")
    data = {"file": str(path), "second_column": second, "label_separator": separator, "skip_bad_rows": True}
    scored = [one.texts for one in reader.read_for_scoring(reader.settings.read(data, "the test"))]
    read = opened(classification(toy_texts(20, seed=1)), data).read_file(path)[0]
    assert [(one,) if isinstance(one, str) else one for one in read] == scored
    assert len(scored) == 2 + (second is None) + (separator is not None)


@pytest.mark.parametrize("name", [name for name in FILES if name != "masked-language-model"])  # the same reader
def test_an_encoding_given_for_a_file_is_obeyed_and_one_from_training_is_not_forced(tmp_path: Path, name: str) -> None:
    """The bytes are valid in both encodings, so that either could be meant."""
    reader, (suffix, _) = TASKS[name].data, FILES[name]
    lines = {"translation": "{0} a\t{0} b\n", "tagging": "{0} X\n\n", "classification": "good,{0} a\n"}
    line = lines.get(name, "{0} a\n")
    path = tmp_path / f"a{suffix}"
    path.write_bytes((line.format("İ") + line.format("ı")).encode())
    data = reader.settings.read(reader.table([path], None) | {"encoding": "gb18030"}, "the test")
    said: list[str] = []
    chosen = data.model_copy(update={"encoding": ChosenEncoding("gb18030")})
    obeyed = b"".join(reader.identity(one) for one in reader.read_for_scoring(chosen, said.append)).decode()
    assert "İ".encode().decode("gb18030") in obeyed
    assert f"{path} was read as gb18030, as asked for, although it is valid UTF-8" in said
    inherited = data.model_copy(update={"encoding": InheritedEncoding("gb18030")})
    assert "İ" in b"".join(reader.identity(one) for one in reader.read_for_scoring(inherited, said.append)).decode()
    assert f"{path} is UTF-8, so it was not read as gb18030" in said
    with pytest.raises(FileError, match=r"is valid UTF-8, but data\.encoding is gb18030; leave out data\.encoding"):
        reader.read(data, 1)  # the model would read the very file that it was trained on in another way


def test_a_stream_is_read_in_the_encoding_given_with_it() -> None:
    predictor = opened(classification(toy_texts(20, seed=1)), {"file": "a.txt", "encoding": "gb18030"})
    content = "İ a\nı b\n".encode()
    read, said = predictor.read_stream(io.BytesIO(content))
    assert (read, "it is UTF-8, so it was not read as gb18030" in said) == (["İ a", "ı b"], True)
    predictor.read_otherwise(encoding="gb18030")
    read, said = predictor.read_stream(io.BytesIO(content))
    assert read == content.decode("gb18030").splitlines()
    assert "it was read as gb18030, as asked for, although it is valid UTF-8" in said


@pytest.mark.parametrize("name", ["translation", "tagging", "classification", "captions", "base-pairs"])
def test_a_column_cannot_be_both_what_is_read_and_what_is_learned(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("a b\tc d\n")
    with pytest.raises(OptionError, match="--columns names column 0 twice; expected different columns: "):
        TASKS[name].data.table([file], "0, 0")
