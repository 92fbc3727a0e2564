"""The predicted paths of all agents in a scene, and which other agents the model looked at to predict each path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from saccade.data.tracks import Scene
from saccade.errors import OptionError, counted
from saccade.lens.figures.paths import draw_paths
from saccade.lens.view import View
from saccade.tasks.base.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TrajectoriesAnswer"]


@dataclass(frozen=True)
class TrajectoriesAnswer(Answer):
    """The most likely path of each agent, and several sampled paths. Positions are in the units of the data."""

    window: Scene
    likely: Float[np.ndarray, "F N 2"] = field(repr=False)
    drawn: Float[np.ndarray, "K F N 2"] = field(repr=False)
    compute_attention: Callable[[], View] = field(repr=False)
    score: float | None = None

    @property
    def text(self) -> str:  # type: ignore[override]
        """The final position of each agent on its most likely path."""
        ends = zip(self.window.agents, self.likely[-1], strict=True)
        return "; ".join(f"{agent}: {x:.2f} {y:.2f}" for agent, (x, y) in ends)

    def rows(self) -> Iterator[tuple[int, int, str, float, float]]:
        """Yield a row (sample, frame, agent, x, y) for each predicted position. Sample 0 is the most likely future, and
        samples 1, 2, ... are drawn at random."""
        first = self.window.frame + self.window.past * self.window.step
        for sample, paths in enumerate([self.likely, *self.drawn]):
            for moment, positions in enumerate(paths):
                for agent, (x, y) in zip(self.window.agents, positions, strict=True):
                    yield sample, first + moment * self.window.step, agent, float(x), float(y)

    @property
    def csv(self) -> str:
        """The predicted paths as a CSV table with the columns sample, frame, agent, x and y."""
        lines = (f"{sample},{frame},{agent},{x:.4f},{y:.4f}" for sample, frame, agent, x, y in self.rows())
        return "sample,frame,agent,x,y\n" + "\n".join(lines) + "\n"

    @property
    def certainty(self) -> str:
        if not len(self.drawn):
            return "final positions of the only paths that this model predicts"
        return f"final positions of the most likely paths; {len(self.drawn)} more were sampled"

    def record(self) -> dict[str, Any]:
        paths = {
            agent: {
                "past": self.window.positions[: self.window.past, number].round(4).tolist(),
                "likely": self.likely[:, number].round(4).tolist(),
                "drawn": self.drawn[:, :, number].round(4).tolist(),
            }
            for number, agent in enumerate(self.window.agents)
        }
        return {"frame": self.window.frame, "step": self.window.step, "agents": paths}

    @property
    def layer(self) -> str:
        """The name of the last cross-attention, from predicted to observed time steps."""
        return next(name for name in reversed(self.view.names) if name.endswith(".cross"))

    def looked_at(self, agent: str, name: str | None = None, head: int | str = "mean") -> dict[str, list[float]]:
        """Return the attention from an agent's first predicted time step to each observed time step of every agent."""
        if agent not in self.window.agents:
            raise OptionError(f"There is no agent {agent!r}; the agents are {', '.join(self.window.agents)}.")
        row = self.view.one_row(name or self.layer, self.window.agents.index(agent), head)  # type: ignore[arg-type]
        weights = row.view(self.window.past, len(self.window.agents)).T.tolist()
        return dict(zip(self.window.agents, weights, strict=True))

    def terminal(self) -> Iterator[RenderableType]:
        table = Table("agent", "now", "end", "looks at others", box=None)
        for number, agent in enumerate(self.window.agents):
            now, end = self.window.positions[self.window.past - 1, number], self.likely[-1, number]
            table.add_row(agent, f"{now[0]:.2f} {now[1]:.2f}", f"{end[0]:.2f} {end[1]:.2f}", self._others(agent))
        yield table
        yield Text(f"{counted(len(self.window.agents), 'agent')}, {counted(len(self.drawn), 'sampled future')}")

    def _others(self, agent: str) -> str:
        try:
            seen = {other: sum(weights) for other, weights in self.looked_at(agent).items() if other != agent}
        except OptionError:
            return "no attention"
        strongest = sorted(seen.items(), key=lambda pair: -pair[1])[:3]
        return ", ".join(f"{other} {weight:.2f}" for other, weight in strongest) or "there are no other agents"

    def figure(self, dark: bool) -> Figure:
        """Draw all paths, and how much the agent nearest to the middle of the scene looks at each agent."""
        window, middle = self.window, self.window.positions[self.window.past - 1]
        chosen = int(np.linalg.norm(middle - middle.mean(axis=0), axis=-1).argmin())
        try:
            weights = np.array(list(self.looked_at(window.agents[chosen]).values()))
        except OptionError:
            weights = None
        true = window.positions[window.past :] if len(window.positions) > window.past else None
        return draw_paths(
            window.positions[: window.past],
            self.likely,
            self.drawn,
            window.agents,
            true=true,
            chosen=chosen,
            weights=weights,
            title=f"{window.file}, frame {window.frame}: where {counted(len(window.agents), 'agent')} will go",
            dark=dark,
        )
