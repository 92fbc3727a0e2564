"""What the scenes of Learn ask for: numbers of the library, quality by length, and small models to train."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from servers import Runner, Running, numbers, post

from saccade.attention import Sinusoidal
from saccade.recurrent import gradient_flow
from saccade.serving import Limits, Models
from saccade.serving.lessons import LESSONS
from saccade.tasks.base.length_scores import BINS, by_length, sentences
from saccade.training.recipe import read_recipe

IMAGE = {"pixels": [[0.5] * 6] * 8}


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "mut1"])
def test_an_unrolled_cell(client: httpx.Client, cell: str) -> None:
    query = {"cell": cell, "steps": 7, "width": 5, "spectral_radius": 0.8, "seed": 3}
    found = client.get("/api/learn/recurrent", params=query).json()
    flow = gradient_flow(cell, 7, spectral_radius=0.8, width=5, input_scale=1.0, seed=3)
    assert found["gradient"] == flow.state.tolist()
    assert found["outputs"] == flow.outputs.tolist()
    assert (found["cell_path"] is None) == (cell != "lstm")
    assert len(found["outputs"]) == 7
    assert len(found["outputs"][0]) == 5


def test_a_cell_that_is_not_there_is_refused(client: httpx.Client) -> None:
    for query in ({"cell": "xyz"}, {"steps": 1000}, {"spectral_radius": "nan"}, {"width": 0}):
        assert client.get("/api/learn/recurrent", params=query).status_code == 400, query


def test_positions(client: httpx.Client) -> None:
    found = numbers(client, "/api/learn/positions", first=100, count=7, width=10)
    np.testing.assert_array_equal(found, Sinusoidal(10).table(100, 7).float().numpy())


def test_the_candidates_of_each_step(running: Running) -> None:
    """Their probabilities are those of the forced pass: the written token has the log-probability of its score."""
    options = {"beam": 1}
    look = post(running.client, "/api/models/tiny/looks", input="the cat sees the dog.", options=options)
    found = running.client.get(f"/api/looks/{look['id']}/candidates", params={"number": 3}).json()
    predictor = running.models["tiny"].predictor
    answer = predictor.best_answer("the cat sees the dog.", **options)
    scores = predictor.token_scores("the cat sees the dog.", answer)
    assert [step["token"] for step in found] == answer.scored_tokens
    for step, score in zip(found, scores, strict=True):  # greedy: the likeliest is written
        assert step["candidates"][0]["token"] == step["token"]
        assert step["candidates"][0]["probability"] == pytest.approx(math.exp(score), rel=1e-5)
        values = [one["probability"] for one in step["candidates"]]
        assert values == sorted(values, reverse=True)
    off = [f"decoder.0.cross:{head}" for head in range(look["attentions"][-1]["heads"])]
    changed = post(running.client, "/api/models/tiny/looks", input="the cat.", options=options, without_heads=off)
    plain = post(running.client, "/api/models/tiny/looks", input="the cat.", options=options)
    first = [
        running.client.get(f"/api/looks/{one['id']}/candidates").json()[0]["candidates"][0]["probability"]
        for one in (changed, plain)
    ]
    assert first[0] != pytest.approx(first[1], rel=1e-3)  # the change is in force


@pytest.mark.parametrize(("name", "given"), [("writer", "the cat"), ("teller", IMAGE)])
def test_the_candidates_of_other_writers(running: Running, name: str, given: Any) -> None:
    look = post(running.client, f"/api/models/{name}/looks", input=given, options={})
    found = running.client.get(f"/api/looks/{look['id']}/candidates").json()
    answer = running.app.state.looks[look["id"]].answer
    assert [step["token"] for step in found] == answer.scored_tokens
    assert all(0 < sum(one["probability"] for one in step["candidates"]) <= 1.00001 for step in found)


def test_a_label_has_no_candidates(running: Running) -> None:
    look = post(running.client, "/api/models/sorter/looks", input="the cat sees the dog.")
    assert running.client.get(f"/api/looks/{look['id']}/candidates").json() == []


def test_only_models_of_the_built_in_corpus_are_measured_by_length(client: httpx.Client) -> None:
    answer = client.post("/api/learn/lengths/tiny", json={})
    assert answer.status_code == 400
    assert "built-in corpus" in answer.json()["error"]


def test_quality_by_length(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translator that knows every sentence of up to 9 words, and nothing of longer ones."""
    predictor = running.models["tiny"].predictor
    truth = {one.source_text: one.target_text if len(one.source) < 10 else "oh" for one in sentences()}
    answers = lambda given, **_: [type("Answer", (), {"text": truth[one]}) for one in given]  # noqa: E731
    monkeypatch.setattr(predictor, "predict", answers)
    *progress, last = by_length(predictor)
    assert progress[-1] == {"done": 400, "of": 400}
    assert [(one["from"], one["to"]) for one in last["bins"]] == list(BINS)
    assert [round(one["bleu"]) for one in last["bins"]] == [100, 100, 100, 0, 0]
    assert [one["right"] == one["of"] for one in last["bins"]] == [True, True, True, False, False]
    assert sum(one["of"] for one in last["bins"]) == 400


def test_lessons(client: httpx.Client) -> None:
    found = client.get("/api/learn/lessons").json()
    assert set(found) == set(LESSONS)
    assert not any(one["ready"] for one in found.values())
    answer = client.post("/api/learn/lessons/other", json={})
    assert answer.status_code == 404
    answer = client.post("/api/learn/lessons/demo", json={})  # this server has no folder for runs
    assert answer.status_code == 400


def test_recipes_of_lessons_can_be_read() -> None:
    for lesson in LESSONS.values():
        if lesson.recipe is not None:
            read_recipe(Path(next(word for word in lesson.command(Path("runs/x"), "cpu") if word.endswith(".toml"))))


def test_a_lesson_that_was_trained_before_is_served_at_once(
    runner: Runner, folders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "one-vector").symlink_to(folders["tiny"])
    (tmp_path / "digits").mkdir()
    models = Models(Limits())
    running = runner.start(models, runs=tmp_path)
    finished = folders["tiny"] / "result.json"
    made = not finished.exists()
    if made:
        finished.write_text("{}")
    assert running.client.post("/api/learn/lessons/one-vector", json={}).status_code == 202
    if made:
        finished.unlink()
    assert list(models) == ["one-vector"]
    assert running.client.get("/api/learn/lessons").json()["one-vector"]["ready"]


def test_one_training_at_a_time(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that only waits stands in for the training; it is ended with the server."""
    keyboard, typing = os.pipe()  # not a pipe of the process itself: who waits for its end closes that
    started = subprocess.Popen
    waiting = lambda *_, **__: started([sys.executable, "-c", "input()"], stdin=keyboard, stderr=subprocess.PIPE)  # noqa: E731
    monkeypatch.setattr("saccade.serving.lessons.subprocess.Popen", waiting)
    models = Models(Limits())
    running = runner.start(models, runs=tmp_path)
    assert running.client.post("/api/learn/lessons/demo", json={}).status_code == 202
    assert running.client.post("/api/learn/lessons/demo", json={}).status_code == 202
    assert [one["name"] for one in running.client.get("/api/models").json()] == ["demo"]
    answer = running.client.post("/api/learn/lessons/digits", json={})
    assert answer.status_code == 409
    assert answer.json()["error"] == "The model demo is being trained; wait until it is ready."
    os.close(keyboard)
    os.close(typing)
