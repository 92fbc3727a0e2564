"""``saccade tune`` on a tiny recipe with a bad learning rate."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from optuna import TrialPruned, create_study
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.pruners import SuccessiveHalvingPruner
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial
from tiny_runs import write_recipe
from torch import nn

from saccade.errors import OptionError
from saccade.training.recipe import read_recipe
from saccade.training.trainer import Progress
from saccade.training.tuning import _comparison, _figure, _Reporter, _value, tune


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search of some seconds, with its recipe."""
    folder = tmp_path_factory.mktemp("search")
    recipe = read_recipe(write_recipe(folder, steps=45, lr=1e-5, warmup=9), ["metric=loss"])
    tune(recipe, folder / "found", 0.25, "cpu", lambda text: None)
    return folder


def rows(search: Path) -> list[dict[str, str]]:
    with (search / "found" / "trials.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.slow
def test_the_first_trial_is_the_recipe_and_another_is_better(search: Path) -> None:
    first, *others = rows(search)
    assert (first["state"], first["step"]) == ("complete", "45")
    settings = ("training.lr", "training.warmup", "model.dropout", "training.label_smoothing")
    assert [float(first[key]) for key in settings] == [1e-5, 0.2, 0.2, 0.1]
    assert min(float(row["score"]) for row in others if row["score"]) < float(first["score"])


def test_a_trial_ends_early_only_after_a_ninth_or_a_third(search: Path) -> None:
    ended = [int(row["step"]) for row in rows(search) if row["state"] == "pruned"]
    assert sum(step not in (5, 15) for step in ended) <= 1  # one may have ended because the time was up


def test_the_best_settings_are_a_recipe_of_the_full_length(search: Path) -> None:
    best = min((row for row in rows(search) if row["score"]), key=lambda row: float(row["score"]))
    training = read_recipe(search / "found" / "best.toml").training
    assert (training.steps, training.lr) == (45, pytest.approx(float(best["training.lr"]), rel=1e-4))
    assert training.warmup == int(45 * float(best["training.warmup"]))
    assert (search / "found" / "trials.png").read_bytes().startswith(b"\x89PNG")


def test_a_search_whose_time_is_spent_tries_nothing_more(search: Path) -> None:
    before = rows(search)
    recipe = read_recipe(search / "found" / "recipe.toml")
    found = tune(recipe, search / "found", 0.01, "cpu", lambda text: None)
    assert rows(search) == before
    assert found.tables() == read_recipe(search / "found" / "best.toml").tables()
    other = read_recipe(search / "found" / "recipe.toml", ["training.steps=46"])
    with pytest.raises(OptionError, match=r"another recipe \(training\.steps"):
        tune(other, search / "found", 0.25, "cpu", lambda text: None)


def test_the_journal_is_readable_by_optuna(search: Path) -> None:
    storage = JournalStorage(JournalFileBackend(str(search / "found" / "journal.log")))
    (study,) = storage.get_all_studies()
    assert len(storage.get_all_trials(study._study_id)) == len(rows(search))


def test_if_the_recipes_own_trial_did_not_finish_no_other_score_is_shown_as_its(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path, steps=45, lr=1e-5, warmup=9), ["metric=loss"])
    folder = tmp_path / "found"
    folder.mkdir()
    study = create_study(
        study_name="tune", storage=JournalStorage(JournalFileBackend(str(folder / "journal.log"))), direction="maximize"
    )
    study.set_user_attr("steps", 45)
    begin = datetime(2026, 1, 1)
    for number, (state, value) in enumerate([(TrialState.PRUNED, None), (TrialState.COMPLETE, -2.5)]):
        study.add_trial(
            FrozenTrial(
                number=number,
                trial_id=number,
                state=state,
                value=value,
                datetime_start=begin,
                datetime_complete=begin + timedelta(minutes=1),
                params={"training.lr": 1e-4, "training.warmup": 0.2},
                distributions={
                    "training.lr": FloatDistribution(1e-6, 1e-3, log=True),
                    "training.warmup": CategoricalDistribution([0.2, 0.1]),
                },
                user_attrs={},
                system_attrs={},
                intermediate_values={5: -3.0},
            )
        )
    said: list[str] = []
    tune(recipe, folder, 0.25, "cpu", said.append)  # the time is spent, so nothing more is tried
    assert said[-1] == (
        "Best loss: 2.50 (trial 1, all 45 updates). With the recipe's own settings: unknown, because trial 0 did not "
        "finish."
    )


def test_a_trial_that_the_end_of_the_time_cut_short_may_be_the_best() -> None:
    def trial(number: int, state: TrialState, values: dict[int, float]) -> FrozenTrial:
        value = max(values.values()) if state is TrialState.COMPLETE else None
        none: dict[str, Any] = {"params": {}, "distributions": {}, "user_attrs": {}, "system_attrs": {}}
        return FrozenTrial(
            number=number,
            trial_id=number,
            state=state,
            value=value,
            datetime_start=None,
            datetime_complete=None,
            intermediate_values=values,
            **none,
        )

    own = trial(0, TrialState.COMPLETE, {3: 0.0, 9: 0.5})
    others = [trial(1, TrialState.PRUNED, {3: 0.2}), trial(2, TrialState.PRUNED, {3: 1.0, 6: 7.25, 7: 7.0})]
    best = max([own, *others], key=_value)
    assert _comparison(own, best, "exact", 9, 1) == (
        "Best exact: 7.25 (trial 2, which was stopped after 7 updates). With the recipe's own settings: 0.50 (trial 0, "
        "all 9 updates)."
    )


@pytest.mark.parametrize("metric", ["exact", "loss"])
def test_of_equal_scores_the_lower_loss_is_better(metric: str) -> None:
    """After few updates no text may be exactly right yet; a trial is then kept or ended by its loss."""
    study = create_study(direction="maximize", pruner=SuccessiveHalvingPruner(1, reduction_factor=3))
    ended = []
    for loss in (2.0, 2.1, 1.9, 3.0, 1.8):
        reporter = _Reporter(study.ask(), metric, -1 if metric == "loss" else 1, steps=9)
        try:
            reporter.validated(Progress(step=1, scores={"exact": 0.0, "loss": loss}), nn.Identity(), True)
        except TrialPruned:
            ended.append(loss)
    assert ended == [2.1, 3.0]


def test_the_picture_counts_updates_in_whole_numbers() -> None:
    trial = create_trial(value=1.0, intermediate_values={2: 0.0, 21: 1.0})
    trial.number = 0
    (axes,) = _figure([trial], 1, "exact").axes
    assert [tick for tick in axes.get_xticks() if tick != round(tick)] == []
