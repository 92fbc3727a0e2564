"""The vectors of one or two texts, and how similar the two are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from saccade.lens.terminal.heatmap import TerminalHeatmap
from saccade.lens.view import View
from saccade.tasks.base.answer import Answer

__all__ = ["SimilarityAnswer"]


@dataclass(frozen=True)
class SimilarityAnswer(Answer):
    """The vector of a text, or the vectors of two texts and the cosine of the angle between them."""

    texts: tuple[str, ...]
    vectors: tuple[list[float], ...] = field(repr=False)
    score: float | None  # the cosine, if there are two texts
    compute_attention: Callable[[], View] = field(repr=False)

    @property
    def text(self) -> str:  # type: ignore[override]
        """The cosine if there are two texts; otherwise all numbers of the vector."""
        if self.score is not None:
            return f"{self.score:.4f}"
        return " ".join(f"{number:.6f}" for number in self.vectors[0])

    def record(self) -> dict[str, Any]:
        return {"texts": list(self.texts), "similarity": self.score, "vectors": [list(one) for one in self.vectors]}

    @cached_property
    def view(self) -> View:
        """The attention of the model while it reads the first text."""
        return self.compute_attention()

    def terminal(self) -> Iterator[RenderableType]:
        if self.score is not None:
            yield Text(f"similarity {self.score:.4f}", style="bold")
        numbers = " ".join(f"{number:+.3f}" for number in self.vectors[0][:8])
        yield Text(f"vector of {len(self.vectors[0])} numbers: {numbers} ...")
        seen, name = self.view, self.layer
        rows, columns = (axis.labels(False) for axis in seen.axes(name))
        tile = seen.tile(name, "mean", range(len(rows)), range(len(columns)))
        yield TerminalHeatmap(tile.cpu(), rows, columns, f"{name}, mean of {seen.heads(name)} heads")
