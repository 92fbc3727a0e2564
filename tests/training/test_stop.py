"""Ctrl-C and SIGTERM in each phase of a run: it is saved, says how to go on, and goes on to the same bits."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import PATIENCE, Command, final_weights, last_step, saccade, tables, write_recipe

#: In the order in which one run comes to them, each in a process that goes on from the one before.
PHASES = {
    "reading the data": ("TranslationFiles.read", 1),
    "preparing the tokenizer": ("TranslationState.prepare", 1),
    "encoding": ("Translation.encode", 1),
    "training": ("Trainer.update", 13),
    "validating": ("Translation.validate", 1),
    "saving": ("CheckpointStore.save", 1),
    "finishing": ("Translation.finish", 1),
    "scoring": ("Translation.evaluate", 1),
}


@pytest.mark.parametrize(
    ("number", "model", "final"),
    [
        (signal.SIGTERM, "recurrent", "best"),
        pytest.param(signal.SIGINT, "transformer", "ema", marks=pytest.mark.slow),
    ],
)
def test_a_signal_in_each_phase(tmp_path: Path, number: signal.Signals, model: str, final: str) -> None:
    recipe = write_recipe(tmp_path, model, final=final, ema=0.9)
    arguments = ["train", str(recipe), "-o", str(tmp_path / "run")]
    for phase, place in PHASES.items():
        code, out, err = saccade(tmp_path / "stopped", *arguments, signal_at=(number, *place))
        assert (phase, code, err) == (phase, 130, "")
        assert out.count("Stopped") == 1
        assert ("Stopped and saved." in out) == any((tmp_path / "run" / "checkpoints").glob("step-*"))
        assert out.endswith(f"Continue with the same command: {shlex.join(['saccade', *arguments])}\n")
    assert not (tmp_path / "run" / "result.json").exists()
    assert saccade(tmp_path / "last", *arguments)[0] == 0
    assert saccade(tmp_path / "unstopped", "train", recipe, "-o", tmp_path / "unstopped")[0] == 0
    assert final_weights(tmp_path / "run") == final_weights(tmp_path / "unstopped")


def test_a_signal_saves_the_very_step(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    run = tmp_path / "run"
    place = (signal.SIGTERM, "Trainer.update", 13)
    assert saccade(tmp_path / "stopped", "train", recipe, "-o", run, signal_at=place)[0] == 130
    assert last_step(run) == 13
    assert sorted(os.listdir(run / "checkpoints")) == ["step-00000010", "step-00000013"]
    code, out, _ = saccade(tmp_path / "again", "train", recipe, "-o", run)
    assert code == 0
    assert "Continuing from step 13 of 40." in out


def test_the_command_as_a_person_starts_it(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=300, validate_every=100)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "saccade.cli", "train", recipe, "-o", run]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=one_thread, stdout=subprocess.PIPE, text=True) as process:
        while last_step(run) < 12:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out.endswith(f"Continue with the same command: saccade train {recipe} -o {run}\n")
    assert saccade(tmp_path / "last", "train", recipe, "-o", run)[0] == 0
    assert saccade(tmp_path / "unstopped", "train", recipe, "-o", tmp_path / "unstopped")[0] == 0
    assert final_weights(run) == final_weights(tmp_path / "unstopped")


def test_data_that_never_comes_does_not_hold_a_stop_up(tmp_path: Path) -> None:
    table = Path(tables(tmp_path)["data"]["table"])
    table.rename(tmp_path / "kept")
    os.mkfifo(table)
    recipe = write_recipe(tmp_path)
    command = Command(["train", recipe, "-o", tmp_path / "run"], tmp_path / "stopped")
    writer = os.open(table, os.O_WRONLY)  # returns once the command has opened the file and waits for a line
    os.kill(command.process.pid or 0, signal.SIGTERM)
    assert command.exit_code() == 130
    assert "Continue with the same command" in command.out
    os.close(writer)
    (tmp_path / "kept").replace(table)
    assert saccade(tmp_path / "again", "train", recipe, "-o", tmp_path / "run")[0] == 0
