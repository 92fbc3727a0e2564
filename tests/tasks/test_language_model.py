"""Language models: the stream, its windows, the scores, and a small model that has learned."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from saccade.data import documents
from saccade.data.documents import Document, LongText
from saccade.errors import FileError, OptionError, UnknownNameError
from saccade.models import Targets
from saccade.tasks.language_model.data import LanguageModelFiles, TextData
from saccade.tasks.language_model.streams import make_stream
from saccade.tasks.language_model.task import (
    LanguageModel,
    LanguageModelState,
    LanguageModelText,
    LanguageModelTraining,
)
from saccade.text import END, Tokenizer
from saccade.training.checkpoint import CheckpointStore
from saccade.training.trainer import Trainer

TEXT = "abc\nabd\n" * 9  # 72 characters
SMALL = {"width": 12, "num_heads": 3, "decoder_layers": 2, "feedforward_width": 20}


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def prepared(folder: Path, text: str = TEXT, context: int = 5, **data: Any) -> tuple[LanguageModel, Any]:
    table = TextData.read({"text": write(folder / "text.txt", text), **data}, "here")
    splits = LanguageModelFiles.read(table, seed=1)
    settings = {"data": table, "text": LanguageModelText(context=context)}
    return LanguageModel(LanguageModelState.prepare(settings, splits.train), settings), splits


def sized(task: LanguageModel, **training: Any) -> LanguageModel:
    return LanguageModel(task.state, {**task.settings, "training": LanguageModelTraining(**training)})


def network(task: LanguageModel, kind: str = "transformer", **fields: Any) -> nn.Module:
    torch.manual_seed(3)
    config = task.networks[kind].config.read({**(SMALL if kind == "transformer" else {}), **fields}, "here")
    return task.build(kind, config).eval()


def test_a_stream_knows_its_lines_and_characters() -> None:
    tokenizer = Tokenizer.train(["ab\n"], "character")
    whole = make_stream(tokenizer, [Document("a\nb\na", 4)], separated=False)
    assert whole.lines(torch.arange(5)) == [4, 4, 5, 5, 6]
    assert whole.characters == 4  # the first is never predicted
    apart = make_stream(tokenizer, [Document("a\nb", 2), Document("b", 7)], separated=True)
    a, b, feed = (tokenizer.encode_ids([text])[0][0] for text in ("a", "b", "\n"))
    assert apart.tokens.tolist() == [END, a, feed, b, END, b, END]
    assert apart.lines(torch.arange(7)) == [2, 2, 2, 3, 3, 7, 7]
    assert apart.characters == 4
    with pytest.raises(OptionError, match="The text has 1 token, which leaves nothing to predict"):
        make_stream(tokenizer, [Document("a", 1)], separated=False)


PROSE = "".join(
    f"Le garçon n° {n} — déjà — {'  vit' * (n % 3)}\n{'neige ' * (n % 5)}{'x' * (n % 70)}\r\n\n" for n in range(90)
)


@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "word", "character", "byte"])
def test_a_text_on_disk_gives_the_same_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, carries: bool
) -> None:
    """Of the same split and with the same tokenizer, whatever the sizes of blocks, chunks and windows."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" + PROSE.encode())
    data = TextData(text=str(path), validation=0.21, test=0.1)
    training = LanguageModelTraining(batch_tokens=40, truncate=3 if carries else None)
    settings = {"data": data, "text": LanguageModelText(kind=kind, vocabulary=400, context=7), "training": training}
    found: list[Any] = []
    for _ in range(2):
        splits = LanguageModelFiles.read(data, seed=1)
        task = LanguageModel(LanguageModelState.prepare(settings, splits.train), settings)
        examples = task.encode(splits.train)
        torch.manual_seed(5)
        batches = [task.batch([examples[i] for i in part]) for part in task.plan(task.lengths(examples), epoch=2)]
        model = network(task, "recurrent" if carries else "transformer")
        scores = task.validate(model, task.encode(splits.validation))
        rows = [(batch.read.tolist(), batch.predicted.tolist(), batch.lines) for batch in batches]
        parts = [[(one.text, one.line) for one in part] for part in (splits.train, splits.validation, splits.test)]
        found.append((parts, splits.rows, task.state.tokenizer.to_bytes(), rows, scores))
        for name, size in (("LONG", 1), ("BLOCK", 97), ("CHUNK", 131)):
            monkeypatch.setattr(documents, name, size)
    assert isinstance(splits.train[0], LongText)
    assert len(list(splits.train[0].chunks())) > 15
    assert "".join(splits.train[0].chunks()) == splits.train[0].text
    assert found[0] == found[1]


def test_a_text_without_spaces_is_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "CHUNK", 10)
    path = tmp_path / "a.txt"
    path.write_text("言" * 95, encoding="utf-8")
    assert [len(chunk) for chunk in LongText.whole(path).chunks()] == [20, 20, 20, 20, 15]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1_500_000_000, 1_500_000_000))
