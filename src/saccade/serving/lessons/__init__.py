"""Small models for scenes of the studio's Learn page. Each is trained when a user asks for it, in its own process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from saccade.serving.http.refusals import Refused
from saccade.serving.models import Models

__all__ = ["LESSONS", "Lesson", "describe_lessons", "train_lesson"]


@dataclass(frozen=True)
class Lesson:
    """A model that a scene of the Learn page needs, and how many minutes its training takes on two cores."""

    about: str
    minutes: int
    recipe: str | None  # a file in this folder; None: the model of ``saccade demo``

    def command(self, folder: Path, device: str) -> list[str]:
        """Return the command that trains the model, at a low priority, because the server has to answer meanwhile."""
        program = [*(["nice"] if shutil.which("nice") else []), sys.executable, "-m", "saccade.cli"]
        where = ["--output", str(folder), "--device", device]
        if self.recipe is None:
            return [*program, "demo", *where]
        recipe = files("saccade.serving.lessons") / self.recipe
        return [*program, "train", str(recipe), *where]


LESSONS = {
    "demo": Lesson("a translator in which one link decides", 2, None),
    "one-vector": Lesson("a recurrent translator that remembers a sentence as one vector", 2, "one-vector.toml"),
    "with-attention": Lesson("the same translator with attention", 3, "with-attention.toml"),
    "digits": Lesson("a classifier that reads handwritten digits as patches", 1, "digits.toml"),
    "walkers": Lesson("a model of agents that follow each other and give way", 2, "walkers.toml"),
    "hairpins": Lesson("a model of RNA sequences that fold into hairpins", 2, "hairpins.toml"),
}


def describe_lessons(models: Models) -> dict[str, Any]:
    """Describe the models that can be trained for lessons; the keys are the names under which they are served."""
    return {
        name: {"about": one.about, "minutes": one.minutes, "ready": name in models} for name, one in LESSONS.items()
    }


def train_lesson(models: Models, name: str, runs: Path | None, *, alone: bool) -> None:
    """Serve a lesson's model; if it is not in the folder of runs yet, train it there first, in the background."""
    if name not in LESSONS:
        raise Refused(404, f"There is no lesson with this name; the lessons are: {', '.join(LESSONS)}.")
    if name in models:
        return
    if runs is None or not alone:
        raise Refused(400, "This server does not train models; start `saccade serve` with one process.")
    folder = runs / name
    if (folder / "result.json").is_file():
        models.add(folder, name)
        return
    busy = [other for other, one in models.pending.items() if one.failure is None]
    if name in busy:
        return
    if busy:
        raise Refused(409, f"The model {busy[0]} is being trained; wait until it is ready.")
    command = LESSONS[name].command(folder, models.device)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    models.expect(name, folder, process)
