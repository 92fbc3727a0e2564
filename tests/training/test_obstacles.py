"""A limit, a full disk, a folder that cannot be written: one sentence, exit code 2, the old checkpoint good."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import final_weights, saccade, write_recipe

from saccade.errors import StorageError
from saccade.storage import write_file
from saccade.storage.run_log import read_metrics
from saccade.training.checkpoint import CheckpointStore
from saccade.training.metrics import MetricsLog

IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def one_sentence(err: str) -> str:
    assert err.startswith("saccade: ")
    assert err.count("\n") == 1, err
    return err


def good_steps(run: Path) -> list[int]:
    """The checkpoints, each of them read; one that is damaged raises."""
    store = CheckpointStore(run / "checkpoints")
    return [store.load(step).step for step in store.steps()]


def test_a_limit_of_the_file_size(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    run = tmp_path / "run"
    place = (signal.SIGTERM, "Trainer.update", 13)
    assert saccade(tmp_path / "begun", "train", recipe, "-o", run, signal_at=place)[0] == 130
    checkpoint = (run / "checkpoints" / "step-00000013" / "tensors.safetensors").stat().st_size
    limit = checkpoint - 1  # the model, without the optimizer, still fits
    code, _, err = saccade(tmp_path / "limited", "train", recipe, "-o", run, file_size=limit)
    assert code == 2
    assert f"Cannot write {run / 'checkpoints' / 'step-00000020'}: File too large." in one_sentence(err)
    assert good_steps(run) == [10, 13]
    assert saccade(tmp_path / "again", "train", recipe, "-o", run)[0] == 0
    assert saccade(tmp_path / "unstopped", "train", recipe, "-o", tmp_path / "unstopped")[0] == 0
    assert final_weights(run) == final_weights(tmp_path / "unstopped")


def test_small_files_under_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_file(path, b"old")
    log = MetricsLog(tmp_path / "metrics.jsonl", 0, 0)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
    try:
        with pytest.raises(StorageError, match=r"Cannot write .*result\.json: File too large"):
            write_file(path, b"new" * 30)
        log.write(1, loss=2.5)
        with pytest.raises(StorageError, match=r"Cannot write .*metrics\.jsonl: File too large"):
            log.write(2, loss=2.25)
        with pytest.raises(StorageError, match=r"Cannot write .*metrics\.jsonl: File too large"):
            log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert path.read_text() == "old"
    assert read_metrics(tmp_path / "metrics.jsonl")[0] == [{"step": 1, "loss": 2.5}]
    assert sorted(os.listdir(tmp_path)) == ["metrics.jsonl", "result.json"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    (tmp_path / "file").touch()
    for run in (Path("/proc/saccade/run"), tmp_path / "file" / "run", tmp_path / "file"):
        code, out, err = saccade(tmp_path / "log", "train", recipe, "-o", run)
        assert (code, out) == (2, "")
        assert str(run) in one_sentence(err)
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode != 0,
    reason="this system lets nobody mount a file system of their own",
)
def test_a_full_disk_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    recipe = write_recipe(tmp_path, steps=20)
    done = subprocess.run(
        [*IN_NAMESPACE, sys.executable, __file__, tmp_path, recipe], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert saccade(tmp_path / "unstopped", "train", recipe, "-o", tmp_path / "unstopped")[0] == 0
    assert final_weights(tmp_path / "kept") == final_weights(tmp_path / "unstopped")


def on_a_small_disk(folder: Path, recipe: Path) -> None:
    """Run the command on a disk that is full, then read-only, then large enough; keep what it made."""
    disk = folder / "disk"
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(disk)]
    # Room for a model, a checkpoint and a half; then for everything.
    sizes = {"size=200k": "No space left", "remount,ro": "Read-only file system", "remount,rw,size=9m": ""}
    for options, reason in sizes.items():
        subprocess.run([*mount, "-o", options], check=True)
        code, _, err = saccade(folder / "log", "train", recipe, "-o", disk / "run")
        assert code == (2 if reason else 0), err
        assert reason in (one_sentence(err) if reason else "")
        assert good_steps(disk / "run")
    shutil.copytree(disk / "run", folder / "kept")


if __name__ == "__main__":
    on_a_small_disk(Path(sys.argv[1]), Path(sys.argv[2]))
