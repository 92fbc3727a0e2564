"""Models that other programs wrote are named for what they are, by every command that opens a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from commands import Capture, assert_refused, run

from saccade.storage import foreign_format


def files(*names: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in names:
            (folder / name).write_bytes(b"x")

    return write


FOLDERS: dict[str, Callable[[Path], object]] = {
    "a CTranslate2 folder": files("config.json", "model.bin", "vocabulary.json"),
    "a fairseq folder": files("checkpoint_best.pt", "dict.en.txt"),
    "a JoeyNMT folder": files("best.ckpt", "config.yaml"),
    "a folder of PyTorch checkpoints": lambda folder: torch.save({}, folder / "last.pt"),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_named_for_what_it_is(capsys: Capture, tmp_path: Path, kind: str) -> None:
    FOLDERS[kind](tmp_path)
    capsys.readouterr()  # what the other library printed
    for command in (["look", tmp_path, "a text"], ["predict", tmp_path, "a text"], ["serve", tmp_path]):
        assert_refused(run(capsys, *command), f"{tmp_path} is {kind}, which Saccade cannot open.")


def test_a_file_is_named_for_what_it_is(capsys: Capture, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "model.pt")
    safetensors.torch.save_file({"a": torch.zeros(3)}, tmp_path / "model.safetensors")
    (tmp_path / "model.gguf").write_bytes(b"GGUF\x03\0\0\0")
    for name, kind in {
        "model.pt": "a zip archive, perhaps a PyTorch checkpoint",
        "model.safetensors": "a file of tensors (safetensors)",
        "model.gguf": "a GGUF file",
    }.items():
        assert_refused(run(capsys, "predict", tmp_path / name, "a text"), f"{tmp_path / name} is {kind}, which")


def test_what_is_nobodys_is_not_named(tmp_path: Path) -> None:
    assert foreign_format(tmp_path) is None
    assert foreign_format(tmp_path / "none") is None
    (tmp_path / "text").write_bytes(b"a text")
    assert foreign_format(tmp_path / "text") is None


def test_our_own_folder_without_its_manifest_is_damaged(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"format": 1, "task": "translation"}')
    assert_refused(run(capsys, "predict", tmp_path, "a text"), "Damaged file", "manifest.json: it is missing")
