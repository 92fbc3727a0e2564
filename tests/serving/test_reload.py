"""A model folder that is replaced while it is served: opened next to the old one, checked, and swapped in."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from servers import Runner, Running, post

import untrained
from saccade.serving import Models
from saccade.serving.models import resting_checks, share_weights, version_of
from saccade.tasks.base.exporting import export
from saccade.tasks.base.model_folder import open_model

SENTENCE = "the cat sees the dog."


def replace_folder(target: Path, source: Path) -> None:
    """As `mv` would: the old folder goes, the new one has its name."""
    shutil.copytree(source, target.with_name("new"))
    target.rename(target.with_name("old"))
    target.with_name("new").rename(target)
    shutil.rmtree(target.with_name("old"))


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        threading.Event().wait(0.1)
    raise TimeoutError


def start(runner: Runner, folders: dict[str, Path], tmp_path: Path) -> tuple[Running, Path]:
    folder = tmp_path / "model"
    shutil.copytree(folders["tiny"], folder)
    models = Models()
    models.add(folder, "model")
    return runner.start(models), folder


def test_a_replaced_folder_answers_and_looks_keep_the_model_that_they_were_made_with(
    runner: Runner, folders: dict[str, Path], tmp_path: Path
) -> None:
    running, folder = start(runner, folders, tmp_path)
    old, new = (open_model(folders[name]).predict([SENTENCE])[0].text for name in ("tiny", "back"))
    assert old != new
    look = post(running.client, "/api/models/model/looks", input=SENTENCE)
    walk = {"name": "encoder.0.self", "head": 0}
    before = running.client.post(f"/api/looks/{look['id']}/walk", json=walk).json()
    replaced = running.models["model"]
    replace_folder(folder, folders["back"])
    assert version_of(folder) != replaced.version
    running.models.reload("model")
    assert post(running.client, "/api/models/model/predict", inputs=[SENTENCE])["answers"][0]["text"] == new
    # A request that had found the old model before the swap still gets its answer, and so does its look.
    assert replaced.batcher.predict([SENTENCE], {}).result(timeout=60)[0].text == old
    assert running.client.post(f"/api/looks/{look['id']}/walk", json=walk).json() == before


def test_a_damaged_folder_leaves_the_old_model_and_is_reported(
    runner: Runner, folders: dict[str, Path], tmp_path: Path
) -> None:
    running, folder = start(runner, folders, tmp_path)
    old = running.models["model"]
    replace_folder(folder, folders["back"])
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    running.models.reload("model")
    assert running.models["model"] is old
    ready = running.client.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "not_reloaded": ["model"]})
    assert post(running.client, "/api/models/model/predict", inputs=[SENTENCE])["answers"]
    shutil.rmtree(folder)
    shutil.copytree(folders["back"], folder)
    running.models.reload("model")
    assert running.client.get("/ready").json() == {"ready": True}
    assert running.models["model"] is not old


def test_the_watcher_reloads_what_was_replaced(runner: Runner, folders: dict[str, Path], tmp_path: Path) -> None:
    running, folder = start(runner, folders, tmp_path)
    old = running.models["model"]
    running.models.watch()
    replace_folder(folder, folders["back"])
    wait_until(lambda: running.models["model"] is not old)
    assert running.models["model"].version == version_of(folder)


def test_a_folder_of_another_library_is_reloaded_once_it_has_rested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.serving.models.RELOAD_SECONDS", 0.02)
    gpt2 = {"position": "learned", "max_length": 64, "activation": "gelu_tanh"}
    ours = untrained.writer(tmp_path / "ours", **gpt2)
    export(ours, "huggingface", tmp_path / "theirs", ["the cat"])
    weights, models = tmp_path / "theirs" / "model.safetensors", Models()
    old = models.add(tmp_path / "theirs")
    models.watch()
    good, checks = weights.read_bytes(), resting_checks(version_of(old.folder))
    assert checks > resting_checks(version_of(ours))
    for content, is_reloaded in ((good[:-8], False), (good[:-8] + bytes(8), True)):  # cut off, and its last weights 0
        weights.write_bytes(content)
        wait_until(lambda new=is_reloaded: models["theirs"] is not old if new else "theirs" in models.not_reloaded)
    assert not models.not_reloaded
    assert models["theirs"].version == version_of(old.folder)
    models.close()


def test_shared_weights_are_mapped_and_the_model_folder_no_longer_matters(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    predictor, other = open_model(folders["tiny"]), open_model(folders["tiny"])
    expected = {name: tensor.clone() for name, tensor in predictor.model.state_dict().items()}
    for one in (predictor, other):
        share_weights(one.model, tmp_path, "tiny")
    (file,) = tmp_path.iterdir()
    assert Path("/proc/self/maps").read_text().count(str(file)) == 2
    for one in (predictor, other):
        assert one.model.state_dict().keys() == expected.keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in one.model.state_dict().items())
    share_weights(open_model(folders["back"]).model, tmp_path, "tiny")
    assert not file.exists()  # nobody opens it again; whoever has mapped it keeps it
    assert torch.equal(next(predictor.model.parameters()), next(other.model.parameters()))


def test_shared_weights_that_another_process_removes_meanwhile_are_written_again(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, removed = safetensors.torch.load_file, list[Path]()

    def load_later(path: Path) -> dict[str, torch.Tensor]:
        if not removed:
            removed.append(path)
            path.unlink()
        return load(path)

    monkeypatch.setattr("safetensors.torch.load_file", load_later)
    predictor = open_model(folders["back"])
    share_weights(predictor.model, tmp_path, "back")
    assert list(tmp_path.iterdir()) == removed
    assert Path("/proc/self/maps").read_text().count(str(removed[0])) == 1
