"""The NETtalk recipe for real: words, and the letter behind each sound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.console import Console

from saccade.training.display import Display
from saccade.training.recipe import read_recipe
from saccade.training.run import train
from saccade.training.run_folder import RunFolder

RECIPE = Path(__file__).parent.parent / "recipes" / "nettalk.toml"


@pytest.mark.slow
@pytest.mark.skipif("SACCADE_DATA" not in os.environ, reason="needs $SACCADE_DATA with nettalk/")
def test_spelling_becomes_sounds_and_attention_finds_the_letters(tmp_path: Path) -> None:
    recipe = read_recipe(RECIPE)
    with Display(Console(quiet=True), recipe.training.steps) as display:
        result = train(RunFolder(recipe, tmp_path / "run"), display)
    assert result["part"] == "test"
    assert 100 - result["scores"]["exact"] <= 31.0
    assert result["scores"]["alignment_words"] > 12_000
    assert result["scores"]["alignment"] >= 95.0
