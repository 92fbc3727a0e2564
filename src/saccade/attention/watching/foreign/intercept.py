"""Where the attention calls of other people's models are intercepted, to watch them and to edit them.

While a model is watched or edited, two things are known about the thread: which modules are running (``Forwards``,
through hooks that all modules share), and every function of torch that is called (``Mode``, a torch function mode).
Every call of torch's attention goes through ``Forwards.attention``. It runs unchanged, or with the changes of an edit
(``editing``), and its arguments are then translated into a ``Call`` of ours (``call``). All other functions only pass
on where their rows come from (``lineage``).

A mode makes torch's own ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` leave the fast path that they
normally take. So the mode is removed while these run, and their queries and keys are computed a second time from their
arguments (``torch_modules``): their output stays the same. If anything about such a module is not torch's own, its
calls are watched instead, or, if it might take the fast path, the kernels that run. A module that is edited leaves the
fast path, because nothing can be changed inside that.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from saccade.attention.equation import Call
from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.call import SDPA, call_of_sdpa
from saccade.attention.watching.foreign.direct import stored_forward, unwrap_forwards, wrap_forwards
from saccade.attention.watching.foreign.editing import CallStep, bound_sdpa, cached_positions, cannot, run_edited
from saccade.attention.watching.foreign.folding import FOLDED, Fold, fold_of, heads_differ
from saccade.attention.watching.foreign.lineage import CONSTANT, KeySource, Lineage, Marks, source_of
from saccade.attention.watching.foreign.projection import Followed, after_module, follow
from saccade.attention.watching.foreign.rows import Positions, agree, are_distinct, order_of
from saccade.attention.watching.interventions import Target, active_edits, is_backward, targets_of
from saccade.attention.watching.trace import Place
from saccade.errors import OptionError

__all__ = ["Forwards", "RunningModule", "Seen", "add_hooks", "is_foreign", "remove_hooks"]

#: Modules of these packages call no attention of torch's, or record their calls themselves.
PLAIN_MODULES = ("torch.nn.modules.", "torch._dynamo.", "saccade.")
#: The one place of ours that calls torch's attention; it records and edits its calls itself.
OWN_CALLER = "saccade.attention.attend"

QK = ("query", "key")
WRITTEN_OUT = "it is written out with a softmax, which does not show its queries and keys"
NOT_THE_TEXT = "its rows are not the positions of the text: they are parts of it, such as windows, or were reordered"
OTHER_KERNEL = "it is computed by {}, which does not show its weights; use scaled_dot_product_attention to see it"
STORED = (
    "The forward method of a {} was stored before the model was watched or edited, and would now take another path, "
    "with another output; call the module itself, or store its forward within the block."
)
HOOK = "a hook inside torch's module"
#: Arguments of these types are no cache.
SIMPLE = (Tensor, bool, int, float, str, type(None), torch.dtype, torch.device)


class Way(Enum):
    """How the attention of a running module is seen."""

    CALLS = auto()  # by the functions that it calls
    MODULE = auto()  # by the arguments of the module, which is torch's own
    KERNELS = auto()  # by the kernels that run, because a mode might make torch's module leave its fast path


class Audience(Protocol):
    """The watchers of this thread."""

    def is_present(self) -> bool: ...

    def wants(self, module: nn.Module) -> bool: ...

    def wants_values(self) -> bool: ...

    def is_root(self, module: nn.Module) -> bool: ...

    def show(self, runs: list[RunningModule], seen: Seen) -> None: ...

    def stray(self) -> None: ...

    def lose(self) -> None: ...

    def end(self, run: RunningModule) -> None: ...


@dataclass(slots=True)
class RunningModule:
    """A module whose forward is running."""

    number: int  # unique
    module: nn.Module
    way: Way
    mode_place: int | None = None  # where the mode was in the stack before
    is_watched: bool = False  # whether it is part of a watched model, or runs within one
    has_entered: bool = False  # whether modes were added or removed for it
    marks: Marks | None = None  # for one of torch's modules: those of what it has computed so far
    rows: Positions | None = None  # for one of torch's modules: those of what it was given
    given: tuple[Any, ...] = ()  # for one of torch's modules: its arguments, before hooks of its own changed them
    cached: int | str = 0  # for an outermost run that is edited: see ``cached_positions``
    attended: list[nn.Module] = field(default_factory=list)  # the modules inside that have called attention


class Seen(NamedTuple):
    """An attention of a module that is not part of Saccade."""

    call: Call | str  # or why it cannot be shown
    module: nn.Module
    place: Place | None  # None if nothing is followed: a step that is assumed to continue the last one
    is_written_out: bool = False


class _Use(NamedTuple):
    """The last edited call of a module."""

    outermost: int
    innermost: int
    number: int  # within its outermost run, counted from 1
    query: Tensor
    key: Tensor


_numbers = itertools.count(1)


def is_foreign(module: nn.Module) -> bool:
    """Whether this module may compute attention that only an interception can see."""
    return not type(module).__module__.startswith(PLAIN_MODULES) or isinstance(module, torch_modules.FAST)


class Forwards(threading.local):
    """The modules that are running in this thread, while someone watches or edits them."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._num_users = 0  # watchers and edits of this thread
        self.runs: list[RunningModule] = []
        self._last_number = 0
        self._mode = Mode(self)
        self._kernels: Kernels | None = None
        self.lineage = Lineage()
        self.continues = False  # whether the last forward was a step that continues the one before it
        self._passed: tuple[object, ...] = ()  # what the last outermost forward was given besides tensors and numbers
        self._uses: dict[int, _Use] = {}
        self._folds: dict[int, Fold | None] = {}  # of the last call of each module whose rows were followed
        self.followed: Followed | None = None  # the output of the last call

    def start(self) -> None:
        """Start intercepting, because a watcher or an edit begins in this thread."""
        if not self._num_users:
            self.runs.clear()  # a watcher of another thread may have taken the hooks away while a module ran here
        self._num_users += 1
        if torch_place(self._mode) is None:
            put_in(self._mode, num_modes())

    def stop(self) -> None:
        """Stop intercepting for one watcher or edit; after the last one, no mode is left."""
        self._num_users -= 1
        if self._num_users > 0:
            return
        while self.runs:
            self._leave(self.runs.pop())
        self._passed, self.continues, self._uses, self._folds, self.lineage = (), False, {}, {}, Lineage()
        self.followed = None
        take_out(self._mode)

    # --- hooks ---

    def begin(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """A forward pre-hook, which torch gives no named arguments: they are in the frame that calls it."""
        needs_named = not self.runs or isinstance(module, torch_modules.FAST)
        self._begin(module, arguments, sys._getframe(1).f_locals.get("kwargs") if needs_named else None)

    def direct(
        self, module: nn.Module, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Run the forward of one of torch's modules; if no hook has reported it, report it as the hooks would."""
        if self.runs and self.runs[-1].module is module:
            return forward(module, *arguments, **named)
        self._begin(module, arguments, named)
        try:
            output = forward(module, *arguments, **named)
        except BaseException:
            self.end(module, arguments, None)
            raise
        self.end(module, arguments, named, output)
        return output

    def _begin(self, module: nn.Module, arguments: tuple[Any, ...], named: object) -> None:
        is_watched, is_edited = self._audience.wants(module), False
        for edit in active_edits():
            if id(module) in edit.modules:
                edit.has_run = is_edited = True
        if is_edited and is_backward():
            targets_of(module)  # refuses a target, whose calls the mode does not see during backward()
        is_fast = isinstance(module, torch_modules.FAST)
        if not is_fast and not is_watched and not is_edited:
            return
        if is_fast and torch_place(self._mode) is not None:
            self._check_direct(sys._getframe(1))
        run, runs = RunningModule(next(_numbers), module, _way_of(module) if is_fast else Way.CALLS), self.runs
        run.is_watched = is_watched or any(outer.is_watched for outer in runs)
        if not runs:
            self._begin_outermost(run, arguments, named, is_watched)
        self._last_number = run.number
        if is_fast or (runs and runs[-1].way is not Way.CALLS and is_foreign(module)):
            self._enter(run)
        if is_fast and self.lineage.is_on:
            inputs = [part for part in arguments[:1] if isinstance(part, Tensor)]
            marks = self.lineage.marks(inputs[0]) if inputs else None
            run.marks = marks if marks is not None or not runs else runs[-1].marks
            run.given = (*arguments, *(named.values() if isinstance(named, dict) else ()))
            run.rows = self._given_rows(run, inputs[0] if inputs else None)
        runs.append(run)

    def _check_direct(self, caller: FrameType | None) -> None:
        """Refuse a forward of torch's that was stored before it could be wrapped, if the mode cost it its fast path."""
        module = stored_forward(caller, torch_modules.FAST, [run.module for run in self.runs])
        if module is not None and torch_modules.may_be_fast(module):
            raise OptionError(STORED.format(type(module).__name__))

    def _begin_outermost(self, run: RunningModule, arguments: tuple[Any, ...], named: object, is_watched: bool) -> None:
        """Decide whether lineages are needed: a step that is given the same cache as the last one continues it."""
        named = named if isinstance(named, dict) else {}
        passed = (run.module, *(part for part in (*arguments, *named.values()) if not isinstance(part, SIMPLE)))
        if active_edits():
            run.cached = cached_positions(passed[1:])
            self.lineage.note_inputs((arguments, named))
        is_step = self.continues and len(passed) > 1 and len(passed) == len(self._passed)
        is_step = is_step and all(a is b for a, b in zip(passed, self._passed, strict=True))
        self.lineage.is_on = (is_watched or bool(active_edits())) and not is_step
        self._passed, self.continues = passed, False
        if self.lineage.is_on:
            is_root = self._audience.is_root(run.module)
            self.lineage.begin(run.number, run.module, (arguments, named), joins=not is_root)

    def end(self, module: nn.Module, arguments: tuple[Any, ...], *result: Any) -> None:
        """A forward hook that is given the named arguments and the output, or after an error only the output."""
        runs = self.runs
        for run in reversed(runs):
            if run.module is module:
                break
        else:
            return
        try:
            if runs[-1] is run and len(result) == 2:
                self._end_own(run, arguments, *result)
        finally:
            while True:  # an interrupted forward pass may have left its run behind
                run = runs.pop()
                self._leave(run)
                with torch._C.DisableTorchFunction():  # the mode need not see what we compute
                    self._audience.end(run)
                if run.module is module:
                    break

    def _end_own(self, run: RunningModule, arguments: tuple[Any, ...], named: dict[str, Any], output: object) -> None:
        """Show torch's own attention, known only after it has run, and check that an edit changed something."""
        is_attention = isinstance(run.module, (nn.MultiheadAttention, nn.TransformerEncoderLayer))
        if active_edits():
            if is_attention and run.way is not Way.CALLS:
                for outer in self.runs:
                    if outer is not run:
                        outer.attended.append(run.module)
            _check_edited(run)
        if run.way is Way.CALLS:
            return
        given = (*arguments, *named.values())
        if len(given) != len(run.given) or any(a is not b for a, b in zip(given, run.given, strict=True)):
            run.rows = None
        if run.way is Way.MODULE and run.is_watched:
            self._see_torch_module(run, arguments, named, output[0] if isinstance(output, tuple) else None)
        elif run.way is Way.MODULE and is_attention:
            self._audience.stray()
        result = output[0] if isinstance(output, tuple) else output
        if self.lineage.is_on and isinstance(result, Tensor):
            self.lineage.set(result, run.marks)
            if run.rows is None or run.way is not Way.MODULE:
                self.lineage.rows.replace(result, HOOK)
            elif not result.is_nested:
                query = _argument("src" if "src" in named else "query", 0, arguments, named)
                self.lineage.rows.attended(query, result, torch_modules.is_turned(run.module))

    def _enter(self, run: RunningModule) -> None:
        """Add or remove the modes as this run needs them."""
        run.mode_place = take_out(self._mode)
        if run.way is Way.CALLS:
            put_in(self._mode, num_modes() if run.mode_place is None else run.mode_place)
        elif run.way is Way.KERNELS and self._kernels is None:
            self._kernels = Kernels(self)
            self._kernels.__enter__()  # type: ignore[no-untyped-call]
        run.has_entered = True

    def _leave(self, run: RunningModule) -> None:
        if run.has_entered:
            take_out(self._mode)
            if run.mode_place is not None:
                put_in(self._mode, run.mode_place)
            if self._kernels is not None and not any(outer.way is Way.KERNELS for outer in self.runs):
                self._kernels.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                self._kernels = None

    # --- what is seen ---

    def attention(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], caller: FrameType | None
    ) -> Any:
        """Run a call of torch's attention: every one of them comes through here."""
        if _is_own(caller):
            output = function(*arguments, **named)
            if self.lineage.is_on:
                query = _argument("query", 0, arguments, named)
                self.lineage.attended(self.lineage.marks(query), output)
                self.lineage.rows.attended(query, output)
            return output
        if function is not SDPA:
            self._check_direct(caller)
        module = self.runs[-1].module if self.runs else None
        targets = targets_of(module)
        if module is not None and targets:
            if function is SDPA:
                self._check_layout(module, _argument("query", 0, arguments, named), targets)
            step = self._step(module, *(_argument(name, place, arguments, named) for place, name in enumerate(QK)))
            output, named = run_edited(function, arguments, named, targets, step)
            arguments = ()
        else:
            output = function(*arguments, **named)
        if module is not None and active_edits():
            for run in self.runs:
                run.attended.append(module)
        if not self._audience.is_present():
            return output
        if module is None:
            self._audience.stray()
            return output
        query, key = (_argument(name, place, arguments, named) for place, name in enumerate(QK))
        is_sdpa = function is SDPA
        call = (call_of_sdpa if is_sdpa else torch_modules.call_of_function)(*arguments, **named)
        result = output[0] if isinstance(output, tuple) else output
        self.followed, fold = None, None
        if is_sdpa and isinstance(call, Call):
            fold = self._fold(module, query)
            if fold is not None and fold.is_plain(query):
                fold = None
            elif fold is not None:
                call = fold.call_of_sdpa(bound_sdpa(arguments, named))
            elif call.shape[1] == 1 and self._may_fold(query):
                call = FOLDED
        if is_sdpa and isinstance(call, Call) and self._audience.wants_values():
            after, self.followed = follow(call, result, fold)
            call = replace(call, after=after)
        self._show(call, module, query, key, result, fold, is_turned=not is_sdpa and query.ndim == 3)
        return output

    def _fold(self, module: nn.Module, query: Tensor) -> Fold | None:
        """Return how the texts and heads of a call are laid out; None if nothing tells.

        A step whose rows are not followed has the layout of the step before it.
        """
        if not self.lineage.is_on:
            known = self._folds.get(id(module))
            return known if known is None or known.fits(query) else None
        with torch._C.DisableTorchFunction():
            fold = self._folds[id(module)] = fold_of(self.lineage.rows.of(query))
        return fold

    def _check_layout(self, module: nn.Module, query: Tensor, targets: Sequence[Target]) -> None:
        """Refuse to edit a call in which the number of a head or of a row may stand for something else."""
        fold = self._fold(module, query)
        if self._may_fold(query) if fold is None else not fold.is_plain(query):
            raise cannot(targets[0].name, FOLDED)
        if not self.lineage.is_on:
            return
        with torch._C.DisableTorchFunction():
            if heads_differ(self.lineage.rows.of(query)):
                raise cannot(targets[0].name, FOLDED)
        if any(target.needs_positions for target in targets):
            rows = self.lineage.rows.positions(query, False, None)
            is_whole = self.lineage.has_batch(query.shape[0], query.shape[-2])
            if rows is not None and not order_of(rows, rows, is_whole).is_in_order:
                raise cannot(targets[0].name, NOT_THE_TEXT)

    def _may_fold(self, query: Tensor) -> bool:
        heads = query.shape[1] if query.ndim == 4 else 1
        return query.ndim in (3, 4) and self.lineage.may_fold(query.shape[0], heads, query.shape[-2])

    def _step(self, module: nn.Module, query: Tensor, key: Tensor) -> CallStep:
        """Where in the forward pass an edited call is made."""
        last, outermost, innermost = self._uses.get(id(module)), self.runs[0], self.runs[-1].number
        number, continues = 1, False
        if last is not None and last.outermost != outermost.number:
            continues = _continues(last, query, key)
        if last is not None and last.outermost == outermost.number:
            # Two calls that differ in their values alone (DiffLlama) are one attention.
            is_same = last.innermost == innermost and torch.equal(last.query, query) and torch.equal(last.key, key)
            number = last.number + (not is_same)
        query, key = (part.detach().clone() for part in (query, key))  # the caller may overwrite them
        self._uses[id(module)] = _Use(outermost.number, innermost, number, query, key)
        return CallStep(outermost.cached, number, None if last is None else last.key, continues)

    def other(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], output: object
    ) -> None:
        """Pass on where rows come from; an attention that is written out is recognised by its softmax."""
        found = self.lineage.follow(function, arguments, named, output)
        if self.lineage.is_lost:
            self._audience.lose()
            self.lineage.is_lost = False
        if found is not None and self.runs:
            place = Place("unknown", *found, is_whole=False)
            self._audience.show(self.runs, Seen(WRITTEN_OUT, self.runs[-1].module, place, is_written_out=True))

    def other_kernel(self, function: Callable[..., Any], arguments: tuple[Any, ...], output: object) -> None:
        """Note that torch computed attention with a function that is not translated."""
        if self.runs:
            query, key = (*(part for part in arguments if isinstance(part, Tensor)), None, None)[:2]
            result = output[0] if isinstance(output, tuple) else output
            reason = OTHER_KERNEL.format(function.__name__)
            self._show(reason, self.runs[-1].module, query, key, result if isinstance(result, Tensor) else None)
        elif self._audience.is_present():
            self._audience.stray()

    def kernel(self, call: Call | str) -> None:
        """Note that a kernel of torch ran where function calls cannot be seen."""
        run = self.runs[-1]
        if run.way is Way.KERNELS:
            module = run.module.self_attn if isinstance(run.module, nn.TransformerEncoderLayer) else run.module
            self._show(call, module, None, None, None)

    def _show(
        self,
        call: Call | str,
        module: nn.Module,
        query: Tensor | None,
        key: Tensor | None,
        output: Tensor | None,
        fold: Fold | None = None,
        is_turned: bool = False,
    ) -> None:
        """Show an attention, and where its queries and keys come from: in torch's modules, from the run's input."""
        lineage, place = self.lineage, None
        run = self.runs[-1]
        if lineage.is_on:
            marks = None if query is None else lineage.marks(query)
            marks = run.marks if marks is None else marks
            keys = marks if key is query else lineage.marks(key) if key is not None else None
            source: KeySource = "self" if key is query and query is not None else source_of(marks, keys)
            unfold = None if fold is None or query is None or not fold.fits(query) else fold.unfold
            rows = run.rows if run.way is Way.MODULE else lineage.rows.positions(query, is_turned, unfold)
            of_keys = rows if key is query else lineage.rows.positions(key, is_turned, unfold)
            if source == "self" and not (agree(rows, of_keys) and are_distinct(rows)):
                source = "unknown"  # not the same tokens in the same order
            number = lineage.attended(marks, output)
            lineage.rows.attended(query, output, is_turned)
            is_whole = isinstance(call, str) or lineage.has_batch(call.shape[0], call.shape[2])
            is_lost = query is not None and marks is None
            before = lineage.placed(number, None if is_lost else marks or CONSTANT, rows)
            order = order_of(rows, of_keys, is_whole)
            if isinstance(call, Call) and of_keys is not None and call.shape[3] > of_keys.ids.shape[1]:
                # The bias and the row of zeros that nn.MultiheadAttention adds after the keys it is given.
                order = order._replace(extra=tuple(range(of_keys.ids.shape[1], call.shape[3])))
            place = Place(source, number, before, is_whole, *order)
            for outer in self.runs:
                if outer.way is not Way.CALLS:
                    outer.marks = (outer.marks or CONSTANT) | {number}
        self._audience.show(self.runs, Seen(call, module, place))

    def _given_rows(self, run: RunningModule, given: Tensor | None) -> Positions | None:
        """Return the rows of what torch's own module is given, which inside another one nobody has seen."""
        outer = self.runs[-1] if self.runs else None
        if torch_modules.has_inner_hooks(run.module):
            return None
        if outer is not None and outer.way is Way.MODULE:
            return outer.rows
        return self.lineage.rows.positions(given, torch_modules.is_turned(run.module))

    def _see_torch_module(
        self, run: RunningModule, arguments: tuple[Any, ...], named: dict[str, Any], output: Tensor | None
    ) -> None:
        module = run.module
        if isinstance(module, nn.MultiheadAttention):
            attention = module
            call = torch_modules.call_of_module(module, *arguments, **named)
            query, key = (_argument(name, place, arguments, named) for place, name in enumerate(QK))
        elif isinstance(module, nn.TransformerEncoderLayer) and self._last_number == run.number:
            # The layer did not run its attention as a module of its own.
            attention = module.self_attn
            call = torch_modules.call_of_layer(module, *arguments, **named)
            query = key = _argument("src", 0, arguments, named)
        else:
            return
        if isinstance(call, Call) and self._audience.wants_values():
            call = replace(call, after=after_module(attention, call, output))
        self._show(call, attention, query, key, None, is_turned=torch_modules.is_turned(module))


