"""Predict paths with a trained model: ``saccade.open("run/").predict(["tracks.txt"])``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from saccade.attention import watch
from saccade.data.tracks import Scene, last_window, read_tracks, tracks_of
from saccade.data.world import generate_scenes
from saccade.errors import DivergedError, FileError, OptionError, counted
from saccade.lens.view import View, view
from saccade.models.agents import AgentTransformer
from saccade.tasks.base.cost import MOST_OUTPUTS, Cost
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.trajectories.answer import TrajectoriesAnswer
from saccade.tasks.trajectories.task import SamplingOptions, Trajectories

__all__ = ["TrajectoriesPredictor"]

#: The maximum number of rows in a JSON input.
MOST_ROWS = 20_000
#: The number of built-in scenes that are shown as examples, and their part, which is used for nothing else.
SHOWN, SHOWN_PART = 6, 6


class TrajectoriesPredictor(Predictor):
    """An opened model that predicts the paths of agents."""

    input_types = (Scene, str, Path, list)
    input_name = "the name of a file of tracks or a list of rows [frame, agent, x, y]"
    options = SamplingOptions
    ceilings: ClassVar = {"samples": MOST_OUTPUTS}
    formats: ClassVar = {"csv": attrgetter("csv")}
    at_once = 1
    task: Trajectories

    @property
    def plural(self) -> str:
        return "trajectory models"

    def from_json(self, value: Any) -> Scene:
        """Accept a list of rows [frame, agent, x, y]. The model reads only the last time steps, as many as it
        observes."""
        fine = isinstance(value, list) and 0 < len(value) <= MOST_ROWS
        if not fine or not all(isinstance(row, list) and len(row) == 4 for row in value):
            raise OptionError(f"The input must be a list of at most {MOST_ROWS:,} rows [frame, agent, x, y].")
        if not all(type(cell) in (int, float) and abs(cell) < 1e15 for row in value for cell in row):
            raise OptionError("Each row must have four numbers below 1e15: frame, agent, x and y.")
        try:
            tracks = tracks_of(((number, *row) for number, row in enumerate(value, start=1)), "The input", self._step)
            return last_window(tracks, self.task.state.past)
        except FileError as error:
            raise OptionError(str(error)) from None

    @property
    def _step(self) -> int | None:
        step: int | None = self.read_as["frame_step"]
        return step

    def input_schema(self) -> dict[str, Any]:
        row = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
        return {"type": "array", "items": row, "minItems": 1, "maxItems": MOST_ROWS}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return scenes of the built-in world if the model was trained on it; otherwise a scene of two agents that walk
        towards each other."""
        past = self.task.state.past
        if self.bundle.data.get("builtin") is not None:
            scenes = generate_scenes(SHOWN, seed=1, part=SHOWN_PART)
            return [_rows(scene.positions[:past]) for scene in scenes]
        size = self.task.state.scale / 4
        along = size * (np.arange(past) - past)
        return [_rows(np.stack([np.stack([side * along, np.full(past, agent * size)], -1) for agent, side in
                                ((1, 1), (2, -1))], 1))]  # fmt: skip

    def count_tokens(self, given: Scene) -> int:
        return len(given.agents) * (self.task.state.past + self.task.state.future)

    def cost(self, given: Scene, options: SamplingOptions) -> Cost:
        return Cost.of(self.count_tokens(given), rows=options.samples)

    def parse(self, argument: str) -> Scene:
        if argument.lstrip().startswith("["):
            found: Scene = self._parse_json(argument, "The input")
            return found
        return self.prepare(argument)

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Read one scene: the last time steps in a file of tracks, as many as the model observes."""
        tracks = read_tracks(path, self._step)
        window = last_window(tracks, self.task.state.past)
        how = (
            f"the last {window.past} time steps, starting at frame {window.frame}, with "
            f"{counted(len(window.agents), 'agent')}"
        )
        missing = len(set(tracks.frames[next(reversed(tracks.frames))]) - set(window.agents))
        if missing:
            how += f"; {counted(missing, 'agent')} in the last frame left out because of missing earlier time steps"
        return [window], how

    def prepare(self, given: Any, number: int = 1) -> Scene:
        """Convert a list of rows [frame, agent, x, y] or the path of a file of tracks to a scene; a scene from
        ``read_file`` is returned as it is."""
        if isinstance(given, Scene):
            return given
        if not isinstance(given, str | Path):
            return self.from_json(given)
        found: Scene = self.read_file(Path(given))[0][0]
        return found

    def answer(self, inputs: Sequence[Scene], options: SamplingOptions, now: Snapshot) -> list[TrajectoriesAnswer]:
        answers = []
        for window in inputs:
            likely, drawn = self.task.predicted(self.model, window, options)
            if not np.isfinite(likely).all():
                raise DivergedError.of_answer()
            if (drawn == likely).all():  # a model without a latent has only one future
                drawn = drawn[:0]
            answers.append(TrajectoriesAnswer(window, likely, drawn, now.later(self._view, window)))
        return answers

    @torch.inference_mode()
    def _view(self, window: Scene) -> View:
        if not isinstance(self.model, AgentTransformer):
            raise OptionError("This model reads each agent alone, without attention, so there is nothing to view.")
        with watch(self.model) as seen:
            self.task.predicted(self.model, window, SamplingOptions(samples=1))
        state = self.task.state
        past, future = (
            [f"{agent}@{moment}" for moment in range(first, first + count) for agent in window.agents]
            for first, count in ((1 - state.past, state.past), (1, state.future))
        )
        return view(seen, future, source_tokens=past)


def _rows(positions: Float[np.ndarray, "P N 2"]) -> list[list[float]]:
    """Return a scene as JSON: rows of frame, agent, x and y."""
    return [
        [moment, agent, round(float(x), 3), round(float(y), 3)]
        for moment, places in enumerate(positions)
        for agent, (x, y) in enumerate(places, start=1)
    ]
