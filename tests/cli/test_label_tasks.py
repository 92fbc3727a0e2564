"""Tagging and classification from a person's files, through every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Capture, assert_refused, give_input, run, succeed

import saccade
from saccade.cli import main

TAGGED = [
    "the DET\nblack ADJ\ncat NOUN\nsleeps VERB\n",
    "the DET\ndog NOUN\nsees VERB\nthe DET\ncat NOUN\n",
    "a DET\nred ADJ\ndog NOUN\nruns VERB\n",
    "the DET\nred ADJ\ncat NOUN\nsees VERB\na DET\ndog NOUN\n",
]
LABELLED = [f"{label},{text} {noun}" for noun in ("film", "plot", "book") for label, text in (
    ("good", "a great"), ("bad", "an awful"), ("good", "the great"), ("bad", "the awful")
)]  # fmt: skip
TAGGER = ["model.kind=transformer", "model.width=32", "model.num_heads=2", "model.feedforward_width=64"]
SHORT = ["training.steps=60", "training.warmup=5", "training.batch_tokens=64", "training.validate_every=30"]


def settings(*given: str) -> list[str]:
    return [part for one in given for part in ("--set", one)]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tagger's run."""
    folder = tmp_path_factory.mktemp("tagger")
    (folder / "train.txt").write_text("\n".join(TAGGED * 5))
    (folder / "test.txt").write_text("\n".join(TAGGED))
    files = ["--data", str(folder / "train.txt"), "--data", str(folder / "test.txt")]
    more = ["model.encoder_layers=1", "model.spelling_width=16", "text.pieces=300", "training.lr=1e-2"]
    with pytest.raises(SystemExit) as left:
        main(["train", "--task", "tagging", *files, "-o", str(folder / "run"), *settings(*TAGGER, *SHORT, *more)])
    assert left.value.code == 0
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a classifier's run."""
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "all.csv").write_text("\n".join(["verdict,words", *LABELLED * 4]))
    given = ["--data", str(folder / "all.csv"), "--data", str(folder / "all.csv"), "--columns", "words,verdict"]
    more = ["model.width=16", "model.embedding_width=16", "training.lr=1e-2"]
    with pytest.raises(SystemExit) as left:
        main(["train", "--task", "classification", *given, "-o", str(folder / "run"), *settings(*SHORT, *more)])
    assert left.value.code == 0
    return folder


def test_a_tagger_answers_in_lines_and_in_json(capsys: Capture, tagger: Path) -> None:
    assert succeed(capsys, "predict", tagger / "run", "the red dog sees the cat") == (
        "the/DET red/ADJ dog/NOUN sees/VERB the/DET cat/NOUN\n"
    )
    record = json.loads(succeed(capsys, "predict", tagger / "run", "a cat runs", "--json"))
    assert record["labels"] == ["DET", "NOUN", "VERB"]
    assert all(0 < one <= 1 for one in record["probabilities"])


def test_a_tagger_is_scored_on_a_file_with_its_confusions_as_a_picture(
    capsys: Capture, tagger: Path, tmp_path: Path
) -> None:
    out = succeed(capsys, "evaluate", tagger / "run", "--data", tagger / "test.txt", "--pictures", tmp_path)
    assert out.startswith("accuracy 100.00\n")
    assert ["NOUN", "100.0", "100.0", "100.0", "6"] in [line.split() for line in out.splitlines()]
    assert (tmp_path / "confusion.png").stat().st_size > 1000


def test_a_tagger_shows_what_each_word_looked_at(capsys: Capture, tagger: Path, tmp_path: Path) -> None:
    shown = succeed(capsys, "look", tagger / "run", "the red dog sees")
    assert "the/DET" in shown
    assert len(shown.splitlines()) > 5  # and a row of weights for each word
    succeed(capsys, "look", tagger / "run", "the red dog sees", "--svg", tmp_path / "a.svg")
    assert "dog" in (tmp_path / "a.svg").read_text()


def test_a_classifier_answers_and_shows_the_words_that_decided(
    capsys: Capture, classifier: Path, tmp_path: Path
) -> None:
    assert succeed(capsys, "predict", classifier / "run", "an awful book") == "bad\n"
    record = json.loads(succeed(capsys, "predict", classifier / "run", "a great book", "--json"))
    assert record["label"] == "good"
    assert record["probabilities"]["good"] > 0.5
    shown = succeed(capsys, "look", classifier / "run", "an awful book")
    assert "most important: " in shown
    succeed(capsys, "look", classifier / "run", "an awful book", "--svg", tmp_path / "a.svg")
    assert "awful" in (tmp_path / "a.svg").read_text()


