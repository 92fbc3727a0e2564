"""The catalogue: its entries, files taken from a folder, and downloads from a real server on this machine."""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from saccade.data import CATALOGUE, DataFile, DataSet, fetch, take
from saccade.errors import FileError, OptionError, StorageError, UnknownNameError

PLAIN, PICTURES = b"one\ntwo\n" * 11, bytes(range(256)) * 301


def entry(name: str, content: bytes, url: str | None) -> DataFile:
    return DataFile(name, len(content), hashlib.sha256(content).hexdigest(), url)


TOY = DataSet(
    name="toy",
    what="two small files",
    source="nobody",
    terms="free",
    files=(
        entry("train.en", PLAIN, "https://example.org/toy/train.en.gz"),
        entry("images.gz", PICTURES, "https://example.org/toy/images.gz"),
    ),
)
TOYS = {"toy": TOY, "homeless": DataSet("homeless", "", "a library", "", (entry("a", b"a", None),))}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/short/train.en.gz"):  # promises more than it sends
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
        else:
            super().do_GET()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with the files of the toy set as their publisher packs them."""
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "train.en.gz").write_bytes(gzip.compress(PLAIN, mtime=0))
    (folder / "images.gz").write_bytes(gzip.compress(PICTURES, mtime=0))
    return folder


@pytest.fixture
def server(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(store))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_every_entry_is_complete() -> None:
    for name, data_set in CATALOGUE.items():
        assert data_set.name == name
        assert data_set.what
        assert data_set.source
        assert data_set.terms
        for file in data_set.files:
            assert file.size > 0
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.url is None or file.url.startswith("https://")
        names = [file.name for file in data_set.files]
        assert len(set(names)) == len(names)
    assert CATALOGUE["tiny_shakespeare"].size == 1_115_394
    assert not CATALOGUE["nettalk"].fetchable


@pytest.mark.skipif("SACCADE_DATA" not in os.environ, reason="needs $SACCADE_DATA with the public sets")
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_real_files_are_those_of_the_catalogue(name: str, tmp_path: Path) -> None:
    folder = take(name, Path(os.environ["SACCADE_DATA"]) / name, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(file.name for file in CATALOGUE[name].files)


def test_take_checks_unpacks_and_keeps_the_umask(store: Path, tmp_path: Path) -> None:
    folder = take("toy", store, tmp_path / "data", catalogue=TOYS)
    assert (folder / "train.en").read_bytes() == PLAIN
    assert (folder / "images.gz").read_bytes() == (store / "images.gz").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["images.gz", "train.en"]
    fresh = tmp_path / "fresh"
    fresh.touch()
    assert (folder / "train.en").stat().st_mode == fresh.stat().st_mode
    assert take("toy", store, tmp_path / "data", catalogue=TOYS) == folder  # right already: nothing to do


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("train.en.gz", gzip.compress(PLAIN[:-1] + b"!", mtime=0), "has SHA-256"),
        ("train.en.gz", gzip.compress(PLAIN[:-1], mtime=0), "has 87 bytes; train.en should have 88."),
        ("train.en.gz", gzip.compress(PLAIN * 1000, mtime=0), "has more than the 88 bytes that train.en should have."),
        ("train.en.gz", gzip.compress(PLAIN, mtime=0)[:-9], "cannot be read or decompressed"),
        ("images.gz", PICTURES[:-1] + b"!", "has SHA-256"),
    ],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(
    store: Path, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (store / name).write_bytes(content)
    with pytest.raises(FileError) as caught:
        take("toy", store, tmp_path / "data", catalogue=TOYS)
    assert str(caught.value).startswith(f"{store / name} {sentence}")
    assert not (tmp_path / "data" / "toy" / name.removesuffix(".gz" if name.startswith("train") else "")).exists()


def test_a_file_in_the_way_is_not_overwritten(store: Path, server: str, tmp_path: Path) -> None:
    mine = tmp_path / "data" / "toy" / "train.en"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own notes")
    with pytest.raises(FileError, match=r"The existing file .*train\.en has 12 bytes"):
        take("toy", store, tmp_path / "data", catalogue=TOYS)
    with pytest.raises(FileError, match=r"The existing file .*train\.en has 12 bytes"):
        fetch("toy", tmp_path / "data", mirror=server, catalogue=TOYS)
    assert mine.read_text() == "my own notes"


def test_take_wants_all_files_before_it_copies_one(store: Path, tmp_path: Path) -> None:
    (store / "images.gz").unlink()
    with pytest.raises(FileError, match=r"There is neither images\.gz nor images\.gz\.gz in .*store"):
        take("toy", store, tmp_path / "data", catalogue=TOYS)
    assert not (tmp_path / "data").exists()


def test_fetch_downloads_with_progress(store: Path, server: str, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    folder = fetch("toy", tmp_path, mirror=server, progress=lambda *step: seen.append(step), catalogue=TOYS)
    assert (folder / "train.en").read_bytes() == PLAIN
    assert gzip.decompress((folder / "images.gz").read_bytes()) == PICTURES
    assert sorted(path.name for path in folder.iterdir()) == ["images.gz", "train.en"]
    packed = (store / "train.en.gz").stat().st_size
    assert seen[0] == ("train.en", packed, packed)
    seen.clear()
    fetch("toy", tmp_path, mirror=server, progress=lambda *step: seen.append(step), catalogue=TOYS)
    assert seen == []  # nothing is fetched twice


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("nowhere", "/nowhere/train.en.gz cannot be downloaded: 404 "),
        ("large", "/large/train.en.gz is larger than the 88 bytes that train.en should have."),
        ("wrong", "has SHA-256"),
        ("short", "was cut off|cannot be downloaded"),
    ],
)
def test_a_bad_download_is_refused_and_leaves_nothing(
    store: Path, server: str, tmp_path: Path, path: str, sentence: str
) -> None:
    for folder, content in (("large", os.urandom(200_000)), ("wrong", PLAIN[::-1])):
        (store / folder).mkdir()
        (store / folder / "train.en.gz").write_bytes(content)
    with pytest.raises(FileError, match=sentence):
        fetch("toy", tmp_path / "data", mirror=f"{server}/{path}", catalogue=TOYS)
    assert list((tmp_path / "data" / "toy").iterdir()) == []


def test_fetch_says_what_cannot_be_fetched(tmp_path: Path, server: str) -> None:
    with pytest.raises(FileError, match="homeless cannot be downloaded automatically; get it from a library"):
        fetch("homeless", tmp_path, catalogue=TOYS)
    with pytest.raises(OptionError, match="must start with http:// or https://"):
        fetch("toy", tmp_path, mirror="file:///etc", catalogue=TOYS)
    with pytest.raises(UnknownNameError, match="Did you mean 'multi30k'"):
        fetch("multi30", tmp_path)
    port = server.rsplit(":", 1)[-1]
    with pytest.raises(FileError, match="cannot be downloaded"):
        fetch("toy", tmp_path, mirror=f"https://127.0.0.1:{port}", catalogue=TOYS)  # no TLS there


def test_a_folder_that_cannot_be_made_is_said(store: Path, server: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, not a folder")
    with pytest.raises(StorageError, match="data/toy cannot be created as a folder: Not a directory"):
        take("toy", store, tmp_path / "data", catalogue=TOYS)
    with pytest.raises(StorageError, match="data/toy cannot be created as a folder: Not a directory"):
        fetch("toy", tmp_path / "data", mirror=server, catalogue=TOYS)
