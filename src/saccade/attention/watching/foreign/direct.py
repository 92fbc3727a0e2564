"""Reports forward passes of torch's attention modules that start with ``module.forward(...)``, which skips all hooks.

While a torch function mode is active, such a module would leave its fast path (one fused kernel), and its output could
change. So while a model is watched or edited, the ``forward`` of these classes is wrapped, and the wrapper reports what
the hooks would report. If a program stored ``module.forward`` earlier, its copy is not wrapped; Saccade finds it by
searching the call stack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

from torch import nn

__all__ = ["stored_forward", "unwrap_forwards", "unwrapped", "wrap_forwards"]

#: The largest number of stack frames between the forward of torch's module and the attention that it calls.
MAX_CALLERS = 8

Forward = Callable[..., Any]
#: A function that runs a forward pass, given the module, its original forward, and the arguments.
RunForward = Callable[[nn.Module, Forward, tuple[Any, ...], dict[str, Any]], Any]

#: The original method of each wrapper.
_originals: dict[Forward, Forward] = {}


def wrap_forwards(kinds: Sequence[type[nn.Module]], run: RunForward) -> None:
    """Replace the ``forward`` of these classes by a wrapper, which calls ``run``."""
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
    """Return the original method if this one is a wrapper made by ``wrap_forwards``; otherwise the method itself."""
    return _originals.get(method, method)


def stored_forward(
    caller: FrameType | None, kinds: Sequence[type[nn.Module]], running: Sequence[nn.Module]
) -> nn.Module | None:
    """Return the module of these classes whose ``forward`` is on the call stack; None if it is in ``running``, or if
    there is none.

    Such a module was not reported as running, because its ``forward`` was stored before it was wrapped.
    """
    codes = [getattr(unwrapped(kind.forward), "__code__", None) for kind in kinds]
    for _ in range(MAX_CALLERS):
        if caller is None:
            break
        if caller.f_code in codes:
            module: nn.Module | None = caller.f_locals.get("self")
            return None if any(module is other for other in running) else module
        caller = caller.f_back
    return None


def _wrapper(original: Forward, run: RunForward) -> Forward:
    def forward(self: nn.Module, *arguments: Any, **named: Any) -> Any:
        return run(self, original, arguments, named)

    # torch.jit.script reads the source of what is wrapped, and looks its names up in the globals of the wrapper.
    names = getattr(original, "__globals__", globals())
    return functools.wraps(original)(FunctionType(forward.__code__, names, closure=forward.__closure__))
