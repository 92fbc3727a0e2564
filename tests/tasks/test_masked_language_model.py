"""Masked language models: what is hidden, what it is scored by, and how a hole in a text is filled."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from saccade.data.grammar import generate
from saccade.errors import FileError, OptionError
from saccade.models.classifier import CLASSIFIERS, Classifier
from saccade.tasks.base.predictor import NoOptions
from saccade.tasks.base.task import Bundle
from saccade.tasks.masked.answer import MaskedLanguageModelAnswer
from saccade.tasks.masked.data import MaskedLanguageModelData, MaskedLanguageModelFiles
from saccade.tasks.masked.predictor import MaskedLanguageModelPredictor
from saccade.tasks.masked.task import (
    MaskedLanguageModel,
    MaskedLanguageModelState,
    MaskedLanguageModelTraining,
    MaskedText,
    hide,
)
from saccade.text import MASK, UNKNOWN, Tokenizer
from saccade.training.trainer import Trainer

LINES = [f"{who} {what} {end}" for who in ("cats", "dogs") for what, end in (("eat", "fish"), ("chase", "mice"))] * 12
SHAPE = {"width": 18, "num_heads": 3, "encoder_layers": 2, "feedforward_width": 20, "scaled_embedding": True}


def prepared(folder: Path, lines: list[str] = LINES, **text: Any) -> tuple[MaskedLanguageModel, Any]:
    path = folder / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = MaskedLanguageModelData.read({"text": str(path)}, "here")
    splits = MaskedLanguageModelFiles.read(data, seed=1)
    settings = {"data": data, "text": MaskedText(**{"kind": "word", "context": 5, **text})}
    return MaskedLanguageModel(MaskedLanguageModelState.prepare(settings, splits.train), settings), splits


def network(task: MaskedLanguageModel, **fields: Any) -> nn.Module:
    torch.manual_seed(2)
    return task.build("transformer", task.networks["transformer"].config.read({**SHAPE, **fields}, "here"))


def words(count: int) -> Tokenizer:
    return Tokenizer.train([" ".join(f"w{number}" for number in range(count))], "word", vocabulary_size=count + 5)


def test_of_the_chosen_tokens_8_in_10_are_masked_and_1_in_10_is_another() -> None:
    tokens = torch.full((40, 1000), 7)
    real = torch.ones_like(tokens, dtype=torch.bool)
    real[:, 900:] = False
    hidden, chosen = hide(tokens, real, 0.15, words(10_000), torch.Generator().manual_seed(0))
    assert not chosen[:, 900:].any()
    assert torch.equal(hidden[~chosen], tokens[~chosen])
    assert float(chosen[:, :900].float().mean()) == pytest.approx(0.15, abs=0.006)  # 3 standard deviations
    shares = [
        float((hidden[chosen] == MASK).float().mean()),
        float((hidden[chosen] == 7).float().mean()),
    ]
    assert shares == pytest.approx([0.8, 0.1], abs=0.017)
    assert int(hidden[chosen & (hidden != MASK)].min()) >= 5  # no special token


def test_at_least_one_token_is_chosen_and_none_that_is_unknown() -> None:
    tokens = torch.tensor([[UNKNOWN, 9, UNKNOWN], [UNKNOWN, UNKNOWN, 0]])
    real = torch.tensor([[True, True, True], [True, True, False]])
    for seed in range(20):
        _, chosen = hide(tokens, real, 1e-6, words(25), torch.Generator().manual_seed(seed))
        assert chosen.nonzero().tolist() == [[0, 1]]
    _, chosen = hide(torch.full((1, 3), UNKNOWN), torch.tensor([[True, True, False]]), 1e-6, words(25))
    assert chosen[0, :2].sum() == 1


def test_long_documents_are_cut_into_pieces(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path, ["a b c d e f g", "a b"] * 10)
    splits = MaskedLanguageModelFiles.read(MaskedLanguageModelData(text=str(tmp_path / "text.txt")), seed=1)
    pieces = task.encode(splits.train)
    assert task.encode(splits.test) == []
    assert [(len(piece.tokens), piece.line) for piece in pieces[:4]] == [(5, 1), (2, 1), (2, 2), (5, 3)]


def test_other_tokens_are_hidden_in_each_batch_and_the_same_at_each_validation(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path)
    pieces = task.encode(splits.train)
    torch.manual_seed(1)
    first, second = task.batch(pieces), task.batch(pieces)
    assert not torch.equal(first.chosen, second.chosen)
    assert first.count == int(first.chosen.sum())
    assert first.truth.tolist() == [pieces[row].tokens[column] for row, column in first.chosen.nonzero().tolist()]
    assert task.with_fixed_masks(pieces) == task.with_fixed_masks(pieces)
    model = network(task).eval()
    sized = [
        MaskedLanguageModel(task.state, {"training": MaskedLanguageModelTraining(batch_tokens=size)})
        for size in (5, 30, 10_000)
    ]
    scores = [one.validate(model, pieces) for one in sized]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert scores[0] == pytest.approx(scores[2], abs=1e-5)
    assert scores[0]["perplexity"] == pytest.approx(math.exp(scores[0]["loss"]))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[MaskedLanguageModel, nn.Module]:
    task, splits = prepared(tmp_path_factory.mktemp("masked"), share=0.3)
    training = MaskedLanguageModelTraining(steps=150, warmup=10, batch_tokens=160, lr=1e-2, weight_decay=0.0)
    task = MaskedLanguageModel(task.state, {**task.settings, "training": training})
    model = network(task)
    trainer = Trainer(task, model, task.encode(splits.train), task.encode(splits.validation))
    groups = trainer.groups()
    for _ in range(150):
        trainer.update(next(groups))
    return task, model.eval()


def filler(trained: tuple[MaskedLanguageModel, nn.Module]) -> MaskedLanguageModelPredictor:
    task, model = trained
    return MaskedLanguageModelPredictor(Bundle(task, "transformer", model.config, model, NoOptions()))


def test_a_hole_is_filled_from_both_sides(trained: tuple[MaskedLanguageModel, nn.Module]) -> None:
    opened = filler(trained)
    found = opened.predict(["cats [MASK] fish", "dogs chase [MASK]", "[MASK] eat [MASK]"])
    assert [answer.text for answer in found[:2]] == ["cats eat fish", "dogs chase mice"]
    assert found[0].tokens == ["▁eat"]
    assert found[0].candidates[0][0].probability > 0.8
    assert [answer.tokens[0] for answer in found[0].alternatives] == [one.token for one in found[0].candidates[0][1:]]
    assert len(found[2].candidates) == 2
    assert found[2].tokens[0] in ("▁cats", "▁dogs")
    assert found[2].tokens[1] == "▁fish"
    assert not found[2].alternatives


def test_an_answer_tells_what_it_rests_on(trained: tuple[MaskedLanguageModel, nn.Module]) -> None:
    opened = filler(trained)
    (answer,) = opened.predict(["cats [MASK] fish"], n_best=2)
    assert isinstance(answer, MaskedLanguageModelAnswer)
    assert opened.token_scores("cats [MASK] fish", answer) == pytest.approx([answer.score], abs=1e-4)
    assert answer.view.names == ["encoder.0.self", "encoder.1.self"]
    assert answer.view.axes("encoder.1.self")[0].tokens == ["▁cats", "<mask>", "▁fish"]
    assert opened.count_tokens("cats [MASK] fish") == 3
    assert answer.record()["masks"][0][0]["token"] == "▁eat"
    assert len(answer.record()["masks"][0]) == 2
    assert len(list(answer.terminal())) == 3
    change = opened.compare("cats [MASK] fish", replace=("fish", "mice"))
    assert (change.before.text, change.after.text) == ("cats eat fish", "cats chase mice")


def test_a_text_without_a_hole_is_refused(trained: tuple[MaskedLanguageModel, nn.Module]) -> None:
    with pytest.raises(OptionError, match=r"There is no \[MASK\] in 'cats eat fish' \(text 2\)"):
        filler(trained).predict(["cats [MASK] fish", "cats eat fish"])


@pytest.mark.parametrize("kind", ["bpe", "word", "character", "byte"])
def test_a_hole_is_one_token_wherever_it_stands(kind: str) -> None:
    tokenizer = Tokenizer.train(["the cat ate .", "a dog"], kind, vocabulary_size=280)
    for text, count in (("the [MASK] ate[MASK].", 2), ("[MASK][MASK] cat", 2), ("[MASK]", 1), ("the cat", 0)):
        ids, places = tokenizer.encode_masked(text)
        assert [place for place, id in enumerate(ids) if id == MASK] == places
        assert len(places) == count
    ids, places = tokenizer.encode_masked("the [MASK] ate .")
    around = tokenizer.decode(ids[: places[0]]), tokenizer.decode(ids[places[0] + 1 :])
    assert around == (("the", "ate .") if kind in ("bpe", "word") else ("the ", " ate ."))


def test_a_classifier_begins_from_the_same_names_and_shapes(trained: tuple[MaskedLanguageModel, nn.Module]) -> None:
    task, model = trained
    config = CLASSIFIERS["transformer"].read({**SHAPE, "pooling": "mean"}, "here")
    classifier = Classifier(config, task.state.tokenizer.vocabulary_size, 2)
    theirs = dict(model.named_parameters())
    ours = dict(classifier.named_parameters())
    shared = {name for name in ours if name in theirs and ours[name].shape == theirs[name].shape}
    assert set(ours) - shared == {"output.weight", "output.bias"}


def test_what_cannot_be_built_is_refused(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path)
    with pytest.raises(OptionError, match=r"model.encoder_layers must be at least 1"):
        network(task, encoder_layers=0)
    with pytest.raises(OptionError, match=r"is less than text.context = 5"):
        network(task, position="learned", max_length=4)
    (tmp_path / "bad.txt").write_text("one\n\ntwo\n")
    with pytest.raises(FileError, match=r"bad.txt, line 2: the document is empty"):
        MaskedLanguageModelFiles.read(MaskedLanguageModelData(text=str(tmp_path / "bad.txt")), seed=1)


def test_a_book_of_the_command_line_is_read_in_paragraphs(tmp_path: Path) -> None:
    book, lines = tmp_path / "book.txt", tmp_path / "lines.txt"
    book.write_text("\nIt was\ndark.\n\n\nA dog\n" + "\nbarked.\n" * 18)
    lines.write_text("one\ntwo\n")
    assert MaskedLanguageModelFiles.table([lines], None) == {"text": str(lines)}
    table = MaskedLanguageModelFiles.table([book], None)
    assert table == {"text": str(book), "documents": "paragraph"}
    splits = MaskedLanguageModelFiles.read(MaskedLanguageModelData.read(table, "here"), seed=1)
    assert [document.text for document in splits.train[:2]] == ["It was\ndark.", "A dog"]
    assert (len(splits.train), len(splits.validation)) == (18, 2)
    assert ("a document is", "the lines up to a blank line") in splits.rows


def test_a_task_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path, share=0.25)
    files = task.state.files()
    state = MaskedLanguageModelState.load(task.state.description(), lambda name: files[name], "here")
    again = MaskedLanguageModel(state)
    pieces = task.encode(splits.validation)
    assert again.encode(splits.validation) == pieces
    assert again.with_fixed_masks(pieces) == task.with_fixed_masks(pieces)
    fitted = MaskedLanguageModelFiles.recommend(splits, "tiny")
    MaskedText.read(fitted["text"], "here")
    MaskedLanguageModelTraining.read(fitted["training"], "here")


def test_built_in_sentences_are_english_and_held_out_by_combination() -> None:
    settings = MaskedLanguageModelData.read({"builtin": "grammar", "sentences": 100}, "here")
    splits = MaskedLanguageModelFiles.read(settings, seed=1)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [100, 1000, 1000]
    assert splits.train[0].text == generate(100, 1)[0].source_text
    with pytest.raises(OptionError, match="give either text or table, or builtin"):
        MaskedLanguageModelData.read({"builtin": "grammar", "text": "a.txt"}, "here")