def _way_of(module: nn.Module) -> Way:
    """Return how to see one of torch's modules that may take a fast path, which it leaves only if it is edited."""
    if not torch_modules.has_own_functions():
        return Way.KERNELS  # a mode would make torch call the function that replaced its own a second time
    edited = {owner for edit in active_edits() for owner in edit.targets}
    if edited and any(id(part) in edited for part in module.modules()):
        return Way.CALLS
    if torch_modules.is_torchs_own(module):
        return Way.MODULE
    return Way.KERNELS if torch_modules.may_be_fast(module) else Way.CALLS


def _continues(last: _Use, query: Tensor, key: Tensor) -> bool:
    """Return whether the keys of a call begin with those of an earlier forward pass, and others follow."""
    known, rows = last.key, last.query.shape[-2]
    is_alike = known.ndim == key.ndim and known.shape[:-2] == key.shape[:-2] and known.shape[-1] == key.shape[-1]
    if not is_alike or key.shape[-2] <= query.shape[-2] or torch.equal(known, key):
        return False
    return torch.equal(known[..., :rows, :], key[..., :rows, :])


def _check_edited(run: RunningModule) -> None:
    """Refuse an edit of a module that ran without calling torch's attention."""
    for target in targets_of(run.module):
        if target.is_ours or any(module is run.module for module in run.attended):
            continue
        names = [edit.modules.get(id(module)) for edit in active_edits() for module in run.attended]
        inner = next((name for name in names if name is not None), None)
        if inner is not None:
            raise cannot(target.name, f"it does not call attention itself, but {inner}, which runs inside it, does")
        raise cannot(
            target.name,
            "it ran, but did not call any of torch's attention functions, and an edit can change only those",
        )


