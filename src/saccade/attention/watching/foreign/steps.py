"""Which attention calls of a foreign model belong together: one outermost forward pass, and the steps that continue it.

One outermost forward pass is one set of traces; the next one replaces it. A decoder runs once for each token, though,
and these runs are the rows of one picture. Our own calls say at which row they start. Torch's calls do not, so it is
inferred from the content of the keys. A call continues the last one if its keys are the earlier keys, bit for bit (or
the first of them, if the decoder took some tokens back), followed by those of the new queries; if they are a buffer in
which as many columns were written as there are queries, and these were forbidden before; or, beside an attention that
continues in such a way, if they are the same keys again (cross-attention). Nothing else is joined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.attention.equation import After, Call
from saccade.attention.masks import causal
from saccade.attention.watching.segment import keep
from saccade.attention.watching.trace import FORBIDDEN, Place, Trace

__all__ = ["Gap", "Step", "Steps", "keep_foreign", "step_between"]

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
INTERLEAVED = (
    "forwards over two texts took turns, as in classifier-free guidance, so that its rows would mix them; "
    "watch one forward over the finished output instead"
)

TAKEN_BACK = "it looked at tokens that the decoder took back later; watch one forward over the finished output instead"


NOT_FOLLOWED = Place("unknown", 0, frozenset(), is_whole=False)


class Step(Enum):
    """How a call relates to the one before it."""

    NEW = auto()  # another forward
    GROWN = auto()  # the keys that were there, or the first of them, and those of the new queries
    AGAIN = auto()  # more queries to the same keys
    REORDERED = auto()  # the sequences of the batch changed places, as beam search has them
    SHIFTED = auto()  # old keys were dropped, as a cache with a window does
    IN_TURNS = auto()  # it continues not the forward before it, but the one before that


class Move(NamedTuple):
    """The step, and how many of the last rows it takes back."""

    step: Step
    back: int = 0


def step_between(last: Call, call: Call, is_self: bool = False) -> Move:
    """Classify how this call continues the last recorded one; ``is_self`` if its keys come from the queries' tokens."""
    _, _, num_queries, num_keys = call.shape
    old, new, num_last = last.key, call.key, last.shape[3]
    is_same_form = old.shape[:2] == new.shape[:2] and old.shape[3] == new.shape[3] and old.dtype == new.dtype
    if not is_same_form or last.shape[1] != call.shape[1] or not len(new):
        return Move(Step.NEW)
    num_before = num_keys - num_queries  # keys that are no new ones, if the keys are the tokens of the queries
    if not is_self and num_last == num_keys and torch.equal(old, new):
        return Move(Step.AGAIN)
    if num_before <= 0:
        return Move(Step.NEW)
    if num_last < num_keys and num_last <= num_before:
        # A buffer is longer than what is in it: what is beyond the new keys is forbidden.
        beyond = range(num_last + num_queries, num_keys)
        if beyond and not _forbids(call, beyond):
            return Move(Step.NEW)
        if torch.equal(old, new[:, :, :num_last]):
            return Move(Step.GROWN)
        return Move(Step.REORDERED if _has_all(old, new[:, :, :num_last], 0) else Step.NEW)
    if num_last == num_keys:
        differs = _changed_columns(old, new)
        changed = differs.any(0).nonzero().flatten().tolist()
        if 0 < len(changed) <= num_queries and all(_forbids(last, range(c, c + 1)) for c in changed):
            return Move(Step.GROWN)  # a buffer, written where it was empty
        allowed = num_queries if call.has_rules else 0
        if int(differs.sum(-1).max()) > allowed and _has_all(old, new, allowed):
            return Move(Step.REORDERED)
    if is_self and torch.equal(old[:, :, :num_before], new[:, :, :num_before]):
        return Move(Step.GROWN, num_last - num_before)  # the last tokens were taken back
    was_kept = old[:, :, num_last - num_keys + num_queries :]
    return Move(Step.SHIFTED if _has_all(was_kept, new[:, :, :-num_queries], 0) else Step.NEW)


def _forbids(call: Call, columns: range) -> bool:
    """Whether the last query of each sequence may attend to none of these columns."""
    last = call.shape[2] - 1
    added = call.added(range(last, last + 1), columns, torch.float32)
    return added is not None and bool((added <= FORBIDDEN).all())


def _has_all(old: Float[Tensor, "B G K D"], new: Float[Tensor, "B G K D"], allowed: int) -> bool:
    """Whether each new sequence is one of the old ones, in any order, but for so many columns."""
    return all(int(_changed_columns(old, new[b : b + 1]).sum(-1).min()) <= allowed for b in range(len(new)))


