"""Recipes that are recommended for data and for the time available."""

from __future__ import annotations

import math
import random
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from every_task import TASKS, data_of
from saccade.cli.main import main
from saccade.errors import OptionError, UnknownNameError
from saccade.tasks.base.data import SIZES, Size
from saccade.training import recommendation
from saccade.training.recipe import Recipe
from saccade.training.recommendation import Request, Timing, recipe_for_run, recommended_recipe
from toy_language import toy_pairs, write_lines


def silent(_: str) -> None:
    pass


def recipe(task: str, data: dict[str, Any], *overrides: str, **more: Any) -> Recipe:
    return recommended_recipe(Request(task, data, overrides, **more), silent)[0]


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, Any]:
    return {"table": str(write_lines(tmp_path / "pairs.tsv", ["\t".join(pair) for pair in toy_pairs(60, seed=2)]))}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_three_sizes_that_it_can_build(tmp_path: Path, task: str) -> None:
    counts = []
    for size in SIZES:
        found, splits = recommended_recipe(Request(task, data_of(task, tmp_path), size=size), silent)
        state = found.task.prepare(found.settings, splits.train)
        model = found.build_task(state).build(found.kind, found.model)
        counts.append(sum(parameter.numel() for parameter in model.parameters()))
        assert found.training.warmup == found.training.steps // 10
        assert found.training.validate_every == found.training.steps // 10
    assert counts == sorted(set(counts))  # each larger than the one before


def test_another_size_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no size 'huge'; allowed: medium, small, tiny"):
        recipe("translation", {"builtin": "grammar"}, size="huge")


def test_given_updates_set_their_warm_up(pairs: dict[str, Any]) -> None:
    found = recipe("translation", pairs, "training.steps=50").training
    assert (found.steps, found.warmup, found.validate_every) == (50, 5, 5)


# --- letters and symbols ---


def words_of(alphabet: str, count: int) -> list[str]:
    draw = random.Random(count)
    return ["".join(draw.choices(alphabet, k=draw.randint(3, 9))) for _ in range(count)]


@pytest.mark.parametrize(
    ("sources", "targets", "kinds"),
    [
        (words_of("abcdefgh", 60), words_of("@^ABC-", 61)[:60], ("character", "character")),
        (words_of("abcdefgh", 60), [" ".join(one) for one in words_of("XYZ", 60)], ("character", "word")),
        ([" ".join(one) for one in words_of("XYZ", 60)], words_of("abc", 60), ("word", "character")),
    ],
)
def test_letters_and_symbols_are_recognised(
    tmp_path: Path, sources: list[str], targets: list[str], kinds: tuple[str, str]
) -> None:
    rows = ["\t".join(row) for row in zip(sources, targets, strict=True)]
    found, splits = recommended_recipe(
        Request("translation", {"table": str(write_lines(tmp_path / "a.tsv", rows))}), silent
    )
    assert found.metric == "exact"
    state: Any = found.task.prepare(found.settings, splits.train)
    assert (state.source.kind, state.target.kind) == kinds
    assert state.target.decode(state.target.encode_ids([targets[0]])[0]) == targets[0]


def test_sentences_are_pieces_of_words(pairs: dict[str, Any]) -> None:
    found = recipe("translation", pairs)
    assert (found.metric, found.tables()["text"]["kind"]) == ("bleu", "bpe")


def test_two_kinds_of_token_need_two_vocabularies(pairs: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="needs shared = false"):
        recipe("translation", pairs, "text.target_kind=character")


def test_spans_are_scored_as_spans(tmp_path: Path) -> None:
    rows = [f"Anna B-PER\nSmith I-PER\nsleeps{n} O\n" for n in range(30)]
    assert recipe("tagging", {"file": str(write_lines(tmp_path / "a.txt", rows))}).metric == "span_f1"
    rows = [f"Anna NAME\nsleeps{n} VERB\n" for n in range(30)]
    assert recipe("tagging", {"file": str(write_lines(tmp_path / "b.txt", rows))}).metric == "accuracy"


# --- time ---


def plan(
    monkeypatch: pytest.MonkeyPatch,
    seconds: dict[int, float],
    minutes: float,
    preparing: float = 0.0,
    validating: float = 0.0,
    spent: float = 0.0,
    narrow: float = math.inf,
) -> tuple[Recipe, list[str]]:
    """The recipe for a machine that takes these seconds per update for networks of these widths."""
    monkeypatch.setattr(
        recommendation, "_timed", lambda recipe, *_: Timing(seconds[recipe.model.width], validating, preparing, narrow)
    )
    monkeypatch.setattr(recommendation, "time", SimpleNamespace(monotonic=lambda: 80.0))
    monkeypatch.setattr("saccade.tasks.classification.data.ClassificationFiles.suitable", lambda splits: "medium")
    said: list[str] = []
    data = {"builtin": "grammar", "sentences": 100}
    return recommended_recipe(Request("classification", data, minutes=minutes, began=80.0 - spent), said.append)[
        0
    ], said


