"""``watch``: record the attention of a model while it runs, under the names of its layers.

Watching does not change the computation. ``record`` runs after the output has been computed as usual, and only keeps
references to tensors, or copies of those that are views into a buffer, which may be overwritten. Saccade's own layers
call ``record`` themselves; the package ``foreign`` intercepts the attention calls of other modules.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.equation import After, Call
from saccade.attention.watching.coverage import Coverage, advice_for, reason_for, unseen_modules
from saccade.attention.watching.foreign.hooks import add_hooks, remove_hooks
from saccade.attention.watching.foreign.intercept import Forwards
from saccade.attention.watching.foreign.running import RunningModule, Seen, is_foreign
from saccade.attention.watching.foreign.steps import Gap, Shown, Steps
from saccade.attention.watching.segment import keep
from saccade.attention.watching.trace import Trace
from saccade.errors import OptionError, UnknownNameError

__all__ = ["Watch", "watch"]

#: Called with the name of an attention and the fraction of its rows that is done, from 0 to 1.
RowProgress = Callable[[str, float], None]

OTHER_THREAD = "the model also ran in another thread, which this watcher cannot see: watch in that thread"
OTHER_MODEL = "attention also ran outside the watched model, in a deep copy or another model: watch that model"
UNREPORTED = (
    "something was computed for each token where torch reports nothing, such as in another thread or in a function "
    "that is compiled by TorchScript: attention there is not seen"
)
FAILED = "a later forward pass ended with an error, and is not shown"
SOFTMAX_SEEN = "the model's own code computes its softmax"
WRITTEN_OUT_NAME = " (written out)"
BEAM_SEARCH = (
    "its last rows were hypotheses of a beam search, which share their keys; watch one forward pass over the finished "
    "output instead"
)
#: The name of calls to ``attend`` without an owner, and of a watched layer that is the whole model.
UNNAMED = "attention"

#: The watchers of this thread or asynchronous task; they do not see calls of other threads and tasks.
_active: ContextVar[tuple[Watch, ...]] = ContextVar("watchers", default=())
#: The watchers of all threads.
_everywhere: list[Watch] = []


class Watch(Mapping[str, Trace]):
    """The traces (records) of the attention layers seen so far, by the names of the layers.

    Use it as ``with saccade.watch(model) as seen: model(...)``.
    """

    def __init__(
        self, model: nn.Module | None = None, progress: RowProgress | None = None, values: bool = False
    ) -> None:
        if model is not None and not isinstance(model, nn.Module):
            raise OptionError(f"watch() takes a torch module, not {type(model).__name__}.")
        modules = [] if model is None else list(model.named_modules())
        self._names = {id(module): name_of(path) for path, module in modules}
        self._has_foreign = any(is_foreign(module) for _, module in modules)
        # A torch module without children calls no attention, unless it is an attention module itself.
        self._wanted = {
            id(m) for _, m in modules if is_foreign(m) or m is model or next(m.children(), None) is not None
        }
        self._eager = contextlib.ExitStack()
        self._progress = progress
        self._values = values
        self._model = model  # held so that the identities above stay valid
        self._traces: dict[str, Trace] = {}
        self._notes = {OTHER_THREAD: 0, OTHER_MODEL: 0, UNREPORTED: 0}
        self._ran: dict[str, nn.Module] = {}  # the modules that ran in the forward passes of these traces
        self._running: dict[str, nn.Module] = {}  # the modules of the forward pass that is running now
        self._steps = Steps(self._traces, lambda module: module is model, values)

    def __enter__(self) -> Watch:
        if "torch._dynamo" in sys.modules:  # only then can code be compiled, and compiled code cannot be watched
            self._eager.enter_context(torch.compiler.set_stance("force_eager"))
        if self._has_foreign:
            add_hooks(forwards)
        _active.set((*_active.get(), self))
        _everywhere.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active.set(tuple(watcher for watcher in _active.get() if watcher is not self))
        _everywhere[:] = [watcher for watcher in _everywhere if watcher is not self]
        if self._has_foreign:
            running = next((run for run in forwards.runs if id(run.module) in self._names), None)
            if running is not None:  # the block ends in the middle of a forward pass
                self._steps.end(running.number, forwards.lineage.read, is_finished=False)
            self._steps.take_in(forwards.lineage.read)
            remove_hooks(forwards)
        self._eager.close()

    @property
    def _seen(self) -> dict[str, Trace]:
        """All traces, including those of a forward pass that is still running."""
        self._steps.take_in(forwards.lineage.read)
        return self._traces

    def __getitem__(self, name: str) -> Trace:
        seen = self._seen
        if name in self.refused:
            raise OptionError(f"The attention {name!r} cannot be shown: {self.refused[name]}.")
        if not seen:
            raise OptionError(
                f"No attention has been seen yet, so there is no attention called {name!r}: {self.coverage}"
            )
        if name not in seen:
            raise UnknownNameError("watched attention", name, seen)
        return seen[name]

    @property
    def refused(self) -> Mapping[str, str]:
        """The attention layers that ran but whose weights cannot be shown, each with the reason."""
        return {label: gap.reason for label, gap in self.gaps.items() if not gap.is_written_out}

    @property
    def gaps(self) -> Mapping[str, Gap]:
        """The layers in ``refused``, and those whose softmax the model's own code computes, which hides their keys."""
        self._steps.take_in(forwards.lineage.read)
        return self._steps.all_gaps

    @property
    def coverage(self) -> Coverage:
        """Which attention layers of the last forward pass were seen, refused (and why), or missed (and what to do)."""
        seen, refused, model = tuple(self._seen), self.refused, self._model
        unseen: dict[str, str] = {}
        if model is not None:
            names = [gap.name.removesuffix(WRITTEN_OUT_NAME) for gap in self.gaps.values() if gap.is_written_out]
            unseen = {name: f"{SOFTMAX_SEEN}; {advice_for(model, name)}" for name in names}
            missed = unseen_modules(self._ran, [*seen, *refused, *unseen])
            unseen |= {name: reason_for(model, name, self._ran[name]) for name in missed}
        notes = [note for note, count in self._notes.items() if count]
        return Coverage(seen, refused, unseen, (*notes, *([FAILED] if self._steps.has_failed else [])))

    def __contains__(self, name: object) -> bool:
        return name in self._seen

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __repr__(self) -> str:
        seen = [f"{name}: {trace.shape}" for name, trace in self._seen.items()]
        return f"Watch({', '.join([*seen, *(f'{name}: refused' for name in self.refused)])})"

    def _name_of(self, owner: nn.Module | None) -> str | None:
        """Return the owner's name in the watched model; None if it is not part of the model."""
        if owner is None or self._model is None:
            return UNNAMED
        return self._names.get(id(owner))

    def _see(self, name: str, call: Call, is_one_of_many: bool) -> None:
        self._steps.gaps.pop(name, None)
        known = self._traces.get(name)
        if call.first_row > 0 and known is not None and known.continues(call):
            known.append(call)
        else:  # a new forward pass replaces the last one
            trace = self._traces[name] = Trace(name, call)
            trace.is_one_of_many = is_one_of_many

    def _wants(self, module: nn.Module) -> bool:
        """Whether this module may compute attention of the watched model."""
        if id(module) in self._wanted:
            return True
        return isinstance(module, nn.TransformerEncoderLayer) and id(module.self_attn) in self._wanted

    def _end(self, run: RunningModule, is_finished: bool) -> None:
        """Note that a module's forward pass has ended, which may be the outermost one of this model."""
        name = self._names.get(id(run.module))
        if name is None:
            return
        self._running[name] = run.module
        for outer in forwards.runs:
            if id(outer.module) in self._names:
                return
        continues = self._steps.end(run.number, forwards.lineage.read, is_finished)
        if not is_finished and not self._steps.is_broken:  # the last complete forward pass is still shown
            self._running = {}
            return
        is_new = run.module is self._model and not continues
        self._ran, self._running = self._running if is_new else self._ran | self._running, {}
        forwards.continues = forwards.continues or continues

    def _show(self, runs: list[RunningModule], seen: Seen) -> None:
        """Record an attention under the name of the innermost watched module."""
        mine = [run for run in runs if id(run.module) in self._names]
        name = self._names.get(id(seen.module)) or (self._names[id(mine[-1].module)] if mine else None)
        if name is not None:
            outermost = mine[0] if mine else runs[0]
            label = f"{name}{WRITTEN_OUT_NAME}" if seen.is_written_out else name
            shown = Shown(
                label,
                runs[-1].number,
                seen.call,
                seen.place,
                seen.is_written_out,
                has_chosen_cache=seen.has_chosen_cache,
            )
            self._steps.see(outermost.number, outermost.module, shown)


