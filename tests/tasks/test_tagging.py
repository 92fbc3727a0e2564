"""Tagging: words to ids and batches, scores, learning words never seen, and answers with what they rest on."""

from __future__ import annotations

import io
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from toy_labels import sentence, tagging, toy_sentences, trained

from saccade.errors import FileError, OptionError
from saccade.tasks.base.predictor import NoOptions
from saccade.tasks.base.task import Bundle
from saccade.tasks.tagging.data import TaggingData, TaggingFiles
from saccade.tasks.tagging.predictor import TaggingPredictor
from saccade.tasks.tagging.task import Tagging, TaggingState

SMALL = {"width": 16, "word_width": 8, "spelling_width": 16, "character_width": 8, "encoder_layers": 1}
HEADS = {"num_heads": 2, "feedforward_width": 32}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    train = toy_sentences(160, seed=1)
    return trained(tagging(train), "recurrent", {**SMALL, "dropout": 0.1}, train, steps=80)


@pytest.fixture(scope="module")
def tagger(bundle: Bundle) -> TaggingPredictor:
    return TaggingPredictor(bundle)


class Fixed(nn.Module):
    """A network whose scores for the labels are given, word by word."""

    def __init__(self, scores: list[list[float]]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, words: torch.Tensor, *_: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return self.scores[: words.numel()].view(*words.shape, -1)[at]


def test_a_word_is_an_id_its_pieces_and_its_characters() -> None:
    task = tagging([sentence("The the cat", "D D N")], lowercase=True, min_frequency=2, longest_word=4)
    the, capital, cat, long = (task.state.words.ids(word) for word in ("the", "The", "cat", "Tehecat"))
    assert the.word == capital.word == 2  # the only one that is there twice
    assert cat.word == long.word == 1
    assert the.characters != capital.characters
    assert len(the.characters) == 3
    characters = task.state.words.characters
    assert long.characters == [characters.id(letter) for letter in "Teat"]  # of a long word its two ends
    assert task.state.words.pieces.decode(capital.pieces) == "The"


def test_a_batch_is_padded_with_0_and_counts_words() -> None:
    train = [sentence("ab c", "X Y"), sentence("d", "X", line=7)]
    task = tagging(train, min_frequency=1)
    batch = task.batch(task.encode(train))
    assert batch.words.tolist() == [[2, 3], [4, 0]]
    assert batch.characters.shape == (2, 2, 2)
    assert batch.characters[0, 1].tolist()[1] == 0
    assert batch.characters[1, 1].tolist() == [0, 0]
    assert (batch.lengths.tolist(), batch.count, batch.lines) == ([2, 1], 3, [1, 7])
    assert batch.real.tolist() == [[True, True], [True, False]]
    assert batch.labels.tolist() == [[0, 1], [0, 0]]


def test_the_loss_is_the_mean_of_all_words_without_padding() -> None:
    train = [sentence("a b", "X Y"), sentence("c", "X")]
    task = tagging(train)
    model = Fixed([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 9.0]])  # the last is padding
    loss = task.loss(model, task.batch(task.encode(train)))
    expected = 2 * torch.tensor(2.0).log() + torch.tensor(1 + torch.e**-1.0).log()
    assert loss.count == 3
    assert loss.total.item() == pytest.approx(float(expected))


