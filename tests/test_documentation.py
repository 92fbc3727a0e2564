"""The code in README and docs runs as it stands, on small real models and files; the site builds without a broken link.

Every fenced block names its language. ``python`` blocks run in the order of their page, in one namespace; ``sh`` blocks
run line by line, where every line is a ``saccade`` command. A block below ``<!-- not run: the reason -->`` is skipped.
What a page takes for granted stands in a comment ``<!-- setup ... -->`` above the block, which runs but is not shown.
"""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from saccade.cli import main

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that people wrote; those of notebooks are made by running them (tests/test_notebooks.py).
WRITTEN = [page for page in PAGES if page.parent.name != "notebooks"]
RUN = ("python", "sh")
SHOWN = ("text", "toml", "json")
#: A setup, or a reason, or a fenced block.
_PART = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->\n"
    r"|^<!-- not run: (?P<reason>.+?) -->\n"
    r"|^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
#: A file of the repository, and one of the package, as pages name them; NAME in it stands for any.
_PATH = re.compile(r"(?<![\w/.-])((?:src|docs|tests|benchmarks|recipes)/[\w./*-]+)")
_SHORT_PATH = re.compile(r"`((?:attention|data|kernels|lens|models|recurrent|serving|tasks|training)/[\w./*-]+)`")
#: Added to every ``saccade train``: the options of the page, a network of its kind, two updates.
QUICK = {"training.steps": 2, "training.warmup": 0, "training.validate_every": 2}


class Block(NamedTuple):
    language: str
    code: str
    line: int
    reason: str | None = None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    reason = None
    for found in _PART.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["reason"]:
            reason = found["reason"]
            continue
        if found["setup"]:
            yield Block("python", found["setup"], line + 1)
        else:
            yield Block(found["language"], found["code"], line + 1, reason)
        reason = None


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, toy_data: Path, one_thread: None) -> Path:
    """A folder with every file and model that the pages name."""
    folder = tmp_path_factory.mktemp("pages")
    for name, source in {"a": "train", "test": "test"}.items():
        for language in ("en", "fr"):
            shutil.copy(toy_data / f"{source}.{language}", folder / f"{name}.{language}")
    sources, targets = ((folder / f"a.{language}").read_text().splitlines() for language in ("en", "fr"))
    rows = zip(sources, targets, strict=True)
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    (folder / "large.txt").write_text("\n".join(sources[:5]) + "\n")
    for name in ("book.txt", "sentences.txt", "texts.txt"):
        (folder / name).write_text("\n".join(sources * 5) + "\n")
    tags = ("DET", "NOUN", "VERB", "ADJ")
    for name in ("train", "dev", "test"):
        sentences = [
            "".join(f"{n}\t{word}\t_\t{tags[len(word) % 4]}\t_\t_\t0\troot\t_\t_\n" for n, word in enumerate(words, 1))
            for words in (source.split() for source in sources[:60])
        ]
        (folder / f"{name}.conllu").write_text("\n".join(sentences) + "\n")
    reviews = [f"{source.replace(',', ' ')},{'good' if 'cat' in source else 'bad'}" for source in sources[:80]]
    (folder / "reviews.csv").write_text("text,label\n" + "\n".join(reviews) + "\n")
    (folder / "classifier.toml").write_text(
        'task = "classification"\n[data]\nfile = "reviews.csv"\n[model]\nkind = "transformer"\nwidth = 128\n'
    )
    (folder / "numbers.toml").write_text("inputs = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]\n")
    _write_images(folder)
    demo = str(files("saccade.training") / "demo.toml")
    with chdir(folder):
        _saccade("train", demo, "-o", "runs/demo", "--set", "data.sentences=300", "--set", "decoding.beam=1")
    return folder


def _write_images(folder: Path) -> None:
    draw = np.random.default_rng(0)
    captions = ["image\ttext"]
    for label in ("cat", "dog"):
        (folder / "pictures" / label).mkdir(parents=True)
        for number in range(1, 21):
            pixels = draw.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / label / f"{number}.png")
            captions.append(f"pictures/{label}/{number}.png\ta {label}")
    shutil.copy(folder / "pictures" / "cat" / "1.png", folder / "picture.png")
    (folder / "captions.tsv").write_text("\n".join(captions) + "\n")
    images = struct.pack(">4i", 2051, 40, 8, 8) + draw.integers(0, 256, 40 * 64, dtype=np.uint8).tobytes()
    (folder / "train-images.gz").write_bytes(gzip.compress(images))
    labels = struct.pack(">2i", 2049, 40) + bytes(number % 3 for number in range(40))
    (folder / "train-labels.gz").write_bytes(gzip.compress(labels))


def _saccade(*arguments: str) -> None:
    """A command as a person gives it; training is cut short."""
    given = list(arguments)
    if "--minutes" in given:
        given[given.index("--minutes") + 1] = "0.1"
    elif given[0] == "train":
        given += [argument for key, value in QUICK.items() for argument in ("--set", f"{key}={value}")]
    with pytest.raises(SystemExit) as left:
        main(given)
    assert not left.value.code, f"saccade {shlex.join(arguments)}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page: Path, workspace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    names: dict[str, Any] = {}
    for block in blocks(page):
        assert block.language in (*RUN, *SHOWN), f"{page}:{block.line}: the block names no language of {RUN + SHOWN}"
        if block.language not in RUN or block.reason:
            continue
        if not folder.exists():
            shutil.copytree(workspace, folder)
        with chdir(folder):
            if block.language == "python":
                exec(compile("\n" * block.line + block.code, page, "exec"), names)
                continue
            for line in block.code.splitlines():
                command = shlex.split(line, comments=True)
                if command:
                    assert command[0] == "saccade", f"{page}:{block.line}: not a command of ours: {line}"
                    _saccade(*command[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {(ROOT, path.rstrip(".")) for path in _PATH.findall(text) if "NAME" not in path}
    named |= {(ROOT / "src" / "saccade", path) for path in _SHORT_PATH.findall(text)}
    assert [path for start, path in sorted(named) if not any(start.glob(path))] == []


def test_blocks_are_found_with_their_setups_and_reasons(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- setup\nx = 1\n-->\n\n```python\nx\n```\n<!-- not run: slow -->\n```sh\nsaccade\n```\n```\n```\n"
    )
    assert list(blocks(page)) == [
        Block("python", "x = 1\n", 2),
        Block("python", "x\n", 6),
        Block("sh", "saccade\n", 10, "slow"),
        Block("", "", 13),
    ]


def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(PAGES) - 5
    for page in pages:
        assert not re.search(r'(?:src|<link[^>]*href)="https?://', page.read_text(encoding="utf-8")), page
    assert "<math" in (tmp_path / "site" / "learn" / "recurrent-lstm.html").read_text(encoding="utf-8")
