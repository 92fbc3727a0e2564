"""Attention of modules that are not ours, seen where they call ``scaled_dot_product_attention``.

While someone watches, two things are known of a thread: which modules' forwards are running (``Forwards``, by
hooks), and, while those of other people run, each call of torch's attention (``_Mode``, a torch function mode). The
call runs as it always does; afterwards its arguments are translated into a ``Call`` of ours (``call``).

A mode makes torch's own ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` leave the fast path that they take
when nobody looks. So the mode is taken away while these run, and their queries and keys are computed a second time
from their arguments (``torch_modules``): the output stays the one that they always give.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from saccade.attention.equation import Call
from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.call import call_of_sdpa

__all__ = ["Forwards", "Run", "add_hooks", "is_foreign", "remove_hooks"]

#: Modules of these packages call no attention of torch, or show theirs in another way.
PLAIN_MODULES = ("torch.nn.modules.", "torch._dynamo.", "saccade.")
#: The one place of ours that calls torch's attention: it shows its calls itself.
OWN_CALLER = "saccade.attention.attend"


class Run(NamedTuple):
    """A forward that is running."""

    number: int  # no two runs have the same one
    module: nn.Module
    mode_place: int | None  # where the mode stood before this run: None if it did not stand


_numbers = itertools.count()

#: What is shown: the runs, the outermost first; the call, or why it cannot be told; the module whose attention it is.
Show = Callable[[list[Run], Call | str, nn.Module], None]


def is_foreign(module: nn.Module) -> bool:
    """Whether attention may run in this module without showing itself."""
    return _may_call(module) or torch_modules.is_torch_fast(module)


def _may_call(module: nn.Module) -> bool:
    return not type(module).__module__.startswith(PLAIN_MODULES)


class Forwards(threading.local):
    """The forwards that are running in this thread, for as long as someone watches in it."""

    def __init__(self, wanted: Callable[[nn.Module], bool], show: Show) -> None:
        self._wanted = wanted
        self._show = show
        self._runs: list[Run] = []
        self._last_number = -1
        self._mode = _Mode(self._see)

    def begin(self, module: nn.Module, _arguments: object) -> None:
        """A forward pre-hook."""
        if not self._wanted(module):
            return
        place = _take_out(self._mode)
        self._last_number = next(_numbers)
        self._runs.append(Run(self._last_number, module, place))
        if not torch_modules.is_torch_fast(module):
            _put_back(self._mode, _num_modes() if place is None and _may_call(module) else place)

    def look(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: object) -> None:
        """A forward hook: torch's own attention is seen after it has run."""
        if torch_modules.is_torch_fast(module) and any(run.module is module for run in self._runs):
            self._see_torch_module(module, arguments, named)

    def end(self, module: nn.Module, arguments: object, output: object) -> None:
        """A forward hook that is also called after an error."""
        if not any(run.module is module for run in self._runs):
            return
        while True:  # an interrupted forward may have left its run behind
            run = self._runs.pop()
            if run.module is module:
                break
        _take_out(self._mode)
        _put_back(self._mode, run.mode_place)

    def clear(self) -> None:
        """Forget all runs: the watched block was left in the midst of them."""
        self._runs.clear()
        _take_out(self._mode)

    def _see(self, call: Call | str) -> None:
        if self._runs:
            self._show(self._runs, call, self._runs[-1].module)

    def _see_torch_module(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        call: Call | str = torch_modules.OWN_FORWARD
        is_known = not torch_modules.has_own_forward(module)
        if isinstance(module, nn.MultiheadAttention):
            call = torch_modules.call_of_module(module, *arguments, **named) if is_known else call
            self._show(self._runs, call, module)
        elif isinstance(module, nn.TransformerEncoderLayer) and not self._saw_within(module):
            call = torch_modules.call_of_layer(module, *arguments, **named) if is_known else call
            self._show(self._runs, call, module.self_attn)

    def _saw_within(self, layer: nn.TransformerEncoderLayer) -> bool:
        """Whether the layer ran its attention as a module of its own, so that it has been seen."""
        begun = next(run.number for run in reversed(self._runs) if run.module is layer)
        return self._last_number != begun


class _Mode(TorchFunctionMode):
    """Sees each call of torch's attention, after it has run."""

    def __init__(self, see: Callable[[Call | str], None]) -> None:
        super().__init__()
        self._see_call = see

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            if not _is_own(sys._getframe(1)):
                self._see_call(call_of_sdpa(*args, **(kwargs or {})))
        elif func is F.multi_head_attention_forward:
            self._see_call(torch_modules.call_of_function(*args, **(kwargs or {})))
        return output


def _is_own(caller: FrameType | None) -> bool:
    while caller is not None and caller.f_code.co_name == "__torch_function__":  # another mode stands between
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == OWN_CALLER


# --- the hooks, which all threads share --------------------------------------------------------------------

_lock = threading.Lock()
_handles: list[RemovableHandle] = []
_watchers = 0


def add_hooks(forwards: Forwards) -> None:
    """Have torch tell of all forwards, once for all who watch."""
    global _watchers
    with _lock:
        _watchers += 1
        if _watchers == 1:
            _handles.append(register_module_forward_pre_hook(forwards.begin))
            _handles.append(register_module_forward_hook(forwards.look, with_kwargs=True))
            _handles.append(register_module_forward_hook(forwards.end, always_call=True))


def remove_hooks() -> None:
    global _watchers
    with _lock:
        _watchers -= 1
        if _watchers == 0:
            while _handles:
                handle = _handles.pop()
                handle.remove()
                # torch forgets this one, and then warns at every compiled module that there are hooks.
                torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)


# --- the stack of modes, of which ours need not be the last ------------------------------------------------


def _num_modes() -> int:
    return torch._C._len_torch_function_stack()


def _take_out(mode: TorchFunctionMode) -> int | None:
    """Remove a mode from wherever it stands; its place, or None if it does not stand."""
    places = [i for i in range(_num_modes()) if torch._C._get_function_stack_at(i) is mode]
    if not places:
        return None
    above = [torch._C._pop_torch_function_stack() for _ in range(_num_modes() - places[0] - 1)]
    torch._C._pop_torch_function_stack()
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
    return places[0]


def _put_back(mode: TorchFunctionMode, place: int | None) -> None:
    if place is None:
        return
    above = [torch._C._pop_torch_function_stack() for _ in range(max(0, _num_modes() - place))]
    torch._C._push_on_torch_function_stack(mode)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
