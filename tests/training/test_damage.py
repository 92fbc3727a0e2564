"""Fifty flipped bits and truncations of what a real run made: none goes unseen."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_runs import final_weights, saccade, write_recipe

from saccade.cli.main import main
from saccade.training.checkpoint import CheckpointStore

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    recipe = write_recipe(folder, "recurrent", steps=30)
    assert saccade(folder / "log", "train", recipe, "-o", folder / "run")[0] == 0
    return folder / "run"


@contextmanager
def damage(paths: list[Path], chance: random.Random) -> Iterator[Path]:
    """One bit flipped, or the end cut off, in one of the files; then as it was."""
    path = chance.choice(paths)
    good = path.read_bytes()
    bad = bytearray(good)
    at = chance.randrange(len(good))
    if chance.random() < 0.5:
        bad[at] ^= 1 << chance.randrange(8)
    else:
        del bad[at:]
    path.write_bytes(bad)
    try:
        yield path
    finally:
        path.write_bytes(good)


def test_a_damaged_checkpoint_is_named_and_the_previous_used(run: Path) -> None:
    chance = random.Random(4)
    files = sorted((run / "checkpoints" / "step-00000030").iterdir())
    assert len(files) == 3
    for _ in range(25):
        with damage(files, chance) as path:
            said: list[str] = []
            found = CheckpointStore(run / "checkpoints").latest(said.append)
        assert found is not None
        assert found.step == 20
        assert len(said) == 1
        assert str(path) in said[0]


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["config.json", "manifest.json", "model.safetensors", "tokenizer.json"], 20),
        (["README.md", "recipe.toml"], 5),
    ],
)
def test_a_damaged_model_is_named_and_not_used(run: Path, capsys: Capture, names: list[str], times: int) -> None:
    chance = random.Random(5)
    for _ in range(times):
        with damage([run / "model" / name for name in names], chance) as path, pytest.raises(SystemExit) as left:
            main(["predict", str(run), "one two"])
        assert left.value.code == 2, path
        printed = capsys.readouterr()
        assert printed.out == ""
        assert str(path) in printed.err
    with pytest.raises(SystemExit) as left:
        main(["predict", str(run), "one two"])
    assert left.value.code == 0


def test_a_run_goes_on_from_the_checkpoint_before_the_damaged_one(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "result.json").unlink()  # as if it had not ended
    tensors = copy / "checkpoints" / "step-00000030" / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    code, out, err = saccade(tmp_path / "log", "train", run.parent / "recurrent.toml", "-o", copy)
    assert (code, err) == (0, "")
    assert f"Skipped the checkpoint of step 30. Damaged file {tensors}" in out
    assert "Continuing from step 20 of 30." in out
    assert final_weights(copy) == final_weights(run)
