"""Looks: a look is the recorded attention of one answer, kept for a while so that clients can request parts of it.

A look keeps the traces of one forward pass (queries, keys and masks), from which the weights of any part of any head
can be computed exactly. Traces are large, so only the most recently used looks are kept.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from saccade.errors import OptionError
from saccade.lens.axis import Axis
from saccade.lens.view import View
from saccade.serving.computation import Computation
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.models import Served
from saccade.serving.pooling import Pyramid
from saccade.serving.threads import Pool
from saccade.tasks.base.answer import Answer

__all__ = ["Edits", "Look", "Looks", "answer_record", "finite", "no_attention", "plain_record", "telling_head"]

Result = TypeVar("Result")
#: Up to this many weights (rows times columns), the first head to show is chosen by entropy.
SMALL = 1 << 16
#: A head counts as a sink if the mean weight of one column is larger than this.
SINK = 0.6


@dataclass(frozen=True)
class Edits:
    """Changes for one forward pass: heads switched off, links between positions cut, a word of the input replaced."""

    without_heads: Sequence[str] = ()
    without_links: Sequence[tuple[str, int, int]] = ()
    replace: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self.without_heads or self.without_links or self.replace)


@dataclass(eq=False)
class Look:
    """An input, the model's answer, and the attention recorded for it."""

    served: Served
    given: Any
    view: View
    answer: Answer | None = None  # None if the text was only read, for a map
    edits: Edits = field(default_factory=Edits)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    lock: threading.RLock = field(default_factory=threading.RLock)  # reading a trace caches what it computes
    pyramid: Pyramid = field(init=False)
    _drawing: Computation[Any] | None = field(default=None, init=False)  # the picture being drawn,
    _deadline: float = field(default=float("inf"), init=False)  # and when it must be done

    def __post_init__(self) -> None:
        self.pyramid = Pyramid(self.view, self._check_time)

    @property
    def nbytes(self) -> int:
        """The memory that the look uses, in bytes; it grows, because some computed pictures are cached."""
        kept = 0 if self.answer is None else self.answer.nbytes
        return self.pyramid.nbytes + kept + sum(trace.nbytes for trace in self.view.traces.values())

    def draw(self, computation: Computation[Result], work: Callable[[Look], Result], limits: Limits) -> Result:
        """Return what ``work`` computes from this look, such as a picture: one at a time, and within a time limit.

        Call this in a thread of the pool.
        """
        if not self.lock.acquire(timeout=limits.seconds):
            raise Refused(429, "Other pictures of this look are being drawn; try again in a moment.", retry_after=1)
        try:
            self._drawing, self._deadline = computation, time.monotonic() + limits.map_seconds
            return work(self)
        finally:
            self._drawing, self._deadline = None, float("inf")
            self.lock.release()

    def _check_time(self, share: float) -> None:
        """Stop drawing if it takes too long or the client has left. Called after each part of a large picture."""
        if self._drawing is not None and self._drawing.is_abandoned:
            raise Refused(499, "The client has disconnected.")
        if time.monotonic() > self._deadline:
            raise Refused(503, f"Computing this picture took too long; only {100 * share:.0f} % of it was done.")

    def describe(self) -> dict[str, Any]:
        """Return the tokens and attention layers of the look, and which layer and head to show first."""
        with self.lock:
            axes, names = _numbered_axes(self.view)
            layer = self.view.names[-1] if self.answer is None else self.answer.layer
            rows, columns = self.view.axes(layer)
            is_small = len(rows) * len(columns) <= SMALL
            described: dict[str, Any] = {
                "id": self.id,
                "layer": layer,
                "head": telling_head(self.view, layer) if is_small else 0,
                "attentions": [
                    {
                        "name": name,
                        "kind": self.view.kind(name),
                        "heads": self.view.heads(name),
                        "rows": names[id(self.view.rows[name])],
                        "columns": names[id(self.view.columns[name])],
                    }
                    for name in self.view.names
                ],
                "left_out": self.view.left_out,
                "stacks": self.view.stacks,
                "axes": {
                    key: {"tokens": axis.tokens, "words": axis.words, "labels": axis.joined}
                    for key, axis in axes.items()
                },
            }
            return described | ({} if self.answer is None else self.answer.extras())


def telling_head(view: View, name: str) -> int:
    """Return the head with the lowest entropy, leaving out sinks: heads in which almost every row attends to one
    column."""
    shares = torch.stack([view.matrix(name, head).mean(dim=0).max() for head in range(view.heads(name))])
    is_sink = (shares > SINK) & (len(view.axes(name)[0]) > 1)
    return int(torch.where(is_sink & ~is_sink.all(), torch.inf, view.entropy(name)).argmin())


class Looks:
    """The looks in memory, limited in number and in bytes."""

    def __init__(self, limits: Limits, pool: Pool | None = None, prefix: str = "") -> None:
        self.limits = limits
        self._prefix = prefix  # what the ids start with
        self.pool = pool or Pool(limits.queue)
        self._kept: OrderedDict[str, Look] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

    def add(self, look: Look) -> Look:
        look.id = self._prefix + look.id
        with self._lock:
            self._kept[look.id] = look
            self._trim(look)
        return look

    def draw(self, id: str, work: Callable[[Look], Result]) -> Computation[Result]:
        """Queue ``work`` to be computed from a look, in a thread of the pool; return its pending result."""
        look = self[id]

        def run(computation: Computation[Result]) -> Result:
            found = look.draw(computation, work, self.limits)
            with self._lock:
                self._trim(look)  # drawing may have made it larger
            return found

        return self.pool.run(run)

    def _trim(self, changed: Look) -> None:
        """Drop the least recently used looks until the rest are within the limits on their number and their size."""
        if changed.id in self._kept:
            self._sizes[changed.id] = changed.nbytes
        while len(self._kept) > 1 and (
            len(self._kept) > self.limits.looks or sum(self._sizes.values()) > self.limits.look_bytes
        ):
            oldest, _ = self._kept.popitem(last=False)
            del self._sizes[oldest]

    def __getitem__(self, id: str) -> Look:
        with self._lock:
            if id not in self._kept:
                raise Refused(404, "This look is no longer in memory; request it again.")
            self._kept.move_to_end(id)
            return self._kept[id]


def answer_record(answer: Answer) -> dict[str, Any]:
    """Return an answer and its alternatives as values that JSON can hold."""
    return plain_record(answer) | {"alternatives": [plain_record(other) for other in answer.alternatives]}


def plain_record(answer: Answer) -> dict[str, Any]:
    """Return an answer, without its alternatives, as values that JSON can hold."""
    found: dict[str, Any] = finite({"text": answer.text, "score": answer.score} | answer.record())
    return found


def finite(value: Any) -> Any:
    """Return a value in which each infinite number, such as a log-probability, is None: JSON has no infinity."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbered_axes(view: View) -> tuple[dict[str, Axis], dict[int, str]]:
    """Give each axis a number, and equal axes the same; return the axes by number, and the numbers by ``id(axis)``."""
    axes: dict[str, Axis] = {}
    names: dict[int, str] = {}
    for axis in (*view.rows.values(), *view.columns.values()):
        if id(axis) not in names:
            same = next((key for key, known in axes.items() if known == axis), None)
            names[id(axis)] = same or str(len(axes))
            axes.setdefault(names[id(axis)], axis)
    return axes, names


def no_attention(answer: Answer, error: OptionError) -> dict[str, Any]:
    """Return what is sent instead of a look if the model has no attention, with the reason."""
    found: dict[str, Any] = {"id": None, "attentions": [], "axes": {}, "why": str(error)}
    return found | answer.extras()
