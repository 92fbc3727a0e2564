"""Files as people have them, from the file to a look inside the model with one command each."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Capture, run

from toy_language import settings, toy_pairs

PAIRS = [(f"{source[:-1]} café.", target) for source, target in toy_pairs(60, seed=8)]
ROWS = [f"{source}\t{target}" for source, target in PAIRS]
QUICK = settings(training__steps=3, training__warmup=1, training__validate_every=3)
SMALL = ["--set", "training.steps=3", "--set", "model.width=8", "--set", "model.embedding_width=8"]

#: Name -> task, rows, how they become bytes, options.
FILES: dict[str, tuple[str, list[str], Callable[[str], bytes], list[str]]] = {
    "sorted.tsv": ("translation", sorted(ROWS, key=len), str.encode, QUICK),
    "swapped.csv": (
        "translation",
        ["id,fr,en", *(f'{n},"{target}","{source}"' for n, (source, target) in enumerate(PAIRS))],
        str.encode,
        ["--columns", "en,fr", *QUICK],
    ),
    "latin.txt": ("translation", ROWS, lambda text: text.encode("latin-1"), QUICK),
    "windows.tsv": ("translation", ROWS, lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(), QUICK),
    "packed.tsv.gz": ("translation", ["source\ttarget", *ROWS], lambda text: gzip.compress(text.encode()), QUICK),
    "labelled.data": (
        "classification",
        [f"{n}\t{'cat' if 'cat' in source else 'none'}\t{source}" for n, (source, _) in enumerate(PAIRS)],
        str.encode,
        ["--columns", "2,1", *SMALL],
    ),
    "words.txt.gz": (
        "tagging",
        ["\n".join(f"{word} x {word[0].upper()}" for word in source.split()) + "\n" for source, _ in PAIRS],
        lambda text: gzip.compress(text.encode("utf-16")),
        ["--set", "training.steps=3", "--set", "model.width=8"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_from_the_file_to_a_look(capsys: Capture, tmp_path: Path, name: str) -> None:
    task, rows, packed, options = FILES[name]
    file, folder = tmp_path / name, tmp_path / "run"
    file.write_bytes(packed("".join(f"{row}\n" for row in rows)))
    code, out, err = run(capsys, "train", "--task", task, "--data", file, "-o", folder, *options)
    assert (code, err) == (0, "")
    assert "validation: " in out
    code, out, err = run(capsys, "look", folder, "the café sees the cat.", "--png", tmp_path / "look.png")
    assert code == 0, err
    assert (tmp_path / "look.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = run(capsys, "evaluate", folder, "--data", file)
    assert code == 0, err
    assert err.startswith("Read 60 examples from ")
    code, out, err = run(capsys, "predict", folder, file)
    assert code == 0, err
    assert len(out.splitlines()) == 60
