"""Kill a run at any moment and give the same command again: the model is bit for bit that of a run never stopped."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest
from tiny_runs import final_weights, saccade, write_recipe

from saccade.storage.run_log import read_metrics

STEPS = 40
#: Calls and returns, of Python and of the system, in a whole run, about: a kill falls at one of them.
MOMENTS = 800_000


def unstopped(folder: Path, recipe: Path) -> bytes:
    """The model of a run that is never stopped."""
    code, _, err = saccade(folder / "unstopped", "train", recipe, "-o", folder / "unstopped")
    assert (code, err) == (0, "")
    return final_weights(folder / "unstopped")


def kill_in_a_save(folder: Path, recipe: Path) -> None:
    """Kill the run when its first checkpoint is written but has not got its name."""
    code, _, _ = saccade(
        folder / "log", "train", recipe, "-o", folder / "run", signal_at=(signal.SIGKILL, "put_in_place", 4)
    )
    assert code == -signal.SIGKILL
    (left,) = (folder / "run" / "checkpoints").iterdir()  # after the task, the average and the model
    assert left.name.startswith(".step-00000010.saccade-new-")


def kill_anywhere(folder: Path, recipe: Path, moment: int) -> bool:
    """Go on with the run and kill it at this moment; False if it ended before."""
    code, _, err = saccade(
        folder / "log", "train", recipe, "-o", folder / "run", signal_at=(signal.SIGKILL, None, moment)
    )
    assert code in (0, -signal.SIGKILL), err
    return code != 0


def check_run(folder: Path, model: str, final: str, kills: int, in_a_save: bool) -> None:
    recipe = write_recipe(folder, model, steps=STEPS, final=final, average=3, ema=0.9, keep=2)
    chance = random.Random(f"{model} {final}")
    expected = unstopped(folder, recipe)
    if in_a_save:
        kill_in_a_save(folder, recipe)
    while kills:
        if kill_anywhere(folder, recipe, chance.randrange(1, MOMENTS)):
            kills -= 1
        else:
            check_end(folder, expected)
            shutil.rmtree(folder / "run")  # and from the start again
    code, out, err = saccade(folder / "log", "train", recipe, "-o", folder / "run")
    assert (code, err) == (0, ""), out
    check_end(folder, expected)


def check_end(folder: Path, expected: bytes) -> None:
    """The same model, and each step once in the metrics, with the same numbers."""
    assert final_weights(folder / "run") == expected
    ours, theirs = (
        [
            {key: value for key, value in line.items() if key not in ("seconds", "speed")}
            for line in read_metrics(path)[0]
        ]
        for path in (folder / "run" / "metrics.jsonl", folder / "unstopped" / "metrics.jsonl")
    )
    assert ours == theirs
    assert [line["step"] for line in ours if "loss" in line] == list(range(1, STEPS + 1))


@pytest.mark.parametrize(
    ("model", "final", "kills", "in_a_save"),
    [
        ("transformer", "average", 1, True),
        ("recurrent", "ema", 2, False),
    ],
)
def test_three_kills(tmp_path: Path, model: str, final: str, kills: int, in_a_save: bool) -> None:
    check_run(tmp_path, model, final, kills, in_a_save)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["transformer", "recurrent"])
@pytest.mark.parametrize("final", ["last", "best", "average", "ema"])
def test_thirty_kills(tmp_path: Path, model: str, final: str) -> None:
    check_run(tmp_path, model, final, kills=4, in_a_save=final == "average")  # 34 in all