def test_scores_apart_for_words_that_training_has_and_those_it_has_not() -> None:
    train = [sentence("a b c", "X Y X")]
    task = tagging(train)
    examples = task.encode([sentence("a b A z", "X Y X X")])  # A and z were never written so
    model = Fixed([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = task.evaluate(model, examples)
    assert found.scores == {
        "accuracy": 50.0,
        "macro_f1": pytest.approx(100 * (2 * 2 / (3 + 3) + 0) / 2),
        "known": 50.0,
        "known_words": 2.0,
        "unknown": 50.0,
        "unknown_words": 2.0,
    }
    assert found.lines[0].split() == ["label", "precision", "recall", "F1", "count"]
    assert found.lines[1].split() == ["X", "66.7", "66.7", "66.7", "3"]
    assert found.lines[-1] == "most often: X mistaken for Y 1, Y mistaken for X 1"
    assert found.figures["confusion"](True).axes


def test_spans_are_scored_where_labels_are_those_of_spans() -> None:
    train = [sentence("a b c", "B-P I-P O")]
    task = tagging(train, metric="span_f1")
    model = Fixed([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])  # B-P O O: the span is too short
    scores = task.validate(model, task.encode(train))
    assert scores["span_f1"] == 0.0
    assert scores["accuracy"] == pytest.approx(100 * 2 / 3)
    with pytest.raises(OptionError, match=r"span_f1 needs labels such as B-X, I-X and O, not X, Y"):
        tagging([sentence("a b", "X Y")], metric="span_f1")


def test_the_same_task_comes_back_from_its_description_and_files(bundle: Bundle) -> None:
    task = bundle.task
    files = task.state.files()
    state = TaggingState.load(task.state.description(), lambda name: files[name], "there")
    assert state.description() == task.state.description()
    assert state.files() == files
    again = Tagging(state)
    example = toy_sentences(1, seed=9)
    assert again.encode(example)[0].words == task.encode(example)[0].words


def test_labels_that_training_does_not_have_count_as_errors() -> None:
    task = tagging([sentence("a b c", "X Y X")])
    examples = task.encode([sentence("a b c a", "X Y Z X", line=5)])
    model = Fixed([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])  # X Y X X
    found = task.evaluate(model, examples)
    assert found.scores["accuracy"] == 75.0
    # X: precision 2/3, recall 1; Y: 1; Z: 0
    assert found.scores["macro_f1"] == pytest.approx(100 * (4 / 5 + 1 + 0) / 3)
    assert found.lines[0] == "1 of 4 labels are not in training and count as errors: Z 1 (first: toy.txt, line 7)"
    scores = task.validate(model, examples)
    assert scores["accuracy"] == 75.0
    assert scores["loss"] == pytest.approx(math.log(1 + math.exp(-2)), abs=1e-5)  # of the three that can be found
    with pytest.raises(FileError, match=r"^toy\.txt, line 6: the label 'Z' is not in the training data; most"):
        task.encode([sentence("a b c", "X Z Z", line=5)])


def test_a_held_out_label_that_training_has_not_is_noted_before_training(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a X\nb Y\n\nc X\n")
    (tmp_path / "test.txt").write_text("a X\n\nb Z\n")
    files = [tmp_path / "train.txt", tmp_path / "train.txt", tmp_path / "test.txt"]
    data = TaggingData.read(TaggingFiles.table(files, "0,1"), "the data")
    splits = TaggingFiles.read(data, 1)
    said = f"1 of 2 labels are not in training and count as errors: Z 1 (first: {tmp_path / 'test.txt'}, line 3)"
    assert splits.notes[-1] == said


def test_words_of_one_label_only_are_refused() -> None:
    with pytest.raises(OptionError, match=r"All words have the label '_'; a tagger needs at least two labels\."):
        tagging([replace(one, labels=("_",) * len(one.words)) for one in toy_sentences(2, seed=1)])


def test_a_rare_label_stays_in_training(tmp_path: Path) -> None:
    """Of 30 labels that are there once, whatever the seed, none is held out."""
    (tmp_path / "all.txt").write_text("\n\n".join(f"w{n} O\nv{n} L{n if n < 30 else 0}" for n in range(60)))
    data = TaggingData.read({"file": str(tmp_path / "all.txt"), "validation": 0.3, "test": 0.2}, "the data")
    for seed in range(5):
        splits = TaggingFiles.read(data, seed)
        held_out = [*splits.validation, *splits.test]
        assert held_out
        assert len(splits.train) + len(held_out) == 60
        assert {label for one in held_out for label in one.labels} <= {"O", "L0"}
        assert {label for one in splits.train for label in one.labels} == {"O", *(f"L{n}" for n in range(30))}


def test_parts_are_made_by_the_text_of_a_sentence_where_no_file_is_given(tmp_path: Path) -> None:
    file = tmp_path / "all.txt"
    file.write_text("".join(f"w{number % 50} X\n\n" for number in range(100)))
    splits = TaggingFiles.read(
        TaggingData.read({"file": str(file), "validation": 0.2, "test": 0.2}, "the data"), seed=1
    )
    parts = [{one.words for one in part} for part in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, parts)) == 50  # no sentence in two parts
    assert all(parts)
    assert dict(splits.rows)["sentences read"] == "100"


@pytest.mark.parametrize("kind", ["convolutional", "window", "transformer"])
def test_every_encoder_learns_words_that_it_never_saw(kind: str) -> None:
    train, test = toy_sentences(160, seed=1), toy_sentences(40, seed=2)
    task = tagging(train)
    fields = {**SMALL, **(HEADS if kind == "transformer" else {})}
    found = trained(task, kind, fields, train, steps=120)
    scores = task.evaluate(found.model, task.encode(test)).scores
    assert scores["unknown_words"] > 20
    assert scores["unknown"] >= 95.0


def test_an_answer_has_words_labels_and_how_sure_each_is(tagger: TaggingPredictor) -> None:
    (answer,) = tagger.predict(["the dofime kumesaing Risano."])
    assert answer.text == "the/DET dofime/NOUN kumesaing/VERB Risano/NAME ./PUNCT"
    assert answer.tokens == ["DET", "NOUN", "VERB", "NAME", "PUNCT"]
    record = answer.record()
    assert record["words"] == ["the", "dofime", "kumesaing", "Risano", "."]
    assert len(record["probabilities"]) == 5
    torch.testing.assert_close(answer.every.sum(dim=1), torch.ones(5))
    assert answer.score == pytest.approx(float(answer.every.amax(dim=1).log().sum()), abs=1e-5)


def test_words_can_be_given_as_they_are(tagger: TaggingPredictor) -> None:
    (answer,) = tagger.predict([["the", "dofi.", "kumeing"]])
    assert answer.words == ["the", "dofi.", "kumeing"]


def test_the_words_of_a_conllu_file_are_taken_as_they_are(tagger: TaggingPredictor, tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text("1\tthe\t_\tX" + "\t_" * 6 + "\n2\tdofi.\t_\tX" + "\t_" * 6 + "\n")
    (tmp_path / "a.txt").write_text("the dofi.\n")
    words, texts = (tagger.read_file(tmp_path / name)[0] for name in ("a.conllu", "a.txt"))
    assert [answer.words for answer in tagger.predict(words)] == [["the", "dofi."]]
    assert [answer.words for answer in tagger.predict(texts)] == [["the", "dofi", "."]]


def test_an_empty_text_has_no_words_and_harms_no_other(tagger: TaggingPredictor) -> None:
    told: list[int] = []
    empty, other = tagger.predict(["  ", "the dofi"], progress=told.append)
    assert (empty.text, empty.tokens, empty.score) == ("", [], 0)
    assert other.tokens == ["DET", "NOUN"]
    assert told == [2]


def test_answers_do_not_depend_on_what_shares_their_batch(tagger: TaggingPredictor) -> None:
    texts = ["the dofime kumesaing Risano .", "the ba", "Do"]
    for text, together in zip(texts, tagger.predict(texts), strict=True):
        torch.testing.assert_close(tagger.predict([text])[0].every, together.every, atol=1e-5, rtol=1e-4)


def test_the_terminal_shows_words_with_their_labels_and_says_that_there_is_no_attention(
    tagger: TaggingPredictor,
) -> None:
    console = Console(file=io.StringIO(), width=100)
    (answer,) = tagger.predict(["the dofime kumesaing Risano ."])
    for part in answer.terminal():
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "the/DET" in shown
    assert "A recurrent network has no attention, so there is nothing to view." in shown
    assert answer.figure(dark=False).axes


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_attention_is_viewed_between_words_or_pieces(unit: str) -> None:
    train = toy_sentences(40, seed=1)
    fields = {**SMALL, **HEADS, "unit": unit}
    tagger = TaggingPredictor(trained(tagging(train), "transformer", fields, train, steps=1))
    (answer,) = tagger.predict(["the dofime kumesaing Risano ."])
    seen = answer.view
    assert seen.names == ["encoder.0.self"]
    assert seen.rows["encoder.0.self"].joined == ["the", "dofime", "kumesaing", "Risano", "."]
    matrix = seen.matrix("encoder.0.self", "mean", words=True)
    assert matrix.shape == (5, 5)
    torch.testing.assert_close(matrix.sum(dim=1), torch.ones(5))


def test_a_change_is_told_word_by_word() -> None:
    train = toy_sentences(160, seed=1)
    tagger = TaggingPredictor(trained(tagging(train), "transformer", {**SMALL, **HEADS}, train))
    text = "the dofime kumesaing Risano ."
    change = tagger.compare(text, replace=("kumesaing", "Kumesa"))
    assert change.before.tokens[2] == "kumesaing/VERB"
    assert change.after.tokens[2] == "Kumesa/NAME"
    assert change.before.before[2] > change.before.after[2]
    off = tagger.compare(text, without_heads=["encoder.0.self:0"])
    assert off.before.before != off.before.after
    with pytest.raises(OptionError, match="The text now has 6 words, but the answer has 5 labels; replace each word"):
        tagger.compare(text, replace=("dofime", "ba do"))


@pytest.mark.parametrize("kind", ["recurrent", "transformer", "window"])
def test_a_feature_that_decides_the_label_is_learned(tmp_path: Path, kind: str) -> None:
    """The words say nothing: each has any of the features, and only the feature says the label."""
    draw = random.Random(1)
    sentences = []
    for line in range(1, 121):
        words, features = draw.choices(["ba", "do", "fi"], k=4), draw.choices("xyz", k=4)
        labels = ["XYZ"["xyz".index(feature)] for feature in features]
        given = sentence(" ".join(words), " ".join(labels), line)
        sentences.append(replace(given, features=tuple((feature,) for feature in features)))
    small = {**SMALL, **(HEADS if kind == "transformer" else {})}
    bundle = trained(tagging(sentences[:100]), kind, small, sentences[:100], steps=60)
    found = bundle.task.validate(bundle.model, bundle.task.encode(sentences[100:]))
    assert found["accuracy"] == 100
    model = TaggingPredictor(replace(bundle, data={"feature_columns": ["pos"]}))
    rows = [["ba", "z"], ["ba", "x"]]
    assert model.predict([rows])[0].labels == ["Z", "X"]
    assert model.predict([model.replaced(rows[:1], "ba", "new")])[0].text == "new/Z"
    again = TaggingState.load(bundle.task.state.description(), bundle.task.state.files().__getitem__, "here")
    assert [one.entries for one in again.features] == [one.entries for one in bundle.task.state.features]
    for wrong in ("ba do", ["ba"], [["ba"]], [["ba", "x", "y"]], [["ba", ""]]):
        with pytest.raises(OptionError, match=r"takes words with their features \(pos\)"):
            model.predict([wrong])


def test_columns_after_the_second_are_features(tmp_path: Path) -> None:
    table = TaggingFiles.table([tmp_path / "a.txt"], "0, 3, 1, 2")
    assert (table["word_column"], table["label_column"], table["feature_columns"]) == ("0", "3", ["1", "2"])
    with pytest.raises(OptionError, match="--columns takes"):
        TaggingFiles.table([tmp_path / "a.txt"], "0,3,")


def test_a_recurrent_tagger_with_attention_starts_as_one_without() -> None:
    train = toy_sentences(30, seed=1)
    task = tagging(train)
    batch = task.batch(task.encode(train))
    logits = []
    for heads in (0, 2):
        torch.manual_seed(4)
        plain = task.build("recurrent", task.networks["recurrent"].config.read(SMALL, "here"))
        config = task.networks["recurrent"].config.read({**SMALL, "attention_heads": heads}, "here")
        model = task.build("recurrent", config)
        model.load_state_dict(plain.state_dict(), strict=False)
        logits.append(task.logits(model.eval(), batch))
    torch.testing.assert_close(logits[0], logits[1])
    (answer,) = TaggingPredictor(Bundle(task, "recurrent", config, model, NoOptions())).predict(["the ba do"])
    assert answer.view.names == ["top.self"]
    assert torch.allclose(answer.view.matrix("top.self", 0).sum(dim=-1), torch.ones(3))
