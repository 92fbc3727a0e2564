"""Exported graphs take inputs of any length, and ONNX Runtime gives our numbers; other networks are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from tiny import WORDS, bert, labelling, save, save_bert, t5, vit

import saccade
import untrained
from saccade.errors import ExportError, OptionError
from saccade.tasks.base.exporting import export, onnx
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.text_autoencoder.task import TextAutoencoder, TextAutoencoderState
from saccade.text import Tokenizer


def piece_tagger(folder: Path) -> Path:
    save(labelling("Token", bert, vocab_size=len(WORDS)), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def sentence_encoder(folder: Path) -> Path:
    from transformers import BertModel

    made = save_bert(folder.with_name("whole"))
    BertModel.from_pretrained(made).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def text_rebuilder(folder: Path) -> Path:
    task = TextAutoencoder(TextAutoencoderState(Tokenizer.train(untrained.ENGLISH, "word")))
    return untrained.write_untrained(folder, task, NeighbourOptions(), code_width=5)


def word_tagger(folder: Path) -> Path:
    return untrained.tagger(folder, spelling="convolution")


QUICK: dict[str, Callable[[Path], Path]] = {"writer": untrained.writer, "images": untrained.image_classifier}
SLOW: dict[str, Callable[[Path], Path]] = {
    "translator": untrained.translator,
    "T5, by ids": lambda folder: save(t5(), folder),
    "filler": untrained.filler,
    "sorter": untrained.sorter,
    "tagger of words": word_tagger,
    "tagger of pieces": piece_tagger,
    "sentence encoder": sentence_encoder,
    "captioner": untrained.captioner,
    "text rebuilder": text_rebuilder,
    "image rebuilder": untrained.image_rebuilder,
    "ViT": lambda folder: save(vit(), folder),
}
INPUTS = {"T5, by ids": ["3 4 5 6", "7 8 9"], "tagger of pieces": ["the dogs sleep here .", "very good"]}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_onnx_runtime_gives_our_numbers(name: str, tmp_path: Path) -> None:
    folder = {**QUICK, **SLOW}[name](tmp_path / "model")
    said = export(folder, "onnx", tmp_path / "out", INPUTS.get(name, ()))
    assert said.startswith("ONNX Runtime gives the same ")
    card = (tmp_path / "out" / "README.md").read_text()
    assert said in card
    for file in (tmp_path / "out").glob("*.onnx"):
        assert f"| {file.name} |" in card
        session = onnxruntime.InferenceSession(file)
        assert all(isinstance(one.shape[0], str) for one in session.get_inputs())  # any number of inputs at once


@pytest.mark.slow
def test_a_graph_takes_other_lengths_than_those_that_were_compared(tmp_path: Path) -> None:
    folder = untrained.writer(tmp_path / "model")
    export(folder, "onnx", tmp_path / "out", ["ab"])
    session = onnxruntime.InferenceSession(tmp_path / "out" / "decoder.onnx")
    model = saccade.open(folder).model
    for batch, length in ((1, 1), (3, 23)):
        tokens = torch.randint(model.config.width, (batch, length))
        empty = np.zeros((batch, 2, 0, 6), np.float32)
        given = {one.name: empty for one in session.get_inputs()} | {"tokens": tokens.numpy()}
        found = torch.from_numpy(session.run(["logits"], given)[0])
        with torch.no_grad():
            torch.testing.assert_close(found, model(tokens), rtol=1e-4, atol=1e-4)


def test_other_networks_are_refused_by_name(tmp_path: Path) -> None:
    recurrent = untrained.sorter(tmp_path / "recurrent", kind="recurrent")
    with pytest.raises(OptionError, match="Only Transformers can be exported to ONNX, not the network Classifier"):
        export(recurrent, "onnx", tmp_path / "out")
    with pytest.raises(OptionError, match="A tagger with spelling = recurrent cannot be exported to ONNX"):
        export(untrained.tagger(tmp_path / "tagger"), "onnx", tmp_path / "out")
    for make, name in ((untrained.forecaster, "AgentTransformer"), (untrained.rna_folder, "PairNetwork")):
        with pytest.raises(OptionError, match=f"not the network {name}"):
            export(make(tmp_path / name), "onnx", tmp_path / "out")


def test_other_numbers_are_found_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = untrained.image_classifier(tmp_path / "model")
    run = onnx.run_graph
    monkeypatch.setattr(onnx, "run_graph", lambda *given: {name: one + 1e-2 for name, one in run(*given).items()})
    with pytest.raises(ExportError, match="ONNX Runtime gives different logits from Saccade"):
        export(folder, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
