"""A folder belongs to one run: another recipe, other data and other people's files are refused, never wiped."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from tiny_runs import contents, saccade, tables, write_recipe

from saccade.cli.main import main
from saccade.errors import DamagedError, OptionError
from saccade.storage import unfinished
from saccade.training.display import Display
from saccade.training.recipe import read_recipe
from saccade.training.run import train as train_in
from saccade.training.run_folder import RunFolder

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    recipe = write_recipe(folder, steps=10)
    assert saccade(folder / "log", "train", recipe, "-o", folder / "run")[0] == 0
    return folder


def train(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["train", *map(str, arguments)])
    printed = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, printed.out, printed.err


def test_a_finished_run_says_so_and_is_left_alone(finished: Path, capsys: Capture) -> None:
    before = contents(finished / "run")
    code, out, err = train(capsys, finished / "transformer.toml", "-o", finished / "run")
    assert (code, err) == (0, "")
    assert f"{finished / 'run'} is already trained" in out
    assert contents(finished / "run") == before


def test_another_recipe_is_refused_by_the_key_that_differs(finished: Path, capsys: Capture) -> None:
    before = contents(finished / "run")
    arguments = [finished / "transformer.toml", "-o", finished / "run", "--set"]
    code, out, err = train(capsys, *arguments, "training.lr=0.125")
    assert (code, out) == (2, "")
    assert f"{finished / 'run'} contains a run of a different recipe (training.lr: 0.005 there, 0.125 here)" in err
    code, _, err = train(capsys, *arguments, "model.kind=recurrent", "--set", "model.num_heads=4")
    assert code == 2
    assert contents(finished / "run") == before


@pytest.mark.parametrize("name", ["thesis.tex", "model/model.safetensors"])
def test_a_folder_with_files_of_others_is_refused(tmp_path: Path, capsys: Capture, name: str) -> None:
    foreign = tmp_path / "run" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("years of work")
    before = contents(tmp_path / "run")
    code, out, err = train(capsys, write_recipe(tmp_path), "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'run'} exists but is not a Saccade run" in err
    assert contents(tmp_path / "run") == before


def test_a_kill_before_the_recipe_was_there_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    leftover = folder / unfinished("recipe.toml").replace("?", "a")
    leftover.write_text("steps =")
    recipe = read_recipe(write_recipe(tmp_path))
    with RunFolder(recipe, folder).alone():
        assert not leftover.exists()
    assert read_recipe(folder / "recipe.toml") == recipe


def test_changed_data_is_refused(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path, steps=10)
    table = Path(tables(tmp_path)["data"]["table"])
    assert train(capsys, recipe, "-o", tmp_path / "run")[0] == 0
    (tmp_path / "run" / "result.json").unlink()  # as if it had not ended
    table.write_text(table.read_text() + "one red house\tune maison rouge\n")
    before = contents(tmp_path / "run")
    code, _, err = train(capsys, recipe, "-o", tmp_path / "run")
    assert code == 2
    assert "The data has changed since the run in" in err
    assert contents(tmp_path / "run") == before


def test_a_damaged_result_is_named(finished: Path, tmp_path: Path) -> None:
    recipe = read_recipe(finished / "transformer.toml")
    run = RunFolder(recipe, tmp_path / "run")
    run.result_file.write_bytes(b'{"part": "te\xff')
    with pytest.raises(DamagedError, match=r"Damaged file .*result\.json"):
        run.result()
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="is not a folder"):
        RunFolder(recipe, tmp_path / "file")


def test_two_processes_do_not_train_in_one_folder(finished: Path, tmp_path: Path) -> None:
    recipe = read_recipe(finished / "transformer.toml")
    display = Display(Console(quiet=True), recipe.training.steps)
    first, second = (RunFolder(recipe, tmp_path / "run") for _ in range(2))
    with first.alone(), pytest.raises(OptionError, match="Another process is training in"):
        train_in(second, display)
