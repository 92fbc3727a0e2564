"""Recipes that are recommended for data and for the time available."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from every_task import TASKS, data_of
from saccade.cli.main import main
from saccade.errors import OptionError, UnknownNameError
from saccade.tasks.base.data import SIZES, Size
from saccade.training import recommendation
from saccade.training.recipe import Recipe
from saccade.training.recommendation import Request, Speed, Timing, recipe_for_run, recommended_recipe
from saccade.training.trainer import Trainer
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
        assert found.training.steps // 20 <= found.training.warmup <= found.training.steps // 10
        assert found.training.steps // 10 <= found.training.validate_every <= found.training.steps // 5
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

PLAIN = Speed(0.0)  # one thread, fp32


def plan(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: dict[int, float],
    minutes: float,
    preparing: float = 0.0,
    validating: float = 0.0,
    spent: float = 0.0,
    speed: Speed = PLAIN,
) -> tuple[Recipe, list[str]]:
    """The recipe for a machine that takes these seconds per update for networks of these widths."""

    def timed(recipe: Recipe, *_: object) -> Timing:
        return Timing(speed._replace(seconds=seconds[recipe.model.width]), validating, preparing)

    monkeypatch.setattr(recommendation, "_timed", timed)
    monkeypatch.setattr(recommendation, "time", SimpleNamespace(monotonic=lambda: 80.0))
    monkeypatch.setattr("saccade.tasks.classification.data.ClassificationFiles.suitable", lambda splits: "medium")
    said: list[str] = []
    lines = [f"{'good' if n % 2 else 'bad'} a text of number {n}" for n in range(100)]
    data = {"file": str(write_lines(folder / "a.txt", lines))}
    request = Request("classification", data, minutes=minutes, began=80.0 - spent)
    return recommended_recipe(request, said.append)[0], said


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], width: int, steps: int
) -> None:
    found, said = plan(tmp_path, monkeypatch, seconds, minutes=1)
    training = found.training
    assert (found.tables()["model"]["width"], training.steps, training.minutes) == (width, steps, 1)
    assert (training.warmup, training.validate_every) == (steps // 10, steps // 10)
    size: Size = {256: SIZES[2], 128: SIZES[1], 64: SIZES[0]}[width]
    assert f"Chose {size} with {steps:,} updates" in said[-1]
    assert len(said) == len(seconds) + 2


@pytest.mark.parametrize(("seconds", "every"), [(0.9, 30), (3.0, 100), (60.0, 300)])
def test_slow_validations_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, every: int) -> None:
    """They get 9 of 60 seconds: ten, three, or at least one at the end of 300 updates."""
    assert plan(tmp_path, monkeypatch, {256: 0.16}, minutes=1, validating=seconds)[0].training.validate_every == every


@pytest.mark.parametrize("lost", ["preparing", "spent"])
def test_time_for_preparation_and_measuring_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    assert plan(tmp_path, monkeypatch, {256: 0.16}, minutes=1, **{lost: 20.0})[0].training.steps == 200


@pytest.mark.parametrize(
    ("speed", "said"),
    [
        (PLAIN, "0.160 s per update, time"),
        (Speed(0, threads=2), "0.160 s per update with 2 threads, time"),
        (Speed(0, "bf16", 1, 0.25), "0.160 s per update with matrix products in bf16 (in fp32 0.250 s), time"),
        (
            Speed(0, "bf16", 2, 0.25),
            "0.160 s per update with 2 threads and matrix products in bf16 (in fp32 0.250 s), time",
        ),
    ],
)
def test_what_makes_updates_fast_is_told_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speed: Speed, said: str
) -> None:
    found, lines = plan(tmp_path, monkeypatch, {256: 0.16}, minutes=1, speed=speed)
    training = found.training
    assert (training.precision, training.threads, training.steps) == (speed.precision, speed.threads, 300)
    assert said in lines[1]


class Machine:
    """A machine on which an update takes these seconds, by precision and number of threads; it keeps what is timed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[tuple[str, int], float]) -> None:
        self.timed: list[tuple[str, int]] = []

        def timed(trainer: Trainer, group: object, clock: object = None) -> float:
            self.timed.append((trainer.settings.precision, torch.get_num_threads()))
            return seconds[self.timed[-1]]

        monkeypatch.setattr(recommendation, "_seconds", timed)
        monkeypatch.setattr(recommendation, "TIMED_BATCHES", 1)
        monkeypatch.setattr(recommendation, "TIMED_THREADS", 0.0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("narrow", "two", "chosen"),
    [
        (0.6, 0.5, ("bf16", 2, 0.5)),
        (0.96, 0.96, ("fp32", 1, 1.0)),  # neither saves more than 5 %
        (0.6, 6.0, ("bf16", 1, 0.6)),  # two threads wait for each other
    ],
)
def test_the_clearly_faster_precision_and_threads_are_chosen(
    pairs: dict[str, Any],
    two_threads: None,
    monkeypatch: pytest.MonkeyPatch,
    narrow: float,
    two: float,
    chosen: tuple[str, int, float],
) -> None:
    """An update takes 1 s in fp32 and ``narrow`` seconds in bf16, or ``two`` seconds with two threads."""
    machine = Machine(monkeypatch, {("fp32", 1): 1.0, ("bf16", 1): narrow, ("fp32", 2): two, ("bf16", 2): two})
    said: list[str] = []
    found = recommended_recipe(Request("translation", pairs, minutes=0.1, size="tiny"), said.append)[0].training
    precision, threads, seconds = chosen
    assert (found.precision, found.threads) == (precision, threads)
    assert f"{seconds:.3f} s per update" in said[1]
    assert machine.timed == [*[("fp32", 1)] * 3, *[("bf16", 1)] * 3, (precision, 1), (precision, 2)]
    assert torch.get_num_threads() == 2


def test_a_precision_or_number_of_threads_that_is_given_is_kept(
    pairs: dict[str, Any], two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {(precision, count): 1.0 / count for precision in ("fp32", "bf16") for count in (1, 2)}
    for given in ("fp32", "bf16"):
        machine = Machine(monkeypatch, seconds)
        assert (
            recipe("translation", pairs, f"training.precision={given}", minutes=0.1, size="tiny").training.precision
            == given
        )
        assert {precision for precision, _ in machine.timed} == {given}
    for count, counts in ((1, {1}), (2, {1, 2}), (8, {1, 2})):
        machine = Machine(monkeypatch, seconds)
        assert (
            recipe("translation", pairs, f"training.threads={count}", minutes=0.1, size="tiny").training.threads
            == count
        )
        assert {threads for _, threads in machine.timed} == counts


def test_the_machine_is_really_measured(pairs: dict[str, Any], two_threads: None) -> None:
    found = recipe("translation", pairs, minutes=0.1, size="tiny").training
    assert found.threads in (1, 2)
    assert found.steps >= recommendation.FEWEST


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
