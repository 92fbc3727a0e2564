"""Kill a run at any moment and give the same command again: the model is bit for bit that of a run never stopped."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import Command, final_weights, last_step, saccade, write_recipe

from saccade.training.metrics import read_metrics

STEPS = 40
#: Where a kill falls: a number is a step, "save" is while a checkpoint is written.
Moment = int | str


def unstopped(folder: Path, recipe: Path) -> bytes:
    code, _, err = saccade(folder / "unstopped", "train", recipe, "-o", folder / "unstopped")
    assert (code, err) == (0, "")
    return final_weights(folder / "unstopped")


def kill_once(folder: Path, recipe: Path, moment: Moment) -> bool:
    """Go on with the run and kill it; whether that fell where it should."""
    run = folder / "run"
    leftovers: Callable[[], list[Path]] = lambda: list((run / "checkpoints").glob(".*.saccade-new-*"))  # noqa: E731
    command = Command(["train", recipe, "-o", run], folder / "killed")
    if isinstance(moment, int):
        assert command.until(lambda: last_step(run) >= moment), command.err
    else:
        # What an earlier kill left is there until the first save clears it up.
        before = set(leftovers())
        assert command.until(lambda: set(leftovers()) - before), command.err
    command.kill()
    return isinstance(moment, int) or bool(leftovers())


def check_run(folder: Path, model: str, final: str, moments: list[Moment]) -> None:
    recipe = write_recipe(folder, model, steps=STEPS, final=final, average=3, ema=0.9, keep=2)
    expected = unstopped(folder, recipe)
    for moment in moments:
        for _ in range(10):  # a save may have ended before the kill came
            if kill_once(folder, recipe, moment):
                break
        else:
            pytest.fail("No kill fell into a save.")
    code, out, err = saccade(folder / "last", "train", recipe, "-o", folder / "run")
    assert (code, err) == (0, ""), out
    assert final_weights(folder / "run") == expected
    check_metrics(folder)


def check_metrics(folder: Path) -> None:
    """Each step once, in order, with the numbers of the run that was never stopped."""
    ours, theirs = (
        [{key: value for key, value in line.items() if key != "seconds"} for line in read_metrics(path)]
        for path in (folder / "run" / "metrics.jsonl", folder / "unstopped" / "metrics.jsonl")
    )
    assert ours == theirs
    assert [line["step"] for line in ours if "loss" in line] == list(range(1, STEPS + 1))


@pytest.mark.parametrize(
    ("model", "final", "kills", "in_a_save"),
    [
        ("transformer", "average", 1, True),
        ("recurrent", "ema", 2, False),
        ("transformer", "last", 1, False),
        ("recurrent", "best", 1, False),
    ],
)
def test_six_kills(tmp_path: Path, model: str, final: str, kills: int, in_a_save: bool) -> None:
    chance = random.Random(f"{model} {final}")
    moments: list[Moment] = [*sorted(chance.sample(range(1, STEPS), kills))]
    if in_a_save:
        moments.insert(0, "save")
    check_run(tmp_path, model, final, moments)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["transformer", "recurrent"])
@pytest.mark.parametrize("final", ["last", "best", "average", "ema"])
def test_thirty_kills(tmp_path: Path, model: str, final: str) -> None:
    chance = random.Random(f"slow {model} {final}")
    moments: list[Moment] = [*sorted(chance.sample(range(1, STEPS), 3))]
    moments.insert(chance.randrange(2), "save")  # 8 runs of 4 kills
    check_run(tmp_path, model, final, moments)
