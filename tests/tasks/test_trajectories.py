"""Trajectories: scores by hand, the built-in world, and the whole way from a file to an answer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import saccade
from saccade.cli.main import app
from saccade.data.tracks import Scene
from saccade.data.world import FUTURE, PAST, generate_scenes
from saccade.errors import FileError, InputTypeError, OptionError
from saccade.tasks.trajectories.data import TrajectoriesData, TrajectoriesFiles
from saccade.tasks.trajectories.task import (
    SamplingOptions,
    Trajectories,
    TrajectoriesState,
    _apart,
    distances,
    walk_straight,
    walk_varied,
)
from untrained import write_untrained


def window(positions: list[list[list[float]]], past: int) -> Scene:
    array = np.array(positions, dtype=np.float32)
    return Scene(array, past, tuple(map(str, range(array.shape[1]))), 0, 1, 1, "here")


def test_distances_by_hand() -> None:
    """One agent that stands still, and two predictions: one near on average, one near in the end."""
    truth = window([[[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]], past=1)
    paths = np.array([[[[0.0, 1.0]], [[0.0, 3.0]]], [[[3.0, 4.0]], [[0.0, 0.5]]]])
    found = distances([paths], [truth])
    assert (found["ade"], found["fde"]) == (2.0, 0.5)  # the mean of 1 and 3, and the end of the other
    assert (found["missed"], found["collisions"]) == (0.0, 0.0)


def test_losses_are_distances_or_their_squares_by_hand() -> None:
    """Two steps of one agent, 3 and 5 away: 8 in all, or 34 if squared."""
    paths, future = torch.tensor([[[[[0.0, 3.0]], [[3.0, 4.0]]]]]), torch.zeros(1, 2, 1, 2)
    assert _apart(paths, future, squared=True).tolist() == [[[34.0]]]
    assert _apart(paths, future, squared=False).item() == pytest.approx(8, abs=1e-5)


def test_collisions_are_of_agents_that_meet() -> None:
    truth = window([[[0.0, 0.0], [9.0, 9.0], [5.0, 5.0]]] * 2, past=1)
    paths = np.array([[[[1.0, 1.0], [1.0, 1.05], [5.0, 5.0]]]])
    assert distances([paths], [truth])["collisions"] == pytest.approx(200 / 3)


def test_constant_velocity_by_hand() -> None:
    scene = window([[[0.0, 0.0]], [[1.0, 2.0]], [[9.0, 9.0]]], past=2)
    assert walk_straight(scene, 2)[:, 0].tolist() == [[2.0, 4.0], [3.0, 6.0]]
    varied = walk_varied(scene, 2, SamplingOptions(samples=5))
    assert varied.shape == (5, 2, 1, 2)
    assert varied[0].tolist() == walk_straight(scene, 2).tolist()
    assert not np.allclose(varied[1], varied[2])


def test_the_world_is_as_it_says() -> None:
    followed = 0
    for scene in generate_scenes(50, 4):
        assert scene.positions.shape[0] == PAST + FUTURE
        for one, other in scene.links:
            mine, theirs = scene.positions[:, one], scene.positions[:, other]
            # a follower is where its leader was: some delay makes both paths equal
            apart = [np.abs(mine[delay:] - theirs[: len(mine) - delay]).max() for delay in range(5, 8)]
            followed += min(apart) < 0.1
            straight = walk_straight(scene, FUTURE)[-1, one]
            assert np.linalg.norm(straight - mine[-1]) > 0.4, "a dependent agent does not walk straight on"
    assert followed >= 50
    assert all(
        np.array_equal(a.positions, b.positions)
        for a, b in zip(generate_scenes(3, 1), generate_scenes(3, 1), strict=True)
    )


def test_one_agent_is_a_scene_and_windows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "alone.txt"
    path.write_text("".join(f"{frame} 7 {frame} 0\n" for frame in range(0, 300, 10)))
    found = TrajectoriesFiles.read(TrajectoriesData(files=[str(path)], past=3, future=2), seed=1)
    assert {one.agents for one in (*found.train, *found.validation)} == {("7",)}
    short = r"alone.txt: no window of 50 time steps \(every 10 frames\) has 1 or more agents throughout"
    with pytest.raises(FileError, match=short):
        TrajectoriesFiles.read(TrajectoriesData(files=[str(path)], past=8, future=42), seed=1)
    with pytest.raises(FileError, match=r"no window of 5 time steps .* has 2 or more agents throughout"):
        TrajectoriesFiles.read(TrajectoriesData(files=[str(path)], past=3, future=2, least_agents=2), seed=1)


RECIPE = """task = "trajectories"
[data]
files = ["{folder}/tracks.txt"]
[model]
kind = "{kind}"
width = 16
latent = 2
{more}
[training]
steps = 30
warmup = 3
samples = 4
validate_every = 30
"""


def saccade_command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module", params=["agents", "mlp"])  # the second with futures that are trained to differ
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Agents on circles of different sizes, and a run."""
    folder = tmp_path_factory.mktemp("tracks")
    rows = []
    for frame in range(0, 1200, 10):
        for agent in range(1, 5):
            angle = frame / 10 * 0.1 + agent
            rows.append(f"{frame}\t{agent}.0\t{agent * math.cos(angle):.3f}\t{agent * math.sin(angle):.3f}")
    (folder / "tracks.txt").write_text("\n".join(rows) + "\n")
    more = "diverse = 4\nturned = true" if request.param == "mlp" else ""
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder, kind=request.param, more=more))
    result = saccade_command("train", folder / "recipe.toml", "-o", folder / "run")
    assert result.exit_code == 0, result.output
    return folder


