"""Trains a model on each of six files in formats that no recipe uses, and shows its attention, with one command each.

SACCADE_DATA=... python benchmarks/own_files.py                       all six, two minutes each
SACCADE_DATA=... python benchmarks/own_files.py pronunciations --minutes 1 --output kept

The files are made from the public data sets: sorted by length, with swapped or additional columns, in other encodings,
with byte order marks and Windows line ends, compressed, or as pictures of different sizes. docs/how-to/own-files.md has
the log.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import gzip
import io
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from saccade.data.digits import read_digits
from saccade.data.nettalk import read_nettalk
from saccade.data.tagged import read_tagged


class Form(NamedTuple):
    """A file in some form: how it is made, what ``saccade train`` needs to know, and what is looked at."""

    make: Callable[[Path, Path], Path]  # (folder of the data sets, folder to write to) -> file
    options: str
    look: str


def reviews(data: Path, to: Path) -> Path:
    """Labelled texts in CSV, the text first, in Latin-1 with Windows line ends, sorted by length."""
    lines = (data / "sst2" / "stsa.binary.train").read_text(encoding="utf-8").splitlines()
    rows = [
        [f"{text} — à voir", {"0": "bad", "1": "good"}[label]]
        for label, _, text in (one.partition(" ") for one in lines)
    ]
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows(
        [["review", "verdict"], *sorted(rows, key=lambda row: len(row[0]))]
    )
    path = to / "reviews.csv"
    path.write_bytes(file.getvalue().encode("cp1252"))
    return path


def tags(data: Path, to: Path) -> Path:
    """Words with a fine tag, and the part of speech as a feature, in columns with a byte order mark, compressed."""
    sentences, _ = read_tagged(
        data / "ud_english_ewt" / "en_ewt-ud-train.conllu", "form", "xpos", feature_columns=["upos"]
    )
    rows = (
        "".join(
            f"{word} {more[0]} {label}\r\n"
            for word, label, more in zip(one.words, one.labels, one.features, strict=True)
        )
        for one in sentences
        if not any(" " in word for word in one.words)
    )
    path = to / "tags.txt.gz"
    path.write_bytes(gzip.compress(codecs.BOM_UTF8 + "\r\n".join(rows).encode()))
    return path


def captions(data: Path, to: Path) -> Path:
    """Sentence pairs in a text file with three columns between tabs, the target first, sorted by length."""
    sides = [
        (data / "multi30k" / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("fr", "en")
    ]
    rows = [f"{target}\t{source}\tCC BY-NC-SA" for target, source in zip(*sides, strict=True)]
    path = to / "captions.txt"
    path.write_text("\n".join(sorted(rows, key=len)) + "\n", encoding="utf-8")
    return path


def pronunciations(data: Path, to: Path) -> Path:
    """Spellings and sounds in JSONL, in UTF-16."""
    pairs, _ = read_nettalk(data / "nettalk" / "nettalk.data")
    path = to / "pronunciations.jsonl"
    rows = [json.dumps({"id": pair.line, "sounds": pair.target, "spelling": pair.source}) for pair in pairs]
    path.write_text("\n".join(rows) + "\n", encoding="utf-16")
    return path


def plays(data: Path, to: Path) -> Path:
    """A long text, compressed, with Windows line ends."""
    text = (data / "tiny_shakespeare" / "input.txt").read_text(encoding="utf-8")
    path = to / "plays.txt.gz"
    path.write_bytes(gzip.compress(text.replace("\n", "\r\n").encode()))
    return path


def pictures(data: Path, to: Path) -> Path:
    """Digits as pictures of different sizes, grey and in colour, in one folder for each class."""
    from PIL import Image

    for number, digit in enumerate(read_digits()):
        folder = to / "pictures" / f"digit {digit.label}"
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(digit.pixels[..., 0]).resize((16 + number % 5, 20 - number % 3))
        picture.convert("RGB" if number % 7 == 0 else "L").save(folder / f"{number}.{'jpg' if number % 3 else 'png'}")
    return to / "pictures"


FORMS = {
    "reviews": Form(
        reviews, "--task classification --columns review,verdict", "a gorgeous , witty , seductive movie ."
    ),
    "tags": Form(tags, "--task tagging --columns 0,2,1", "{file}"),
    "captions": Form(captions, "--columns 1,0", "A man is riding a horse."),
    "pronunciations": Form(pronunciations, "--columns spelling,sounds", "photograph"),
    "plays": Form(plays, "--task language-model", "ROMEO:"),
    "pictures": Form(pictures, "--task images", "{file}/digit 7/7.jpg"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(FORMS)}; by default all")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--output", type=Path, help="a new folder for the files and runs, which are otherwise deleted")
    options = parser.parse_args()
    data = Path(os.environ["SACCADE_DATA"])
    with TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or FORMS:
            _from_file_to_look(FORMS[name], name, data, folder, options.minutes)


def _from_file_to_look(form: Form, name: str, data: Path, folder: Path, minutes: float) -> None:
    file = form.make(data, folder).relative_to(folder)
    print(f"## {name}: {form.make.__doc__}", flush=True)
    train = ["train", *form.options.split(), "--data", str(file), "-o", f"{name}-run", "--minutes", f"{minutes:g}"]
    look = [
        "look",
        f"{name}-run",
        form.look.replace("{file}", str(file)),
        "--html",
        f"{name}.html",
        "--png",
        f"{name}.png",
    ]
    for command in (train, look):
        print(f"$ {shlex.join(['saccade', *command])}", flush=True)
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "saccade.cli", *command], cwd=folder, stdout=subprocess.PIPE, text=True, check=False
        )
        print(f"{done.stdout.rstrip()}\n({time.monotonic() - began:.0f} s)\n", flush=True)
        if done.returncode:
            sys.exit(f"{name}: the command failed")


if __name__ == "__main__":
    main()