@pytest.mark.parametrize(
    ("seconds", "width", "steps"),
    [
        ({256: 0.1}, 256, 400),  # 480 updates fit into 80 % of 60 s, and 400 are all that it needs
        ({256: 0.16}, 256, 300),
        ({256: 1.0, 128: 0.25}, 128, 192),  # 48 of 400 would be too few
        ({256: 1.0, 128: 0.5, 64: 0.96}, 64, 50),  # the smallest gets what there is
        ({256: 9.0, 128: 9.0, 64: 9.0}, 64, 20),  # never fewer
    ],
)
def test_the_largest_network_that_learns_enough_in_the_time(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], width: int, steps: int
) -> None:
    found, said = plan(monkeypatch, seconds, minutes=1)
    training = found.training
    assert (found.tables()["model"]["width"], training.steps, training.minutes) == (width, steps, 1)
    assert (training.warmup, training.validate_every) == (steps // 10, steps // 10)
    size: Size = {256: SIZES[2], 128: SIZES[1], 64: SIZES[0]}[width]
    assert f"Chose {size} with {steps:,} updates" in said[-1]
    assert len(said) == len(seconds) + 2


@pytest.mark.parametrize(("seconds", "every"), [(0.9, 30), (3.0, 100), (60.0, 300)])
def test_slow_validations_are_few(monkeypatch: pytest.MonkeyPatch, seconds: float, every: int) -> None:
    """They get 9 of 60 seconds: ten, three, or at least one at the end of 300 updates."""
    assert plan(monkeypatch, {256: 0.16}, minutes=1, validating=seconds)[0].training.validate_every == every


@pytest.mark.parametrize("lost", ["preparing", "spent"])
def test_time_for_preparation_and_measuring_is_left_out(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    assert plan(monkeypatch, {256: 0.16}, minutes=1, **{lost: 20.0})[0].training.steps == 200


@pytest.mark.parametrize(("narrow", "precision", "steps"), [(0.12, "bf16", 400), (0.155, "fp32", 300)])
def test_products_in_bf16_are_chosen_where_they_are_clearly_faster(
    monkeypatch: pytest.MonkeyPatch, narrow: float, precision: str, steps: int
) -> None:
    found, said = plan(monkeypatch, {256: 0.16}, minutes=1, narrow=narrow)
    assert (found.training.precision, found.training.steps) == (precision, steps)
    assert ("0.120 s per update with matrix products in bf16 (in fp32 0.160 s)" in said[1]) == (precision == "bf16")


def test_both_precisions_are_timed_unless_one_is_given(pairs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []
    monkeypatch.setattr(recommendation, "TIMED_BATCHES", 1)
    monkeypatch.setattr(
        recommendation, "_seconds", lambda trainer, group: timed.append(trainer.settings.precision) or 1.0
    )
    assert recipe("translation", pairs, minutes=0.1).training.precision == "fp32"  # bf16 is not faster
    assert timed == ["fp32", "fp32", "bf16", "bf16"]
    for given in ("fp32", "bf16"):
        timed.clear()
        assert recipe("translation", pairs, f"training.precision={given}", minutes=0.1).training.precision == given
        assert timed == [given, given]


def test_updates_and_minutes_exclude_each_other(pairs: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"--minutes determines training\.steps"):
        recipe("translation", pairs, "training.steps=5", minutes=1)


def test_a_run_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe in its folder says all; a different time is a different recipe, which the folder refuses."""
    lines = [f"{'good' if n % 2 else 'bad'} a text of number {n}" for n in range(60)]
    data, folder = write_lines(tmp_path / "a.txt", lines), tmp_path / "run"
    command = ["train", "--task", "classification", "--data", str(data), "-o", str(folder), "--minutes"]
    with pytest.raises(SystemExit) as left:
        main([*command, "0.1"])
    assert left.value.code == 0
    training = tomllib.loads((folder / "recipe.toml").read_text())["training"]
    assert training["minutes"] == 0.1
    monkeypatch.setattr(recommendation, "_timed", None)
    request = Request("classification", {"file": str(data)}, minutes=0.1)
    assert recipe_for_run(request, folder, silent).training.steps == training["steps"]
    for again, code in (("0.1", 0), ("0.2", 2)):
        with pytest.raises(SystemExit) as left:
            main([*command, again])
        assert left.value.code == code
