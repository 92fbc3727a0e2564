"""Every task is laid out in the same way: who knows one finds the parts of all."""

import importlib
import re
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar

import pytest

from saccade.errors import OptionError
from saccade.tasks import registry
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.data import DataReader
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.task import Task
from saccade.tasks.registry import PRETRAINED_TASKS, TASKS, Entry, InstalledEntry, add_installed
from saccade.tasks.tagging.data import TaggingFiles
from saccade.tasks.tagging.predictor import TaggingPredictor
from saccade.tasks.tagging.task import Tagging


@pytest.mark.parametrize("name", list(TASKS))
def test_the_parts_of_a_task_are_named_after_it(name: str) -> None:
    task, data, predictor = TASKS[name].task, TASKS[name].data, TASKS[name].predictor
    package = task.__module__.removesuffix(".task")
    assert (predictor.__module__, predictor.__name__) == (f"{package}.predictor", f"{task.__name__}Predictor")
    assert (data.__module__, data.__name__) == (f"{package}.data", f"{task.__name__}Files")
    state = task.state_class
    assert (state.__module__, state.__name__) == (f"{package}.task", f"{task.__name__}State")
    answer = getattr(importlib.import_module(f"{package}.answer"), f"{task.__name__}Answer")
    assert issubclass(answer, Answer)


@pytest.mark.parametrize("name", list(TASKS))
def test_the_ceilings_of_a_served_model_are_ceilings_of_its_options(name: str) -> None:
    predictor = TASKS[name].predictor
    fields = predictor.options.model_json_schema().get("properties", {})
    assert predictor.ceilings.keys() <= fields.keys()
    lists = {option for option in predictor.ceilings if fields[option]["type"] == "array"}
    assert all(fields[option]["default"] <= predictor.ceilings[option] for option in predictor.ceilings.keys() - lists)


def test_the_guide_lists_every_task_with_its_networks() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "tasks.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \| .* \| (.*) \|$", guide, re.MULTILINE))
    assert {*rows} | {"extremes"} == {*TASKS, *PRETRAINED_TASKS, "extremes"}
    for name in rows.keys() & TASKS.keys():
        assert rows[name].replace(" (ViT)", "").split(", ") == list(TASKS[name].task.networks), name


def test_only_the_registry_may_import_a_task() -> None:
    """The contract that keeps it so lists every package."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (forbidden,) = (one["forbidden_modules"] for one in contracts if one["name"].startswith("Only the registry knows"))
    tasks = (entry.task.__module__ for entry in (TASKS | PRETRAINED_TASKS).values())
    assert {name.removesuffix(".task") for name in tasks if name.startswith("saccade.")} == set(forbidden)


def test_a_broken_package_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("1 / 0\n")
    information = tmp_path / "saccade_broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: saccade-broken\nVersion: 1.0\n")
    points = "[saccade.tasks]\nbroken = broken_package:TASK\nabsent = nothing_here:TASK\n"
    (information / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    found = {point.name: point for point in entry_points(group="saccade.tasks")}
    for name, reason in {"broken": "ZeroDivisionError: division by zero", "absent": "No module named"}.items():
        expected = f"task '{name}' .* package saccade-broken, .*{reason}.*pip uninstall saccade-broken"
        with pytest.raises(OptionError, match=expected):
            InstalledEntry(found[name]).task  # noqa: B018


class Unfinished(Task):
    name = "other"


class Renamed(Tagging):
    name = "other"


class Untrainable(Tagging):
    name = "mine"
    networks: ClassVar = {}


@pytest.mark.parametrize(
    ("entry", "part", "reason"),
    [
        (Entry(3, TaggingFiles, TaggingPredictor), "task", "its task is 3, which is not a subclass of .*Task"),  # type: ignore[arg-type]
        (Entry(Unfinished, TaggingFiles, TaggingPredictor), "task", "Unfinished does not define about, .*, batch, enc"),
        (Entry(Renamed, TaggingFiles, TaggingPredictor), "task", "Renamed has another name: 'other'"),
        (Entry(Untrainable, TaggingFiles, TaggingPredictor), "task", "needs a table named training, a network and"),
        (Entry(Tagging, Tagging, TaggingPredictor), "data", "its data is <class.*, which is not a sub.*DataReader"),  # type: ignore[arg-type]
        (Entry(Tagging, DataReader, TaggingPredictor), "data", "its data DataReader does not define settings, "),
        (Entry(Tagging, TaggingFiles, Predictor), "predictor", "its predictor Predictor does not define answer"),
        (None, "data", "AttributeError"),
    ],
)
def test_wrong_classes_of_a_package_are_one_sentence(
    monkeypatch: pytest.MonkeyPatch, entry: Entry | None, part: str, reason: str
) -> None:
    monkeypatch.setattr(registry, "WRONG", entry, raising=False)
    found = InstalledEntry(EntryPoint("mine", f"{registry.__name__}:WRONG", "saccade.tasks"))
    with pytest.raises(OptionError, match=f"The task 'mine' comes from .*{reason}.*; update it, or remove it with"):
        getattr(found, part)


def test_a_package_does_not_replace_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "TASKS", dict(TASKS))
    points = [EntryPoint(name, f"{name}_package:TASK", "saccade.tasks") for name in ("tagging", "mine", "mine")]
    with pytest.warns(UserWarning, match="which is ignored") as warned:
        add_installed(points)
    assert [str(one.message) for one in warned] == [
        f"The package {name}_package has a task named '{name}', which is ignored, because a task with this name "
        "already exists."
        for name in ("tagging", "mine")
    ]
    assert registry.TASKS["tagging"] is TASKS["tagging"]
    assert "mine" in registry.TASKS
