"""One server with a model of every task, for all tests here: in a thread, on a free port of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from servers import Runner, Running

import untrained
from saccade.serving import Limits, Models


@pytest.fixture(scope="session")
def folders(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model folder for every task, by the name that it is served by."""
    root = tmp_path_factory.mktemp("served")
    made = {
        "tiny": untrained.with_languages(tiny_run, root / "tiny", "en", "fr"),
        "back": untrained.translator(root / "back"),
        "writer": untrained.writer(root / "writer"),
        "filler": untrained.filler(root / "filler"),
        "tagger": untrained.tagger(root / "tagger"),
        "sorter": untrained.sorter(root / "sorter"),
        "judge": untrained.sorter(root / "judge", pooling="mean"),
        "shapes": untrained.image_classifier(root / "shapes"),
        "teller": untrained.captioner(root / "teller"),
        "echo": untrained.text_rebuilder(root / "echo"),
        "mirror": untrained.image_rebuilder(root / "mirror"),
        "paths": untrained.forecaster(root / "paths"),
        "pairs": untrained.rna_folder(root / "pairs"),
    }
    assert all(path.name == name for name, path in made.items())
    return made


@pytest.fixture
def runner() -> Iterator[Runner]:
    """For tests that need a server of their own."""
    made = Runner()
    yield made
    made.close()


@pytest.fixture(scope="session")
def running(folders: dict[str, Path]) -> Iterator[Running]:
    models = Models(Limits())
    for folder in folders.values():
        models.add(folder)
    made = Runner()
    yield made.start(models)
    made.close()


@pytest.fixture
def client(running: Running) -> httpx.Client:
    return running.client


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine, which nobody has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return files
