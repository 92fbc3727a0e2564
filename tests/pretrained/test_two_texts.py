"""Classifiers of two texts, and of texts with several labels: opened, trained, scored and exported."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tiny import TOLERANCE, WORDS, albert, bert, distilbert, labelling, save, save_bert

import saccade
from saccade.data.labelled import read_labelled
from saccade.errors import FileError, InputTypeError, OptionError
from saccade.serving.effects import words_left_out
from saccade.tasks.base.exporting import export
from saccade.tasks.classification.several import SeveralPredictions, is_chosen, true_labels

PAIRS = [("the dog sleeps .", "the film was very very good ."), ("the cat", "the dog was bad")]


def with_words(model: Any, folder: Path) -> Path:
    save(model, folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@torch.no_grad()
@pytest.mark.parametrize("kind", [bert, distilbert, albert])
def test_two_texts_get_the_probabilities_of_the_home_library(kind: Any, tmp_path: Path) -> None:
    theirs = labelling("Sequence", kind, **({} if kind is distilbert else {"vocab_size": len(WORDS)}))
    opened = saccade.open(with_words(theirs, tmp_path))
    tokenizer = hf.BertTokenizer(str(tmp_path / "vocab.txt"))
    given = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    types = {"token_type_ids": given["token_type_ids"]} if kind is not distilbert else {}
    expected = theirs(given["input_ids"], attention_mask=given["attention_mask"], **types).logits.softmax(dim=-1)
    answers = opened.predict([PAIRS[0], list(PAIRS[1])])
    found = torch.tensor([[one.probabilities[label] for label in ("bad", "good", "mixed")] for one in answers])
    torch.testing.assert_close(found, expected, **TOLERANCE)
    name = answers[0].view.names[0]
    shown = answers[0].view.columns[name].tokens
    assert [token for token in shown if token.startswith("[")] == ["[CLS]", "[SEP]", "[SEP]"]
    assert len(shown) == int(given["attention_mask"][0].sum())
    assert [word for word, _ in answers[1].deciding] == ["the", "cat", "the", "dog", "was", "bad"]
    (single,) = opened.predict(["the dog sleeps ."])  # the folder does not say which it was trained on
    assert single.probabilities != answers[0].probabilities


def train(folder: Path, data: dict[str, Any], output: Path, init: Path | None = None, **model: Any) -> saccade.Run:
    recipe = {
        "task": "classification",
        "data": {"file": str(folder), "validation": 0.2, **data},
        "model": {"pooling": "mean", **model},
        "training": {"steps": 2, "warmup": 0, "validate_every": 1, "lr": 0.02, "batch_tokens": 200},
    }
    return saccade.train(recipe, output=output, init=init, quiet=True)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    rows = [
        f"the {one} was good .\tthe {other} sleeps\t{'same' if one == other else 'other'}"
        for one in ("dog", "cat", "film")
        for other in ("dog", "cat", "film")
    ] * 4
    (tmp_path / "pairs.tsv").write_text("\n".join(["first\tsecond\tlabel", *rows]) + "\n")
    return tmp_path / "pairs.tsv"


def test_a_classifier_of_two_texts_is_trained_scored_and_exported(pairs: Path, tmp_path: Path) -> None:
    columns = {"text_column": "first", "second_column": "second"}
    init = save_bert(tmp_path / "bert")
    run = train(pairs, columns, tmp_path / "run", init, pooling="first", pooled_layer="tanh")
    opened = run.open()
    assert opened.describe()["does"] == "assigns one label to two texts (classification)"
    from_file, how = opened.read_file(pairs)
    assert len(from_file) == 36
    assert "columns first and second" in how
    batch = opened.task.plain_batch(opened._encode(from_file[:2]))
    given = hf.BertTokenizer(str(init / "vocab.txt"))(*map(list, zip(*from_file[:2], strict=True)), return_tensors="pt")
    assert torch.equal(batch.tokens, given["input_ids"])
    assert torch.equal(batch.types, given["token_type_ids"])
    examples, _ = read_labelled(pairs, "first", second_column="second")
    assert set(opened.evaluate(examples).scores) == {"accuracy", "macro_f1", "calibration_error"}
    with pytest.raises(OptionError, match="reads two texts"):
        opened.predict(["the dog sleeps ."])
    assert opened.predict([""])[0].text == ""
    assert "same logits" in export(tmp_path / "run", "huggingface", tmp_path / "out")
    again = saccade.open(tmp_path / "out").predict(from_file[:3])
    for one, other in zip(again, opened.predict(from_file[:3]), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_a_network_of_our_own_reads_two_texts(pairs: Path, tmp_path: Path) -> None:
    data = {"text_column": "first", "second_column": "second"}
    run = train(pairs, data, tmp_path / "run", kind="recurrent", width=8, embedding_width=8)
    (answer,) = run.open().predict([["the dog was good .", "the cat sleeps"]])
    assert answer.record()["source"] == "the dog was good . ||| the cat sleeps"
    assert set(answer.probabilities) == {"same", "other"}


def test_texts_that_are_too_long_lose_the_end_of_the_longer_one(pairs: Path, tmp_path: Path) -> None:
    run = train(pairs, {"text_column": "first", "second_column": "second"}, tmp_path / "run", save_bert(tmp_path / "b"))
    opened = run.open()
    (one,) = opened._encode([("the " * 40, "dog cat film")])
    (other,) = opened._encode([("the " * 40, "dog " * 50)])
    assert len(one.tokens) == len(other.tokens) == opened.task.state.longest == 23
    assert one.kept == (17, 3)
    assert other.kept == (10, 10)


def test_a_table_with_a_missing_text_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("first\tsecond\tlabel\na\tb\tx\nc\t\ty\n")
    with pytest.raises(FileError, match="line 3: one of the two texts is empty; expected a label and two texts"):
        read_labelled(tmp_path / "pairs.tsv", "first", second_column="second")


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rows = ["the dog was good\tanimal,good", "the film was bad\tbad", "the cat was bad\tbad, animal", "here\t"] * 6
    (tmp_path / "several.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return tmp_path / "several.tsv"


def test_texts_with_several_labels_are_trained_scored_and_exported(labelled: Path, tmp_path: Path) -> None:
    init = save_bert(tmp_path / "bert")
    data = {"label_separator": ","}
    run = train(labelled, data, tmp_path / "run", init, pooling="first", pooled_layer="tanh")
    opened = run.open()
    assert opened.task.labels == ["animal", "bad", "good"]
    (answer,) = opened.predict(["the dog was bad"])
    with torch.no_grad():
        batch = opened.task.plain_batch(opened._encode(["the dog was bad"]))
        shares = opened.model(batch.tokens, batch.lengths)[0].sigmoid().tolist()
    assert answer.probabilities == pytest.approx(dict(zip(opened.task.labels, shares, strict=True)))
    assert set(answer.record()["labels"]) == {name for name, one in answer.probabilities.items() if one >= 0.5}
    examples, _ = read_labelled(labelled, label_separator=",")
    assert examples[3].labels == ()
    scores = opened.evaluate(examples).scores
    assert set(scores) == {"accuracy", "macro_f1", "micro_f1"}
    assert "same logits" in export(tmp_path / "run", "huggingface", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text())["problem_type"] == "multi_label_classification"
    again = saccade.open(tmp_path / "out").predict(["the dog was bad"])[0]
    assert again.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_scores_of_several_labels_by_hand() -> None:
    found = torch.tensor([[0.9, 0.4], [0.6, 0.7], [0.2, 0.1]]).log()
    truth, names = true_labels([("a",), ("b", "c"), ()], ["a", "b"])
    scores = SeveralPredictions(found, truth, names)
    assert names == ["a", "b", "c"]
    assert scores.accuracy == pytest.approx(100 * 2 / 3)  # the second text has a label too many, and one is missing
    assert scores.micro_f1 == pytest.approx(100 * 2 * 2 / (3 + 3))
    assert [(one.precision, one.recall, one.total) for one in scores.each] == [(0.5, 1, 1), (1, 1, 1), (0, 0, 1)]
    assert scores.macro_f1 == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    expected = -sum(map(math.log, (0.9, 0.6, 0.4, 0.7, 0.8, 0.9))) / 6
    assert scores.loss == pytest.approx(expected, rel=1e-5)


def one_or_two(folder: Path, **config: Any) -> Any:
    return saccade.open(with_words(labelling("Sequence", bert, vocab_size=len(WORDS), **config), folder))


def test_a_model_of_one_text_or_two_asks_for_a_list(tmp_path: Path) -> None:
    opened = one_or_two(tmp_path)
    for given in ("the dog\tthe cat", "the dog ||| the cat", ["the dog ||| the cat"], "|||"):
        with pytest.raises(
            OptionError,
            match=r"Input 2: this model reads one text or two; give two as a list, .* without a tab or \|\|\|",
        ):
            opened.predict(["the dog", given])
    pair = ["the dog", "the cat"]
    assert opened.parse(json.dumps(pair)) == opened.from_json(pair) == opened.from_json(json.dumps(pair)) == pair
    assert opened.parse("[MASK] the dog") == "[MASK] the dog"
    assert opened.predict([["the dog"]])[0].probabilities == opened.predict(["the dog"])[0].probabilities
    assert opened.replaced(pair, "cat", "film") == ["the dog", "the film"]
    assert opened.replaced(pair, "dog", "film") == ["the film", "the cat"]
    (tmp_path / "pairs.tsv").write_text("first\tsecond\nthe dog\tthe cat\n")
    opened.read_otherwise("first,second,-")
    assert [list(one) for one in opened.read_file(tmp_path / "pairs.tsv")[0]] == [pair]


@pytest.mark.parametrize("given", [[], ["a", "b", "c"], ()])
def test_a_list_has_one_text_or_two(given: Any, tmp_path: Path) -> None:
    opened = one_or_two(tmp_path)
    with pytest.raises(InputTypeError, match="Input 1 must be a text or a list of two texts"):
        opened.predict([given])
    if isinstance(given, list):
        with pytest.raises(InputTypeError, match="a list of two texts"):
            opened.from_json(given)


def test_a_label_at_exactly_one_half_is_chosen_in_answers_and_in_scores(tmp_path: Path) -> None:
    theirs = labelling("Sequence", bert, vocab_size=len(WORDS))
    theirs.config.problem_type = "multi_label_classification"
    with torch.no_grad():
        theirs.classifier.weight.zero_()
        theirs.classifier.bias.copy_(torch.tensor([0.0, -1e-3, 1e-3]))
    opened = saccade.open(with_words(theirs, tmp_path))
    (answer,) = opened.predict(["the dog"])
    assert set(answer.record()["labels"]) == {"bad", "mixed"}
    found = torch.cat(opened.task.probabilities(opened.model, opened._encode(["the dog"])))
    assert is_chosen(found).tolist() == [[True, False, True]]


def test_if_no_label_is_chosen_no_change_is_measured(tmp_path: Path) -> None:
    theirs = labelling("Sequence", bert, vocab_size=len(WORDS))
    theirs.config.problem_type = "multi_label_classification"
    with torch.no_grad():
        theirs.classifier.bias.fill_(-1000.0)
    with pytest.raises(OptionError, match="The model chose no label or word, so the effect of leaving out a word"):
        list(words_left_out(saccade.open(with_words(theirs, tmp_path)), "the dog", {}))


def test_without_a_tokenizer_file_the_error_says_so(tmp_path: Path) -> None:
    opened = saccade.open(save(labelling("Sequence", bert), tmp_path))
    with pytest.raises(OptionError, match=r"no tokenizer file, such as tokenizer\.json .* 'hello' is not one"):
        opened.predict(["3 hello"])
    assert opened.task.state.texts == (1,)
