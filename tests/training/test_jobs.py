"""Several processes predict and evaluate as one does, byte for byte; a job that was killed continues."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import tomli_w
from tiny_runs import saccade, sentences
from together import Together, kill, kinds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger and a translator, and a file of inputs for each: enough for five groups, and one of them short."""
    made = tmp_path_factory.mktemp("jobs")
    recipes = kinds(made, steps=3, validate_every=3)
    for name, kind in (("tagger", "tagging"), ("translator", "translation, Transformer")):
        (made / f"{name}.toml").write_text(tomli_w.dumps(recipes[kind]))
        assert saccade(made / name, "train", made / f"{name}.toml", "-o", made / name)[0] == 0
    draw = random.Random(8)
    lines = [" ".join(draw.choices(["ba", "do", "fida", "ku"], k=draw.randint(1, 6))) for _ in range(2200)]
    (made / "tagger.txt").write_text("\n".join(lines) + "\n")
    (made / "translator.txt").write_text("\n".join(source for source, _ in sentences(520, seed=6)) + "\n")
    return made


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("tagger", ["--json"]),
        pytest.param("translator", ["--n-best", "2"], marks=pytest.mark.slow),
        ("translator", ["--sample", "--tries", "2"]),
    ],
)
def test_two_processes_answer_as_one(folder: Path, tmp_path: Path, model: str, options: list[str]) -> None:
    # The engine is named, because only answers that are printed may be computed by another one without being asked.
    arguments = ["predict", folder / model, folder / f"{model}.txt", *options, "--engine", "torch"]
    code, printed, _ = saccade(tmp_path / "printed", *arguments)
    assert code == 0
    both = Together(2, *arguments, "-o", tmp_path / "two", log=tmp_path / "two")
    assert both.end() == [0, 0], both.err
    suffix = ".jsonl" if "--json" in options else ".txt"
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [f"answers{suffix}", "job.json"]
    assert (tmp_path / "two" / f"answers{suffix}").read_text() == printed


def test_a_killed_job_continues_with_any_number_of_processes(folder: Path, tmp_path: Path) -> None:
    arguments = ["predict", folder / "tagger", folder / "tagger.txt"]
    printed = saccade(tmp_path / "printed", *arguments)[1]
    job = [*arguments, "-o", tmp_path / "out"]
    # The first process has written the job and two of its parts, the second one part.
    killed = Together(2, *job, log=tmp_path / "killed", do_at={0: (kill, "write_file", 4), 1: (kill, "write_file", 2)})
    assert killed.end() == [-9, -9]
    parts = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").glob("0*")}
    assert sorted(parts) == ["000000000000.txt", "000000000500.txt", "000000001000.txt"]
    three = Together(3, *job, log=tmp_path / "three", do_at={0: (kill, "finish_job", 1)})
    assert three.commands[0].exit_code() == -9
    for command in three.commands[1:]:
        command.process.kill()
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "parts").glob("0*")}
    assert len(kept) == 5
    assert kept | parts == kept  # what was answered is not answered again
    assert saccade(tmp_path / "rest", *job)[0] == 0
    assert (tmp_path / "out" / "answers.txt").read_text() == printed
    assert saccade(tmp_path / "again", *job)[0] == 0
    other = saccade(tmp_path / "other", "predict", folder / "translator", folder / "tagger.txt", "-o", tmp_path / "out")
    assert other[0] == 2
    said = "contains the results of a different job, which differs in: model, options, part; give another folder"
    assert said in other[2]


def test_two_processes_need_a_folder(folder: Path, tmp_path: Path) -> None:
    refused = Together(2, "predict", folder / "tagger", folder / "tagger.txt", log=tmp_path / "refused")
    assert refused.end() == [2, 2]
    assert "saccade: With several processes, the answers are written to a folder; name it with -o.\n" in refused.err
    assert refused.err.count("saccade:") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [("tagger", ["--data", "tagged.tsv"]), ("translator", ["--data", "pairs.tsv", "--lowercase"])],
)
def test_two_processes_evaluate_as_one(folder: Path, tmp_path: Path, model: str, options: list[str]) -> None:
    arguments = ["evaluate", folder / model, options[0], folder / options[1], *options[2:]]
    code, printed, _ = saccade(tmp_path / "printed", *arguments)
    assert code == 0
    both = Together(2, *arguments, log=tmp_path / "both")
    assert both.end() == [0, 0], both.err
    assert both.out == printed


@pytest.mark.slow
def test_a_killed_evaluation_continues(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "many.tsv").write_text("\n".join([(folder / "tagged.tsv").read_text()] * 30))
    arguments = ["evaluate", folder / "tagger", "--data", tmp_path / "many.tsv"]
    printed = saccade(tmp_path / "printed", *arguments)[1]
    job, parts = [*arguments, "-o", tmp_path / "out"], tmp_path / "out" / "parts"
    killed = Together(2, *job, log=tmp_path / "killed", do_at={1: (kill, "write_file", 2)})
    assert killed.commands[1].exit_code() == -9
    killed.commands[0].process.kill()  # as torchrun does
    kept = {path: path.stat().st_mtime_ns for path in parts.glob("*.json")}
    assert kept
    damaged = min(kept)
    damaged.write_bytes(damaged.read_bytes().replace(b"1", b"2", 1))
    both = Together(2, *job, log=tmp_path / "both", do_at={0: (kill, "finish_job", 1)})
    assert both.commands[0].exit_code() == -9
    both.commands[1].process.kill()
    whole = {path: path.stat().st_mtime_ns for path in parts.glob("*.json")}
    assert {path for path in kept if whole[path] != kept[path]} == {damaged}  # the others are not computed again
    assert saccade(tmp_path / "rest", *job)[1] == printed
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["job.json", "scores.txt"]
    assert (tmp_path / "out" / "scores.txt").read_text() == printed
    assert saccade(tmp_path / "again", *job)[1] == printed
    other = saccade(tmp_path / "other", *job, "--precision", "bf16")
    assert "contains the results of a different job, which differs in: precision;" in other[2]