import saccade
run = saccade.train(files=sys.argv[1], task="language-model", output=sys.argv[2], settings={
    "text.kind": "word", "text.vocabulary": 1000, "text.context": 64, "data.validation": 1e-5, "training.steps": 20,
    "training.warmup": 2, "training.validate_every": 20, "model.width": 32, "model.decoder_layers": 1,
    "model.num_heads": 2, "model.feedforward_width": 64, "training.batch_tokens": 512,
})
print(run.scores["loss"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)  # it takes 4 minutes of processor time
def test_a_text_of_2_gb_is_learned_with_1_5_gb(tmp_path: Path) -> None:
    """The limit is on the memory that the process itself allocates, not on the pages of files that it maps."""
    path = tmp_path / "large.txt"
    words = [f"{'considerable' * 2}{number:03}" for number in range(500)]
    draw = random.Random(1)
    with path.open("w") as file:
        while file.tell() < 2_000_000_000:
            block = "".join(" ".join(draw.choices(words, k=20)) + "\n" for _ in range(2000))
            file.write(block * 20)
    command = [sys.executable, "-c", LIMITED, str(path), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0 < float(done.stdout.split()[-2]) < 8


def test_consecutive_windows_predict_every_token_but_the_first_once(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path, context=7)
    windows = task.encode(splits.train)
    stream = windows[0].stream
    assert len(stream) == 64  # 72 · 0.9
    assert [(window.start, window.length) for window in windows] == [(7 * i, 7) for i in range(9)]
    predicted = [stream.cut(torch.tensor([window.start]), window.length).predicted[0] for window in windows]
    assert torch.equal(torch.cat(predicted), stream.tokens[1:])
    assert task.encode(splits.test) == []
    assert [window.length for window in task.encode(splits.validation)] == [7]  # of 8 tokens the first is only read


def test_windows_of_an_epoch_are_moved_by_draws_of_torchs_generator(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path)
    windows = task.encode(splits.train)
    torch.manual_seed(5)
    first, second = task.batch(windows), task.batch(windows)
    torch.manual_seed(5)
    again = task.batch(windows)
    assert torch.equal(first.read, again.read)
    assert not torch.equal(first.read, second.read)
    assert torch.equal(first.read[:, 1:], first.predicted[:, :-1])
    assert first.read.shape == (len(windows), 5)
    assert first.count == 5 * len(windows)
    # Each begins within its own stretch of text, so that together they are spread over all of it.
    starts = torch.tensor([window.start for window in windows])
    shifts = np.array(first.lines) - np.array(windows[0].stream.lines(starts))
    assert shifts[:-1].min() >= 0
    assert shifts[:-1].max() <= 2


def test_a_text_that_is_shorter_than_a_window_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"text.txt has only 64 tokens to train on; it needs at least 65, one more than"
    ):
        prepared(tmp_path, context=64)
    task, splits = prepared(tmp_path, context=63)
    assert task.batch(task.encode(splits.train)).read.shape == (1, 63)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "give either text or table"),
        ({"text": "a", "table": "b"}, "give either text or table"),
        ({"text": "a", "labelled": True}, 'labelled needs documents = "line"'),
        ({"text": "a", "validation": 0.6, "test": 0.5}, "leave nothing to train on"),
        ({"text": "a", "test_text": "b", "test_table": "c"}, "give either test_text or test_table, not both"),
    ],
)
def test_a_data_table_that_cannot_be_meant(table: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        TextData.read(table, "here")


def test_files_of_the_command_line(tmp_path: Path) -> None:
    a, b, table = (tmp_path / name for name in ("a.txt", "b.txt", "t.csv"))
    assert LanguageModelFiles.table([a, b], None) == {"text": str(a), "test_text": str(b)}
    assert LanguageModelFiles.table([table], "body") == {"table": str(table), "column": "body"}
    with pytest.raises(OptionError, match="--columns only applies to"):
        LanguageModelFiles.table([a], "body")
    assert LanguageModelFiles.table([a, b, table], None)["test_table"] == str(table)
    with pytest.raises(OptionError, match="not 4"):
        LanguageModelFiles.table([a, b, a, b], None)


def test_held_out_files_and_shares(tmp_path: Path) -> None:
    other = write(tmp_path / "other.txt", "abd\n")
    _, splits = prepared(tmp_path, validation_text=other, test=0.5)
    assert [document.text for document in splits.validation] == ["abd\n"]
    assert [len(part[0].text) for part in (splits.train, splits.test)] == [36, 36]
    assert splits.test[0].line == 10
    assert ("test: characters", "36, the end of the text from line 10") in splits.rows


class Uniform(nn.Module):
    """Every token is as likely as any other."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.nothing = nn.Parameter(torch.zeros(1))

    def forward(self, tokens: torch.Tensor, *, targets: Targets) -> torch.Tensor:
        return torch.tensor(len(targets.words) * math.log(self.vocabulary))


@pytest.mark.parametrize("batch_tokens", [7, 21, 1000])
def test_scores_of_a_model_that_knows_nothing(tmp_path: Path, batch_tokens: int) -> None:
    task, splits = prepared(tmp_path, context=7)
    for part in (splits.train, splits.validation):
        scores = sized(task, batch_tokens=batch_tokens).validate(Uniform(8), task.encode(part))
        assert scores == pytest.approx({"loss": math.log(8), "perplexity": 8.0, "bits": 3.0})


def test_bits_are_of_characters_whatever_a_token_is(tmp_path: Path) -> None:
    table = TextData.read({"text": write(tmp_path / "a.txt", "é" * 40), "validation": 0.5}, "here")
    splits = LanguageModelFiles.read(table, seed=1)
    settings = {"data": table, "text": LanguageModelText(kind="byte", context=4)}
    task = LanguageModel(LanguageModelState.prepare(settings, splits.train), settings)
    scores = task.validate(Uniform(4), task.encode(splits.validation))
    assert scores["bits"] == pytest.approx(2 * 39 / 19)  # 39 bytes of 2 bits; the first character is not predicted


def test_unknown_tokens_are_said_to_spoil_bits(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path)
    for text, share in (("abcda", None), ("aXbYa", "50%"), ("Xabcd", None)):  # the first is not predicted
        found = task.evaluate(Uniform(8), task.encode([Document(text, 1)]))
        assert len(found.lines) == (1 if share is None else 2)
        if share is not None:
            assert found.lines[1].startswith(f"{share} of the tokens are unknown, so bits per character mean little")


def test_documents_have_ends_and_prompts_begin_after_one(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path, "abc\nabd\nabc\nabd\n" * 5, context=4, documents="line")
    assert len(splits.train) == 18
    assert task.state.separated
    a = task.state.tokenizer.encode_ids(["a"])[0][0]
    assert task.prompt("a") == ([END, a], True, False)
    assert task.prompt("") == ([END], True, True)
    whole, _ = prepared(tmp_path)
    assert whole.prompt("")[0] == whole.state.tokenizer.encode_ids(["\n"])[0]
    assert whole.prompt("a")[1:] == (False, False)


def test_a_task_is_the_same_after_it_was_kept(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path, documents="line")
    again = LanguageModelState.load(task.state.description(), lambda name: task.state.files()[name], "here")
    assert (again.context, again.separated) == (5, True)
    assert again.tokenizer.to_bytes() == task.state.tokenizer.to_bytes()
    with pytest.raises(UnknownNameError, match="language-model has no metric 'bleu'; allowed: bits, loss"):
        LanguageModel(task.state, metric="bleu")


def test_a_model_with_too_few_positions_is_refused(tmp_path: Path) -> None:
    task, _ = prepared(tmp_path)
    with pytest.raises(OptionError, match=r"model.max_length = 4 is less than text.context = 5"):
        network(task, position="learned", max_length=4)
    with pytest.raises(OptionError, match="passes no gradient"):
        network(task, weights="hard")


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_small_model_learns_the_text(tmp_path: Path, kind: str) -> None:
    """c and d take turns, so that only a model that looks back 4 characters knows which of them comes next."""
    task, splits = prepared(tmp_path, context=8)
    train, validation = task.encode(splits.train), task.encode(splits.validation)
    shape = {"width": 24, "num_heads": 2, "decoder_layers": 2} if kind == "transformer" else {"width": 24}
    model = network(task, kind, **shape)
    task = sized(task, steps=150, warmup=10, batch_tokens=64, lr=1e-2, beta2=0.98, weight_decay=0.0)
    trainer = Trainer(task, model, train, validation)
    groups = trainer.groups()
    for _ in range(150):
        trainer.update(next(groups))
    scores = task.validate(model.eval(), validation)
    assert scores["bits"] < 0.4
    found = task.evaluate(model, validation)
    assert found.scores == pytest.approx(scores)
    probe = task.probe(model, train[0])
    assert probe.inputs == ["a", "b", "c", "\n"]
    assert probe.text == "abc\nabd\n"
    if kind == "transformer":
        assert [len(row) for row in probe.weights] == [4] * 4
    else:
        assert probe.weights == []


def test_a_run_that_goes_on_draws_the_same_windows(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path)
    train, validation = task.encode(splits.train), task.encode(splits.validation)
    task = sized(task, steps=9, warmup=1, batch_tokens=20)

    def trainer() -> Trainer:
        return Trainer(task, network(task, dropout=0.2), train, validation)

    def losses(of: Trainer, count: int) -> list[float]:
        groups = of.groups()
        return [of.update(next(groups))[0] for _ in range(count)]

    whole, stopped = trainer(), trainer()
    torch.manual_seed(7)
    expected = losses(whole, 6)
    torch.manual_seed(7)
    assert losses(stopped, 3) == expected[:3]
    store = CheckpointStore(tmp_path / "checkpoints")
    store.save(3, stopped.tensors(), stopped.state())
    torch.manual_seed(8)
    again = trainer()
    again.restore(store.load(3))
    assert losses(again, 3) == expected[3:]


def test_a_fitted_recipe_is_one_that_the_task_can_read(tmp_path: Path) -> None:
    task, splits = prepared(tmp_path)
    tables = LanguageModelFiles.recommend(splits, "tiny")
    LanguageModelText.read(tables["text"], "here")
    LanguageModelTraining.read(tables["training"], "here")
    config = dict(tables["model"])
    assert isinstance(network(task, config.pop("kind"), **config), nn.Module)
