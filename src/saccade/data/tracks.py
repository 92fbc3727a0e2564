"""Read the tracks of moving agents, such as pedestrians, and cut them into windows of time. Each line of a file has a
frame number, an agent's number, x and y.

The separator is a tab, a comma, a semicolon, a bar or spaces. A header line, if there is one, is skipped; it
must not name these columns in another order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float

from saccade.data.lines import read_lines
from saccade.errors import FileError, counted

__all__ = ["Scene", "Tracks", "last_window", "read_tracks", "tracks_of", "windows"]

_SEPARATOR = re.compile(r"[\s,;|]+")
#: The maximum number of agents in a window, because the cost of attention grows with its square.
MOST_AGENTS = 512
#: The largest coordinate. Squares of much larger numbers would overflow in fp32.
LARGEST = 1e12


@dataclass(frozen=True)
class Tracks:
    """The position of each agent in each frame."""

    frames: dict[int, dict[str, tuple[float, float]]]  # frame -> agent -> position
    lines: dict[int, int]  # frame -> its first line in the file
    step: int  # the number of frames per time step
    file: str


@dataclass(frozen=True)
class Scene:
    """A window of successive time steps, with the positions of the agents that are present at all of them."""

    positions: Float[np.ndarray, "T N 2"]
    past: int  # the number of observed time steps; the others are to be predicted
    agents: tuple[str, ...]
    frame: int  # the first frame
    step: int
    line: int
    file: str

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}:{self.frame}"


def read_tracks(path: Path, step: int | None = None) -> Tracks:
    """Read the tracks in a file. ``step`` is the number of frames per time step; by default, the most frequent
    difference between one frame number in the file and the next."""
    rows: list[tuple[int, float, float, float, float]] = []
    for line, text in read_lines(path):
        cells = [cell for cell in _SEPARATOR.split(text.strip()) if cell]
        if not cells:
            continue
        try:
            frame, agent, x, y = (float(cell) for cell in cells)
        except ValueError:
            if not rows and len(cells) >= 4 and not any(_is_number(cell) for cell in cells):
                _check_names(cells, f"{path}, line {line}")
                continue
            raise FileError(
                f"{path}, line {line}: expected a frame, an agent's number and its position x y; got {text[:60]!r}."
            ) from None
        rows.append((line, frame, agent, x, y))
    if not rows:
        raise FileError(f"There are no tracks in {path}.")
    return tracks_of(rows, str(path), step)


def _check_names(cells: Sequence[str], where: str) -> None:
    """Refuse names of columns that are known, but in another order."""
    names = [cell.strip("\"'").lower() for cell in cells[:4]]
    known = {"frame": 0, "x": 2, "y": 3} | dict.fromkeys(("agent", "agent_id", "id", "ped", "track", "track_id"), 1)
    if any(known.get(name, place) != place for place, name in enumerate(names)):
        raise FileError(f"{where}: the columns must be frame, agent, x, y, in this order, not {', '.join(names)}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def tracks_of(rows: Iterable[tuple[int, float, float, float, float]], file: str, step: int | None = None) -> Tracks:
    """Collect tracks from rows (line number, frame, agent, x, y). See `read_tracks` for ``step``."""
    frames: dict[int, dict[str, tuple[float, float]]] = {}
    lines: dict[int, int] = {}
    for line, frame, agent, x, y in rows:
        if not all(map(math.isfinite, (frame, agent, x, y))) or frame != int(frame):
            raise FileError(f"{file}, line {line}: the frame must be a whole number, and all numbers finite.")
        if max(abs(x), abs(y)) > LARGEST:
            raise FileError(
                f"{file}, line {line}: the coordinate {max(x, y, key=abs):g} is not between -1e12 and 1e12."
            )
        name = str(int(agent)) if agent == int(agent) else repr(agent)
        there = frames.setdefault(int(frame), {})
        if name in there:
            raise FileError(f"{file}, line {line}: agent {name} is already in frame {int(frame)}.")
        there[name] = (x, y)
        lines.setdefault(int(frame), line)
    ordered = sorted(frames)
    if step is None:
        gaps = Counter(after - before for before, after in pairwise(ordered))
        step = gaps.most_common(1)[0][0] if gaps else 1
    return Tracks({frame: frames[frame] for frame in ordered}, lines, step, file)


def windows(tracks: Tracks, past: int, future: int, *, stride: int = 1, least_agents: int = 1) -> list[Scene]:
    """Cut tracks into windows of ``past`` observed time steps and ``future`` time steps to be predicted.

    A window has the agents that are present at all of its time steps. A window begins at every ``stride``-th frame of
    the file; those with fewer than ``least_agents`` agents are left out.
    """
    found = []
    for place, frame in enumerate(tracks.frames):
        if place % stride == 0:
            window = _window(tracks, frame, past, past + future)
            if window is not None and len(window.agents) >= least_agents:
                found.append(window)
    return found


def last_window(tracks: Tracks, past: int) -> Scene:
    """Return a window with the last ``past`` time steps, and the agents that are present at all of them."""
    last = next(reversed(tracks.frames))
    window = _window(tracks, last - (past - 1) * tracks.step, past, past)
    if window is None:
        raise FileError(
            f"{tracks.file}: no agent is present at all of the last {past} time steps (frames "
            f"{last - (past - 1) * tracks.step} to {last} in steps of {tracks.step})."
        )
    return window


def _window(tracks: Tracks, first: int, past: int, length: int) -> Scene | None:
    moments = [tracks.frames.get(first + number * tracks.step, {}) for number in range(length)]
    agents = sorted(set.intersection(*(set(moment) for moment in moments)), key=_number)
    if not agents:
        return None
    line = tracks.lines[first]
    if len(agents) > MOST_AGENTS:
        raise FileError(
            f"{tracks.file}, line {line}: there are {len(agents)} agents at once; expected at most {MOST_AGENTS}."
        )
    positions = np.array([[moment[agent] for agent in agents] for moment in moments], dtype=np.float64)
    return Scene(positions, past, tuple(agents), first, tracks.step, line, tracks.file)


def _number(agent: str) -> tuple[float, str]:
    return float(agent), agent


def describe_windows(found: Sequence[Scene], what: str) -> tuple[str, str]:
    """Return a row of the data report that summarises the windows."""
    agents = [len(one.agents) for one in found]
    return (
        what,
        f"{counted(len(found), 'window')}, {counted(sum(agents), 'path')}, at most "
        f"{counted(max(agents), 'agent')} at once",
    )