def watch(model: nn.Module | None = None, *, progress: RowProgress | None = None, values: bool = False) -> Watch:
    """Watch a model's attention: ``with saccade.watch(model) as seen:`` maps names to traces.

    Names are the paths of the layers in the model, such as ``encoder.0.self``. A compiled model runs in eager mode
    while it is watched. A watcher sees only the calls of its own thread or asynchronous task; watchers may be nested.

    Args:
        model: the model to watch; without one, every call to ``attend`` is seen under a single name.
        progress: called with the name of a layer and the fraction of its rows that is done, which for long
            inputs grows block by block; only Saccade's own layers report it.
        values: also keep the projected values. Weights do not need them, but the outputs of the heads
            (``Trace.outputs``) and the norms of what the keys add to them (``Trace.norms``) do.

    Modules from other libraries are seen if they call ``F.scaled_dot_product_attention`` or are torch's
    ``nn.MultiheadAttention``; docs/how-to/watching-others.md says what Saccade can tell about their tokens.
    """
    return Watch(model, progress, values)


def is_watched() -> bool:
    """Return whether this thread or asynchronous task watches any model."""
    return bool(_active.get())


def name_of(path: str) -> str:
    """Return a module's path without the wrappers of compiled modules, or ``UNNAMED`` for the model itself."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod") or UNNAMED


def record(
    owner: nn.Module | None, call: Call, value: Float[Tensor, "B G K V"], output: Float[Tensor, "B H Q V"]
) -> None:
    """Let the watchers of this thread or asynchronous task, if there are any, record a finished call."""
    watchers = _active.get()
    if not watchers:
        return
    named = [(watcher, watcher._name_of(owner)) for watcher in watchers]
    if any(name is not None for _, name in named):
        if any(watcher._values for watcher, name in named if name is not None):
            call = replace(call, value=value, after=_after(owner, output))
        kept = keep(call)
        for watcher, name in named:
            if name is not None:
                is_one_of_many = owner is not None and (
                    watcher._has_foreign or not getattr(owner, "mixes_alone", False)
                )
                watcher._see(name, kept if watcher._values else replace(kept, value=None, after=None), is_one_of_many)


def _after(owner: nn.Module | None, output: Float[Tensor, "B H Q V"]) -> After:
    """Return a record of what the layer does with this output: its W_O and, after a backward pass, the gradient."""
    after, projection = After(), getattr(owner, "output", None)
    if isinstance(projection, nn.Linear) and projection.in_features == output.shape[1] * output.shape[3]:
        after.set_projection(projection.weight.mT)
    if output.requires_grad:

        def keep_gradient(gradient: Tensor) -> None:
            after.gradient = gradient.detach()

        output.register_hook(keep_gradient)  # type: ignore[no-untyped-call]
    return after


def refuse(owner: nn.Module | None) -> None:
    """Tell the watchers of this thread that a call cannot be shown: its rows are hypotheses of a beam search."""
    for watcher in _active.get():
        name = watcher._name_of(owner)
        if name is not None:
            watcher._traces.pop(name, None)
            watcher._steps.gaps[name] = Gap(name, BEAM_SEARCH, None)


def tell(owner: nn.Module | None, share: float) -> None:
    """Tell the watchers of this thread that the fraction ``share`` of a call's rows is done."""
    for watcher in _active.get():
        name = watcher._name_of(owner)
        if watcher._progress is not None and name is not None:
            watcher._progress(name, share)


