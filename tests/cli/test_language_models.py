"""The commands on language models: trained, asked, looked at, scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Capture, assert_refused, run, succeed

TEXT = "the cat saw a dog .\na dog saw the cat .\n" * 30
SIZES = ["width=16", "num_heads=2", "feedforward_width=16"]
TRAINING = ["steps=40", "warmup=4", "batch_tokens=256", "validate_every=20", "lr=0.01"]


def options(*more: str) -> list[str]:
    values = [*(f"model.{one}" for one in SIZES), *(f"training.{one}" for one in TRAINING), *more]
    return [part for value in values for part in ("--set", value)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("language")
    (made / "text.txt").write_text(TEXT)
    return made


def recipe(folder: Path, task: str, text: str) -> Path:
    path = folder / f"{task}.toml"
    path.write_text(f'task = "{task}"\n[data]\ntext = "{folder / "text.txt"}"\n[text]\n{text}\n')
    return path


@pytest.fixture(scope="module")
def writer(folder: Path) -> Path:
    from saccade.cli.main import main

    made = folder / "writer"
    path = recipe(folder, "language-model", "context = 24")
    with pytest.raises(SystemExit) as left:
        main(["train", str(path), "-o", str(made), *options("model.decoder_layers=1")])
    assert not left.value.code
    return made


def test_text_is_written_on(capsys: Capture, writer: Path) -> None:
    first = succeed(capsys, "predict", writer, "the ", "--max-tokens", "12", "--seed", "3")
    assert first == succeed(capsys, "predict", writer, "the ", "--max-tokens", "12", "--seed", "3")
    found = json.loads(succeed(capsys, "predict", writer, "the ", "--max-tokens", "12", "--seed", "3", "--json"))
    assert found["text"] + "\n" == first
    assert len(found["tokens"]) == len(found["log_probabilities"]) == 12
    tries = succeed(capsys, "predict", writer, "the ", "--tries", "3", "--max-tokens", "5", "--temperature", "2")
    assert len(tries.splitlines()) >= 3
    assert "." not in succeed(capsys, "predict", writer, "the ", "--stop", ".", "--max-tokens", "60")


def test_text_is_looked_at_and_scored(capsys: Capture, writer: Path, folder: Path) -> None:
    assert "decoder.0.self" in succeed(capsys, "look", writer, "the cat")
    assert "the 3 generated tokens" in succeed(capsys, "look", writer, "the cat", "--max-tokens", "3")
    assert "bits" in succeed(capsys, "evaluate", writer, "--data", folder / "text.txt")


def test_a_hole_is_filled(capsys: Capture, folder: Path) -> None:
    made = folder / "filler"
    path = recipe(folder, "masked-language-model", 'kind = "word"\ncontext = 16')
    code, _, _ = run(capsys, "train", path, "-o", made, *options("model.encoder_layers=1"))
    assert code == 0
    assert len(succeed(capsys, "predict", made, "the [MASK] saw a dog .").splitlines()) == 5
    assert_refused(run(capsys, "predict", made, "the cat"), "There is no [MASK] in 'the cat'")
    assert "mask 1:" in succeed(capsys, "look", made, "the [MASK] saw a dog .")


def test_an_empty_document_is_refused_by_its_line(capsys: Capture, folder: Path) -> None:
    (folder / "gap.txt").write_text("one\n\ntwo\n")
    path = folder / "gap.toml"
    path.write_text(f'task = "masked-language-model"\n[data]\ntext = "{folder / "gap.txt"}"\n')
    assert_refused(
        run(capsys, "train", path, "-o", folder / "gap"), "gap.txt, line 2: the document is empty; expected text"
    )
