"""Generate scenes of walking agents in which it is known which agent's path depends on which other agent.

Each scene combines two or three of the following patterns, and at least one of them is that of a follower:

- A follower walks where its leader walked a few time steps before. The leader turns in the observed past and
  the follower in the future, so only the leader's past shows the follower's future.
- When the paths of two agents cross, the one that would arrive later slows down for the other.
- Two friends walk side by side and turn together.
- A stranger walks straight ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saccade.data.tracks import Scene

__all__ = ["WorldScene", "generate_scenes"]

PAST, FUTURE = 8, 12
_MOMENTS = PAST + FUTURE


@dataclass(frozen=True)
class WorldScene(Scene):
    """A scene with its true links: for each dependent agent, its index and that of the agent it depends on."""

    links: tuple[tuple[int, int], ...] = ()


def generate_scenes(count: int, seed: int, part: int = 0) -> list[WorldScene]:
    """Return ``count`` random scenes. The same seed and ``part`` always give the same scenes."""
    draw = np.random.default_rng([seed, part])
    return [_scene(draw, number) for number in range(count)]


def _scene(draw: np.random.Generator, number: int) -> WorldScene:
    paths: list[Float[np.ndarray, "T 2"]] = []
    links: list[tuple[int, int]] = []
    kinds = draw.permutation(["follow", "follow", "cross", "friends", "stranger"])[: draw.integers(2, 4)]
    if "follow" not in kinds:
        kinds[0] = "follow"
    for kind in kinds:
        first = len(paths)
        where = draw.uniform(-6, 6, 2)
        if kind == "follow":
            leader, follower = _leader_and_follower(draw)
            paths += [leader + where, follower + where]
            links.append((first + 1, first))
        elif kind == "cross":
            early, late = _crossing(draw)
            paths += [early + where, late + where]
            links.append((first + 1, first))
        elif kind == "friends":
            path = _turning(draw, int(draw.integers(2, _MOMENTS - 2)))[:_MOMENTS]
            beside = draw.uniform(0, 2 * math.pi)
            paths += [path + where, path + where + 0.6 * np.array([math.cos(beside), math.sin(beside)])]
        else:
            paths.append(_turning(draw, 10 * _MOMENTS)[:_MOMENTS] + where)
    order = draw.permutation(len(paths))
    place = {int(old): new for new, old in enumerate(order)}
    positions = np.stack([paths[old] for old in order], axis=1) + draw.normal(0, 0.01, (_MOMENTS, len(paths), 2))
    return WorldScene(
        positions,
        PAST,
        tuple(map(str, range(1, len(paths) + 1))),
        frame=0,
        step=1,
        line=number + 1,
        file="the world",
        links=tuple((place[one], place[other]) for one, other in links),
    )


def _turning(draw: np.random.Generator, moment: int) -> Float[np.ndarray, "T 2"]:
    """Return a path with constant speed and one turn, longer than a window."""
    speed, angle = draw.uniform(0.3, 0.6), draw.uniform(0, 2 * math.pi)
    turn = draw.choice([-1, 1]) * draw.uniform(math.radians(50), math.radians(100))
    angles = np.where(np.arange(2 * _MOMENTS) < moment, angle, angle + turn)
    steps = speed * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    found: np.ndarray = np.cumsum(steps, axis=0)
    return found


def _leader_and_follower(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two stretches of the same path. The leader is some time steps ahead: it turns in the past, the follower in
    the future."""
    delay = int(draw.integers(5, 8))
    walk = _turning(draw, PAST - 2 + delay)
    return walk[delay : delay + _MOMENTS], walk[:_MOMENTS]


def _crossing(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two paths that cross at a right angle after the present; the agent that would arrive later waits for the
    other."""
    speed, angle = draw.uniform(0.3, 0.6), draw.uniform(0, 2 * math.pi)
    meeting, behind = PAST + draw.uniform(2, 4), draw.uniform(0.5, 1.5)
    ahead = np.array([math.cos(angle), math.sin(angle)])
    across = np.array([-ahead[1], ahead[0]]) * draw.choice([-1, 1])
    moments = np.arange(_MOMENTS, dtype=np.float64)
    early = (moments - meeting)[:, None] * speed * ahead
    pace = np.where((moments >= PAST) & (moments < PAST + 4), 0.3, 1.0)  # slow for four time steps after the present
    late = (np.cumsum(pace) - 1 - meeting - behind)[:, None] * speed * across
    return early, late
