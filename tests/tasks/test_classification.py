"""Classification: texts to ids and batches, weights, scores, answers and the words that decided."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from toy_labels import classification, toy_texts, trained

from saccade.data.labelled import LabelledText
from saccade.errors import FileError, OptionError
from saccade.tasks.classification.answer import ClassificationAnswer
from saccade.tasks.classification.data import ClassificationData, ClassificationFiles
from saccade.tasks.classification.predictor import ClassificationPredictor
from saccade.tasks.classification.task import Classification, ClassificationState
from saccade.text import MASK, UNKNOWN

SMALL = {"width": 16, "embedding_width": 12, "encoder_layers": 1}
HEADS = {"width": 16, "encoder_layers": 1, "num_heads": 2, "feedforward_width": 32}
TEXT = "the plot was awful it"


@pytest.fixture(scope="module")
def classifier() -> ClassificationPredictor:
    train = toy_texts(160, seed=1)
    fields = {**SMALL, "pooling": "attention"}
    return ClassificationPredictor(trained(classification(train), "window", fields, train, steps=80))


class Fixed(nn.Module):
    """A network whose scores for the labels are given, text by text."""

    def __init__(self, scores: list[list[float]]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.scores[: len(tokens)]


def texts(*given: tuple[str, str]) -> list[LabelledText]:
    return [LabelledText(text, label, line, "toy.txt") for line, (label, text) in enumerate(given, start=1)]


def test_a_batch_is_padded_and_a_long_text_is_cut() -> None:
    train = texts(("x", "a b c d"), ("y", "a"))
    task = classification(train, longest=3)
    batch = task.batch(task.encode(train))
    assert batch.tokens.shape == (2, 3)
    assert batch.tokens[1].tolist()[1:] == [0, 0]
    assert (batch.lengths.tolist(), batch.labels.tolist(), batch.count, batch.lines) == ([3, 1], [0, 1], 2, [1, 2])


def test_words_are_hidden_in_training_only_and_by_torchs_generator() -> None:
    train = texts(("x", "a b " * 200), ("y", "a"))
    task = classification(train, word_dropout=0.25)
    examples = task.encode(train)
    torch.manual_seed(1)
    batch = task.batch(examples)
    hidden = (batch.tokens[0] == UNKNOWN).float().mean()
    assert 0.15 < float(hidden) < 0.35
    assert bool((batch.tokens[1, 1:] == 0).all())  # padding stays padding
    assert not bool((task.plain_batch(examples).tokens == UNKNOWN).any())
    torch.manual_seed(1)
    assert bool((task.batch(examples).tokens == batch.tokens).all())
    pieces = classification(train, word_dropout=0.25, kind="byte")  # of which none is unknown
    assert bool((pieces.batch(pieces.encode(train)).tokens == MASK).any())


def test_balanced_weights_let_rare_labels_count_as_much_as_frequent_ones() -> None:
    train = texts(("x", "a"), ("x", "b"), ("x", "c"), ("y", "d"))
    task = classification(train, weights="balanced")
    assert task.class_weights is not None
    assert task.class_weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    model = Fixed([[0.0, 0.0]] * 4)
    batch = task.batch(task.encode(train))
    loss = task.loss(model.train(), batch)
    assert loss.total.item() == pytest.approx(math.log(2) * (3 * 2 / 3 + 1 * 2))
    assert task.loss(model.eval(), batch).total.item() == pytest.approx(4 * math.log(2))


def test_balanced_weights_of_a_model_that_is_trained_further_are_those_of_the_new_data() -> None:
    old = classification(texts(("x", "a"), ("y", "b"), ("z", "c")), weights="balanced")
    unknown = replace(old.state, counts=dict.fromkeys(old.state.counts, 0))  # a model of another library has no counts
    for state in (old.state, unknown):
        again = state.continued(old.settings, texts(("x", "a"), ("y", "b"), ("y", "c"), ("y", "d")))
        assert again.labels == ["x", "y", "z"]  # those of the output layer
        weights = Classification(again, old.settings).class_weights
        assert weights is not None
        assert weights[:2].tolist() == pytest.approx([4 / (2 * 1), 4 / (2 * 3)])
        assert bool(torch.isfinite(weights).all())


def test_scores_with_calibration() -> None:
    train = texts(("x", "a"), ("x", "b"), ("y", "c"), ("y", "d"))
    task = classification(train)
    odds = math.log(3)  # sure to 0.75; twice right and twice wrong
    model = Fixed([[odds, 0.0], [0.0, odds], [0.0, odds], [odds, 0.0]])
    found = task.evaluate(model, task.encode(train))
    assert found.scores == {"accuracy": 50.0, "macro_f1": 50.0, "calibration_error": pytest.approx(25.0)}
    assert set(found.figures) == {"confusion", "reliability"}
    assert all(draw(dark).axes for draw in found.figures.values() for dark in (False, True))
    validated = task.validate(model, task.encode(train))
    assert validated["loss"] == pytest.approx((2 * math.log(4 / 3) + 2 * math.log(4)) / 4)


def test_the_same_task_comes_back_from_its_description_and_files(classifier: ClassificationPredictor) -> None:
    task, files = classifier.task, classifier.task.state.files()
    state = ClassificationState.load(task.state.description(), lambda name: files[name], "there")
    assert (state.labels, state.counts, state.longest) == (task.labels, task.state.counts, task.state.longest)
    again = Classification(state)
    assert again.encode_texts(texts(("", TEXT)), [-1]) == task.encode_texts(texts(("", TEXT)), [-1])


def test_texts_of_one_label_only_are_refused() -> None:
    with pytest.raises(OptionError, match=r"All texts have the label 'x'; a classifier needs at least two labels\."):
        classification(texts(("x", "a"), ("x", "b")))


def test_a_held_out_label_that_training_has_not_is_noted_before_training(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 a\n0 b\n")
    (tmp_path / "test.csv").write_text("label,text\n1,a\n2,b\n")
    files = [tmp_path / "train.txt", tmp_path / "train.txt", tmp_path / "test.csv"]
    data = ClassificationData.read(ClassificationFiles.table(files, "text,label"), "the data")
    splits = ClassificationFiles.read(data, 1)
    assert splits.notes[-1].endswith("test.csv, line 3)")
    task = classification(splits.train)
    found = task.evaluate(Fixed([[0.0, 1.0], [1.0, 0.0]]), task.encode(splits.test))
    assert found.scores["accuracy"] == 50.0  # labels are 0 and 1: 1 is right, 2 is none of them
    with pytest.raises(
        OptionError, match=r"--columns takes the names or numbers of two columns, such as text,label, not 'text'"
    ):
        ClassificationFiles.table(files, "text")


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("recurrent", "last"), ("recurrent", "mean"), ("convolutional", "mean"), ("transformer", "last")],
)
def test_every_encoder_finds_the_word_that_decides(kind: str, pooling: str) -> None:
    train, test = toy_texts(160, seed=1), toy_texts(60, seed=2)
    task = classification(train, weights="balanced")
    fields = {**(HEADS if kind == "transformer" else SMALL), "pooling": pooling}
    model = trained(task, kind, fields, train, steps=100).model
    assert task.evaluate(model, task.encode(test)).scores["accuracy"] >= 95.0


def test_an_answer_has_a_label_and_the_probability_of_each(classifier: ClassificationPredictor) -> None:
    bad, good = classifier.predict([TEXT, "great film"])
    assert (bad.text, good.text) == ("bad", "good")
    assert bad.scored_tokens == ["bad"]
    assert list(bad.probabilities) == ["bad", "good"]  # the likeliest first
    assert sum(bad.probabilities.values()) == pytest.approx(1)
    assert bad.record()["label"] == "bad"
    assert bad.score == bad.probabilities["bad"]
    assert classifier.token_scores(TEXT, bad)[0] == pytest.approx(math.log(bad.score), abs=1e-5)


def test_a_table_is_asked_for_its_texts_and_any_other_file_for_its_lines(
    classifier: ClassificationPredictor, tmp_path: Path
) -> None:
    for name in ("a.csv", "a.txt"):
        (tmp_path / name).write_text("label,text\nbad,great film\n")
    assert classifier.read_file(tmp_path / "a.csv")[0] == ["great film"]
    assert classifier.read_file(tmp_path / "a.txt")[0] == ["label,text", "bad,great film"]
    (tmp_path / "a.csv").write_text("y,review\nbad,great film\n")
    with pytest.raises(FileError, match="does not name the columns, and most cells of the first column, such as 'y'"):
        classifier.read_file(tmp_path / "a.csv")


def test_the_words_that_decided_are_seen(classifier: ClassificationPredictor) -> None:
    (answer,) = classifier.predict([TEXT])
    words, weights = zip(*answer.deciding, strict=True)
    assert words == ("the", "plot", "was", "awful", "it")
    assert sum(weights) == pytest.approx(1)
    assert answer.layer == "pooling"
    shown = _printed(answer)
    assert shown[0].startswith("bad  ")
    assert shown[2].split() == list(words)
    strongest = max(answer.deciding, key=lambda pair: pair[1])
    assert shown[3].startswith(f"most important: {strongest[0]} {strongest[1]:.2f}")
    assert answer.figure(dark=True).axes


def test_a_word_that_training_did_not_have_is_marked(classifier: ClassificationPredictor) -> None:
    (answer,) = classifier.predict(["awful zebra"])
    assert [word for word, _ in answer.deciding] == ["awful", "zebra(?)"]


def test_an_empty_text_has_no_label_and_harms_no_other(classifier: ClassificationPredictor) -> None:
    empty, other = classifier.predict([" ", "great film"])
    assert (empty.text, empty.scored_tokens, empty.probabilities) == ("", [], {})
    assert other.text == "good"
    assert _printed(empty) == []
    with pytest.raises(OptionError, match="The text is empty, so there is nothing to view"):
        _ = empty.view


def test_without_a_pooling_attention_words_are_left_out_to_see_what_decided() -> None:
    train = toy_texts(40, seed=1)
    mean = ClassificationPredictor(
        trained(classification(train), "window", {**SMALL, "pooling": "mean"}, train, steps=30)
    )
    (answer,) = mean.predict([TEXT])
    words = TEXT.split()
    assert [word for word, _ in answer.deciding] == words
    for place, (_, effect) in enumerate(answer.deciding):
        (without,) = mean.predict([" ".join(words[:place] + words[place + 1 :])])
        odds = [math.log(one.probabilities["bad"] / one.probabilities["good"]) for one in (answer, without)]
        assert effect == pytest.approx(odds[0] - odds[1], abs=1e-3)
    assert answer.text == "bad"
    assert "log-odds" in _printed(answer)[-1]
    assert answer.figure(dark=False).axes
    (alone,) = mean.predict(["awful"])  # without it nothing is left, and every label as likely
    odds_alone = math.log(alone.probabilities["bad"] / alone.probabilities["good"])
    assert alone.deciding == [("awful", pytest.approx(odds_alone, abs=1e-3))]
    with pytest.raises(OptionError, match="201 words"):
        _ = mean.predict(["awful " * 201])[0].deciding


def test_a_transformer_shows_its_own_attention_beside_the_pooling() -> None:
    train = toy_texts(40, seed=1)
    fields = {**HEADS, "encoder_layers": 2, "pooling": "attention"}
    (answer,) = ClassificationPredictor(trained(classification(train), "transformer", fields, train, steps=1)).predict(
        [TEXT]
    )
    assert set(answer.view.names) == {"encoder.0.self", "encoder.1.self", "pooling"}
    assert answer.view.matrix("encoder.1.self", 1).shape == (5, 5)
    assert answer.view.matrix("pooling", 0).shape == (1, 5)
    assert answer.view.kind("pooling") == "cross"


def test_a_change_is_told(classifier: ClassificationPredictor) -> None:
    change = classifier.compare(TEXT, replace=("awful", "great"))
    assert (change.before.text, change.after.text) == ("bad", "good")
    assert change.before.before[0] > change.before.after[0]


def test_a_word_can_be_hidden_from_the_pooling(classifier: ClassificationPredictor) -> None:
    words = [word for word, _ in classifier.predict([TEXT])[0].deciding]
    change = classifier.compare(TEXT, without_links=[("pooling", 0, word) for word in words[2:5]])
    assert change.before.text == "bad"
    assert change.before.before[0] > change.before.after[0]  # what the window around "awful" told is not taken


def _printed(answer: ClassificationAnswer) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    for part in answer.terminal():
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()
