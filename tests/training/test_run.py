"""A run from its recipe to its model: which weights become the model, and what a run without numbers leaves."""

from __future__ import annotations

import json
import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from tiny_runs import final_weights, saccade, write_recipe
from torch import Tensor, nn

from saccade.errors import DivergedError, OptionError
from saccade.storage.run_log import read_metrics
from saccade.tasks.base.task import Probe
from saccade.training import run as training_run
from saccade.training import trainer
from saccade.training.checkpoint import CheckpointStore
from saccade.training.display import Display
from saccade.training.recipe import Recipe, read_recipe
from saccade.training.run_folder import RunFolder


class Watching(Display):
    """Shows nothing; keeps the weights of each validation, and poisons the model after a step if it is told to."""

    def __init__(self, poison_after: int | None = None) -> None:
        super().__init__(Console(quiet=True), steps=0)
        self.poison_after = poison_after
        self.network: nn.Module | None = None
        self.validated_weights: list[dict[str, Tensor]] = []
        self.said: list[str] = []
        self.threads: set[int] = set()

    def say(self, text: str) -> None:
        self.said.append(text)

    warn = say

    def model(self, model: nn.Module, recipe: Recipe, step: int) -> None:
        self.network = model

    def updated(self, progress: trainer.Progress, loss: float, rate: float, tokens: int) -> None:
        self.threads.add(torch.get_num_threads())
        if progress.step == self.poison_after:
            assert self.network is not None
            with torch.no_grad():
                next(self.network.parameters()).fill_(math.nan)

    def validated(
        self, progress: trainer.Progress, improved: bool, probe: Probe, source_and_truth: tuple[str, str] = ("", "")
    ) -> None:
        assert self.network is not None
        self.validated_weights.append({n: p.detach().clone() for n, p in self.network.named_parameters()})


def train(folder: Path, display: Watching, run: str = "run", **training: Any) -> dict[str, Any]:
    recipe = read_recipe(write_recipe(folder, "recurrent", steps=40, **training))
    return training_run.train(RunFolder(recipe, folder / run), display)


def model_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "run" / "model" / "model.safetensors")


# --- which weights become the model ----------------------------------------------------------------------------


def test_the_last_weights(tmp_path: Path) -> None:
    display = Watching()
    train(tmp_path, display, final="last")
    found = model_of(tmp_path)
    assert all(torch.equal(found[name], weight) for name, weight in display.validated_weights[-1].items())


def test_the_best_weights(tmp_path: Path) -> None:
    display = Watching()
    result = train(tmp_path, display, final="best", lr=0.2, seed=3)
    assert result["best_step"] < 40  # so that the best are not the last
    best = display.validated_weights[result["best_step"] // 10 - 1]
    found = model_of(tmp_path)
    assert all(torch.equal(found[name], weight) for name, weight in best.items())


def test_the_average_of_the_last_validations(tmp_path: Path) -> None:
    display = Watching()
    train(tmp_path, display, final="average", average=3)
    found = model_of(tmp_path)
    assert len(display.validated_weights) == 4
    _, second, third, fourth = display.validated_weights
    for name in second:
        mean = (second[name].double() + third[name].double() + fourth[name].double()) / 3
        torch.testing.assert_close(found[name].double(), mean, rtol=1e-6, atol=1e-8)
        assert name.endswith("bias") or not torch.equal(found[name], fourth[name])


def test_the_moving_average(tmp_path: Path) -> None:
    train(tmp_path, Watching(), final="ema", ema=0.9)
    tensors = CheckpointStore(tmp_path / "run" / "checkpoints").load(40).tensors
    found = model_of(tmp_path)
    for name, weight in found.items():
        assert torch.equal(weight, tensors[f"ema.{name}"])
    assert any(not torch.equal(weight, tensors[f"model.{name}"]) for name, weight in found.items())


def test_what_a_run_leaves(tmp_path: Path) -> None:
    result = train(tmp_path, Watching(), keep=2)
    run = tmp_path / "run"
    assert json.loads((run / "result.json").read_text()) == result
    assert CheckpointStore(run / "checkpoints").steps() == [30, 40]
    assert not (run / "averages").exists()
    probes = sorted(path.name for path in (run / "probes").iterdir())
    assert probes == [f"step-{step:08d}.json" for step in (10, 20, 30, 40)]
    probe = json.loads((run / "probes" / probes[-1]).read_text())
    assert len(probe["weights"]) == len(probe["outputs"])
    assert all(len(row) == len(probe["inputs"]) for row in probe["weights"])


def test_init_begins_with_the_weights_of_a_model(tmp_path: Path) -> None:
    train(tmp_path, Watching())
    other = tmp_path / "other"
    recipe = read_recipe(write_recipe(tmp_path, "recurrent", steps=1, warmup=0, lr=1e-12, final="last"))
    training_run.train(RunFolder(recipe, other, tmp_path / "run"), Watching())
    found = load_file(other / "model" / "model.safetensors")
    for name, weight in model_of(tmp_path).items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-9)