class _Watchers:
    """The watchers of this thread, to which ``foreign`` reports forward passes."""

    def is_present(self) -> bool:
        return is_watched()

    def wants(self, module: nn.Module) -> bool:
        watchers = _active.get()
        for watcher in watchers:
            if watcher._wants(module):
                return True
        if not watchers:  # nobody watches in this thread
            for watcher in [watcher for watcher in _everywhere if watcher._wants(module)]:
                watcher._notes[OTHER_THREAD] += 1
        return False

    def is_root(self, module: nn.Module) -> bool:
        return any(watcher._model is module for watcher in _active.get())

    def show(self, runs: list[RunningModule], seen: Seen) -> None:
        for watcher in _active.get():
            watcher._show(runs, seen)

    def wants_values(self) -> bool:
        return any(watcher._values for watcher in _active.get())

    def stray(self) -> None:
        for watcher in _active.get():
            watcher._notes[OTHER_MODEL] += 1

    def lose(self) -> None:
        for watcher in _active.get():
            watcher._notes[UNREPORTED] += 1

    def end(self, run: RunningModule, is_finished: bool) -> None:
        for watcher in _active.get():
            watcher._end(run, is_finished)


#: The modules that are running in this thread while someone watches or edits.
forwards = Forwards(_Watchers())
