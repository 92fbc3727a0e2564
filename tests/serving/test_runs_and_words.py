"""Trainings as their folders tell of them, and what was learned of words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from servers import Runner, Running

from saccade.serving import Models
from saccade.serving.runs import find_runs, read_metrics
from saccade.serving.words import WordVectors
from saccade.text import Tokenizer


@pytest.fixture
def watched(tiny_run: Path, tmp_path: Path, runner: Runner) -> Running:
    """A server without a model that shows a finished run and one that goes on."""
    (tmp_path / "finished").symlink_to(tiny_run)
    going = tmp_path / "going"
    (going / "probes").mkdir(parents=True)
    (going / "recipe.toml").write_text('task = "tagging"\nmetric = "accuracy"\n[training]\nsteps = 70\n')
    (going / "metrics.jsonl").write_text('{"step": 10, "loss": NaN}\n{"step": 20, "loss": 1.5}\n{"step": 30, "lo')
    return runner.start(Models(), runs=tmp_path)


def test_runs_are_listed(watched: Running, tiny_run: Path) -> None:
    finished, going = watched.client.get("/api/runs").json()
    assert (finished["name"], finished["step"], finished["steps"], finished["finished"]) == ("finished", 250, 250, True)
    assert finished["scores"] == json.loads((tiny_run / "result.json").read_text())["scores"]
    assert going == {
        "name": "going",
        "task": "tagging",
        "metric": "accuracy",
        "step": 20,
        "steps": 70,
        "finished": False,
        "scores": {},
    }
    assert watched.client.get("/api/runs/going").json()["metrics"] == [
        {"step": 10, "loss": None},
        {"step": 20, "loss": 1.5},
    ]


def test_probes_show_one_example_as_the_model_learned(watched: Running, tiny_run: Path) -> None:
    run = watched.client.get("/api/runs/finished").json()
    assert run["probes"] == [125, 250]
    probe = watched.client.get("/api/runs/finished/probes/125").json()
    assert probe == json.loads((tiny_run / "probes" / "step-00000125.json").read_text())
    assert watched.client.get("/api/runs/finished/probes/126").status_code == 404
    for name in ("none", "..", "%2e%2e", "..%2f..%2fetc"):
        assert watched.client.get(f"/api/runs/{name}").status_code == 404


def test_what_is_measured_is_told_as_it_comes(watched: Running, tmp_path: Path) -> None:
    with watched.client.stream("GET", "/api/runs/going/events?after=10") as answer:
        lines = (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data:"))
        assert next(lines) == {"metric": {"step": 20, "loss": 1.5}}
        with (tmp_path / "going" / "metrics.jsonl").open("a") as log:
            log.write('ss": 1.25}\n')
        assert next(lines) == {"metric": {"step": 30, "loss": 1.25}}
        (tmp_path / "going" / "result.json").write_text("{}")
        assert next(lines) == {"finished": True}


def test_a_log_is_read_by_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    assert read_metrics(log) == ([], 0)
    log.write_bytes(b'{"step": 1}\nno json\n[2]\n{"step": 3}\n{"st')
    lines, place = read_metrics(log)
    assert lines == [{"step": 1}, {"step": 3}]
    log.write_bytes(log.read_bytes() + b'ep": 4}\n')
    assert read_metrics(log, place)[0] == [{"step": 4}]
    assert find_runs([tmp_path], []) == {}


def test_related_words_are_those_whose_numbers_go_together(running: Running) -> None:
    answer = running.client.get(
        "/api/models/tiny/words", params={"word": "cat", "other": "dog", "neighbours": 3}
    ).json()
    vectors = running.models["tiny"].vectors["source"]
    cat, dog = (vectors.find(word)[1].double() for word in ("cat", "dog"))
    expected = torch.corrcoef(torch.stack([cat, dog]))[0, 1]
    assert answer["other"]["correlation"] == pytest.approx(float(expected), abs=1e-5)
    assert len(answer["neighbours"]) == 3
    assert answer["pieces"] == ["▁cat"]
    assert running.client.get("/api/models/tiny/words", params={"word": "zebra"}).status_code == 404
    assert running.client.get("/api/models/shapes/words", params={"word": "cat"}).status_code == 400


def test_neighbours_and_places_by_hand() -> None:
    tokenizer = Tokenizer.train(["aa bb cc"], "word")
    vectors = torch.zeros(tokenizer.vocabulary_size, 4)
    for word, numbers in {"aa": [1, 0, 0, -1], "bb": [3, 1, 1, -1], "cc": [-1, 0, 0, 1]}.items():
        vectors[tokenizer.encode_ids([word])[0][0]] = torch.tensor(numbers, dtype=torch.float)
    known = WordVectors(tokenizer, vectors)
    # bb less its mean is (2, 0, 0, -2): the direction of aa; cc is its opposite.
    assert [one["word"] for one in known.neighbours("aa", 2)] == ["▁bb", "▁cc"]
    assert known.correlation("aa", "bb") == pytest.approx(1)
    assert known.correlation("aa", "cc") == pytest.approx(-1)
    places = known.place(["aa", "bb", "cc"])
    assert math.fsum(places["explained"]) == pytest.approx(1)  # three points lie in a plane
    spots = {one["word"]: (one["x"], one["y"]) for one in places["words"]}
    assert math.dist(spots["aa"], spots["cc"]) == pytest.approx(math.sqrt(8), abs=1e-5)


def test_a_map_of_words(running: Running) -> None:
    chosen = running.client.get("/api/models/tiny/words/map", params={"words": "cat, dog,cat"}).json()
    assert [one["word"] for one in chosen["words"]] == ["cat", "dog"]
    frequent = running.client.get("/api/models/tiny/words/map").json()
    assert len(frequent["words"]) > 5
