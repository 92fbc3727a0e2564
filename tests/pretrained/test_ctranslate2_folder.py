"""Folders that CTranslate2 wrote: the same network again, and bad ones refused in one sentence."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

import saccade
import untrained
from saccade.errors import FileError
from saccade.tasks.base.exporting import export

TEXTS = untrained.FRENCH[:4]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of ours, and what CTranslate2 makes of it."""
    made = tmp_path_factory.mktemp("folders")
    export(untrained.translator(made / "ours"), "ctranslate2", made / "theirs", TEXTS)
    return made / "ours", made / "theirs"


def test_what_was_exported_is_read_again(folders: tuple[Path, Path]) -> None:
    ours, theirs = (saccade.open(folder) for folder in folders)
    source, lengths = torch.randint(5, 12, (3, 6)), torch.tensor([6, 3, 5])
    target = torch.randint(5, 12, (3, 7))
    with torch.no_grad():
        expected, found = (one.model(source, lengths, target) for one in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"\x09\0\0\0", "has format 9; Saccade reads formats 2 to 6 of CTranslate2"),
        (b"\x06\0\0\0" + struct.pack("<H", 9) + b"Whisper\0\0" + struct.pack("<II", 1, 0), "has type Whisper"),
        (b"\x06\0", "is not a model of CTranslate2"),
        (
            b"\x06\0\0\0" + struct.pack("<H", 16) + b"TransformerSpec\0" + struct.pack("<IIH", 7, 1, 2) + b"a\0"
            b"\x01" + struct.pack("<IBI", 2_500_000_000, 0, 1_410_065_408),
            "a is stated to have 1,410,065,408 bytes, which does not fit its shape or the file",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(
    folders: tuple[Path, Path], tmp_path: Path, start: bytes, said: str
) -> None:
    for path in folders[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.bin").write_bytes(start)
    with pytest.raises(FileError, match=said):
        saccade.open(tmp_path)


def test_weights_that_do_not_fit_the_vocabulary_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for path in folders[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "source_vocabulary.json").write_text('["<blank>", "<s>", "</s>", "<unk>"]')
    with pytest.raises(FileError, match=r"source\.words\.weight has shape"):
        saccade.open(tmp_path)