def _argument(name: str, place: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return arguments[place] if place < len(arguments) else named[name]


class FunctionKind(Enum):
    """What a function of torch has to do with attention."""

    SDPA = auto()
    MULTI_HEAD = auto()
    OTHER_KERNEL = auto()  # computes attention, but in a way that is not translated
    NONE = auto()


@functools.lru_cache(4096)
def _kind_of(function: Callable[..., Any]) -> FunctionKind:
    packet = torch.ops.aten.scaled_dot_product_attention
    if function in (SDPA, packet, packet.default):
        return FunctionKind.SDPA
    if function is torch_modules.MULTI_HEAD:
        return FunctionKind.MULTI_HEAD
    return FunctionKind.OTHER_KERNEL if "attention" in getattr(function, "__name__", "").lower() else FunctionKind.NONE


class Mode(TorchFunctionMode):
    """Sees each function of torch that is called."""

    def __init__(self, forwards: Forwards) -> None:
        super().__init__()
        self._forwards = forwards

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        forwards, kind = self._forwards, _kind_of(func)
        if kind is FunctionKind.SDPA or kind is FunctionKind.MULTI_HEAD:
            function = SDPA if kind is FunctionKind.SDPA else func
            return forwards.attention(function, args, kwargs or {}, sys._getframe(1))
        output = func(*args, **kwargs) if kwargs else func(*args)
        if forwards.followed is not None:
            forwards.followed.see(func, args, kwargs or {}, output)
        if kind is FunctionKind.OTHER_KERNEL:
            forwards.other_kernel(func, args, output)
        elif forwards.lineage.is_on:
            forwards.other(func, args, kwargs or {}, output)
        return output


class Kernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees the kernels of torch's attention, below the functions: no module takes another path because of it."""

    def __init__(self, forwards: Forwards) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._forwards = forwards

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        call = torch_modules.call_of_kernel(func, args, kwargs or {})
        if call is not None:
            self._forwards.kernel(call)
        return output


def _is_own(caller: FrameType | None) -> bool:
    while caller is not None and caller.f_code.co_name == "__torch_function__":  # another mode stands between
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == OWN_CALLER


# --- the hooks, which all threads share --------------------------------------------------------------------

_lock = threading.Lock()
_handles: list[RemovableHandle] = []
_num_users = 0


def add_hooks(forwards: Forwards) -> None:
    """Make torch report every forward pass, once for all watchers and edits."""
    global _num_users
    with _lock:
        _num_users += 1
        if _num_users == 1:
            _handles.append(register_module_forward_pre_hook(forwards.begin))
            _handles.append(register_module_forward_hook(forwards.end, with_kwargs=True, always_call=True))
            wrap_forwards(torch_modules.FAST, forwards.direct)
    forwards.start()


def remove_hooks(forwards: Forwards) -> None:
    global _num_users
    forwards.stop()
    with _lock:
        _num_users -= 1
        if _num_users == 0:
            unwrap_forwards(torch_modules.FAST)
            while _handles:
                handle = _handles.pop()
                handle.remove()
                # torch forgets this one, and then warns at every compiled module that there are hooks.
                torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)


# --- the stack of modes, of which ours need not be the last ------------------------------------------------


def num_modes() -> int:
    return torch._C._len_torch_function_stack()


def torch_place(mode: TorchFunctionMode) -> int | None:
    """The place of a mode in the stack; None if it is not there."""
    return next((i for i in range(num_modes()) if torch._C._get_function_stack_at(i) is mode), None)


def take_out(mode: TorchFunctionMode) -> int | None:
    """Remove a mode from the stack; return its place, or None if it was not there."""
    place = torch_place(mode)
    if place is not None:
        above = [torch._C._pop_torch_function_stack() for _ in range(num_modes() - place - 1)]
        torch._C._pop_torch_function_stack()
        for other in reversed(above):
            torch._C._push_on_torch_function_stack(other)
    return place


def put_in(mode: TorchFunctionMode, place: int) -> None:
    above = [torch._C._pop_torch_function_stack() for _ in range(max(0, num_modes() - place))]
    torch._C._push_on_torch_function_stack(mode)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
