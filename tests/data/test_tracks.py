"""Tracks of agents: separators, windows, and what is wrong with bad files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from saccade.data.tracks import last_window, read_tracks, windows
from saccade.errors import FileError

ROWS = [(frame, agent, float(frame) * agent, float(agent)) for frame in (0, 10, 20, 30) for agent in (1, 2)]
#: Agent 3 is there in the last two moments only.
ROWS += [(20, 3, 5.0, 5.0), (30, 3, 6.0, 5.0)]


@pytest.mark.parametrize("separator", ["\t", ",", " ", "; ", "|"])
def test_any_separator_is_read(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "tracks.txt"
    path.write_text("\n".join(separator.join(map(str, row)) for row in ROWS))
    tracks = read_tracks(path)
    assert (tracks.step, list(tracks.frames)) == (10, [0, 10, 20, 30])
    assert tracks.frames[30] == {"1": (30.0, 1.0), "2": (60.0, 2.0), "3": (6.0, 5.0)}


def written(tmp_path: Path, rows: list[tuple[int, int, float, float]]) -> Path:
    path = tmp_path / "tracks.csv"
    path.write_text("frame,id,x,y\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows))
    return path


def test_windows_have_the_agents_that_are_there_throughout(tmp_path: Path) -> None:
    tracks = read_tracks(written(tmp_path, ROWS))
    first, second = windows(tracks, 2, 1)
    assert (first.frame, first.agents, first.positions.shape, first.past) == (0, ("1", "2"), (3, 2, 2), 2)
    assert second.positions[:, 0].tolist() == [[10.0, 1.0], [20.0, 1.0], [30.0, 1.0]]
    assert len(windows(tracks, 2, 1, stride=2)) == 1
    assert windows(tracks, 2, 1, least_agents=3) == []
    assert last_window(tracks, 2).agents == ("1", "2", "3")


def test_long_numbers_and_map_coordinates_stay_apart(tmp_path: Path) -> None:
    rows = [(frame, agent, 4.5e6 + frame * 0.04, 5.4e6) for frame in (0, 10, 20) for agent in (1234567, 1234568)]
    window = last_window(read_tracks(written(tmp_path, rows)), 3)
    assert window.agents == ("1234567", "1234568")
    assert np.diff(window.positions[:, 0, 0]).tolist() == pytest.approx([0.4, 0.4], abs=1e-6)


def test_a_gap_breaks_a_window(tmp_path: Path) -> None:
    tracks = read_tracks(written(tmp_path, [row for row in ROWS if row[:2] != (20, 1)]))
    assert [one.agents for one in windows(tracks, 2, 1)] == [("2",), ("2",)]
    with pytest.raises(FileError, match=r"no agent is present at all of the last 9 time steps \(frames -50 to 30"):
        last_window(tracks, 9)


BAD = {
    "0 1 2\n": "line 1: expected a frame, an agent's number and its position x y; got '0 1 2'",
    "0 1 2 3\n10 1 a 3\n": "line 2: expected a frame",
    "0 1 2 3\n0 1 4 5\n": "line 2: agent 1 is already in frame 0",
    "0.5 1 2 3\n": "line 1: the frame must be a whole number",
    "0 1 nan 3\n": "line 1: the frame must be a whole number, and all numbers finite",
    "0 1 2 3\n10 1 2 -1e30\n": "line 2: the coordinate -1e+30 is not between -1e12 and 1e12",
    "": "There are no tracks",
    "".join(f"0 {agent} 1 1\n10 {agent} 1 1\n" for agent in range(600)): "600 agents at once; expected at most 512",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(FileError) as raised:
        windows(read_tracks(path), 1, 1)
    assert BAD[text] in str(raised.value)
    assert "bad.txt" in str(raised.value)


def test_columns_in_another_order_are_refused(tmp_path: Path) -> None:
    """Wrong before: a header was skipped whatever it said, so frames were read as agents."""
    file = tmp_path / "tracks.csv"
    file.write_text("agent,frame,x,y\n1,0,0.5,0.5\n")
    with pytest.raises(FileError, match="line 1: the columns must be frame, agent, x, y, in this order, not agent, f"):
        read_tracks(file)
    file.write_text("frame,id,x,y\n0,1,0.5,0.5\n")
    assert read_tracks(file).frames == {0: {"1": (0.5, 0.5)}}
