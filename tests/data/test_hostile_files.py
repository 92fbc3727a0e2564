"""Files that someone made to be unreadable: one sentence each, never a traceback, an abort or gigabytes."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.data.documents import read_documents
from saccade.data.images import IDX_IMAGES, read_idx_array, read_npz
from saccade.data.lines import LONGEST_LINE, read_lines
from saccade.data.pairs import read_table
from saccade.data.structures import read_molecules
from saccade.data.tagged import read_tagged
from saccade.data.tracks import read_tracks
from saccade.errors import FileError, SaccadeError
from saccade.text import Tokenizer
from saccade.training.recipe import read_recipe

PACKED = gzip.compress(struct.pack(">4I", IDX_IMAGES, 3, 5, 7) + bytes(range(105)), mtime=0)


def refused(read: Callable[[], object]) -> str:
    """The one sentence of a refusal."""
    with pytest.raises(SaccadeError) as error:
        read()
    said = str(error.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("place", range(2, len(PACKED)))
def test_a_broken_gzip_stream_is_named(place: int, tmp_path: Path) -> None:
    """Every byte of the packed file turned: it is refused, or (some bytes of the head mean nothing) read as it was."""
    path = tmp_path / "images.gz"
    path.write_bytes(PACKED[:place] + bytes([PACKED[place] ^ 0xFF]) + PACKED[place + 1 :])
    try:
        found = read_idx_array(path, IDX_IMAGES, "images")
    except FileError as error:
        said = str(error)
    else:
        said = str(path) if found.tobytes() == bytes(range(105)) else "wrong pixels"
    assert str(path) in said


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, images=np.zeros((2, 3, 5), np.uint8), labels=[0, 1], **arrays)
    return file.getvalue()


def patched(content: bytes, *, flags: int | None = None, method: int | None = None) -> bytes:
    """An archive whose entries claim to be encrypted, or packed in another way."""
    found = bytearray(content)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = 0
        while (start := found.find(mark, start)) >= 0:
            if flags is not None:
                found[start + at : start + at + 2] = struct.pack("<H", flags)
            if method is not None:
                found[start + at + 2 : start + at + 4] = struct.pack("<H", method)
            start += 4
    return bytes(found)


def npz_of_header(header: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        text = (header + "\n").encode()
        for name in ("images.npy", "labels.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    return file.getvalue()


ARCHIVES = {
    "encrypted": patched(npz(), flags=1),
    "packed in an unknown way": patched(npz(), method=77),
    "deflated, but not": patched(npz(), method=8),
    "bzip2, but not": patched(npz(), method=12),
    "lzma, but not": patched(npz(), method=14),
    "cut": npz()[:-30],
    "a shape of terabytes": npz_of_header("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 9)}"),
    "a shape below zero": npz_of_header("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 3, 3)}"),
    "a header of brackets": npz_of_header("[" * 5000),
    "objects": npz_of_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_hostile_npz_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    path.write_bytes(ARCHIVES[kind])
    assert str(path) in refused(lambda: read_npz(path))


def test_a_recipe_of_brackets_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("a = " + "[" * 100_000)
    assert "too deeply" in refused(lambda: read_recipe(path))
    path.write_text('[data]\nbuiltin = "grammar"')
    said = refused(lambda: read_recipe(path, ["training.lr=" + "[" * 100_000]))
    assert "lr must be a number" in said
    assert len(said) < 700


MANY_DIGITS = "1" * 5000  # more than Python converts to a number
DIGITS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a.ct": (f"{MANY_DIGITS} name\n", read_molecules),
    "b.ct": (f"1 name\n1 G 0 2 {MANY_DIGITS} 1\n", read_molecules),
    "c.conllu": (f"{MANY_DIGITS}\tthe\tthe\tDET\t_\t_\t0\troot\t_\t_\n", read_tagged),
    "d.txt": (f"{MANY_DIGITS} 1 0.5 1.5\n", read_tracks),
    "e.jsonl": (f'{{"source": {MANY_DIGITS}, "target": "a"}}\n', read_table),
}


@pytest.mark.parametrize("name", DIGITS)
def test_a_number_of_thousands_of_digits_is_named(name: str, tmp_path: Path) -> None:
    text, read = DIGITS[name]
    (tmp_path / name).write_text(text)
    assert f"{name}, line " in refused(lambda: read(tmp_path / name))


def test_a_very_long_line_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"one\n" + b"two " * (LONGEST_LINE // 4) + b"\nthree")
    for unit in ("line", "file", "paragraph"):
        sentence = refused(lambda unit=unit: read_documents(path, unit))  # type: ignore[misc]
        assert f"{path}, line 2: the line is longer than 4,194,304 bytes" in sentence
    with path.open("wb") as file:  # no line feed in a gigabyte, of which hardly any is read
        file.truncate(1 << 30)
    assert "line 1: the line is longer" in refused(lambda: list(read_lines(path, "utf-8")))
    path.write_text("ä" * LONGEST_LINE, encoding="latin-1")
    assert "line 1: the line is longer" in refused(lambda: list(read_lines(path, "latin-1")))


def tokenizer() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Tokenizer.train(["the cat sees the dog"], "word").to_bytes())
    return found


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    found = tokenizer()
    change(found)
    return json.dumps(found).encode()


TOKENIZERS: dict[str, bytes] = {
    "a normalizer that panics": changed(
        lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
    ),
    "the same among others": changed(
        lambda t: t["normalizer"]["normalizers"].append({"type": "Precompiled", "precompiled_charsmap": ""})
    ),
    "an id of 4e9": changed(lambda t: t["model"]["vocab"].update(cow=4_000_000_000)),
    "an id below zero": changed(lambda t: t["model"]["vocab"].update(cow=-1)),
    "an id twice": changed(lambda t: t["model"]["vocab"].update(cow=3)),
    "no vocabulary": changed(lambda t: t["model"].pop("vocab")),
    "a list as vocabulary": changed(lambda t: t["model"].update(vocab=[["a", 1]])),
    "an added token": changed(lambda t: t["added_tokens"].append({"id": 10**9, "content": "x"})),
    "another model": changed(lambda t: t["model"].update(type="Unigram")),
    "brackets": b"[" * 100_000,
    "a list": b"[]",
    "no json": b"{",
    "no utf-8": b"\xff",
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_hostile_tokenizer_is_named(kind: str) -> None:
    assert refused(lambda: Tokenizer.from_bytes(TOKENIZERS[kind], "here")).startswith("here ")
