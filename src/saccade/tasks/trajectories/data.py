"""Read tracks of agents, as the ``[data]`` table of a recipe describes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from saccade.data.paths import part_prefixes, resolve_path
from saccade.data.tracks import Scene, describe_windows, read_tracks, windows
from saccade.data.world import FUTURE, PAST, generate_scenes
from saccade.errors import FileError, OptionError
from saccade.models import Config
from saccade.tasks.base.data import DataReader, Say, Size, Splits, write_lines

__all__ = ["TrajectoriesData", "TrajectoriesFiles"]


class TrajectoriesData(Config):
    """Files of tracks: frame, agent, x and y on each line; paths may use ~ and $SACCADE_DATA."""

    builtin: Literal["world"] | None = Field(
        None,
        description="world: generated scenes of leaders, followers, crossings and friends, with a record of who "
        "depends on whom",
    )
    count: int = Field(
        4000, ge=10, description="Number of built-in scenes for training; validation and test have a tenth as many each"
    )
    files: list[str] = Field(default_factory=list, description="Files to train on")
    validation_files: list[str] = Field(
        default_factory=list,
        description="Validation files, used to select the best model; by default, the end of each training file",
    )
    test_files: list[str] = Field(default_factory=list, description="Files that are scored once, at the end")
    past: int = Field(8, ge=2, le=1000, description="Number of observed time steps")
    future: int = Field(12, ge=1, le=1000, description="Number of predicted time steps")
    frame_step: int | None = Field(
        None, ge=1, description="Frames between two time steps; by default, the most frequent step in the file"
    )
    stride: int = Field(1, ge=1, description="Time steps from the start of one window to the start of the next")
    least_agents: int = Field(1, ge=1, description="Windows with fewer agents are left out; papers use 1 or 2")
    validation: float = Field(0.1, gt=0, lt=1, description="Fraction at the end of each file held out for validation")

    @model_validator(mode="after")
    def _one_origin(self) -> TrajectoriesData:
        if (self.builtin is None) == (not self.files):
            raise ValueError("give either builtin or files")
        if self.builtin is not None and (self.past, self.future) != (PAST, FUTURE):
            raise ValueError(f"the built-in world always has past = {PAST} and future = {FUTURE}")
        return self


#: The width and the number of heads of each size.
NETWORKS: dict[Size, tuple[int, int]] = {"tiny": (32, 2), "small": (64, 4), "medium": (128, 8)}
BATCH_PATHS = 64
#: The part of the built-in scenes that is read for scoring; training, validation and test have other scenes.
SCORING_PART = 3


class TrajectoriesFiles(DataReader[Scene]):
    """Reads tracks, and cuts them into windows: consecutive time steps, some observed and the rest to predict."""

    settings = TrajectoriesData
    read_as = ("past", "future", "frame_step", "stride", "least_agents")

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        if columns is not None or not 1 <= len(files) <= 3:
            raise OptionError("Give one to three files, for training, validation and test, without --columns.")
        return {f"{part}files": [str(file)] for part, file in zip(part_prefixes(files), files, strict=True)}

    @classmethod
    def read(cls, settings: TrajectoriesData, seed: int) -> Splits[Scene]:
        """Read the windows, and split them into training, validation and test. Windows of different parts never
        overlap in time."""
        if settings.builtin is not None:
            train, validation, test = (
                list[Scene](generate_scenes(count, seed, part))
                for part, count in enumerate((settings.count, settings.count // 10, settings.count // 10))
            )
            return Splits(train, validation, test, [describe_windows(train, "training")])
        train = []
        validation = _read(settings, settings.validation_files)
        for found in (_read(settings, [file]) for file in settings.files):
            if settings.validation_files:
                train += found
                continue
            first = found[int(len(found) * (1 - settings.validation))].frame
            length = settings.past + settings.future
            train += [one for one in found if one.frame + length * one.step <= first]
            validation += [one for one in found if one.frame >= first]
        test = _read(settings, settings.test_files)
        parts = (("training", train), ("validation", validation), ("test", test))
        rows = [("files", ", ".join(settings.files)), *(describe_windows(part, what) for what, part in parts if part)]
        return Splits(train, validation, test, rows)

    @classmethod
    def read_for_scoring(cls, settings: TrajectoriesData, say: Say = lambda note: None) -> list[Scene]:
        if settings.builtin is not None:
            return list(generate_scenes(settings.count // 10, 1, SCORING_PART))
        found = _read(settings, settings.files)
        say(describe_windows(found, "")[1])
        return found

    @classmethod
    def write(cls, settings: TrajectoriesData, examples: Sequence[Scene], path: Path) -> list[str]:
        """Write the positions in all windows to one file of tracks, in which the frames of each file they come from
        follow those of the file before it. Raise an error if that file does not give the same windows when it is
        read."""
        rows: dict[tuple[int, str], str] = {}
        shift = 0
        for file in dict.fromkeys(one.file for one in examples):
            found = [one for one in examples if one.file == file]
            shift -= min(one.frame for one in found)
            for one in found:
                for moment, positions in enumerate(one.positions):
                    for agent, (x, y) in zip(one.agents, positions.tolist(), strict=True):
                        frame = one.frame + moment * one.step + shift
                        rows[frame, agent] = f"{frame}\t{agent}\t{x!r}\t{y!r}"
            shift = max(frame for frame, _ in rows) + 2 * found[0].step
        written = write_lines(path.with_suffix(".txt"), [rows[place] for place in sorted(rows)])
        again = _read(settings.model_copy(update={"builtin": None, "files": [str(written)]}), [str(written)])
        if [one.positions.tobytes() for one in again] != [one.positions.tobytes() for one in examples]:
            raise OptionError(
                "These windows cannot be written as one file, because they come from files with different frame steps."
            )
        return ["--data", str(written)]

    @classmethod
    def recommend(cls, splits: Splits[Scene], size: Size) -> dict[str, Any]:
        """Recommend a network of this size, and enough updates for about twenty passes over the paths."""
        width, heads = NETWORKS[size]
        steps = max(500, 20 * sum(len(one.agents) for one in splits.train) // BATCH_PATHS)
        return {
            "model": {
                "kind": "agents",
                "width": width,
                "num_heads": heads,
                "feedforward_width": 2 * width,
                "diverse": 20,
                "turned": True,
            },
            "training": {
                "steps": steps,
                "warmup": steps // 20,
                "batch_paths": BATCH_PATHS,
                "lr": 1e-3,
                "validate_every": max(100, steps // 10),
            },
        }

    @classmethod
    def identity(cls, example: Scene) -> bytes:
        return f"{example.source} {example.agents} ".encode() + example.positions.tobytes()


def _read(settings: TrajectoriesData, files: Sequence[str]) -> list[Scene]:
    length = settings.past + settings.future
    every: list[Scene] = []
    for file in files:
        tracks = read_tracks(resolve_path(file), settings.frame_step)
        least = settings.least_agents
        found = windows(tracks, settings.past, settings.future, stride=settings.stride, least_agents=least)
        if not found:
            raise FileError(
                f"{file}: no window of {length} time steps (every {tracks.step} frames) has {least} or "
                "more agents throughout."
            )
        every += found
    return every
