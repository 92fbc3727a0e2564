"""The shipped recipe for hard attention: every seed learns to look at the right letter."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch

from saccade.data.reversals import reversals
from saccade.models import ReinforcedLoss
from saccade.tasks.translation.data import TranslationFiles
from saccade.tasks.translation.task import Translation
from saccade.training.recipe import read_recipe
from saccade.training.trainer import Trainer

RECIPE = Path(__file__).parents[2] / "recipes" / "reverse-hard.toml"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_every_look_goes_to_the_right_letter(seed: int) -> None:
    recipe = read_recipe(RECIPE, ["training.steps=250", f"training.seed={seed}"])
    splits = TranslationFiles.read(recipe.settings["data"], seed)
    task = recipe.build_task(recipe.task.prepare(recipe.settings, splits.train))
    assert isinstance(task, Translation)
    torch.manual_seed(seed)
    trainer = Trainer(task, task.build(recipe.kind, recipe.model), task.encode(splits.train), task.encode(splits.test))
    for group in islice(trainer.groups(), 250):
        trainer.update(group)
    model = trainer.model.eval()
    finished = recipe.build_task(task.finish(model, trainer.train[:300]))
    scores = finished.evaluate(model, trainer.validation[:200], recipe.decoding).scores
    assert scores["exact"] >= 95
    assert scores["alignment"] >= 95


def test_splits_share_no_text_and_links_are_the_mirror() -> None:
    parts = [reversals(1000, 3, split) for split in ("train", "validation", "test")]
    texts = [{pair.source for pair in part} for part in parts]
    assert [len(part) for part in texts] == [1000, 1000, 1000]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]
    (pair,) = reversals(1, 4)
    assert pair.target == pair.source[::-1]
    assert {pair.source[s] == pair.target[t] for s, t in pair.alignment or ()} == {True}


def test_a_draw_is_credited_with_the_words_that_it_can_affect() -> None:
    """Two rows of two words. Later words count half: rewards -1 and -3, then -1 - 3/2 = -2.5, against 0 and 0."""
    losses, real = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.ones(2, 2, dtype=torch.bool)
    for later, expected in ((0.0, [-0.5, -1.5]), (0.5, [-1.25, -1.5])):
        drawn = torch.zeros(2, 2, requires_grad=True)
        ReinforcedLoss(later=later)(losses, drawn, real).backward()
        spread = (sum(2 * number**2 for number in expected) / 4) ** 0.5
        assert drawn.grad is not None
        torch.testing.assert_close(drawn.grad[0] * 4, -torch.tensor(expected) / spread)


def test_a_word_beyond_the_end_is_no_reward() -> None:
    drawn = torch.zeros(2, 2, requires_grad=True)
    real = torch.tensor([[True, False], [True, True]])
    ReinforcedLoss(later=1.0)(torch.tensor([[1.0, 99.0], [1.0, 0.0]]), drawn, real).backward()
    assert drawn.grad is not None
    assert drawn.grad.abs().sum() == 0


def test_exploration_rewards_what_was_unlikely() -> None:
    drawn = torch.tensor([[0.9], [0.1]]).log().requires_grad_()
    ReinforcedLoss(exploration=1.0)(torch.ones(2, 1), drawn, torch.ones(2, 1, dtype=torch.bool)).backward()
    assert drawn.grad is not None
    assert drawn.grad[0] > 0 > drawn.grad[1]