def _changed_columns(old: Float[Tensor, "B G K D"], new: Float[Tensor, "#B G K D"]) -> Bool[Tensor, "B K"]:
    return (old != new).any(dim=3).any(dim=1)


@dataclass(frozen=True)
class Shown:
    """A call that was shown to a watcher."""

    name: str  # of the module
    innermost: int  # the forward that it was made in
    call: Call | str
    kept: Call | str  # as a trace may keep it
    place: Place | None
    is_written_out: bool = False


class Gap(NamedTuple):
    """An attention that ran and cannot be shown."""

    name: str
    reason: str
    place: Place | None
    is_written_out: bool = False


class _Last(NamedTuple):
    """The last call under a label."""

    call: Call
    innermost: int
    num_rows: int  # that it and those before it have
    is_self: bool


class _Forward(NamedTuple):
    """An outermost forward whose traces are kept, and the steps that continue it."""

    module: nn.Module
    numbers: set[int]
    labels: set[str]
    read: set[int]  # the numbers of those that computed what it was given


class Steps:
    """The traces of a watcher's foreign calls: one set for a forward and the steps that continue it."""

    def __init__(self, traces: dict[str, Trace], is_root: Callable[[nn.Module], bool]) -> None:
        self.gaps: dict[str, Gap] = {}  # by label
        self._continues = False  # whether the last forward continues the one before it
        self._traces = traces
        self._is_root = is_root
        self._last: dict[str, _Last] = {}
        self._replaced: dict[str, _Last] = {}  # of the set before this one: it may go on in turns with this one
        self._counts: dict[str, int] = {}  # how many labels a name has
        self._forwards: list[_Forward] = []
        # Of the outermost forward that runs:
        self._number = 0
        self._module: nn.Module | None = None
        self._pending: list[Shown] = []
        self._is_open = False  # whether its first calls have been taken in already
        self._read: set[int] = set()
        self._uses: dict[str, int] = {}  # how many labels of each name are taken
        self._waiting: dict[str, list[Call]] = {}  # plain steps of generation, to be joined into one call

    def see(self, number: int, module: nn.Module, shown: Shown) -> None:
        """A call within this outermost forward."""
        if number != self._number:
            self.end(self._number, set())
            self._number, self._module = number, module
        last = self._pending[-1] if self._pending else None
        if last is None or not _has_same_weights(last, shown):
            self._pending.append(shown)

    def end(self, number: int, read: set[int]) -> bool:
        """An outermost forward has ended; it read what these earlier ones computed. Does it continue the last one?"""
        if not number or number != self._number:
            return False
        if not self._wait():
            self.take_in(read)
        self._number, self._module, self._is_open = 0, None, False
        return self._continues

    def take_in(self, read: set[int]) -> None:
        """Decide what the pending calls are to those that are known, and make traces of them."""
        self._join_waiting()
        pending, self._pending = self._pending, []
        if not pending or self._module is None:
            return
        moves: dict[str, Move] = {}
        if not self._is_open:
            moves = self._moves(self._last, pending)
            self._continues = any(move.step not in (Step.NEW, Step.AGAIN) for move in moves.values())
            if not self._continues:
                moves = self._make_room(self._module, read, pending)
            self._uses = {} if self._continues else dict(self._counts)
            self._enrol(self._module)
            self._is_open = True
        back = max((move.back for move in moves.values()), default=0)
        is_reordered = any(move.step is Step.REORDERED for move in moves.values())
        for shown in pending:
            self._take(shown, moves, back, is_reordered)

    # --- the plain steps of generation, of which there are many ---

    def _wait(self) -> bool:
        """Keep the pending calls for later if all of them are plain steps; False if one is not, and nothing is done.

        A plain step is one query without a mask: to the keys that were there, bit for bit, and its own; or, beside such
        steps, to the same keys as before. A number of such steps becomes one call with as many queries.
        """
        calls: dict[str, tuple[Shown, Call]] = {}
        for shown in self._pending:
            kept, last = shown.kept, self._last.get(shown.name)
            is_plain = isinstance(kept, Call) and shown.place is None and not kept.has_rules and kept.shape[2] == 1
            is_known = last is not None and shown.name in self._traces and self._counts.get(shown.name) == 1
            if self._is_open or not is_plain or not is_known or shown.name in calls:
                return False
            assert isinstance(kept, Call)
            calls[shown.name] = shown, kept
        if self._module is None or not any(_is_grown(self._last[name], call) for name, (_, call) in calls.items()):
            return False
        for name, (_, call) in calls.items():
            if not _is_next(self._last[name], call):
                return False
        self._continues, self._pending = True, []
        self._enrol(self._module)
        for name, (shown, call) in calls.items():
            last = self._last[name]
            if not _is_grown(last, call):
                call = replace(call, key=last.call.key, value=last.call.value)
            self._remember(name, shown, call, last.num_rows, last.is_self)
            self._waiting.setdefault(name, []).append(call)
        if any(len(steps) >= SHARE_EVERY for steps in self._waiting.values()):
            self._join_waiting()
        return True

    def _join_waiting(self) -> None:
        for label, calls in self._waiting.items():
            last = calls[-1]
            query = torch.cat([call.query for call in calls], dim=2)
            is_grown = calls[0].shape[3] < last.shape[3]
            joined = replace(last, query=query, after=_without_gradient(last.after))
            if is_grown:
                joined = replace(joined, mask=causal, first_row=last.shape[3] - len(calls))
            self._traces[label].append(joined)
            if is_grown:
                self._traces[label].share_keys(1)
        self._waiting = {}

    def _moves(self, known: dict[str, _Last], pending: list[Shown]) -> dict[str, Move]:
        """How the first call under each label stands to the one that is known."""
        moves: dict[str, Move] = {}
        uses: dict[str, int] = {}
        for shown in pending:
            if isinstance(shown.call, str):
                continue
            uses[shown.name] = uses.get(shown.name, 0) + 1
            label = label_of(shown.name, uses[shown.name])
            last = known.get(label)
            if last is not None:
                is_self = last.is_self and (shown.place is None or shown.place.source != "cross")
                move = step_between(last.call, shown.call, is_self)
                moves[label] = Move(Step.NEW) if move.back >= last.num_rows else move
        return moves

    def _make_room(self, module: nn.Module, read: set[int], pending: list[Shown]) -> dict[str, Move]:
        """Drop what a new forward replaces: all that its modules may have shown, unless it goes on from there."""
        for known in reversed(self._forwards):
            if not read.isdisjoint(known.numbers):
                read = read | known.read
        self._read = read
        names = {shown.name for shown in pending}
        dropped: dict[str, _Last] = {}
        for known in list(self._forwards):
            is_read = not read.isdisjoint(known.numbers)
            is_other = known.module is not module and not any(label.split("#")[0] in names for label in known.labels)
            if is_read and (is_other or not self._is_root(module)):
                continue
            if known.module is module or _holds(known.module, module) or _holds(module, known.module):
                self._forwards.remove(known)
                for label in known.labels:
                    self._traces.pop(label, None)
                    self.gaps.pop(label, None)
                    if label in self._last:
                        dropped[label] = self._last.pop(label)
        kept = set().union(*(known.labels for known in self._forwards))
        self._counts = {name: count for name, count in self._counts.items() if label_of(name, count) in kept}
        turns = self._moves(self._replaced, pending)
        self._replaced = dropped
        if not any(move.step is Step.GROWN for move in turns.values()):
            return {}
        return {label: Move(Step.IN_TURNS) for label, move in turns.items() if move.step is not Step.NEW}

    def _enrol(self, module: nn.Module) -> None:
        known = next((known for known in self._forwards if known.module is module), None)
        if known is not None and self._continues:
            known.numbers.add(self._number)
            self._forwards.remove(known)  # the last one is that of the labels to come
        else:
            known = _Forward(module, {self._number}, set(), self._read)
        self._forwards.append(known)

    def _take(self, shown: Shown, moves: dict[str, Move], back: int, is_reordered: bool) -> None:
        """Take in one call of the forward that runs."""
        count = self._uses.get(shown.name, 0)
        last = self._last.get(label_of(shown.name, count)) if count else None
        is_later = last is not None and self._number <= last.innermost < shown.innermost
        if last is not None and is_later and not isinstance(shown.call, str):
            # A decoder may make all its steps within one outermost forward.
            move = step_between(last.call, shown.call)
            if move == Move(Step.GROWN):
                self._continue(label_of(shown.name, count), shown, 0)
                return
        self._uses[shown.name] = count + 1
        self._counts[shown.name] = max(count + 1, self._counts.get(shown.name, 0))
        label = label_of(shown.name, count + 1)
        self._forwards[-1].labels.add(label)
        step, own_back = moves.get(label, Move(Step.NEW))
        known = self._last.get(label)
        if isinstance(shown.call, str) or isinstance(shown.kept, str):
            self._refuse(label, str(shown.call), shown)
        elif step is Step.REORDERED or (step is Step.AGAIN and is_reordered):
            self._refuse(label, REORDERED, shown)  # the keys of all beams of a sentence are the same: they do not tell
        elif step is Step.SHIFTED:
            self._refuse(label, SHIFTED, shown)
        elif step is Step.IN_TURNS:
            self._refuse(label, INTERLEAVED, shown)
        elif step is Step.NEW or known is None or (step is Step.AGAIN and back >= known.num_rows):
            self.gaps.pop(label, None)
            self._traces.pop(label, None)  # to stand behind those that ran before it
            self._traces[label] = Trace(label, shown.kept, shown.place or NOT_FOLLOWED)
            self._remember(label, shown, shown.kept, 0)
        else:
            self._continue(label, shown, back if step is Step.AGAIN else own_back)

    def _continue(self, label: str, shown: Shown, back: int) -> None:
        last, kept = self._last[label], shown.kept
        assert isinstance(kept, Call)
        num_grown = kept.shape[3] - last.call.shape[3]
        if num_grown == 0 and torch.equal(last.call.key, kept.key):
            kept = replace(kept, key=last.call.key)  # one copy for all steps that ask the same keys
        if label in self._traces:
            trace = self._traces[label]
            if back and not trace.crop(
                last.num_rows - back, kept.shape[3] - kept.shape[2] if last.is_self else kept.shape[3]
            ):
                self._refuse(label, TAKEN_BACK, shown)
                return
            trace.append(kept)
            if num_grown > 0:
                trace.share_keys(SHARE_EVERY)
        self._remember(label, shown, kept, last.num_rows - back, last.is_self)

    def _refuse(self, label: str, reason: str, shown: Shown) -> None:
        self._traces.pop(label, None)
        self.gaps[label] = Gap(shown.name, reason, shown.place, shown.is_written_out)
        if isinstance(shown.kept, Call):
            self._remember(label, shown, shown.kept, 1 << 40)
        else:
            self._last.pop(label, None)

    def _remember(self, label: str, shown: Shown, kept: Call, rows_before: int, is_self: bool | None = None) -> None:
        if is_self is None:
            is_self = shown.place is not None and shown.place.source == "self"
        self._last[label] = _Last(kept, shown.innermost, rows_before + kept.shape[2], is_self)


