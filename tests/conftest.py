"""One small trained model for all tests that need one: made by the command that people use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import saccade
from saccade.cli.main import main
from saccade.tasks.base.predictor import Predictor
from toy_language import settings, toy_pairs, write_lines

# The same kernels on every machine; some virtual machines announce AMX instructions that they cannot run.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


#: Modules that take longest, longest first: started early, so that no process is left alone with one at the end.
LONG = (
    "test_processes",
    "test_wheel",
    "test_documentation",
    "test_learning",
    "test_stop",
    "test_own_task",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """A model this small is computed faster by one thread than by several that wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.en, train.fr, test.en and test.fr."""
    folder = tmp_path_factory.mktemp("toy")
    pairs = toy_pairs(430, seed=0)
    for part, some in (("train", pairs[:400]), ("test", pairs[400:])):
        write_lines(folder / f"{part}.en", [source for source, _ in some])
        write_lines(folder / f"{part}.fr", [target for _, target in some])
    return folder


@pytest.fixture(scope="session")
def tiny_run(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run: a Transformer that translates the toy language."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    files = ["--source", str(toy_data / "train.en"), "--target", str(toy_data / "train.fr")]
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # the same weights wherever it is asked for first
    with pytest.raises(SystemExit) as left:
        main(["train", *files, "-o", str(folder), "--device", "cpu", *settings()])
    torch.set_num_threads(before)
    assert left.value.code == 0
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_run: Path) -> Predictor:
    return saccade.open(tiny_run)
