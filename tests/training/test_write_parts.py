"""The parts of a run, written to files and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from every_task import TASKS, data_of
from saccade.errors import FileError
from saccade.tasks.registry import task_named
from saccade.training.recipe import Recipe, read_tables
from saccade.training.run_folder import RunFolder, write_parts
from toy_language import write_lines

TEXTS = [f"a text of number {n}" for n in range(30)]


def begun(folder: Path, task: str, data: dict[str, Any]) -> Recipe:
    """A run that has prepared itself, but not trained."""
    recipe = read_tables({"task": task, "data": data}, "the test")
    RunFolder(recipe, folder).state(recipe.entry.data.read(recipe.settings["data"], recipe.training.seed))
    return recipe


def read_again(task: str, data: dict[str, Any], options: list[str]) -> list[Any]:
    """The examples that ``saccade evaluate`` reads with these options."""
    reader = task_named(task).data
    values = dict(zip(options[::2], options[1::2], strict=True))
    files = [Path(values[name]) for name in ("--source", "--target", "--data") if name in values]
    as_trained = {key: value for key, value in data.items() if key in reader.read_as}
    return reader.read_for_scoring(
        reader.settings.read(as_trained | reader.table(files, values.get("--columns")), "the test")
    )


VARIANTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("language-model", {"documents": "line"}, TEXTS),
    ("language-model", {"documents": "line", "labelled": True}, [f"good {text}" for text in TEXTS]),
    ("language-model", {"documents": "paragraph"}, [f"{text}\nof two lines\n" for text in TEXTS]),
    ("tagging", {"separator": "|"}, [f"word{n}|{'AB'[n % 2]}\n" for n in range(30)]),
    ("tagging", {"feature_columns": ["1"]}, [f"word{n} {'xyz'[n % 3]} {'AB'[n % 2]}\n" for n in range(30)]),
    ("classification", {"text_column": "2", "label_column": "0"}, [f"{'AB'[n % 2]}\tx\t{n} texts" for n in range(30)]),
]


@pytest.mark.parametrize("task", [task for task in TASKS if task != "trajectories"])  # see test_parts_of_tracks
def test_parts_are_read_as_they_were_split(tmp_path: Path, task: str) -> None:
    assert_same(tmp_path, task, data_of(task, tmp_path))


@pytest.mark.parametrize(("task", "changes", "lines"), VARIANTS)
def test_parts_of_other_formats(tmp_path: Path, task: str, changes: dict[str, Any], lines: list[str]) -> None:
    file = str(write_lines(tmp_path / "own.txt", lines))
    assert_same(tmp_path, task, {"text" if task == "language-model" else "file": file, **changes})


def assert_same(folder: Path, task: str, data: dict[str, Any]) -> None:
    data |= {"validation": 0.2, "test": 0.2}
    recipe = begun(folder / "run", task, data)
    splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed)
    written = write_parts(folder / "run", folder / "parts")
    assert list(written) == ["train", "validation", "test"]
    identity = recipe.entry.data.identity
    for part, (count, options) in written.items():
        expected = [identity(example) for example in getattr(splits, part)]
        assert [identity(example) for example in read_again(task, data, options)] == expected
        assert count == len(expected) > 0


def test_parts_of_tracks(tmp_path: Path) -> None:
    """Two files whose frames overlap, with agents that come and go, and one frame that is missing."""
    files = []
    for number in (1, 2):
        present = [(frame, agent) for frame in range(0, 400, 10) for agent in (1, 2, 3) if (frame // 90) % 5 != agent]
        rows = [f"{frame} {agent} {frame / 7 * number} {agent / 3}" for frame, agent in present if frame != 230]
        files.append(str(write_lines(tmp_path / f"{number}.txt", rows)))
    data = {"files": files, "past": 2, "future": 3, "validation": 0.3}
    recipe = begun(tmp_path / "run", "trajectories", data)
    splits = recipe.entry.data.read(recipe.settings["data"], recipe.training.seed)
    written = write_parts(tmp_path / "run", tmp_path / "parts")
    for part, (count, options) in written.items():
        expected = [(one.agents, one.positions.tolist()) for one in getattr(splits, part)]
        assert [(one.agents, one.positions.tolist()) for one in read_again("trajectories", data, options)] == expected
        assert count == len(expected) > 5
    assert list(written) == ["train", "validation"]


def test_parts_of_changed_data_are_refused(tmp_path: Path) -> None:
    data = data_of("classification", tmp_path)
    begun(tmp_path / "run", "classification", data)
    with Path(data["file"]).open("a") as file:
        file.write("good another text\n")
    with pytest.raises(FileError, match="The data has changed since the run"):
        write_parts(tmp_path / "run", tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("part", ["train", "validation", "test"])
@pytest.mark.parametrize("task", [task for task in TASKS if task != "trajectories"])
def test_existing_files_are_never_overwritten(tmp_path: Path, task: str, part: str) -> None:
    """Whichever part has the name of a file that exists, nothing is written, not even the other parts."""
    begun(tmp_path / "run", task, data_of(task, tmp_path) | {"validation": 0.2, "test": 0.2})
    names = [Path(name) for name in write_parts(tmp_path / "run", tmp_path / "parts")[part][1][1::2]]
    own = tmp_path / "own"
    own.mkdir()
    for name in names:
        (own / name.name).write_text("mine\n")
    with pytest.raises(
        FileError, match=rf"own/{part}\.\w+ already exists, and existing files are never overwritten; .*--to"
    ):
        write_parts(tmp_path / "run", own)
    assert {file.name: file.read_text() for file in own.iterdir()} == {name.name: "mine\n" for name in names}


def test_parts_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path / "run", "classification", data_of("classification", tmp_path) | {"validation": 0.2})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for _, options in write_parts(tmp_path / "run", Path(".")).values():
        assert all(Path(name).is_file() for name in options[1::2])
