"""Intercepts the attention calls of models from other libraries, to watch and edit them.

While a model is watched or edited, torch reports two things about the thread: which modules are running (to
``Forwards``, through hooks that all modules share), and which of torch's functions are called (to ``Mode``, a torch
function mode). Every call of torch's attention goes through ``Forwards.attention``. The call runs unchanged, or with
the changes of an edit (``editing``), and its arguments are then translated into Saccade's own ``Call`` (``call``). For
every other function, Saccade only notes which inputs and attention calls its output comes from (``lineage``).

A function mode makes torch's own ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` leave the fast path that they
normally take. So the mode is removed while these modules run, which keeps their output the same, and their queries and
keys are computed a second time from their arguments (``torch_modules``). If someone replaced a method or function of
such a module, Saccade watches the functions that the module calls or, if it might take the fast path, the kernels that
run. An edited module always leaves the fast path, because nothing can be changed inside a kernel.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.caches import Caches
from saccade.attention.watching.foreign.call import SDPA, call_of_sdpa
from saccade.attention.watching.foreign.direct import stored_forward
from saccade.attention.watching.foreign.edited_rows import EditedCalls, cached_positions
from saccade.attention.watching.foreign.editing import bound_sdpa, check_edited, run_edited
from saccade.attention.watching.foreign.folding import FOLDED, Layouts
from saccade.attention.watching.foreign.lineage import CONSTANT, Lineage
from saccade.attention.watching.foreign.modes import Kernels, Mode, num_modes, place_of, put_in, take_out
from saccade.attention.watching.foreign.placing import Given, find_place
from saccade.attention.watching.foreign.positions import RowTokens
from saccade.attention.watching.foreign.projection import Followed, after_module, follow
from saccade.attention.watching.foreign.running import Audience, RunningModule, Seen, Way, is_foreign, way_of
from saccade.attention.watching.interventions import active_edits, is_backward, targets_of
from saccade.attention.watching.trace import Place
from saccade.errors import OptionError

__all__ = ["Forwards"]

#: The only module of Saccade that calls torch's attention; it records and edits its calls itself.
OWN_CALLER = "saccade.attention.attend"

QKV = ("query", "key", "value")
WRITTEN_OUT = "it is computed in the model's own code, written out with a softmax, which hides its queries and keys"
OTHER_KERNEL = "it is computed by {}, which does not show its weights; use scaled_dot_product_attention to see it"
STORED = (
    "The forward method of a {} was stored before the model was watched or edited, and would now take another path, "
    "with another output; call the module itself, or store its forward within the block."
)
HOOK = "a hook inside torch's module"
#: Types of arguments that cannot be a cache object.
SIMPLE = (Tensor, bool, int, float, str, type(None), torch.dtype, torch.device)

_numbers = itertools.count(1)


class Forwards(threading.local):
    """Tracks the modules that run in this thread while a watcher or edit is active, and intercepts their attention."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._num_users = 0  # watchers and edits of this thread
        self.runs: list[RunningModule] = []
        self._last_number = 0
        self._mode = Mode(self)
        self._kernels: Kernels | None = None
        self.lineage = Lineage()
        self.continues = False  # whether the last forward pass was a step that continues the pass before it
        self._passed: tuple[object, ...] = ()  # the last outermost module, and the objects that were passed to it
        self._caches = Caches()
        self._edited = EditedCalls()
        self._layouts = Layouts(self.lineage)
        self.followed: Followed | None = None  # follows the output of the last call to its W_O

    def start(self) -> None:
        """Start intercepting, because a watcher or an edit begins in this thread."""
        if not self._num_users:
            self.runs.clear()  # another thread may have removed the hooks while a module ran here
        self._num_users += 1
        if place_of(self._mode) is None:
            put_in(self._mode, num_modes())

    def stop(self) -> None:
        """Stop intercepting for one watcher or edit; after the last of them, also remove the mode."""
        self._num_users -= 1
        if self._num_users > 0:
            return
        while self.runs:
            self._leave(self.runs.pop())
        self._passed, self.continues, self.followed = (), False, None
        self.lineage, self._edited, self._caches = Lineage(), EditedCalls(), Caches()
        self._layouts = Layouts(self.lineage)
        take_out(self._mode)

    # --- hooks ---

    def begin(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """A forward pre-hook. Torch does not pass it the keyword arguments; they are read from the caller's frame."""
        caller = sys._getframe(1)
        self._drop_interrupted(caller)
        needs_named = not self.runs or isinstance(module, torch_modules.FAST)
        run = self._begin(module, arguments, caller.f_locals.get("kwargs") if needs_named else None)
        if run is not None:
            run.caller = caller

    def _drop_interrupted(self, caller: FrameType) -> None:
        """End the runs whose end torch did not report, for example because of a KeyboardInterrupt."""
        while self.runs and self.runs[-1].caller is not None:
            frame: FrameType | None = caller
            while frame is not None and frame is not self.runs[-1].caller:
                frame = frame.f_back
            if frame is not None:
                return
            self._finish(self.runs.pop(), is_finished=False)

    def direct(
        self, module: nn.Module, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Run the forward pass of one of torch's modules; if no hook has reported it, report it as the hooks would."""
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

    def _begin(self, module: nn.Module, arguments: tuple[Any, ...], named: object) -> RunningModule | None:
        is_watched, is_edited = self._audience.wants(module), False
        for edit in active_edits():
            if id(module) in edit.modules:
                edit.has_run = is_edited = True
        if is_edited and is_backward():
            targets_of(module)  # raises an error if calls are edited, which the mode does not see during backward()
        is_fast = isinstance(module, torch_modules.FAST)
        if not is_fast and not is_watched and not is_edited:
            return None
        if is_fast and place_of(self._mode) is not None:
            self._check_direct(sys._getframe(1))
        run, runs = RunningModule(next(_numbers), module, way_of(module) if is_fast else Way.CALLS), self.runs
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
        return run

    def _check_direct(self, caller: FrameType | None) -> None:
        """Raise an error if a ``forward`` method is running that was stored before Saccade could wrap it, and that
        would now leave its fast path."""
        module = stored_forward(caller, torch_modules.FAST, [run.module for run in self.runs])
        if module is not None and torch_modules.may_be_fast(module):
            raise OptionError(STORED.format(type(module).__name__))

    def _begin_outermost(self, run: RunningModule, arguments: tuple[Any, ...], named: object, is_watched: bool) -> None:
        """Begin an outermost forward pass, and decide whether to track where tensors come from (``lineage``).

        Tracking is not needed for a step that gets the same cache object as the previous step, which it continues.
        """
        named = named if isinstance(named, dict) else {}
        passed = (run.module, *(part for part in (*arguments, *named.values()) if not isinstance(part, SIMPLE)))
        if active_edits():
            run.cached = cached_positions(passed[1:])
            self.lineage.note_inputs((arguments, named))
        given = (*arguments, *named.values())
        run.has_chosen_cache, kept = self._caches.begin(run.module, given)
        is_step = self.continues and len(passed) > 1 and len(passed) == len(self._passed)
        is_step = is_step and all(a is b for a, b in zip(passed, self._passed, strict=True))
        self.lineage.is_on = (is_watched or bool(active_edits())) and not is_step
        self._passed, self.continues = passed, False
        if self.lineage.is_on:
            is_root = self._audience.is_root(run.module)
            self.lineage.begin(run.number, run.module, (arguments, named), kept, joins=not is_root)

    def end(self, module: nn.Module, arguments: tuple[Any, ...], *result: Any) -> None:
        """A forward hook. ``result`` is the named arguments and the output, or after an error the output alone."""
        runs = self.runs
        for run in reversed(runs):
            if run.module is module:
                break
        else:
            return
        try:
            if runs[-1] is run and len(result) == 2:
                self._end_own(run, arguments, *result)
                if len(runs) == 1:
                    self._caches.end(module, (arguments, *result))
        finally:
            while True:  # runs inside this one may be left over from an interrupted forward pass
                run = runs.pop()
                self._finish(run, is_finished=run.module is module and len(result) == 2)
                if run.module is module:
                    break

    def _finish(self, run: RunningModule, is_finished: bool) -> None:
        """Note that a run has ended; ``is_finished`` is False if an error ended it."""
        self._leave(run)
        with torch._C.DisableTorchFunction():  # the mode need not see what we compute
            self._audience.end(run, is_finished)

    def _end_own(self, run: RunningModule, arguments: tuple[Any, ...], named: dict[str, Any], output: object) -> None:
        """Show the watchers the attention of one of torch's modules that has run; check that edits had an effect."""
        is_attention = isinstance(run.module, (nn.MultiheadAttention, nn.TransformerEncoderLayer))
        if active_edits():
            if is_attention and run.way is not Way.CALLS:
                for outer in self.runs:
                    if outer is not run:
                        outer.attended.append(run.module)
                if isinstance(run.module, nn.MultiheadAttention):
                    query, key = (_argument(name, place, arguments, named) for place, name in enumerate(QKV[:2]))
                    is_turned = query.ndim == 3 and torch_modules.is_turned(run.module)
                    self._edited.look(self.runs, query, key, self.lineage, is_turned)
            check_edited(run)
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
                self.lineage.rows.attended(query, result, run.rows.number, torch_modules.is_turned(run.module))

    def _enter(self, run: RunningModule) -> None:
        """Add or remove the modes, depending on how the attention of this run is seen (``Way``)."""
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
        """Run a call of torch's attention function, and show it to the watchers. ``Mode`` sends all such calls here."""
        if _is_own(caller):
            output = function(*arguments, **named)
            self._pass_on(_argument("query", 0, arguments, named), output)
            return output
        if function is not SDPA:
            self._check_direct(caller)
        module = self.runs[-1].module if self.runs else None
        targets = targets_of(module)
        query, key, value = (_argument(name, place, arguments, named) for place, name in enumerate(QKV))
        is_turned = function is not SDPA and query.ndim == 3
        if module is not None and targets:
            if function is SDPA:
                self._layouts.check(module, query, targets)
            step = self._edited.note(self.runs, query, key, self.lineage, is_turned)
            output, named = run_edited(function, arguments, named, targets, step)
            arguments = ()
        else:
            if module is not None and active_edits():
                self._edited.look(self.runs, query, key, self.lineage, is_turned)
            output = function(*arguments, **named)
        if module is not None and active_edits():
            for run in self.runs:
                run.attended.append(module)
        if not self._audience.is_present():
            self._pass_on(query, output[0] if isinstance(output, tuple) else output)
            return output
        if module is None:
            self._audience.stray()
            return output
        is_sdpa = function is SDPA
        call = (call_of_sdpa if is_sdpa else torch_modules.call_of_function)(*arguments, **named)
        result = output[0] if isinstance(output, tuple) else output
        self.followed, fold = None, None
        if is_sdpa and isinstance(call, Call):
            fold = self._layouts.of(module, query)
            if fold is not None and fold.is_plain(query):
                fold = None
            elif fold is not None:
                call = fold.call_of_sdpa(bound_sdpa(arguments, named))
            elif call.shape[1] == 1 and self._layouts.may_fold(query):
                call = FOLDED
        if is_sdpa and isinstance(call, Call) and self._audience.wants_values():
            after, self.followed = follow(call, result, fold)
            call = replace(call, after=after)
        self._show(call, module, Given(query, key, value, fold, is_turned), result)
        return output

    def _pass_on(self, query: Tensor, output: Tensor) -> None:
        """Give the output of an attention call that is not shown the marks and origin ids of its queries."""
        if self.lineage.is_on:
            number = self.lineage.attended(self.lineage.marks(query), output)
            self.lineage.rows.attended(query, output, number)

    def other(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], output: object
    ) -> None:
        """Note which inputs and attention calls the output of a function other than attention comes from.

        If the function multiplies values by softmax weights, the model's own code computes attention: report this.
        """
        found = self.lineage.follow(function, arguments, named, output)
        if self.lineage.is_lost:
            if self.runs:
                self._audience.lose()
            self.lineage.is_lost = False
        if found is not None and self.runs:
            place = Place("unknown", *found, is_whole=False)
            self._audience.show(self.runs, Seen(WRITTEN_OUT, self.runs[-1].module, place, is_written_out=True))

    def other_kernel(self, function: Callable[..., Any], arguments: tuple[Any, ...], output: object) -> None:
        """Report to the watchers that torch computed attention with a function whose calls Saccade cannot translate."""
        if self.runs:
            tensors = (*(part for part in arguments if isinstance(part, Tensor)), None, None, None)
            given = Given(tensors[0], tensors[1], tensors[2])
            result = output[0] if isinstance(output, tuple) else output
            reason = OTHER_KERNEL.format(function.__name__)
            self._show(reason, self.runs[-1].module, given, result if isinstance(result, Tensor) else None)
        elif self._audience.is_present():
            self._audience.stray()

    def kernel(self, call: Call | str) -> None:
        """Show the call of a kernel that ran inside one of torch's modules, where function calls are not reported."""
        run = self.runs[-1]
        if run.way is Way.KERNELS:
            module = run.module.self_attn if isinstance(run.module, nn.TransformerEncoderLayer) else run.module
            self._show(call, module, Given())

    def _show(self, call: Call | str, module: nn.Module, given: Given, output: Tensor | None = None) -> None:
        """Show an attention to the watchers, with what is known about where its queries, keys and values come from."""
        place = None
        if self.lineage.is_on:
            place = find_place(self.lineage, self.runs[-1], call, given, output)
            for outer in self.runs:
                if outer.way is not Way.CALLS:
                    outer.marks = (outer.marks or CONSTANT) | {place.number}
        chosen = self.runs[0].has_chosen_cache
        self._audience.show(self.runs, Seen(call, module, place, has_chosen_cache=chosen))

    def _given_rows(self, run: RunningModule, given: Tensor | None) -> RowTokens | None:
        """Return the origin ids of the input of one of torch's own modules; None if they are not known.

        Inside another of torch's modules, the ids of the outer module's input are used: torch reports nothing there.
        """
        outer = self.runs[-1] if self.runs else None
        if torch_modules.has_inner_hooks(run.module):
            return None
        if outer is not None and outer.way is Way.MODULE:
            return outer.rows
        number = self.lineage.new_number()
        return self.lineage.rows.positions(given, number, torch_modules.is_turned(run.module))

    def _see_torch_module(
        self, run: RunningModule, arguments: tuple[Any, ...], named: dict[str, Any], output: Tensor | None
    ) -> None:
        module = run.module
        if isinstance(module, nn.MultiheadAttention):
            attention = module
            call = torch_modules.call_of_module(module, *arguments, **named)
            given = Given(*(_argument(name, place, arguments, named) for place, name in enumerate(QKV)))
        elif isinstance(module, nn.TransformerEncoderLayer) and self._last_number == run.number:
            # The layer ran as one kernel, without calling its attention module.
            attention = module.self_attn
            call = torch_modules.call_of_layer(module, *arguments, **named)
            source = _argument("src", 0, arguments, named)
            given = Given(source, source, source)
        else:
            return
        if isinstance(call, Call) and self._audience.wants_values():
            call = replace(call, after=after_module(attention, call, output))
        self._show(call, attention, given._replace(is_turned=torch_modules.is_turned(module)))


def _argument(name: str, place: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return arguments[place] if place < len(arguments) else named[name]


def _is_own(caller: FrameType | None) -> bool:
    while caller is not None and caller.f_code.co_name == "__torch_function__":  # skip the frames of other modes
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == OWN_CALLER
