"""A folder that tells its version in each of its files, for tests that replace one by another."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from saccade.storage import Content, json_bytes, open_folder, read_bytes, read_json, read_tensors, verify_folder

__all__ = ["version", "version_of"]


def version(number: int, size: int = 7) -> dict[str, Content]:
    """The files of one version of a folder; each tells its version."""

    def write_readme(path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"version ")  # a kill between the two leaves half a file
        os.write(descriptor, str(number).encode())
        os.close(descriptor)

    return {
        "config.json": json_bytes({"version": number}),
        "model.safetensors": {"weight": torch.full((size, 3), float(number))},
        "README.md": write_readme,
    }


def version_of(path: Path) -> int:
    """The version of a folder, after checking that all its files are of that one."""
    folder = open_folder(path)
    verify_folder(folder)
    config = read_json(folder, "config.json")
    assert isinstance(config, dict)
    number = config["version"]
    assert isinstance(number, int)
    assert (read_tensors(folder, "model.safetensors")["weight"] == number).all()
    assert read_bytes(folder, "README.md") == f"version {number}".encode()
    return number