def test_a_classifier_is_scored_with_its_calibration(capsys: Capture, classifier: Path, tmp_path: Path) -> None:
    given = ["--data", classifier / "all.csv", "--columns", "words,verdict", "--pictures", tmp_path]
    out = succeed(capsys, "evaluate", classifier / "run", *given)
    assert out.startswith("accuracy 100.00\nmacro_f1 100.00\ncalibration_error ")
    assert {path.name for path in tmp_path.iterdir()} == {"confusion.png", "reliability.png"}


def test_a_file_of_texts_is_answered_line_by_line(capsys: Capture, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a great film\n\nthe awful plot\n")
    assert succeed(capsys, "predict", classifier / "run", tmp_path / "texts.txt") == "good\n\nbad\n"


def test_a_labelled_file_is_predicted_as_it_is_scored(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, classifier: Path, tagger: Path
) -> None:
    """The labels are no words of the texts: both models are right on their own files."""
    verdicts = [line.partition(",")[0] for line in LABELLED * 4]
    tags = ["/".join(line.split()) for line in "".join(TAGGED).splitlines()]
    for folder, name, right in ((classifier, "all.csv", verdicts), (tagger, "test.txt", tags)):
        assert succeed(capsys, "predict", folder / "run", folder / name).split() == right
        give_input(monkeypatch, (folder / name).read_bytes())
        assert succeed(capsys, "predict", folder / "run", "-").split() == right


def test_new_writes_a_recipe_in_which_every_key_is_explained(capsys: Capture, tagger: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    succeed(capsys, "new", tagger / "train.txt", "--task", "tagging", "--columns", "0,1", "-o", recipe)
    keys = [line for line in recipe.read_text().splitlines() if " = " in line]
    assert len(keys) > 40
    assert all(" # " in line for line in keys)


def test_bad_files_are_refused_in_one_sentence(capsys: Capture, tagger: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("the DET\ncat\n")
    for arguments, parts in (
        (["--data", bad], (f"{bad}, line 2: the line has 1 column; expected 2",)),
        (["--data", tagger / "test.txt", "--columns", "0,5"], ("line 1: there is no column 5",)),
    ):
        assert_refused(run(capsys, "evaluate", tagger / "run", *arguments), *parts)
    bad.write_text("the DET\n\nwow INTJ\noh INTJ\n")
    assert_refused(run(capsys, "evaluate", tagger / "run", "--data", bad), f"{bad}, line 3: the label 'INTJ' is not")
    bad.write_text("")
    train = ["train", "--task", "classification", "--data", bad, "-o", tmp_path / "run"]
    assert_refused(run(capsys, *train), f"There are no texts in {bad}: the file is empty.")
    assert not (tmp_path / "run").exists()


def test_both_begin_from_a_masked_language_model(
    capsys: Capture, tagger: Path, classifier: Path, tmp_path: Path
) -> None:
    lines = [row.partition(",")[2] for row in LABELLED]
    (tmp_path / "text.txt").write_text("\n".join(lines * 3) + "\n")
    few = settings("training.steps=4", "training.warmup=1", "training.validate_every=4", "training.batch_tokens=128")
    size = settings("model.width=16", "model.num_heads=2", "model.feedforward_width=32", "model.encoder_layers=1")
    masked = ["train", "--task", "masked-language-model", "--data", tmp_path / "text.txt", "-o", tmp_path / "masked"]
    succeed(capsys, *masked, *size, *few, "--set", "text.vocabulary=300")
    vocabulary = (tmp_path / "masked" / "model" / "tokenizer.json").read_bytes()
    for task, files, more in (
        ("tagging", ["--data", tagger / "train.txt"], settings("model.unit=pieces", "data.validation=0.3")),
        ("classification", ["--data", classifier / "all.csv", "--columns", "words,verdict"], []),
    ):
        run_folder = tmp_path / task
        out = succeed(
            capsys, "train", "--task", task, *files, *few, *more, "--init", tmp_path / "masked", "-o", run_folder
        )
        assert "tensors are copied" in out
        assert (run_folder / "model" / "tokenizer.json").read_bytes() == vocabulary


def test_what_does_not_apply_is_said_with_what_does(capsys: Capture, tagger: Path) -> None:
    assert_refused(
        run(capsys, "evaluate", tagger / "run"),
        "Give the file with --data; --source and --target do not apply to this task.",
    )
    assert_refused(run(capsys, "predict", tagger / "run", "the", "--beam", "2"), "--beam does not apply to")


def test_labels_have_one_meaning(tagger: Path) -> None:
    (answer,) = saccade.open(tagger / "run").predict("the red dog")
    assert answer.labels == answer.record()["labels"] == ["DET", "ADJ", "NOUN"]
    assert answer.inventory == ["ADJ", "DET", "NOUN", "VERB"]


def test_evaluate_says_how_it_read_the_file(capsys: Capture, classifier: Path, tagger: Path) -> None:
    def said(*arguments: str | Path) -> str:
        code, _, err = run(capsys, "evaluate", *arguments)
        assert code == 0
        return err

    table = classifier / "all.csv"
    assert said(classifier / "run", "--data", table) == (
        f"Read 48 examples from {table}: columns verdict, words, named in line 1.\n"
    )
    table.with_name("latin.csv").write_bytes("verdict,words\ngood,a café à côté\n".encode("latin-1"))
    latin = said(classifier / "run", "--data", table.with_name("latin.csv"))
    assert "is not UTF-8; it was read as cp1252" in latin
    words = said(tagger / "run", "--data", tagger / "test.txt")
    assert words.endswith("columns 0 and 1, numbered from 0, separated by white space.\n")


def test_evaluate_and_predict_read_utf8_as_utf8_whatever_the_training_file_was(tmp_path: Path, capsys: Capture) -> None:
    rows = [f"{label},{word} {noun}" for noun in ("film", "livre") for label, word in (("oui", "été"), ("non", "âpre"))]
    text = "\n".join(["verdict,words", *rows * 6, ""])
    for name in ("latin-1", "utf-8", "utf-8-sig"):
        (tmp_path / f"{name}.csv").write_bytes(text.encode(name))
    trained = ["--data", tmp_path / "latin-1.csv", "--columns", "words,verdict", "-o", tmp_path / "run"]
    chosen = ["data.encoding=latin-1", "model.width=16", "model.embedding_width=16", "training.lr=1e-2", *SHORT]
    succeed(capsys, "train", "--task", "classification", *trained, *settings(*chosen))
    for command in (["evaluate", tmp_path / "run", "--data"], ["predict", tmp_path / "run"]):
        first, *others = [
            succeed(capsys, *command, tmp_path / f"{name}.csv") for name in ("latin-1", "utf-8", "utf-8-sig")
        ]
        assert others == [first, first]


def test_several_labels_are_written_as_train_reads_them(tmp_path: Path, capsys: Capture) -> None:
    """The answers, as the labels of the texts, are all right: the separator is that of the training file."""
    texts = {"a great film": "good|film", "an awful film": "film", "a great plot": "good", "an awful plot": "bad"}
    for name in ("all.tsv", "valid.tsv"):
        lines = ["text\tlabel", *list(map("\t".join, texts.items())) * 8]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    given = ["--data", tmp_path / "all.tsv", "--data", tmp_path / "valid.tsv", "-o", tmp_path / "run"]
    chosen = ["data.label_separator=|", "model.width=16", "model.embedding_width=16", "training.lr=1e-2", *SHORT]
    succeed(capsys, "train", "--task", "classification", *given, *settings(*chosen))
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text in texts))
    answers = succeed(capsys, "predict", tmp_path / "run", tmp_path / "new.txt").splitlines()
    assert "good|film" in answers or "film|good" in answers
    rows = ["text\tlabel", *(f"{text}\t{answer}" for text, answer in zip(texts, answers, strict=True))]
    (tmp_path / "again.tsv").write_text("".join(f"{row}\n" for row in rows))
    assert succeed(capsys, "evaluate", tmp_path / "run", "--data", tmp_path / "again.tsv").startswith(
        "accuracy 100.00\n"
    )


def test_lines_without_labels_are_not_scored_as_if_they_had_one(
    tmp_path: Path, capsys: Capture, classifier: Path
) -> None:
    path = tmp_path / "half.txt"
    path.write_text("good a great film\nbad an awful plot\nthe awful book\nA great plot\n")
    expected = f"{path}, line 3: the line starts with 'the', which is not one of the model's labels, so the line may"
    assert_refused(run(capsys, "evaluate", classifier / "run", "--data", path), expected)
    path.write_text("good a great film\nbad an awful plot\nnew an awful plot\n")  # a label that training never saw
    out = succeed(capsys, "evaluate", classifier / "run", "--data", path, "--columns", "1,0")
    assert "1 of 3 labels are not in training and count as errors: new 1" in out


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_text_is_said_to_be_empty(capsys: Capture, tagger: Path, classifier: Path, text: str) -> None:
    for folder in (tagger, classifier):
        code, out, err = run(capsys, "predict", folder / "run", text)
        assert (code, out) == (0, "\n")
        assert "Note: the text is empty, so the answer is too." in err
