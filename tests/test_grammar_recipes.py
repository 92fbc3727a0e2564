"""The recipes of the built-in corpus for real: parts of speech, and praise or blame, on combinations never seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

import saccade
from saccade.training import run as training_run
from saccade.training.display import Display
from saccade.training.recipe import read_recipe
from saccade.training.run_folder import RunFolder

RECIPES = Path(__file__).parent.parent / "recipes"


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread: None) -> None:
    """Tiny models both."""


def train(name: str, folder: Path) -> dict[str, float]:
    recipe = read_recipe(RECIPES / f"{name}.toml")
    with Display(Console(quiet=True), recipe.training.steps) as display:
        result = training_run.train(RunFolder(recipe, folder), display)
    assert result["part"] == "test"
    scores: dict[str, float] = result["scores"]
    return scores


def test_parts_of_speech_are_learned(tmp_path: Path) -> None:
    scores = train("grammar-tagging", tmp_path / "run")
    assert scores["accuracy"] >= 99.0
    (answer,) = saccade.open(tmp_path / "run").predict(["The black cat ate the mouse."])
    assert answer.text == "The/DET black/ADJ cat/NOUN ate/VERB the/DET mouse/NOUN ./PUNCT"


def test_praise_and_blame_are_told_apart(tmp_path: Path) -> None:
    scores = train("grammar-sentiment", tmp_path / "run")
    assert scores["accuracy"] >= 99.0
    texts = ["The story was sad, but the film was excellent.", "The film was not good."]
    answers = saccade.open(tmp_path / "run").predict(texts)
    assert [answer.text for answer in answers] == ["positive", "negative"]
