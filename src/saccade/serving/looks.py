"""What a model looked at, kept for a while: pictures are asked for part by part after the answer.

A look keeps the traces of one pass (queries, keys and rules), from which any part of any head follows exactly. They
are many numbers, so only the most recently used looks are kept.
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

from saccade.errors import OptionError
from saccade.lens.axis import Axis
from saccade.lens.view import View
from saccade.serving.asked import Asked, Pool
from saccade.serving.http.refusals import Refused
from saccade.serving.limits import Limits
from saccade.serving.models import Served
from saccade.serving.pooling import Pyramid
from saccade.tasks.base.answer import Answer

__all__ = ["Edits", "Look", "Looks", "answer_record", "finite", "no_attention", "plain_record"]

Result = TypeVar("Result")
#: Where the surest head of a layer is looked for: rows times columns.
SMALL = 1 << 16


@dataclass(frozen=True)
class Edits:
    """What is changed in the model, or in its input, before it looks."""

    without_heads: Sequence[str] = ()
    without_links: Sequence[tuple[str, int, int]] = ()
    replace: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self.without_heads or self.without_links or self.replace)


@dataclass(eq=False)
class Look:
    """An input, what the model said to it, and what it looked at."""

    served: Served
    given: Any
    view: View
    answer: Answer | None = None  # None: the text was only read
    edits: Edits = field(default_factory=Edits)
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    lock: threading.RLock = field(default_factory=threading.RLock)  # reading a trace keeps what it computes
    pyramid: Pyramid = field(init=False)
    _asked: Asked[Any] | None = field(default=None, init=False)  # who is drawn for now,
    _deadline: float = field(default=float("inf"), init=False)  # and until when

    def __post_init__(self) -> None:
        self.pyramid = Pyramid(self.view, self._check_time)

    @property
    def nbytes(self) -> int:
        """What it keeps: more, the more of it was drawn."""
        return self.pyramid.nbytes + sum(trace.nbytes for trace in self.view.traces.values())

    def draw(self, asked: Asked[Result], work: Callable[[Look], Result], limits: Limits) -> Result:
        """In a thread of its own: a part of what was looked at, one at a time, and none for too long."""
        if not self.lock.acquire(timeout=limits.seconds):
            raise Refused(429, "Other pictures of this look are being made; try again in a moment.", retry_after=1)
        try:
            self._asked, self._deadline = asked, time.monotonic() + limits.map_seconds
            return work(self)
        finally:
            self._asked, self._deadline = None, float("inf")
            self.lock.release()

    def _check_time(self, share: float) -> None:
        """Asked after each part of a picture of many weights."""
        if self._asked is not None and self._asked.is_abandoned:
            raise Refused(499, "The client has left.")
        if time.monotonic() > self._deadline:
            raise Refused(503, f"This picture takes too long; {100 * share:.0f} % of it was done.")

    def describe(self) -> dict[str, Any]:
        """The tokens and attentions that can be asked for, and what is shown first."""
        with self.lock:
            axes, names = _numbered_axes(self.view)
            layer = self.view.names[-1] if self.answer is None else self.answer.layer
            described: dict[str, Any] = {
                "id": self.id,
                "layer": layer,
                "head": _surest_head(self.view, layer),
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
                "stacks": self.view.stacks,
                "axes": {key: _described_axis(axis) for key, axis in axes.items()},
            }
            return described | ({} if self.answer is None else self.answer.extras())


class Looks:
    """The looks that are kept: so many, and together no more than so many bytes."""

    def __init__(self, limits: Limits, pool: Pool | None = None) -> None:
        self.limits = limits
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
        with self._lock:
            self._kept[look.id] = look
            self._trim(look)
        return look

    def draw(self, id: str, work: Callable[[Look], Result]) -> Asked[Result]:
        """Something that is made from a look."""
        look = self[id]

        def run(asked: Asked[Result]) -> Result:
            found = look.draw(asked, work, self.limits)
            with self._lock:
                self._trim(look)  # what was drawn may have made it larger
            return found

        return self.pool.run(run)

    def _trim(self, changed: Look) -> None:
        """Forget the least recently used while there are too many, or too large ones."""
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
                raise Refused(404, "This look is no longer kept; ask for it again.")
            self._kept.move_to_end(id)
            return self._kept[id]


def answer_record(answer: Answer) -> dict[str, Any]:
    """An answer in plain values, its alternatives with it."""
    return plain_record(answer) | {"alternatives": [plain_record(other) for other in answer.alternatives]}


def plain_record(answer: Answer) -> dict[str, Any]:
    """An answer in plain values, without its alternatives."""
    found: dict[str, Any] = finite({"text": answer.text, "score": answer.score} | answer.record())
    return found


def finite(value: Any) -> Any:
    """Plain values as JSON can hold them: an infinite log-probability is null."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbered_axes(view: View) -> tuple[dict[str, Axis], dict[int, str]]:
    """Each different axis once, by a name of its own; and the name of each axis by its identity."""
    axes: dict[str, Axis] = {}
    names: dict[int, str] = {}
    for axis in (*view.rows.values(), *view.columns.values()):
        if id(axis) not in names:
            same = next((key for key, known in axes.items() if known == axis), None)
            names[id(axis)] = same or str(len(axes))
            axes.setdefault(names[id(axis)], axis)
    return axes, names


def _described_axis(axis: Axis) -> dict[str, Any]:
    return {"tokens": axis.tokens, "words": axis.words, "labels": axis.joined}


def _surest_head(view: View, name: str) -> int | str:
    """The head whose rows are most about few keys; of long texts, and of one head, no search."""
    rows, columns = view.axes(name)
    if len(rows) * len(columns) > SMALL:
        return 0
    return int(view.entropy(name).argmin())


def no_attention(answer: Answer, error: OptionError) -> dict[str, Any]:
    """What stands in the place of a look where a model looks at nothing."""
    found: dict[str, Any] = {"id": None, "attentions": [], "axes": {}, "why": str(error)}
    return found | answer.extras()
