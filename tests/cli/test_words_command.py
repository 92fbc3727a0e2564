"""``saccade words`` on a trained translation model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from saccade.cli.words import words
from saccade.errors import OptionError
from saccade.tasks.base.model_folder import read_bundle
from saccade.tasks.base.word_vectors import word_vectors

app = typer.Typer()
app.command()(words)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture(scope="module")
def known(tiny_run: Path) -> list[str]:
    """Three words that the model has tokens for."""
    vectors = word_vectors(read_bundle(tiny_run))
    shown = vectors.tokens
    return [shown[id] for id in vectors.candidates if shown[id].isalpha()][:3]


def test_neighbours_of_one_word(tiny_run: Path, known: list[str]) -> None:
    lines = run(str(tiny_run), known[0], "--neighbours", "4").splitlines()
    values = [float(line.split()[-1]) for line in lines]
    assert len(values) == 4
    assert values == sorted(values, reverse=True)


def test_correlation_of_two_words(tiny_run: Path, known: list[str]) -> None:
    one, other, third = known
    vectors = word_vectors(read_bundle(tiny_run))
    expected = f"correlation {vectors.correlation(one, other):.3f}, cosine {vectors.cosine(one, other):.3f}"
    assert run(str(tiny_run), one, other) == f"{one} and {other}: {expected}\n"
    assert len(run(str(tiny_run), one, other, third).splitlines()) == 3


def test_numbers_for_programs(tiny_run: Path, known: list[str]) -> None:
    found = json.loads(run(str(tiny_run), *known[:2], "--json", "--neighbours", "2"))
    assert found["embedding"] == "source"
    assert [len(near) for near in found["neighbours"].values()] == [2, 2]
    assert found["pairs"][0]["words"] == known[:2]


def test_a_map_is_drawn(tiny_run: Path, known: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "words.svg"
    assert run(str(tiny_run), known[0], "--map", str(picture)).endswith(f"Wrote {picture}.\n")
    assert known[0] in picture.read_text()
    assert run(str(tiny_run), "--map", str(tmp_path / "all.png")) == f"Wrote {tmp_path / 'all.png'}.\n"


def test_nothing_to_do_is_refused(tiny_run: Path) -> None:
    with pytest.raises(OptionError, match="Give one or more words"):
        run(str(tiny_run))
