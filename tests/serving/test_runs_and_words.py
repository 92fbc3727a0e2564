"""Trainings as their folders tell of them, and what was learned of words."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from servers import Runner, Running

from saccade.serving import Models
from saccade.serving.runs import find_runs
from saccade.storage import seal, unseal
from saccade.storage.run_log import read_metrics
from saccade.tasks.base.word_vectors import word_vectors


@pytest.fixture
def watched(tiny_run: Path, tmp_path: Path, runner: Runner) -> Running:
    """A server without a model that shows a finished run and one that goes on."""
    shutil.copytree(tiny_run, tmp_path / "finished")
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
        "running": False,
        "scores": {},
        "part": "validation",
    }
    assert watched.client.get("/api/runs/going").json()["metrics"] == [
        {"step": 10, "loss": None},
        {"step": 20, "loss": 1.5},
    ]


BAD_RUNS = {
    "nested recipe": ("recipe.toml", b"a = " + b"[" * 100_000),
    "training is a number": ("recipe.toml", b"training = 3"),
    "no utf-8": ("recipe.toml", b"\xff"),
    "infinite steps": ("recipe.toml", b"[training]\nsteps = inf"),
    "nested result": ("result.json", b"[" * 100_000),
    "result is a list": ("result.json", b"[3]"),
    "half a character": ("result.json", b'{"scores": {"\\ud800": 1}}'),
    "nested metrics": ("metrics.jsonl", b'{"step": 1, "x": ' + b"[" * 100_000 + b"}\n"),
    "infinite loss": ("metrics.jsonl", b'{"step": 1, "loss": 1e999}\n'),
    "a result of 300 levels": ("result.json", b'{"scores": ' + b'{"a": ' * 300 + b"1" + b"}" * 301),
    "metrics of 300 levels": ("metrics.jsonl", b'{"step": 1, "validation": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}\n"),
    "a date": ("recipe.toml", b"task = 1979-05-27\n[training]\nsteps = 1979-05-27T07:32:00Z"),
    "a step of 4,000 digits": ("metrics.jsonl", b'{"step": ' + b"1" * 4000 + b"}\n"),
    "a step of 5,000 digits": ("metrics.jsonl", b'{"step": ' + b"1" * 5000 + b"}\n"),
}


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_a_bad_run_spoils_no_other(kind: str, watched: Running, tmp_path: Path) -> None:
    name, content = BAD_RUNS[kind]
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "recipe.toml").write_text('task = "tagging"\n')
    (bad / "metrics.jsonl").write_text("")
    (bad / name).write_bytes(content)
    listed = watched.client.get("/api/runs")
    assert listed.status_code == 200, listed.text
    assert [run["name"] for run in listed.json()] == ["bad", "finished", "going"]
    assert watched.client.get("/api/runs/bad").status_code == 200


def test_a_folder_whose_name_is_not_text_is_listed_too(watched: Running, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "recipe.toml").write_text("")
    (folder / "metrics.jsonl").write_text('{"step": 7}\n')
    listed = watched.client.get("/api/runs").json()
    assert [run["name"] for run in listed] == ["caf�", "finished", "going"]
    assert watched.client.get("/api/runs/caf%EF%BF%BD").json()["step"] == 7
    assert "caf�" in watched.client.get("/api/runs/none").json()["error"]


def test_a_pipe_in_place_of_the_lock_holds_nobody_up(watched: Running, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "going" / ".lock")
    assert not watched.client.get("/api/runs/going", timeout=5).json()["running"]


def test_the_end_of_a_long_log_tells_how_far_the_run_is(
    watched: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.serving.runs.END_BYTES", 100)
    monkeypatch.setattr("saccade.serving.routes.runs.PIECE_BYTES", 100)
    log = [{"step": step, "validation": {"loss": step / 4}} for step in range(40)]
    (tmp_path / "going" / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in log))
    (tmp_path / "going" / "result.json").write_text("{}")
    run = watched.client.get("/api/runs/going").json()
    assert (run["step"], run["scores"], run["metrics"]) == (39, {"loss": 9.75}, log)
    with watched.client.stream("GET", "/api/runs/going/events") as answer:
        told = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data:")]
    assert told == [*({"metric": line} for line in log), {"finished": True}]


def test_links_among_the_runs_are_not_followed(watched: Running, tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tiny_run)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "recipe.toml").write_text("")
    (inside / "metrics.jsonl").symlink_to(tiny_run / "metrics.jsonl")
    assert [run["name"] for run in watched.client.get("/api/runs").json()] == ["finished", "going"]
    (tmp_path / "going" / "result.json").symlink_to(tiny_run / "result.json")
    (tmp_path / "going" / "probes").rmdir()
    (tmp_path / "going" / "probes").symlink_to(tiny_run / "probes")
    run = watched.client.get("/api/runs/going").json()
    assert not run["finished"]
    assert run["probes"] == []


def test_a_training_that_goes_on_is_told_from_one_that_was_stopped(watched: Running, tmp_path: Path) -> None:
    with (tmp_path / "going" / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a training does
        assert watched.client.get("/api/runs/going").json()["running"]
    assert not watched.client.get("/api/runs/going").json()["running"]


def test_probes_show_one_example_as_the_model_learned(watched: Running, tiny_run: Path) -> None:
    run = watched.client.get("/api/runs/finished").json()
    assert run["probes"] == [125, 250]
    probe = watched.client.get("/api/runs/finished/probes/125").json()
    assert probe == unseal((tiny_run / "probes" / "step-00000125.json").read_text(), ())
    assert watched.client.get("/api/runs/finished/probes/126").status_code == 404
    for name in ("none", "..", "%2e%2e", "..%2f..%2fetc"):
        assert watched.client.get(f"/api/runs/{name}").status_code == 404


def test_what_is_measured_is_told_as_it_comes(watched: Running, tmp_path: Path) -> None:
    place = watched.client.get("/api/runs/going").json()["place"]  # the whole lines up to here are known
    with watched.client.stream("GET", f"/api/runs/going/events?after={place}") as answer:
        lines = (json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data:"))
        with (tmp_path / "going" / "metrics.jsonl").open("a") as log:
            log.write('ss": 1.25}\n{"step": 30, "validation": {"loss": 2.5}}\n')
        assert next(lines) == {"metric": {"step": 30, "loss": 1.25}}
        assert next(lines) == {"metric": {"step": 30, "validation": {"loss": 2.5}}}
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


def test_words_are_those_of_the_command(running: Running) -> None:
    asked = {"word": "cat", "other": "dog", "neighbours": 3}
    answer = running.client.get("/api/models/tiny/words", params=asked).json()
    vectors = word_vectors(running.models["tiny"].predictor.bundle)
    assert answer["neighbours"] == [one._asdict() for one in vectors.neighbours("cat", 3)]
    assert answer["other"]["correlation"] == vectors.correlation("cat", "dog")
    assert answer["other"]["cosine"] == vectors.cosine("cat", "dog")
    assert (answer["pieces"], answer["sides"]) == (1, ["source"])  # both languages share it


@pytest.mark.parametrize(("model", "word"), [("tiny", "zebra"), ("shapes", "cat")])
def test_words_that_are_not_known_are_refused(running: Running, model: str, word: str) -> None:
    answer = running.client.get(f"/api/models/{model}/words", params={"word": word})
    assert answer.status_code == 400
    assert word in answer.json()["error"] or model in answer.json()["error"]


def test_a_map_of_words(running: Running) -> None:
    asked = {"words": "cat, dog,cat", "others": 5}
    chosen = running.client.get("/api/models/tiny/words/map", params=asked).json()
    expected = word_vectors(running.models["tiny"].predictor.bundle).map(["cat", "dog"], 5)
    assert [one["word"] for one in chosen["words"]] == expected.words
    assert expected.words[:2] == ["cat", "dog"]
    assert [[one["x"], one["y"]] for one in chosen["words"]] == expected.points.tolist()
    assert chosen["share"] == expected.share
    frequent = running.client.get("/api/models/tiny/words/map").json()
    assert len(frequent["words"]) > 5


def test_a_damaged_line_of_a_log_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "metrics.jsonl"
    lines = [seal({"step": step, "loss": 2.5}) for step in (10, 20, 30)]
    log.write_text("\n".join([lines[0], lines[1].replace("2.5", "1.5"), lines[2], ""]))
    assert [line["step"] for line in read_metrics(log)[0]] == [10, 30]


def test_a_damaged_probe_is_refused(watched: Running, tmp_path: Path) -> None:
    probe = {"inputs": ["a"], "outputs": ["b"], "text": "b", "weights": [[0.25]]}
    file = tmp_path / "going" / "probes" / "step-00000020.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(seal(probe))
    assert watched.client.get("/api/runs/going/probes/20").json() == probe
    file.write_text(seal(probe).replace("0.25", "0.75"))
    answer = watched.client.get("/api/runs/going/probes/20")
    assert (answer.status_code, answer.json()["error"]) == (404, "The probe of going at step 20 is damaged.")