def _without_gradient(after: After | None) -> After | None:
    """What becomes of several calls: they have one W_O, but a gradient each."""
    return None if after is None else After(after.projection, after.version)


def _is_grown(last: _Last, call: Call) -> bool:
    return call.shape[3] == last.call.shape[3] + 1


def _is_next(last: _Last, call: Call) -> bool:
    """Whether a plain step has the keys and values of the last one, and perhaps one more of each."""
    count, before = last.call.shape[3], last.call
    if before.key.dtype != call.key.dtype or (before.value is None) != (call.value is None):
        return False
    if not _is_grown(last, call) and (last.is_self or call.shape[3] != count):
        return False
    pairs = [(before.key, call.key)]
    if before.value is not None and call.value is not None:
        pairs.append((before.value, call.value))
    return before.shape[1] == call.shape[1] and all(torch.equal(old, new[:, :, :count]) for old, new in pairs)


def label_of(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def _holds(outer: nn.Module, inner: nn.Module) -> bool:
    return any(part is inner for part in outer.modules())


def _has_same_weights(one: Shown, other: Shown) -> bool:
    """Whether two calls of one forward differ in their values alone, as where the values are wider than the keys."""
    if one.innermost != other.innermost or isinstance(one.call, str) or isinstance(other.call, str):
        return False
    parts = [
        (call.query, call.key, call.bias, type(call.mask), *(call.mask.tensors() if call.mask is not None else ()))
        for call in (one.call, other.call)
    ]
    scales = [getattr(call.score, "scale", None) for call in (one.call, other.call)]
    return scales[0] == scales[1] and len(parts[0]) == len(parts[1]) and all(map(_same_tensor, *parts))


def _same_tensor(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one is other


def keep_foreign(call: Call, is_step: bool) -> Call:
    """Return a call that a trace can keep.

    Keys that are not those of the queries may be in a cache that is written to, so they are copied, except in a step of
    generation whose cache is a new tensor each time.
    """
    is_fresh = is_step and _is_fresh(call.key) and (call.value is None or _is_fresh(call.value))
    if call.shape[2] != call.shape[3] and not is_fresh:
        with torch.inference_mode(False), torch.no_grad():
            value = None if call.value is None else call.value.clone()
            call = replace(call, key=call.key.clone(), value=value)
    return keep(call)


def _is_fresh(tensor: Tensor) -> bool:
    """Whether nobody has ever written into this tensor, as into a cache that is a buffer; a later write is noticed."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return whole and not tensor.is_inference() and tensor._version == 0
