"""ONNX Runtime as an engine: the answers of torch, and attention from the same network to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import saccade
import untrained
from saccade.cli.main import app
from saccade.errors import OptionError, StaleTraceError
from saccade.tasks.base import encoder_engine
from saccade.tasks.base.encoder_engine import EncoderEngine
from saccade.tasks.base.predictor import Predictor

TEXTS = ["the black cat sees the dog.", "dog", "the", "the cat the dog the cat sees the black dog.", "zebra!"]


def scores(predictor: Predictor, inputs: list[Any]) -> list[list[float]]:
    """All numbers of the answers: probabilities, or vectors and their similarity."""
    found = []
    for answer in predictor.predict(inputs):
        vectors = [number for vector in getattr(answer, "vectors", ()) for number in vector]
        found.append([answer.score or 0.0, *getattr(answer, "probabilities", {}).values(), *vectors])
    return found


def with_engine(predictor: Predictor) -> Predictor:
    engine = type(predictor).open_engine("onnx", predictor.bundle, "cpu", "fp32", 1)
    return type(predictor)(predictor.bundle, engine=engine)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, Predictor]:
    """A classifier, opened with torch and with ONNX Runtime. Writing the graph takes seconds."""
    folder = untrained.sorter(tmp_path_factory.mktemp("sorter") / "model")
    return saccade.open(folder), saccade.open(folder, engine="onnx")


def compare(ours: Predictor, theirs: Predictor) -> None:
    for inputs in (TEXTS, TEXTS[:1], [*TEXTS, ""]):
        torch.testing.assert_close(scores(theirs, inputs), scores(ours, inputs), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("longest", [encoder_engine.LONGEST, 4])
def test_a_classifier_gives_the_same_answers(
    both: tuple[Predictor, Predictor], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_engine, "LONGEST", longest)
    assert both[1].engine_name == "ONNX Runtime"
    compare(*both)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_every_pooling_gives_the_same_answers(pooling: str, tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model", pooling=pooling)
    compare(saccade.open(folder), saccade.open(folder, engine="onnx"))


def test_a_sentence_encoder_gives_the_same_vectors() -> None:
    ours = untrained.comparer()
    theirs = with_engine(ours)
    inputs = [["the cat", "the black dog sees"], ["dog", "cat"]]
    torch.testing.assert_close(scores(theirs, inputs), scores(ours, inputs), rtol=1e-4, atol=1e-5)


def test_the_attention_is_that_of_torch(both: tuple[Predictor, Predictor]) -> None:
    ours, theirs = (predictor.predict(TEXTS[:1])[0].view for predictor in both)
    assert ours.names == theirs.names
    for name in ours.names:
        assert torch.equal(ours.matrix(name), theirs.matrix(name))


def test_an_edit_changes_the_answer(both: tuple[Predictor, Predictor]) -> None:
    found = []
    for predictor in both:
        with saccade.edit(predictor.model, without_heads=["encoder.0.self:0", "encoder.1.self:1"]):
            found.append(scores(predictor, TEXTS))
    assert found[0] == found[1] != scores(both[0], TEXTS)


def test_weights_that_changed_are_noticed(both: tuple[Predictor, Predictor]) -> None:
    weight = next(both[1].model.parameters()).data
    before = weight.clone()
    weight.add_(1)
    with pytest.raises(StaleTraceError, match="since ONNX Runtime copied them"):
        both[1].predict(TEXTS)
    weight.copy_(before)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (untrained.tagger, "--engine onnx does not apply to tagging models"),
        (untrained.translator, "--engine onnx does not apply to translation models"),
        (untrained.writer, "--engine onnx does not apply to language-model models"),
        (lambda folder: untrained.sorter(folder, kind="recurrent"), "Only Transformers can be exported to ONNX"),
    ],
)
def test_other_models_are_refused(make: Callable[[Path], Path], said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=said):
        saccade.open(make(tmp_path / "model"), engine="onnx")


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model")
    with pytest.raises(OptionError, match="--engine onnx computes in fp32, not in bf16"):
        saccade.open(folder, precision="bf16", engine="onnx")
    with pytest.raises(OptionError, match="with 1 worker, not on cpu, in fp32 and with 2"):
        saccade.open(folder, workers=2, engine="onnx")
    with pytest.raises(OptionError, match="does not run the network Linear"):
        EncoderEngine(torch.nn.Linear(2, 2), "cpu", "fp32")


@pytest.mark.slow
def test_the_command_line_says_who_computed(tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model")
    found = CliRunner().invoke(app, ["predict", str(folder), TEXTS[0], "--engine", "onnx"])
    assert found.exit_code == 0, found.output
    assert "computed by ONNX Runtime" in found.stderr
    torch_says = CliRunner().invoke(app, ["predict", str(folder), TEXTS[0]])
    assert found.stdout == torch_says.stdout
