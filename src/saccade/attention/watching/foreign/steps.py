"""Groups the attention calls of models from other libraries: one outermost forward pass, and the steps continuing it.

Each outermost forward pass makes a new set of traces, which replaces the previous set. But a decoder runs once for each
token, and all these runs together give the rows of one attention matrix. Calls of Saccade's own layers say at which row
they start. Calls of torch's attention do not, so the keys are compared to find it out (``relation``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.lineage import LOST
from saccade.attention.watching.foreign.plain_steps import PlainSteps, is_plain
from saccade.attention.watching.foreign.relation import Move, Relation, step_between
from saccade.attention.watching.segment import Fingerprint, keep
from saccade.attention.watching.trace import Place, Trace

__all__ = ["Gap", "Shown", "Steps"]

#: Each step of a growing cache has all keys again. After this many steps, the steps share one copy of the keys.
SHARE_EVERY = 32

REORDERED = (
    "the sequences of its batch were reordered or replaced between the steps, as in beam search, so its rows would mix "
    "several sequences; watch one forward pass over the finished output instead"
)
SHIFTED = (
    "its cache dropped old keys between the steps, so a column would stand for different tokens in different rows; "
    "watch one forward pass over the finished output instead"
)
INTERLEAVED = (
    "forward passes over two texts alternated, as in classifier-free guidance, so its rows would mix the two texts; "
    "watch one forward pass over the finished output instead"
)

TAKEN_BACK = (
    "it attended to tokens that the decoder later discarded; watch one forward pass over the finished output instead"
)

#: The name of the part of a forward pass that has not run, because of an error or not yet.
REST = "the rest of the forward pass"
RUNNING = "the forward pass is still running"
BROKEN_OFF = "the forward pass ended with an error before it was finished"
FROM_CACHE = "a cached state of earlier tokens"
NOT_FOLLOWED = Place("unknown", 0, frozenset(), is_whole=False)


class Shown(NamedTuple):
    """An attention call of a module from another library that was shown to a watcher."""

    name: str  # of the module
    innermost: int  # the number of the innermost forward pass that made the call
    call: Call | str  # the call, or the reason why it cannot be shown
    place: Place | None
    is_written_out: bool = False
    fingerprint: Fingerprint | None = None  # of the call as it was kept, to notice later changes to its tensors
    is_plain: bool = False  # True if ``call`` is a plain step (``plain_steps``) that has only its new keys
    has_chosen_cache: bool = False  # True if the cache was replaced before this forward pass


class Gap(NamedTuple):
    """An attention call that ran but cannot be shown, with the reason."""

    name: str
    reason: str
    place: Place | None
    is_written_out: bool = False


class _LastShown(NamedTuple):
    """The last call that was recorded for a label, which is the name of a trace."""

    call: Call
    innermost: int
    num_rows: int  # the rows of this call and of the calls that it continues
    is_self: bool


class _Forward(NamedTuple):
    """An outermost forward pass whose traces are kept, and the steps that continue it."""

    module: nn.Module
    numbers: set[int]  # of the pass and its steps
    labels: set[str]  # of its traces and gaps
    read: set[int]  # the numbers of the forward passes that computed its inputs


class Steps:
    """Makes the traces of other libraries' modules: one set for a forward pass and all steps that continue it."""

    def __init__(self, traces: dict[str, Trace], is_root: Callable[[nn.Module], bool], keeps_values: bool) -> None:
        self.gaps: dict[str, Gap] = {}  # by label
        self.is_broken = False  # whether the traces are from a forward pass that ended with an error
        self.has_failed = False  # whether a forward pass after that of the traces ended with an error
        self._continues = False  # whether the last forward pass continues the pass before it
        self._traces = traces
        self._is_root = is_root
        self._keeps_values = keeps_values
        self._last: dict[str, _LastShown] = {}
        self._replaced: dict[str, _LastShown] = {}  # of the replaced traces, which the next pass may continue
        self._counts: dict[str, int] = {}  # how many labels each module name has
        self._forwards: list[_Forward] = []
        # Of the outermost forward pass that is running:
        self._number = 0
        self._module: nn.Module | None = None
        self._pending: list[Shown] = []
        self._is_open = False  # whether some of its calls have been added to the traces already
        self._read: set[int] = set()
        self._uses: dict[str, int] = {}  # how many labels of each module name are in use
        self._plain: dict[str, PlainSteps] = {}  # by module name; the steps are later joined into one call

    def see(self, number: int, module: nn.Module, shown: Shown) -> None:
        """Note a call that was made in the outermost forward pass with this number."""
        if number != self._number:
            self.end(self._number, set())
            self._number, self._module = number, module
        shown = self._kept(shown)
        if self._pending and self._is_same(self._pending[-1], shown):
            self._pending[-1] = self._without_other_values(self._pending[-1], shown)
        else:
            self._pending.append(shown)

    def _kept(self, shown: Shown) -> Shown:
        """Return a call with copies of the tensors that may be overwritten; changes to the others will be noticed."""
        if isinstance(shown.call, str):
            return shown
        if shown.place is None and not self._is_open and not shown.has_chosen_cache and is_plain(shown.call):
            steps, last = self._plain.get(shown.name), self._last.get(shown.name)
            is_known = last is not None and shown.name in self._traces and self._counts.get(shown.name) == 1
            if steps is None and last is not None and is_known:
                steps = self._plain[shown.name] = PlainSteps(last.call, SHARE_EVERY, last.is_self)
            step = None if steps is None else steps.read(shown.call)
            if step is not None:
                return shown._replace(call=step, is_plain=True)
        call = keep_foreign(shown.call if self._keeps_values else replace(shown.call, value=None, after=None))
        return shown._replace(call=call, fingerprint=Fingerprint(call))

    def _whole(self, shown: Shown) -> Shown:
        if not shown.is_plain or isinstance(shown.call, str):
            return shown
        call = self._plain[shown.name].whole(shown.call)
        return shown._replace(call=call, fingerprint=Fingerprint(call), is_plain=False)

    def _is_same(self, one: Shown, other: Shown) -> bool:
        """Return whether two calls of one module differ only in their values, as when values are wider than keys."""
        is_same = one.innermost == other.innermost
        if not is_same or isinstance(one.call, str) or isinstance(other.call, str):
            return False
        if one.is_plain != other.is_plain:
            return self._is_same(self._whole(one), self._whole(other))
        if one.fingerprint is not None and other.fingerprint is not None:
            is_same = one.fingerprint.is_same(other.fingerprint)  # one may have been overwritten since
        return is_same and has_same_weights(one.call, other.call)

    def _without_other_values(self, one: Shown, other: Shown) -> Shown:
        """Return one call for two that differ at most in their values; it has no values if these differ."""
        values = [shown.call.value for shown in (one, other) if isinstance(shown.call, Call)]
        if all(value is None for value in values) or _same_tensor(*values):
            return one
        one = self._whole(one)
        assert isinstance(one.call, Call)
        call = replace(one.call, value=None, after=None)
        return one._replace(call=call, fingerprint=Fingerprint(call))

    def end(self, number: int, read: set[int], is_finished: bool = True) -> bool:
        """Note the end of an outermost forward pass; return whether it continues the pass before it.

        ``read`` holds the numbers of the earlier forward passes whose results it used.
        """
        if not number or number != self._number:
            return False
        if not is_finished:
            self._break_off(read)
        else:
            self.has_failed = False
            if not self._wait():
                self.take_in(read)
        self._number, self._module, self._is_open = 0, None, False
        return self._continues

    def take_in(self, read: set[int]) -> None:
        """Add the pending calls to the traces: each as new rows of a trace that it continues, or as a new trace."""
        pending, self._pending = [self._whole(shown) for shown in self._pending], []
        self._join_plain()
        if not pending or self._module is None:
            return
        moves: dict[str, Move] = {}
        if not self._is_open:
            moves = self._moves(self._last, pending)
            self._continues = any(move.step not in (Relation.NEW, Relation.AGAIN) for move in moves.values())
            if not self._continues:
                self.is_broken = False
                moves = self._make_room(self._module, read, pending)
            self._uses = {} if self._continues else dict(self._counts)
            self._enrol(self._module)
            self._is_open = True
        back = max((move.back for move in moves.values()), default=0)
        is_reordered = any(move.step is Relation.REORDERED for move in moves.values())
        for shown in pending:
            self._take(shown, moves, back, is_reordered)

    def _break_off(self, read: set[int]) -> None:
        """End a forward pass that failed: keep the traces of the last complete pass if there are any, otherwise those
        of the failed pass."""
        self._continues = False
        if self._traces and not self.is_broken and not self._is_open:
            self._pending, self.has_failed = [], True
            return
        self.take_in(read)
        if self._forwards:
            self.is_broken = True
            self._forwards[-1].labels.add(REST)
            self.gaps[REST] = self._rest(BROKEN_OFF)

    def _rest(self, reason: str) -> Gap:
        """Return a gap for the part of a forward pass that has not run, which comes after all its attentions."""
        numbers = frozenset(trace.place.number for trace in self._traces.values() if trace.place is not None)
        return Gap(REST, reason, Place("unknown", -2, numbers, is_whole=False))

    @property
    def all_gaps(self) -> dict[str, Gap]:
        """The calls that cannot be shown, by name; during a forward pass, also an entry for what has yet to run."""
        return self.gaps | {REST: self._rest(RUNNING)} if self._is_open else self.gaps

    def _wait(self) -> bool:
        """Return whether the forward pass made only plain steps (``plain_steps``), at least one of them with a new key.

        Then its calls are stored, and are added to the traces later, several steps at a time.
        """
        calls = [shown.call for shown in self._pending if shown.is_plain and isinstance(shown.call, Call)]
        are_plain = len(calls) == len(self._pending) == len({shown.name for shown in self._pending})
        if self._module is None or not are_plain or not any(call.shape[3] for call in calls):
            return False
        self._continues = True
        self._enrol(self._module)
        for shown, call in zip(self._pending, calls, strict=True):
            self._plain[shown.name].add(call)
            self._last[shown.name] = self._last[shown.name]._replace(innermost=shown.innermost)
        self._pending = []
        if any(len(steps) >= SHARE_EVERY for steps in self._plain.values()):
            self._join_plain()
        return True

    def _join_plain(self) -> None:
        for name, steps in self._plain.items():
            if len(steps):
                joined, last = steps.joined(), self._last[name]
                self._traces[name].append(joined)
                if joined.mask is not None:
                    self._traces[name].share_keys(1)
                self._last[name] = last._replace(call=joined, num_rows=last.num_rows + len(steps))
        self._plain = {}

    def _moves(self, known: dict[str, _LastShown], pending: list[Shown]) -> dict[str, Move]:
        """Return, for each label, how its first call in this forward pass follows on from the call in ``known``.

        Labels without a call in ``known`` are left out.
        """
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
                if shown.has_chosen_cache and move == Move(Relation.GROWN):
                    move = Move(Relation.REORDERED)
                moves[label] = Move(Relation.NEW) if move.back >= last.num_rows else move
        return moves

    def _make_room(self, module: nn.Module, read: set[int], pending: list[Shown]) -> dict[str, Move]:
        """Remove the traces that a new forward pass replaces: those of its modules, unless it used their results.

        If the new pass continues the traces that the last pass replaced, two texts take turns: return ``IN_TURNS`` for
        the label of each call concerned. Otherwise return an empty dictionary.
        """
        for known in reversed(self._forwards):
            if not read.isdisjoint(known.numbers):
                read = read | known.read
        self._read = read
        names = {shown.name for shown in pending}
        dropped: dict[str, _LastShown] = {}
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
        if not any(move.step is Relation.GROWN for move in turns.values()):
            return {}
        return {label: Move(Relation.IN_TURNS) for label, move in turns.items() if move.step is not Relation.NEW}

    def _enrol(self, module: nn.Module) -> None:
        known = next((known for known in self._forwards if known.module is module), None)
        if known is not None and self._continues:
            known.numbers.add(self._number)
            self._forwards.remove(known)  # it becomes the last of the list, to which new labels are added
        else:
            known = _Forward(module, {self._number}, set(), self._read)
        self._forwards.append(known)

    def _take(self, shown: Shown, moves: dict[str, Move], back: int, is_reordered: bool) -> None:
        """Add one call of the running forward pass to the traces."""
        count = self._uses.get(shown.name, 0)
        last = self._last.get(label_of(shown.name, count)) if count else None
        is_later = last is not None and self._number <= last.innermost < shown.innermost
        if last is not None and is_later and not isinstance(shown.call, str):
            # A decoder may make all its steps within one outermost forward pass.
            move = step_between(last.call, shown.call)
            if move == Move(Relation.GROWN):
                self._continue(label_of(shown.name, count), shown, 0)
                return
        self._uses[shown.name] = count + 1
        self._counts[shown.name] = max(count + 1, self._counts.get(shown.name, 0))
        label = label_of(shown.name, count + 1)
        self._forwards[-1].labels.add(label)
        step, own_back = moves.get(label, Move(Relation.NEW))
        known = self._last.get(label)
        if isinstance(shown.call, str):
            self._refuse(label, shown.call, shown)
        elif step is Relation.REORDERED or (step is Relation.AGAIN and is_reordered):
            self._refuse(label, REORDERED, shown)  # the beams of a sentence share these keys, which thus look unchanged
        elif step is Relation.SHIFTED:
            self._refuse(label, SHIFTED, shown)
        elif step is Relation.IN_TURNS:
            self._refuse(label, INTERLEAVED, shown)
        elif step is Relation.NEW or known is None or (step is Relation.AGAIN and back >= known.num_rows):
            self.gaps.pop(label, None)
            self._traces.pop(label, None)  # so that the traces stay in the order of the calls
            self._traces[label] = Trace(label, shown.call, shown.place or NOT_FOLLOWED, shown.fingerprint)
            self._remember(label, shown, shown.call, 0)
        else:
            self._continue(label, shown, back if step is Relation.AGAIN else own_back)

    def _continue(self, label: str, shown: Shown, back: int) -> None:
        last, kept = self._last[label], shown.call
        assert isinstance(kept, Call)
        assert shown.fingerprint is not None
        num_grown = kept.shape[3] - last.call.shape[3]
        if num_grown == 0 and torch.equal(last.call.key, kept.key):
            kept = replace(kept, key=last.call.key)  # one copy for all steps with the same keys
            shown.fingerprint.move(kept)
        if label in self._traces:
            trace = self._traces[label]
            if back and not trace.crop(
                last.num_rows - back, kept.shape[3] - kept.shape[2] if last.is_self else kept.shape[3]
            ):
                self._refuse(label, TAKEN_BACK, shown)
                return
            trace.append(kept, shown.fingerprint)
            trace.place = _with_step(trace.place, shown.place)
            if num_grown > 0:
                trace.share_keys(SHARE_EVERY)
        self._remember(label, shown, kept, last.num_rows - back, last.is_self)

    def _refuse(self, label: str, reason: str, shown: Shown) -> None:
        self._traces.pop(label, None)
        self.gaps[label] = Gap(shown.name, reason, shown.place, shown.is_written_out)
        if isinstance(shown.call, Call):
            self._remember(label, shown, shown.call, 1 << 40)
        else:
            self._last.pop(label, None)

    def _remember(self, label: str, shown: Shown, kept: Call, rows_before: int, is_self: bool | None = None) -> None:
        if is_self is None:
            is_self = shown.place is not None and shown.place.source == "self"
        self._last[label] = _LastShown(kept, shown.innermost, rows_before + kept.shape[2], is_self)


