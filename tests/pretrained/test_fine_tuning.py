"""Train from a folder of another library: its weights and tokenizer are kept, and LoRA changes only what it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tiny import CONTINUING, VOCABULARY, save, save_bert

import saccade
from saccade.errors import OptionError, UnknownNameError
from saccade.models.low_rank import PROJECTIONS
from saccade.pretrained import read_pretrained
from saccade.training.fine_tuning import rate_share

TEXTS = ["the film was good", "the film was bad", "the dog was very good .", "the cat was very bad ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [f"{text}\t{'pos' if 'good' in text else 'neg'}" for text in TEXTS * 5]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return tmp_path / "texts.tsv"


def train(data: Path, folder: Path | None, output: Path, **training: Any) -> saccade.Run:
    recipe = {
        "task": "classification",
        "data": {"file": str(data), "validation": 0.2},
        "model": {"pooling": "mean"},
        "training": {"steps": 2, "warmup": 0, "validate_every": 1, "lr": 0.05, "batch_tokens": 64, **training},
    }
    return saccade.train(recipe, output=output, init=folder, quiet=True)


def test_a_classifier_starts_from_the_vectors_of_the_home_library(data: Path, folder: Path, tmp_path: Path) -> None:
    opened = train(data, folder, tmp_path / "run", lr=1e-12, steps=1).open()
    batch = opened.task.plain_batch(opened._encode(TEXTS))  # of several lengths
    given = hf.BertTokenizer(str(folder / "vocab.txt"))(TEXTS, padding=True, return_tensors="pt")
    assert torch.equal(batch.tokens, given["input_ids"])
    with torch.no_grad():
        states = hf.BertModel.from_pretrained(folder).eval()(**given).last_hidden_state
        found = opened.model.features(batch.tokens, batch.lengths)
    real = given["attention_mask"].unsqueeze(-1)
    expected = (states * real).sum(dim=1) / real.sum(dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    shown = opened.predict(TEXTS)[2].view.columns["encoder.0.self"].tokens
    assert shown == ["[CLS]", "▁the", "▁dog", "▁was", "▁very", "▁good", "▁.", "[SEP]"]


def test_lora_saved_apart_leaves_every_weight_as_it_was(data: Path, folder: Path, tmp_path: Path) -> None:
    settings = {"lora_rank": 2, "lora_on": ["query", "outer"], "steps": 3}
    runs = {how: train(data, folder, tmp_path / how, lora_saved=how, **settings) for how in ("apart", "merged")}
    before = read_pretrained(folder).network.state_dict()
    base = load_file(tmp_path / "apart/model/model.safetensors")
    factors = load_file(tmp_path / "apart/model/adapter.safetensors")
    assert sorted({name.rpartition(".")[0] for name in factors}) == [
        f"encoder.{layer}.{part}" for layer in (0, 1) for part in ("feedforward.outer", "self.query")
    ]
    assert {name for name in base if name not in before or not torch.equal(base[name], before[name])} == {
        "output.weight",
        "output.bias",
    }
    merged = load_file(tmp_path / "merged/model/model.safetensors")
    for name, tensor in merged.items():
        layer = name.removesuffix(".weight")
        added = factors[f"{layer}.up"] @ factors[f"{layer}.down"] if f"{layer}.up" in factors else 0.0
        torch.testing.assert_close(tensor, base[name] + added)
    answers = [[one.probabilities for one in run.open().predict(TEXTS)] for run in runs.values()]
    assert answers[0] == answers[1]
    assert not torch.equal(merged["encoder.0.self.query.weight"], before["encoder.0.self.query.weight"])


@pytest.mark.parametrize("final", ["last", "best", "average", "ema"])
def test_lora_goes_on_where_it_stopped(data: Path, folder: Path, tmp_path: Path, final: str) -> None:
    settings = {"lora_rank": 2, "final": final, "schedule": "constant"}
    whole = train(data, folder, tmp_path / "whole", **settings, steps=4)
    train(data, folder, tmp_path / "parts", **settings, steps=2)
    parts = train(data, folder, tmp_path / "parts", **settings, steps=4)
    found = [load_file(run.folder / "model/model.safetensors") for run in (whole, parts)]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_frozen_parts_keep_their_weights(data: Path, folder: Path, tmp_path: Path) -> None:
    train(data, folder, tmp_path / "run", frozen=["input", "encoder.0"], final="last")
    before, after = read_pretrained(folder).network.state_dict(), load_file(tmp_path / "run/model/model.safetensors")
    same = {name for name, tensor in before.items() if name in after and torch.equal(after[name], tensor)}
    assert same == {name for name in after if name.startswith(("input.", "encoder.0."))}


def test_settings_that_cannot_apply_are_refused(data: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"encoder\.7"):
        train(data, folder, tmp_path / "a", frozen=["encoder.7"])
    with pytest.raises(OptionError, match="so nothing would be trained"):
        train(data, folder, tmp_path / "b", frozen=["input", "encoder", "output"])
    with pytest.raises(OptionError, match="give one with --init"):
        train(data, None, tmp_path / "c", lora_rank=2)
    assert not any((tmp_path / name).exists() for name in "abc")


def test_lower_blocks_have_lower_rates() -> None:
    names = [
        "input.words.weight",
        *(f"encoder.{n}.{part}.weight" for n in range(3) for part in PROJECTIONS),
        "encoder_norm.weight",
        "output.weight",
    ]
    shares = [rate_share(name, names, 0.5) for name in names]
    assert shares == [0.125, *[0.25] * 5, *[0.5] * 5, *[1.0] * 5, 1.0, 1.0]
    assert {rate_share(name, names, 1.0) for name in names} == {1.0}


def test_a_tagger_reads_the_words_as_the_home_library_does(folder: Path, tmp_path: Path) -> None:
    rows = "\n\n".join(
        "\n".join(f"{word}\t{'N' if word in ('dog', 'cat') else 'X'}" for word in text.split()) for text in TEXTS
    )
    (tmp_path / "tags.txt").write_text(rows + "\n")
    recipe = {
        "task": "tagging",
        "data": {"file": str(tmp_path / "tags.txt"), "validation": 0.25},
        "training": {"steps": 1, "warmup": 0, "validate_every": 1, "lr": 1e-12, "batch_tokens": 64},
    }
    opened = saccade.train(recipe, output=tmp_path / "run", init=folder, quiet=True).open()
    sentences = [["the", "dogs", "sleep"], ["cats", "was", "very", "good", "."]]
    batch = opened.task.batch([opened.prepare(words) for words in sentences])
    tokenizer = hf.BertTokenizer(str(folder / "vocab.txt"))
    given = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    assert given["input_ids"][0].tolist() == [2, 5, 6, 9, 8, 3, 0, 0]  # [CLS] the dog ##s sleep [SEP]
    with torch.no_grad():
        states = hf.BertModel.from_pretrained(folder).eval()(**given).last_hidden_state
        found = opened.model.features(batch.words, batch.pieces, batch.characters, batch.lengths)
    expected = torch.stack(
        [states[0, 1], states[0, 2:4].mean(dim=0), states[0, 4], *states[1, 1:3].mean(dim=0)[None], *states[1, 3:7]]
    )
    torch.testing.assert_close(found[batch.real], expected, rtol=1e-5, atol=1e-5)
    shown = opened.predict([sentences[0]])[0].view.columns["encoder.1.self"]
    assert shown.tokens == ["[CLS]", "▁the", "▁dog", "s", "▁sleep", "[SEP]"]


def test_a_language_model_goes_on_from_a_folder(tmp_path: Path) -> None:
    theirs = CONTINUING["gpt2"]()
    save(theirs, tmp_path / "gpt2")
    text = " ".join(str(id) for id in torch.randint(1, VOCABULARY, (400,)).tolist())  # a folder without a tokenizer
    (tmp_path / "ids.txt").write_text(text + "\n")
    recipe = {
        "task": "language-model",
        "data": {"text": str(tmp_path / "ids.txt"), "validation": 0.3},
        "text": {"context": 11},
        "training": {"steps": 1, "warmup": 0, "validate_every": 1, "lr": 1e-12, "batch_tokens": 64},
    }
    opened = saccade.train(recipe, output=tmp_path / "run", init=tmp_path / "gpt2", quiet=True).open()
    tokens = torch.tensor([[4, 9, 17, 2]])
    with torch.no_grad():
        torch.testing.assert_close(opened.model(tokens), theirs(tokens).logits, rtol=1e-5, atol=1e-5)
    assert opened.predict("4 9 17 2", sample=False, max_tokens=5)[0].text
