"""``saccade.train``: the same as the command, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import final_weights, saccade, tables, write_recipe

from every_task import data_of
from saccade import train
from saccade.errors import FileError, InputTypeError, OptionError


def test_a_recipe_gives_the_run_of_the_command(tmp_path: Path) -> None:
    """By its path, and as dictionaries; a second call trains no more."""
    path = write_recipe(tmp_path, steps=10, validate_every=5)
    assert saccade(tmp_path / "log", "train", path, "-o", tmp_path / "command", "--set", "training.lr=0.01")[0] == 0
    found = train(path, output=tmp_path / "one", settings={"training.lr": 0.01}, quiet=True)
    given = tables(tmp_path, steps=10, validate_every=5)
    other = train(given, output=str(tmp_path / "two"), settings={"training.lr": 0.01}, quiet=True)
    assert final_weights(tmp_path / "command") == final_weights(found.folder) == final_weights(other.folder)
    assert found.result == json.loads((tmp_path / "one" / "result.json").read_text())
    assert found.scores == found.result["scores"]
    assert [line["step"] for line in found.metrics if "validation" in line] == [5, 10]
    assert given == tables(tmp_path, steps=10, validate_every=5)  # not changed by the override
    before = (tmp_path / "one" / "result.json").stat().st_mtime_ns
    assert train(path, output=tmp_path / "one", settings={"training.lr": 0.01}, quiet=True) == found
    assert (tmp_path / "one" / "result.json").stat().st_mtime_ns == before


def test_files_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data_of("classification", tmp_path)["file"]
    quick = {"training.steps": 4, "model.width": 8, "model.embedding_width": 8}
    found = train(files=file, task="classification", output=tmp_path / "run", settings=quick, quiet=True)
    assert found.open().predict("good a text of number 3")[0].text in ("good", "bad")
    assert capsys.readouterr().out == ""


def test_a_recipe_and_files_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="A recipe has its own data, size and time; give no files"):
        train({"data": {"builtin": "grammar"}}, files="a.tsv", output=tmp_path / "run")


@pytest.mark.parametrize(
    ("task", "columns"), [("classification", ["text", "label"]), ("tagging", (0, 1)), ("translation", ["source", "1"])]
)
def test_columns_may_be_a_list(tmp_path: Path, task: str, columns: list[str | int]) -> None:
    """As with commas between them: the first error is about the file, not about the list."""
    for given in (columns, ",".join(map(str, columns))):
        with pytest.raises(FileError, match=r"nowhere\.csv"):
            train(files=tmp_path / "nowhere.csv", task=task, output=tmp_path / "run", columns=given, quiet=True)
    for wrong in (3, [["text"], "label"], {"text": "label"}):
        with pytest.raises(InputTypeError, match="columns must be names or numbers, as a list or with commas"):
            train(files=tmp_path / "a.csv", task=task, output=tmp_path / "run", columns=wrong, quiet=True)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="must not contain a comma"):
        train(files=tmp_path / "a.csv", task=task, output=tmp_path / "run", columns=["a,b", "c"], quiet=True)
