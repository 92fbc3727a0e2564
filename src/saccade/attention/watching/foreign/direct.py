"""Reports forward passes of torch's attention modules that are started with ``module.forward(...)``, without hooks.

With a torch function mode, such a module would leave its fast path, and its output could change. So while someone
watches or edits, the ``forward`` of these classes is wrapped, and the wrapper reports what the hooks would report. If
code stored ``module.forward`` earlier, that copy is not wrapped; it is found by looking at the callers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

from torch import nn

__all__ = ["stored_forward", "unwrap_forwards", "unwrapped", "wrap_forwards"]

#: How many callers lie at most between a module of torch's and an attention that it runs.
MAX_CALLERS = 8

Forward = Callable[..., Any]
#: Runs a forward pass: given the module, its forward, and the arguments.
Run = Callable[[nn.Module, Forward, tuple[Any, ...], dict[str, Any]], Any]

#: What each wrapper wraps.
_originals: dict[Forward, Forward] = {}


def wrap_forwards(kinds: Sequence[type[nn.Module]], run: Run) -> None:
    """Let ``run`` run every forward pass of these classes."""
    for kind in kinds:
        wrapper = _wrapper(kind.forward, run)
        _originals[wrapper] = kind.forward
        kind.forward = wrapper


def unwrap_forwards(kinds: Sequence[type[nn.Module]]) -> None:
    """Give these classes their own ``forward`` back, unless someone has replaced it in the meantime."""
    for kind in kinds:
        kind.forward = unwrapped(kind.forward)
    _originals.clear()


def unwrapped(method: Forward) -> Forward:
    """Return what a wrapper of ours wraps, and any other method as it is."""
    return _originals.get(method, method)


def stored_forward(
    caller: FrameType | None, kinds: Sequence[type[nn.Module]], running: Sequence[nn.Module]
) -> nn.Module | None:
    """Return a module of these classes that runs nearby, but was not reported; None if there is none."""
    codes = [getattr(unwrapped(kind.forward), "__code__", None) for kind in kinds]
    for _ in range(MAX_CALLERS):
        if caller is None:
            break
        if caller.f_code in codes:
            module: nn.Module | None = caller.f_locals.get("self")
            return None if any(module is other for other in running) else module
        caller = caller.f_back
    return None


def _wrapper(original: Forward, run: Run) -> Forward:
    def forward(self: nn.Module, *arguments: Any, **named: Any) -> Any:
        return run(self, original, arguments, named)

    # torch.jit.script reads the source of what is wrapped, and looks its names up in the globals of the wrapper.
    names = getattr(original, "__globals__", globals())
    return functools.wraps(original)(FunctionType(forward.__code__, names, closure=forward.__closure__))