def _with_step(place: Place | None, step: Place | None) -> Place | None:
    """Return the place of a trace after a step was added to it.

    If a step uses a cached state of earlier tokens before its attention, as a recurrent layer does, its rows are not
    computed from their own tokens alone. The first forward pass over a text of one token does not show this.
    """
    if place is None or step is None or LOST not in step.before or LOST in place.before:
        return place
    return place._replace(before=place.before | {LOST, step.number}, is_in_order=False, change=FROM_CACHE)


def label_of(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def _holds(outer: nn.Module, inner: nn.Module) -> bool:
    return any(part is inner for part in outer.modules())


def has_same_weights(one: Call, other: Call) -> bool:
    """Return whether two calls have the same queries, keys, scale, mask and bias."""
    parts = [
        (call.query, call.key, call.bias, type(call.mask), *(call.mask.tensors() if call.mask is not None else ()))
        for call in (one, other)
    ]
    scales = [getattr(call.score, "scale", None) for call in (one, other)]
    return scales[0] == scales[1] and len(parts[0]) == len(parts[1]) and all(map(_same_tensor, *parts))


def _same_tensor(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return one is other


def keep_foreign(call: Call) -> Call:
    """Return a call that a trace can keep, with copies of what is likely to be overwritten.

    These are tensors that were already written in place, such as a buffer that several layers use, and keys and values
    if there are not as many as queries, because they may then be in a cache.
    """
    is_cache = call.shape[2] != call.shape[3]
    with torch.inference_mode(False), torch.no_grad():
        query = _copied(call.query, False)
        key = _copied(call.key, is_cache)
        value = None if call.value is None else _copied(call.value, is_cache)
    return keep(replace(call, query=query, key=key, value=value))


def _copied(tensor: Tensor, is_cache: bool) -> Tensor:
    return tensor.clone() if is_cache or (not tensor.is_inference() and tensor._version) else tensor