# --- numbers that are none -------------------------------------------------------------------------------------


def test_a_run_without_numbers_leaves_its_last_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="The loss became nan at step 14 "):
        train(tmp_path, Watching(poison_after=13))
    found = CheckpointStore(tmp_path / "run" / "checkpoints").latest(pytest.fail)
    assert found is not None
    assert found.step == 10
    assert all(tensor.isfinite().all() for tensor in found.tensors.values())
    train(tmp_path, Watching())  # what poisoned it is gone
    train(tmp_path, Watching(), "whole")
    assert final_weights(tmp_path / "run") == final_weights(tmp_path / "whole")


def test_the_command_says_where_it_diverged(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, lr=1e30, schedule="constant")
    code, _, err = saccade(tmp_path / "log", "train", recipe, "-o", tmp_path / "run")
    assert code == 2
    assert err.startswith("saccade: The loss became nan at step 2 (epoch 1, update 2; a batch of ")
    assert err.count("\n") == 1


def test_guided_alignment_without_links_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"guided_alignment needs gold links, but line \d+ has none"):
        train(tmp_path, Watching(), guided_alignment=0.5)


# --- training longer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", ["last", "average"])
def test_an_extended_run_is_the_longer_run(tmp_path: Path, final: str) -> None:
    """With a constant rate nothing tells the two apart: same weights, same log, same result."""
    same = {"schedule": "constant", "warmup": 0, "final": final, "average": 3}
    short = train(tmp_path, Watching(), "run", validate_every=10, **same)
    recipe = write_recipe(tmp_path, "recurrent", steps=60, validate_every=10, **same)
    long = training_run.train(RunFolder(read_recipe(recipe), tmp_path / "run"), Watching())
    straight = training_run.train(RunFolder(read_recipe(recipe), tmp_path / "straight"), Watching())
    assert (short["steps"], long["steps"], long["scores"]) == (40, 60, straight["scores"])
    assert final_weights(tmp_path / "run") == final_weights(tmp_path / "straight")
    logs = [read_metrics(tmp_path / name / "metrics.jsonl")[0] for name in ("run", "straight")]
    assert [line["step"] for line in logs[0]] == [line["step"] for line in logs[1]]


def test_more_updates_end_the_limit_of_time(tmp_path: Path) -> None:
    """The time of the run is used up; within it, not one of the updates asked for could be made."""
    limited = write_recipe(tmp_path, steps=20, minutes=1e-4)
    hurried = Watching()
    first = training_run.train(RunFolder(read_recipe(limited), tmp_path / "run"), hurried)
    assert first["steps"] == 1
    ended, warning = hurried.said[-2:]
    assert ended.startswith("The machine was slower than measured: training ended at step 1, not 20")
    assert "has learned hardly anything. To train it longer, repeat the command with --set training.minutes=" in warning
    longer = read_recipe(write_recipe(tmp_path, steps=30, minutes=1e-4))
    run = RunFolder(longer, tmp_path / "run")
    assert (run.extended, run.unlimited, run.recipe.training.minutes) == (True, True, None)
    watching = Watching()
    assert training_run.train(run, watching)["steps"] == 30
    again = RunFolder(longer, tmp_path / "run")  # the same command, once more
    assert (again.finished, again.unlimited) == (True, True)
    yet_longer = RunFolder(read_recipe(write_recipe(tmp_path, steps=40, minutes=1e-4)), tmp_path / "run")
    assert (yet_longer.extended, yet_longer.unlimited, yet_longer.finished) == (True, True, False)


def test_a_recipe_limits_the_threads(tmp_path: Path) -> None:
    """If torch may use fewer, that holds; after the run, torch uses as many as before."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for limit, used in ((1, 1), (3, 2)):
            recipe = read_recipe(write_recipe(tmp_path, steps=2, warmup=1, threads=limit))
            watching = Watching()
            training_run.train(RunFolder(recipe, tmp_path / f"{limit}"), watching)
            assert (watching.threads, torch.get_num_threads()) == ({used}, 2)
    finally:
        torch.set_num_threads(before)


def test_a_killed_extension_continues(tmp_path: Path) -> None:
    short, long = (write_recipe(tmp_path, steps=steps).rename(tmp_path / f"{steps}.toml") for steps in (20, 30))
    run = tmp_path / "run"
    assert saccade(tmp_path / "log", "train", short, "-o", run)[0] == 0
    at = (signal.SIGKILL, "write_file", 1)
    assert saccade(tmp_path / "log", "train", long, "-o", run, signal_at=at)[0] == -signal.SIGKILL
    assert saccade(tmp_path / "log", "train", long, "-o", run)[0] == 0
    assert json.loads((run / "result.json").read_text())["steps"] == 30
    code, _, err = saccade(tmp_path / "log", "train", short, "-o", run)
    assert (code, "only training.steps and training.minutes can grow" in err) == (2, True)
