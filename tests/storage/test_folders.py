"""Folders in one process: what is written comes back, what is not ours stays, what is damaged is named."""

from __future__ import annotations

import json
import os
import random
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import safetensors.torch
import torch
from folder_versions import version, version_of

from saccade import storage
from saccade.errors import DamagedError, FileError, OptionError, StorageError, UnknownNameError
from saccade.storage import (
    JSON,
    Content,
    json_bytes,
    open_folder,
    read_bytes,
    read_json,
    read_tensors,
    recover,
    remove_folder,
    verify_folder,
    write_folder,
)
from saccade.storage.manifest import FileEntry, manifest_bytes

# ------------------------------------------------------------------------------------------ writing and reading


def test_every_kind_of_content_comes_back(tmp_path: Path) -> None:
    weight = torch.randn(3, 5)
    tensors = {
        "weight": weight,
        "tied": weight,
        "part": weight[1:],
        "transposed": weight.T,
        "half": torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
        "count": torch.tensor(7),
        "empty": torch.empty(0, 2),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }

    def write_text(path: Path) -> None:
        path.write_text("written")

    folder = tmp_path / "new" / "run"
    write_folder(
        folder,
        {
            "raw.bin": b"\x00\xff",
            "none": b"",
            "t.safetensors": tensors,
            "by_function": write_text,
        },
    )
    verify_folder(folder)
    assert read_bytes(folder, "raw.bin") == b"\x00\xff"
    assert read_bytes(folder, "none") == b""
    assert read_bytes(folder, "by_function") == b"written"
    loaded = read_tensors(folder, "t.safetensors")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)


def test_json_floats_come_back_bit_for_bit(tmp_path: Path) -> None:
    values: list[JSON] = [
        0.1,
        1 / 3,
        5e-324,
        1.7976931348623157e308,
        -0.0,
        float("inf"),
        float("nan"),
        2**53 + 1,
        "é\ud800",
        None,
    ]
    write_folder(tmp_path / "run", {"state.json": json_bytes(values)})
    loaded = read_json(tmp_path / "run", "state.json")
    assert repr(loaded) == repr(values)


def test_replacing_keeps_what_is_not_ours_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "run"
    write_folder(target, {**version(1), "old-only.txt": b"gone with version 1"})
    (target / "notes.txt").write_text("mine")
    write_folder(target, version(2))
    assert version_of(target) == 2
    assert (target / "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(target)) == ["README.md", "config.json", "manifest.json", "model.safetensors", "notes.txt"]
    assert os.listdir(tmp_path) == ["run"]


def test_an_empty_folder_and_a_link_to_a_folder_can_be_written(tmp_path: Path) -> None:
    real, link = tmp_path / "disk" / "run", tmp_path / "link"
    real.mkdir(parents=True)
    link.symlink_to(real)
    write_folder(link, version(1))
    write_folder(link, version(2))
    assert link.is_symlink()
    assert version_of(real) == version_of(link) == 2
    remove_folder(real)
    assert os.listdir(tmp_path / "disk") == []


def test_what_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    stranger, file, clash = tmp_path / "stranger", tmp_path / "file", tmp_path / "clash"
    stranger.mkdir()
    (stranger / "config.json").write_text("{}")
    file.write_text("a file")
    write_folder(clash, {"config.json": b"{}"})
    (clash / "README.md").write_text("mine")
    for target, word in [(stranger, "config.json"), (file, "a file of that name"), (clash, "README.md")]:
        with pytest.raises(StorageError, match=f"{re.escape(str(target))}.*{word}"):
            write_folder(target, version(1))
    assert (stranger / "config.json").read_text() == "{}"
    assert file.read_text() == "a file"
    assert (clash / "README.md").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["clash", "file", "stranger"]


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a\\b", "..", ".", "", ".hidden", "a\0b", "manifest.json", "a\n", "-x"]
)
def test_a_name_that_is_not_plain_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="cannot be named"):
        write_folder(tmp_path / "run", {name: b"x"})
    assert os.listdir(tmp_path) == []
    write_folder(tmp_path / "run", {"x": b"x"})
    (tmp_path / "run" / "manifest.json").write_bytes(manifest_bytes({name: FileEntry.of(b"x")}))
    with pytest.raises(DamagedError, match="not a plain file name"):
        open_folder(tmp_path / "run")