def test_it_scores_beside_constant_velocity(folder: Path) -> None:
    said = saccade_command("evaluate", folder / "run", "--data", folder / "tracks.txt").stdout
    assert "constant velocity" in said
    assert "this model, best of 20" in said


def test_it_answers_files_and_json(folder: Path) -> None:
    record = json.loads(saccade_command("predict", folder / "run", folder / "tracks.txt", "--json").stdout)
    assert set(record["agents"]) == {"1", "2", "3", "4"}
    assert np.shape(record["agents"]["3"]["drawn"]) == (20, 12, 2)
    fewer = saccade_command("predict", folder / "run", folder / "tracks.txt", "--json", "--set", "samples=3").stdout
    assert np.shape(json.loads(fewer)["agents"]["3"]["drawn"]) == (3, 12, 2)
    table = saccade_command("predict", folder / "run", folder / "tracks.txt", "--format", "csv", "--set", "samples=3")
    assert table.stdout.startswith("sample,frame,agent,x,y\n0,1200,1,")
    assert len(table.stdout.splitlines()) == 1 + 4 * 12 * 4  # the most likely and three others, 12 steps, 4 agents
    refused = saccade_command("predict", folder / "run", "[[0, 1, 2]]")
    assert refused.exit_code != 0


def test_it_answers_in_python(folder: Path) -> None:
    with saccade.open(folder / "run") as model:
        (answer,) = model.predict([folder / "tracks.txt"], samples=3)
        assert answer.csv.splitlines()[0] == "sample,frame,agent,x,y"
        assert len(answer.csv.splitlines()) == 1 + 4 * 12 * 4
        assert answer.csv.splitlines()[1].startswith("0,1200,1,")
        late = folder / "late.txt"  # one more agent, who has just come
        late.write_text((folder / "tracks.txt").read_text() + "1190\t9.0\t1.0\t1.0\n")
        (window,), how = model.read_file(late)
        assert window.agents == ("1", "2", "3", "4")
        assert how.endswith("with 4 agents; 1 agent in the last frame left out because of missing earlier time steps")
        (again,) = model.predict([folder / "tracks.txt"], samples=3)
        assert answer.csv == again.csv
        assert answer.figure(dark=True) is not None
        if 'kind = "mlp"' in (folder / "recipe.toml").read_text():
            with pytest.raises(OptionError, match="reads each agent alone, without attention"):
                _ = answer.view
        else:
            seen = answer.looked_at("2")
            assert set(seen) == {"1", "2", "3", "4"}
            assert sum(sum(weights) for weights in seen.values()) == pytest.approx(1, abs=1e-5)
            assert answer.view.rows[answer.layer].tokens[:2] == ["1@1", "2@1"]
            with pytest.raises(OptionError, match="There is no agent '9'; the agents are 1, 2, 3, 4"):
                answer.looked_at("9")
        torch.manual_seed(0)
        with pytest.raises(OptionError, match="no agent is present at all of the last 8 time steps"):
            model.predict([[[0, 1, 2.0, 3.0]]])
        with pytest.raises(
            InputTypeError, match=r"must be the name of a file of tracks or a list of rows \[frame, agent, x, y\]"
        ):
            model.predict([{"x": 1}])


def test_a_model_without_a_latent_predicts_one_future(tmp_path: Path) -> None:
    """Wrong before: the only future was written once for each sample that was asked for."""
    task = Trajectories(TrajectoriesState(1.5, 3, 2))
    folder = write_untrained(tmp_path / "model", task, SamplingOptions(samples=5), kind="agents", latent=0)
    rows = [[moment, agent, 0.5 * moment, agent] for moment in range(3) for agent in (1, 2)]
    answer = saccade.open(folder).predict([rows])[0]
    assert {sample for sample, *_ in answer.rows()} == {0}
    assert answer.certainty == "final positions of the only paths that this model predicts"
