"""Folders of other libraries with any value of config.json changed: opened, or refused in one sentence."""

from __future__ import annotations

import json
import resource
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import MODELS, save

from saccade.errors import FileError, SaccadeError
from saccade.pretrained import read_pretrained

HOSTILE: list[Any] = [
    *(0, -1, 1, 3, 10**4, 10**6, 2**40, 10**400),
    *(0.5, -0.5, 1e308, float("inf"), float("nan")),
    *(True, None, "", "x" * 1000, [], [[]], ["x"], {}),
]


def check(folder: Path, values: list[Any]) -> int:
    """Every field with each of these values; returns how many folders were tried."""
    path = folder / "config.json"
    config, tried = json.loads(path.read_text()), 0
    for key in config:
        for value in values:
            path.write_text(json.dumps(config | {key: value}))
            tried += 1
            said = ""
            try:
                read_pretrained(folder)
            except SaccadeError as error:
                said = str(error)
            assert "\n" not in said, (key, value)
            assert len(said) < 1000, (key, value)
    return tried


@pytest.mark.parametrize("name", list(MODELS)[::4])
def test_forged_fields_are_read_or_refused(name: str, tmp_path: Path) -> None:
    folder = save(MODELS[name](), tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert check(folder, [10**400, -1, 2**40, {}]) > 50
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 19)  # kilobytes


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("bert bare", "hidden_act", "x" * 1000),
        ("t5", "feed_forward_proj", "x" * 1000),
        ("qwen2", "layer_types", [[]]),
        ("qwen2", "layer_types", []),
    ],
)
def test_a_forged_field_is_refused_in_a_short_sentence(name: str, field: str, value: Any, tmp_path: Path) -> None:
    folder = save(MODELS[name](), tmp_path / "model")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(SaccadeError) as error:
        read_pretrained(folder)
    assert "config.json" in str(error.value)
    assert len(str(error.value).replace(str(folder), "")) < 400


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_family_with_every_hostile_value(name: str, tmp_path: Path) -> None:
    folder = save(MODELS[name](), tmp_path / "model")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert check(folder, HOSTILE) > 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)  # kilobytes


@pytest.mark.parametrize("numbers", [(2, 1, 1001, 1, 1, 2, 1), (3, 1, 1, 3, 3, 2, 1), (4, 1, 1, 2, 3, 2, 1)])
def test_a_checkpoint_whose_sizes_no_network_has_is_refused(numbers: tuple[int, ...], tmp_path: Path) -> None:
    width, hidden, layers, heads, key_heads, words, length = numbers
    head = width // heads
    each = 2 * width + 2 * width * width + 2 * key_heads * head * width + 3 * hidden * width
    count = words * width + layers * each + width + 2 * length * (head // 2)
    path = tmp_path / "model.bin"
    path.write_bytes(struct.pack("<7i", *numbers) + torch.zeros(count).numpy().tobytes())
    with pytest.raises(FileError, match="describes a network that cannot be built"):
        read_pretrained(path)