def test_a_writer_that_fails_or_strays_leaves_the_old_folder(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    def strays(path: Path) -> None:
        path.write_text("whole")
        (path.parent / "extra").write_text("whole")

    def links(path: Path) -> None:
        path.symlink_to("/etc/hostname")

    write_folder(tmp_path / "run", version(1))
    kinds: list[tuple[Callable[[Path], None], type[BaseException]]] = [
        (fails, KeyboardInterrupt),
        (strays, OptionError),
        (links, StorageError),
    ]
    for writer, error in kinds:
        with pytest.raises(error):
            write_folder(tmp_path / "run", {**version(2), "log.txt": writer})
        assert version_of(tmp_path / "run") == 1
        assert os.listdir(tmp_path) == ["run"]


def test_two_writers_beside_each_other_do_not_clear_each_other_up(tmp_path: Path) -> None:
    def writes_another(path: Path) -> None:
        write_folder(tmp_path / "other", version(2))
        recover(tmp_path)
        path.write_text("written")

    write_folder(tmp_path / "run", {**version(1), "log.txt": writes_another})
    assert version_of(tmp_path / "run") == 1
    assert version_of(tmp_path / "other") == 2
    assert sorted(os.listdir(tmp_path)) == ["other", "run"]


def test_what_only_resembles_our_leftovers_stays(tmp_path: Path) -> None:
    names = [".emacs.old", ".run.new-1234", ".run.saccade-new-xyz", "run.saccade-old"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / ".file.saccade-old").write_text("a file, not a folder")
    (tmp_path / ".link.saccade-old").symlink_to(tmp_path / ".emacs.old")
    before = sorted(os.listdir(tmp_path))
    recover(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_umask_rules_every_file_and_folder(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        weight = {"weight": torch.ones(2)}
        files: dict[str, Content] = {
            **version(1),
            "library.safetensors": lambda path: safetensors.torch.save_file(weight, path),
        }
        write_folder(tmp_path / "a" / "b" / "run", files)
    finally:
        os.umask(previous)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").rglob("*")}
    assert modes.pop("b") == modes.pop("run") == 0o750
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750
    assert len(modes) == 5
    assert set(modes.values()) == {0o640}


def test_all_is_flushed_before_the_rename_and_the_names_after(tmp_path: Path) -> None:
    write_folder(tmp_path / "run", version(1))
    calls: list[str] = []

    def note(frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and function in (os.fsync, os.rename):
            calls.append(getattr(function, "__name__", ""))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        write_folder(tmp_path / "run", version(2))
    finally:
        sys.setprofile(before)
    files, folder = ["fsync"] * 4, ["fsync"]
    old_aside = new_in = old_deleted = ["rename", "fsync"]
    carried_over = ["fsync"]
    assert calls == [*files, *folder, *old_aside, *new_in, *carried_over, *old_deleted]


def test_every_public_name_is_there() -> None:
    assert len(set(storage.__all__)) == len(storage.__all__)
    assert all(hasattr(storage, name) for name in storage.__all__)


# ------------------------------------------------------------------------------------------ damage


def is_detected(path: Path, bad: bytes) -> bool:
    """Whether `bad` in the place of a file of a folder makes an error that names this file."""
    good = path.read_bytes()
    overwrite(path, bad)
    try:
        verify_folder(path.parent)
    except DamagedError as error:
        return path.name in str(error)
    finally:
        overwrite(path, good)
    return False


def overwrite(path: Path, data: bytes) -> None:
    """As `write_bytes`, but in place: some file systems flush a file that is emptied and written again."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


def test_every_flipped_bit_and_every_truncation_is_detected(tmp_path: Path) -> None:
    write_folder(tmp_path / "run", {"x": b"ab"})
    for path in (tmp_path / "run" / "x", tmp_path / "run" / "manifest.json"):
        good = path.read_bytes()
        for at in range(len(good)):
            assert is_detected(path, good[:at])
            for bit in range(8):
                assert is_detected(path, good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
        assert is_detected(path, good + b"\n")
        assert not is_detected(path, good)


def test_random_damage_to_a_model_folder_is_detected(tmp_path: Path) -> None:
    chance = random.Random(4)
    write_folder(tmp_path / "run", version(1, size=500))
    paths = sorted((tmp_path / "run").iterdir())
    for _ in range(100):
        path = chance.choice(paths)
        bad = bytearray(path.read_bytes())
        at = chance.randrange(len(bad))
        if chance.random() < 0.5:
            bad[at] ^= 1 << chance.randrange(8)
        else:
            del bad[at:]
        assert is_detected(path, bytes(bad))
    verify_folder(tmp_path / "run")


def test_the_error_names_the_file_and_what_is_wrong(tmp_path: Path) -> None:
    def damage(change: Callable[[Path], object]) -> str:
        folder = tmp_path / "run"
        write_folder(folder, version(1))
        change(folder)
        with pytest.raises(DamagedError) as caught:
            verify_folder(folder)
        remove_folder(folder)
        return str(caught.value).removeprefix(f"Damaged file {folder}/")

    def link(folder: Path) -> None:
        (folder / "config.json").rename(tmp_path / "elsewhere.json")
        (folder / "config.json").symlink_to(tmp_path / "elsewhere.json")

    def pipe(folder: Path) -> None:
        (folder / "config.json").unlink()
        os.mkfifo(folder / "config.json")

    def field(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**content, "run": "me"}))

    def newer(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**content, "format": 2}))

    assert damage(lambda f: (f / "README.md").unlink()) == "README.md: it is missing."
    assert damage(lambda f: (f / "manifest.json").unlink()) == "manifest.json: it is missing."
    assert damage(lambda f: (f / "README.md").write_text("short")) == "README.md: it has 5 bytes instead of 9."
    assert "README.md: its SHA-256" in damage(lambda f: (f / "README.md").write_text("version 2"))
    assert "manifest.json: it is not JSON" in damage(lambda f: (f / "manifest.json").write_text("{"))
    assert "manifest.json: it is not JSON" in damage(lambda f: (f / "manifest.json").write_text("[" * 100_000))
    assert damage(link) == "config.json: it is a symbolic link, which Saccade does not follow."
    assert damage(pipe) == "config.json: it is not a regular file."
    assert "'files, format, run, seal'" in damage(field)
    assert damage(newer) == (
        "manifest.json: its format is 2, but this version reads 1; upgrade Saccade if a newer version wrote the folder."
    )


def test_intact_bytes_that_are_not_what_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_folder(folder, {"text": b"not tensors", "numbers.json": b"[1]"})
    with pytest.raises(DamagedError, match="text: it is not a safetensors file"):
        read_tensors(folder, "text")
    with pytest.raises(DamagedError, match="text: it is not JSON"):
        read_json(folder, "text")
    with pytest.raises(UnknownNameError, match=r"run has no file 'number.json'.*Did you mean 'numbers.json'"):
        read_json(folder, "number.json")
    with pytest.raises(FileError, match="There is no folder"):
        open_folder(tmp_path / "rum")


def test_files_of_two_versions_are_never_mixed(tmp_path: Path) -> None:
    write_folder(tmp_path / "run", version(1))
    folder = open_folder(tmp_path / "run")
    write_folder(tmp_path / "run", version(2))
    with pytest.raises(DamagedError, match="SHA-256"):
        read_json(folder, "config.json")
