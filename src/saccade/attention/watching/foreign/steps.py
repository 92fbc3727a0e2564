"""Whether a call of another's attention continues the one before it: the steps of a decoder with a cache.

Our own calls say at which row they start. Torch's calls do not, so it is inferred from the keys, by their content:
keys that grew by as many as there are queries, the old ones being the same bit for bit; a buffer in which as many
columns were written as there are queries, and were forbidden before; the same keys asked again by one query
(cross-attention).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.call import FLOOR
from saccade.attention.watching.trace import Trace, keep

__all__ = ["Step", "Steps", "Within", "keep_foreign", "step_between"]

#: Each step of a growing cache brings all keys again; after so many of them one copy is kept for all.
SHARE_EVERY = 32

REORDERED = (
    "the sequences of its batch changed places between the steps, as in beam search, so that its rows would mix them; "
    "watch one forward over the finished output instead"
)
SHIFTED = (
    "its cache dropped old keys between the steps, so that its columns would not be the same tokens in all rows; "
    "watch one forward over the finished output instead"
)


class Step(Enum):
    """How a call stands to the one before it."""

    NEW = auto()  # another forward
    GROWN = auto()  # the keys that were there, and those of the new queries
    AGAIN = auto()  # one query more to the same keys
    REORDERED = auto()  # the sequences of the batch changed places, as beam search has them
    SHIFTED = auto()  # old keys were dropped, as a cache with a window does


def step_between(last: Call, call: Call) -> Step:
    """The step from the last call, as it was kept, to this one."""
    _, _, num_queries, num_keys = call.shape
    old, new, num_last = last.key, call.key, last.shape[3]
    is_same_form = old.shape[:2] == new.shape[:2] and old.shape[3] == new.shape[3]
    if not is_same_form or last.shape[1] != call.shape[1] or num_queries >= num_keys or not len(new):
        return Step.NEW
    if num_last < num_keys:
        # A buffer is longer than what is in it: what is beyond the new keys is forbidden.
        beyond = range(num_last + num_queries, num_keys)
        if num_last + num_queries > num_keys or (beyond and not _forbids(call, beyond)):
            return Step.NEW
        if torch.equal(old, new[:, :, :num_last]):
            return Step.GROWN
        return Step.REORDERED if _has_all(old, new[:, :, :num_last], 0) else Step.NEW
    if num_last == num_keys:
        differs = _changed_columns(old, new)
        changed = differs.any(0).nonzero().flatten().tolist()
        if not changed:
            return Step.AGAIN if num_queries == 1 else Step.NEW
        if len(changed) <= num_queries and all(_forbids(last, range(c, c + 1)) for c in changed):
            return Step.GROWN  # a buffer, written where it was empty
        allowed = num_queries if call.has_rules else 0
        if int(differs.sum(-1).max()) > allowed and _has_all(old, new, allowed):
            return Step.REORDERED
    was_kept = old[:, :, num_last - num_keys + num_queries :]
    return Step.SHIFTED if _has_all(was_kept, new[:, :, :-num_queries], 0) else Step.NEW


def _forbids(call: Call, columns: range) -> bool:
    """Whether the last query of each sequence may attend to none of these columns."""
    last = call.shape[2] - 1
    added = call.added(range(last, last + 1), columns, torch.float32)
    return added is not None and bool((added <= FLOOR).all())


def _has_all(old: Float[Tensor, "B G K D"], new: Float[Tensor, "B G K D"], allowed: int) -> bool:
    """Whether each new sequence is one of the old ones, in any order, but for so many columns."""
    return all(int(_changed_columns(old, new[b : b + 1]).sum(-1).min()) <= allowed for b in range(len(new)))


def _changed_columns(old: Float[Tensor, "B G K D"], new: Float[Tensor, "#B G K D"]) -> Bool[Tensor, "B K"]:
    return (old != new).any(dim=3).any(dim=1)


class Within(NamedTuple):
    """The forwards that a call was made in, by their numbers."""

    outermost: int
    innermost: int


class _Last(NamedTuple):
    """The last call under a label."""

    within: Within
    source: Float[Tensor, "B G K D"]  # as the model had it; held, so that its memory is not given to another
    call: Call  # as it was kept
    num_grown: int | None = 0  # steps in which keys were only added; None if there were others


class Steps:
    """The traces of a watcher's foreign calls: which of them a call continues, replaces or stands beside."""

    def __init__(self, traces: dict[str, Trace]) -> None:
        self.refused: dict[str, str] = {}  # label to reason
        self._traces = traces
        self._last: dict[str, _Last] = {}
        self._uses: dict[str, tuple[int, int]] = {}  # name to its last outermost run and its number of labels in it
        self._grown_in = self._reordered_in = -1  # the last outermost run in which that was found

    def see(self, name: str, within: Within, call: Call | str, kept: Call | str) -> None:
        """Take in a call that ``name`` made."""
        run, count = self._uses.get(name, (within.outermost, 0))
        count = count if run == within.outermost else 0
        if isinstance(call, str) or isinstance(kept, str):
            self._uses[name] = (within.outermost, count + 1)  # refused alone: those beside it can be told
            label = _label(name, count + 1)
            if count == 0:
                self._drop(name)
            self._forget(label)
            self.refused[label] = str(call)
            return
        if count and self._is_inner_step(_label(name, count), within, call):
            self._continue(_label(name, count), within, call, kept)
            return
        self._uses[name] = (within.outermost, count + 1)
        label = _label(name, count + 1)
        step = self._step(label, within, call)
        if step is Step.NEW:
            if count == 0:  # a new forward replaces the last one, and all that stood beside it
                self._drop(name)
            self.refused.pop(label, None)
            self._traces[label] = Trace(label, kept)
            self._remember(label, within, call, kept)
        elif step in (Step.REORDERED, Step.SHIFTED):
            self._refuse(label, within, step, call, kept)
        else:
            self._continue(label, within, call, kept)

    def _is_inner_step(self, label: str, within: Within, call: Call) -> bool:
        """Whether this is a step of a decoder that makes all its steps within one outermost forward."""
        last = self._last.get(label)  # none if it was refused
        is_other_forward = last is not None and last.within.innermost != within.innermost
        return is_other_forward and self._step(label, within, call) is Step.GROWN

    def _step(self, label: str, within: Within, call: Call) -> Step:
        last = self._last.get(label)
        if last is None:
            return Step.NEW
        step = step_between(last.call, call)
        if step is not Step.AGAIN:
            return step
        if self._reordered_in == within.outermost:
            return Step.REORDERED  # the keys of all beams of a sentence are the same, so they do not tell
        is_same_memory = last.source.data_ptr() == call.key.data_ptr() and last.source.stride() == call.key.stride()
        is_later = last.within.outermost != within.outermost
        return step if (is_same_memory and is_later) or self._grown_in == within.outermost else Step.NEW

    def _continue(self, label: str, within: Within, call: Call, kept: Call) -> None:
        last, num_grown = self._last[label], None
        if torch.equal(last.call.key, kept.key):
            kept = replace(kept, key=last.call.key)  # one copy for all steps that ask the same keys
        else:
            self._grown_in = within.outermost
            if last.num_grown is not None and last.call.shape[3] < kept.shape[3]:
                num_grown = last.num_grown + 1
        if label not in self.refused:
            self._traces[label].append(kept)
            if num_grown is not None and num_grown % SHARE_EVERY == 0:
                self._traces[label].share_keys()
        self._remember(label, within, call, kept, num_grown)

    def _refuse(self, label: str, within: Within, step: Step, call: Call, kept: Call) -> None:
        if step is Step.REORDERED:
            self._reordered_in = within.outermost
        self._traces.pop(label, None)
        self.refused[label] = REORDERED if step is Step.REORDERED else SHIFTED
        self._remember(label, within, call, kept)

    def _drop(self, name: str) -> None:
        known = {*self._last, *self.refused}
        for label in [label for label in known if label == name or label.startswith(f"{name}#")]:
            self._forget(label)

    def _forget(self, label: str) -> None:
        self._last.pop(label, None)
        self._traces.pop(label, None)
        self.refused.pop(label, None)

    def _remember(self, label: str, within: Within, call: Call, kept: Call, num_grown: int | None = 0) -> None:
        self._last[label] = _Last(within, call.key.detach(), kept, num_grown)


def _label(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def keep_foreign(call: Call) -> Call:
    """A call as a trace may keep it; keys that are not those of the queries may stand in a cache that is written."""
    if call.shape[2] != call.shape[3]:
        with torch.inference_mode(False), torch.no_grad():
            call = replace(call, key=call.key.clone())
    return keep(call)
