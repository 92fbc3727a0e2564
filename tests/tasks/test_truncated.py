"""Truncated back-propagation through time (lecture 002): the state goes on from window to window, its gradient not."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.documents import Document
from saccade.errors import OptionError
from saccade.models import Memory, RecurrentConfig, RecurrentLanguageModel, RecurrentSeq2Seq, TransformerConfig
from saccade.recurrent import CELLS, Recurrent
from saccade.tasks.base.task import Task
from saccade.tasks.language_model.data import TextData
from saccade.tasks.language_model.task import (
    LanguageModel,
    LanguageModelState,
    LanguageModelText,
    LanguageModelTraining,
)
from saccade.tasks.translation.task import Translation, TranslationState, TranslationTraining
from saccade.text import Tokenizer
from saccade.training.checkpoint import Checkpoint
from saccade.training.trainer import Trainer

SIZES = {"width": 10, "embedding_width": 10}


@pytest.mark.parametrize("cell", CELLS)
def test_windows_one_after_the_other_are_the_whole_text(cell: str) -> None:
    torch.manual_seed(1)
    model = RecurrentLanguageModel(RecurrentConfig(cell=cell, decoder_layers=2, **SIZES), 7).double()
    text, memory = torch.randint(7, (3, 12)), Memory()
    starts = torch.tensor([0, 40, 80])
    windows = [model(text[:, i : i + 4], memory=memory, starts=starts + i) for i in range(0, 12, 4)]
    torch.testing.assert_close(torch.cat(windows, dim=1), model(text), rtol=0, atol=1e-13)
    assert memory.state is not None
    assert not any(part.requires_grad for parts in memory.state for part in parts)


def test_a_row_that_goes_elsewhere_starts_from_nothing() -> None:
    torch.manual_seed(1)
    model, memory = RecurrentLanguageModel(RecurrentConfig(**SIZES), 7).double(), Memory()
    text = torch.randint(7, (2, 8))
    model(text[:, :4], memory=memory, starts=torch.tensor([0, 100]))
    seen = model(text[:, 4:], memory=memory, starts=torch.tensor([4, 50]))
    torch.testing.assert_close(seen[0], model(text)[0, 4:], rtol=0, atol=1e-13)
    torch.testing.assert_close(seen[1], model(text[:, 4:])[1], rtol=0, atol=1e-13)


def language_model(text: str, context: int, **training: Any) -> tuple[LanguageModel, Trainer]:
    """A trainer of a small recurrent language model on this text."""
    settings = {
        "text": LanguageModelText(context=context),
        "data": TextData(text="text.txt"),
        "training": LanguageModelTraining(warmup=1, **training),
    }
    documents = [Document(text, 1)]
    task = LanguageModel(LanguageModelState.prepare(settings, documents), settings)
    torch.manual_seed(1)
    model = task.build("recurrent", RecurrentConfig(cell="gru", width=24, embedding_width=16))
    return task, Trainer(task, model, task.encode(documents), task.encode(documents))


def test_the_windows_of_a_text_follow_each_other() -> None:
    """5 places of 26 windows of 4 tokens: 5 windows each, and the one that is left over changes with the epoch."""
    task, trainer = language_model("abcdefghijklm" * 8 + "a", 4, batch_tokens=20, truncate=3)
    lengths = task.lengths(trainer.train)
    assert len(lengths) == 26
    for epoch, first in ((0, 0), (1, 1), (2, 0)):
        plan = np.array(task.plan(lengths, epoch))
        assert plan.shape == (5, 5)
        assert plan[0, 0] == first
        assert (np.diff(plan, axis=0) == 1).all()
        assert len(set(plan.flatten().tolist())) == 25
    batches = [task.batch([trainer.train[i] for i in group]) for group in task.plan(lengths, 0)]
    for before, after in pairwise(batches):
        assert (before.starts + 4).tolist() == after.starts.tolist()
        assert before.predicted[:, -1].tolist() == after.read[:, 0].tolist()


def test_the_gradient_is_cut_and_the_state_is_not() -> None:
    task, trainer = language_model("abcdefghijklm" * 8 + "a", 8, batch_tokens=16, truncate=3)
    model = trainer.model
    words: list[torch.Tensor] = []
    model.input.register_forward_hook(lambda module, given, found: words.append(found))
    tokens = task.batch([trainer.train[0]]).read
    logits = model(tokens)
    (gradient,) = torch.autograd.grad(logits[0, 7].sum(), words[-1])
    reached = gradient[0].abs().sum(dim=-1) > 0
    assert reached.tolist() == [False] * 6 + [True] * 2  # cut before steps 3 and 6
    for part in model.modules():
        if isinstance(part, Recurrent):
            part.truncate = None
    torch.testing.assert_close(model(tokens), logits)


def test_a_carried_state_predicts_what_no_single_window_can() -> None:
    """In "aab aab ..." the letter after an a depends on the one before, which a window of one letter does not hold."""
    losses = {}
    for truncate in (None, 1):
        task, trainer = language_model("aab" * 60, 1, batch_tokens=4, truncate=truncate, lr=1e-2, steps=150)
        for group in islice(trainer.groups(), 150):
            trainer.update(group)
        trainer.model.eval()
        losses[truncate] = task.validate(trainer.model, trainer.validation)["loss"]
    assert losses[None] > 0.45  # 2/3 ln 2 = 0.462 at best
    assert losses[1] < 0.1


def test_a_continued_run_carries_the_same_state() -> None:
    """Stopped after 7 updates, in the middle of an epoch, and continued by another process: the same weights."""
    options = {"batch_tokens": 20, "truncate": 2, "steps": 20}
    text = "abcdefghijklm" * 8 + "a"
    _, whole = language_model(text, 4, **options)
    for group in islice(whole.groups(), 12):
        whole.update(group)
    _, first = language_model(text, 4, **options)
    for group in islice(first.groups(), 7):
        first.update(group)
    saved = Checkpoint(7, {name: tensor.clone() for name, tensor in first.tensors().items()}, first.state())
    _, second = language_model(text, 4, **options)
    second.restore(saved)
    for group in islice(second.groups(), 5):
        second.update(group)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
    assert any(name.startswith("carried.") for name in saved.tensors)


def test_a_trained_model_is_scored_as_it_was_trained() -> None:
    task, trainer = language_model("abcdefghijklm" * 8 + "a", 4, batch_tokens=20, truncate=2)
    description = task.state.description()
    assert description["carries"]
    files = task.state.files()
    reopened = LanguageModel(LanguageModelState.load(description, files.__getitem__, "here"))
    trainer.model.eval()
    again = reopened.evaluate(trainer.model, reopened.encode([Document("abcdefghijklm" * 8 + "a", 1)]))
    assert again.scores["loss"] == pytest.approx(task.validate(trainer.model, trainer.validation)["loss"], abs=1e-6)
    del description["carries"]
    assert not LanguageModelState.load(description, files.__getitem__, "here").carries


@pytest.mark.parametrize("attention", ["none", "state", "output"])
def test_seq2seq_is_cut_in_encoder_and_decoder(attention: Any) -> None:
    tokenizer = Tokenizer.train(["a b c d"], "word")
    task = Translation(TranslationState(tokenizer, tokenizer), {"training": TranslationTraining(truncate=2)})
    torch.manual_seed(0)
    config = RecurrentConfig(attention=attention, attention_width=7, **SIZES)
    cut = task.build("recurrent", config)
    assert isinstance(cut, RecurrentSeq2Seq)
    whole = Translation(task.state).build("recurrent", config)
    whole.load_state_dict(cut.state_dict())
    source, target = torch.randint(3, 8, (3, 7)), torch.randint(3, 8, (3, 5))
    gradients = []
    for model in (cut, whole):
        logits = model(source, None, target)
        logits.square().sum().backward()
        gradients.append(model.encoder.layers[0][0].state_weight.grad)
    torch.testing.assert_close(cut(source, None, target), whole(source, None, target))
    assert not torch.allclose(*gradients)


def test_only_a_recurrent_network_is_cut() -> None:
    settings = {"training": LanguageModelTraining(truncate=4)}
    task: Task = LanguageModel(LanguageModelState(Tokenizer.train(["text"], "character"), 8, False), settings)
    with pytest.raises(OptionError, match=r"training\.truncate only applies to recurrent networks"):
        task.build("transformer", TransformerConfig(decoder_layers=1))
