"""``saccade new``: a recipe for a person's files, with every key explained."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from commands import Capture, assert_refused, run, succeed

from toy_language import SETTINGS, toy_pairs, write_lines

PAIRS = toy_pairs(40, seed=5)


def two_files(folder: Path) -> list[Path]:
    return [
        write_lines(folder / "a.en", [source for source, _ in PAIRS]),
        write_lines(folder / "a.fr", [target for _, target in PAIRS]),
    ]


def test_a_recipe_has_every_key_with_a_comment(capsys: Capture, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    out = succeed(capsys, "new", *two_files(tmp_path), "-o", recipe)
    assert re.search(r"about .*(second|minute|hour)s? on this machine", out)
    text = recipe.read_text()
    assert re.search(r"^# Training takes about .*(second|minute|hour)s? on", text, re.MULTILINE)
    keys = re.findall(r"^(?:# )?(\w+) = ?.*# (.+)$", text, re.MULTILINE)
    assert len(keys) == len(re.findall(r"^(?:# )?\w+ =", text, re.MULTILINE)) > 60
    assert not [key for key, comment in keys if comment == key.replace("_", " ")]  # a comment says more than its key
    assert tomllib.loads(text)["data"]["source"] == str(tmp_path / "a.en")


def test_a_recipe_for_some_minutes_says_what_was_measured(capsys: Capture, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    out = succeed(capsys, "new", *two_files(tmp_path), "-o", recipe, "--minutes", "0.1")
    comments = recipe.read_text().partition("\ntask =")[0]
    for said in re.findall(r"^ *(.* it usually needs .*|Chose .*)$", out, re.MULTILINE):
        assert f"\n# {said}" in comments
    assert "Chose " in comments


def test_train_takes_the_recipe(capsys: Capture, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    succeed(capsys, "new", *two_files(tmp_path), "-o", recipe)
    small = {**SETTINGS, "training.steps": 4, "training.warmup": 1, "training.validate_every": 4}
    changed = [argument for key, value in small.items() for argument in ("--set", f"{key}={value}")]
    code, out, err = run(capsys, "train", recipe, "-o", tmp_path / "run", *changed)
    assert (code, err) == (0, "")
    assert f"The model is in {tmp_path / 'run' / 'model'}." in out


def test_a_recipe_that_is_there_stays(capsys: Capture, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("mine")
    files = two_files(tmp_path)
    assert_refused(run(capsys, "new", *files, "-o", recipe), str(recipe), "--force")
    assert recipe.read_text() == "mine"
    succeed(capsys, "new", *files, "-o", recipe, "--force")
    assert tomllib.loads(recipe.read_text())["task"] == "translation"


@pytest.mark.parametrize("header", [["source\ttarget"], []])
def test_a_table_of_two_columns_needs_no_header(capsys: Capture, tmp_path: Path, header: list[str]) -> None:
    table = write_lines(tmp_path / "pairs.tsv", header + [f"{source}\t{target}" for source, target in PAIRS])
    succeed(capsys, "new", table, "-o", tmp_path / "recipe.toml")
    assert tomllib.loads((tmp_path / "recipe.toml").read_text())["data"]["table"] == str(table)


def test_columns_of_other_names_are_listed_and_can_be_chosen(capsys: Capture, tmp_path: Path) -> None:
    rows = [f"{n},{source},{target}" for n, (source, target) in enumerate(PAIRS)]
    table = write_lines(tmp_path / "pairs.csv", ["id,english,french", *rows])
    recipe = tmp_path / "recipe.toml"
    assert_refused(run(capsys, "new", table, "-o", recipe), str(table), "line 1", "'id', 'english', 'french'")
    assert not recipe.exists()
    succeed(capsys, "new", table, "-o", recipe, "--columns", "english,french")
    data = tomllib.loads(recipe.read_text())["data"]
    assert (data["source_column"], data["target_column"]) == ("english", "french")
    assert_refused(run(capsys, "new", table, "-o", recipe, "--force", "--columns", "7,8"), "no column 7")


def test_a_missing_field_is_named_with_its_line(capsys: Capture, tmp_path: Path) -> None:
    records = [{"source": source, "target": target} for source, target in PAIRS]
    del records[6]["target"]
    table = write_lines(tmp_path / "pairs.jsonl", [json.dumps(record) for record in records])
    assert_refused(run(capsys, "new", table, "-o", tmp_path / "recipe.toml"), str(table), "line 7", "'target'")


def test_what_is_no_data_is_refused(capsys: Capture, tmp_path: Path) -> None:
    source, target = two_files(tmp_path)
    recipe = tmp_path / "recipe.toml"
    for files, parts in (
        ([source, target, target], ["not 3 files"]),
        ([source, tmp_path / "none.fr"], ["There is no file", "none.fr"]),
        ([tmp_path / "none.tsv"], ["There is no file", "none.tsv"]),
        ([source], ["a.en", ".tsv, .csv or .jsonl"]),
        ([source, tmp_path], [str(tmp_path), "folder"]),
    ):
        assert_refused(run(capsys, "new", *files, "-o", recipe), *parts)
    assert_refused(
        run(capsys, "new", source, target, "-o", recipe, "--task", "translatoin"), "Did you mean 'translation'?"
    )
    assert not recipe.exists()


def test_a_recipe_that_cannot_be_written_is_one_sentence(capsys: Capture, tmp_path: Path) -> None:
    code, _, err = run(capsys, "new", *two_files(tmp_path), "-o", tmp_path / "none" / "recipe.toml")
    assert code == 2
    assert "cannot be written" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "part"), [("test.txt", "test_file"), ("b.txt", "test_file"), ("x-dev.txt", "validation_file")]
)
def test_a_second_file_is_the_test_unless_its_name_says_validation(
    capsys: Capture, tmp_path: Path, name: str, part: str
) -> None:
    """A test that decides which model is best is no test."""
    lines = [f"{'ab'[n % 2]} text number {n}" for n in range(40)]
    train, other = write_lines(tmp_path / "train.txt", lines), write_lines(tmp_path / name, lines[:4])
    out = succeed(capsys, "new", train, other, "--task", "classification", "-o", tmp_path / "recipe.toml")
    data = tomllib.loads((tmp_path / "recipe.toml").read_text())["data"]
    assert [key for key, value in data.items() if value == str(other)] == [part]
    words = " ".join(out.split())
    assert f"Test data, scored once at the end: {other if part == 'test_file' else 'none'}." in words
    assert ("chosen: 10 % of the training data." in words) == (part == "test_file")
