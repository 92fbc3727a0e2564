"""The torch modes that report which functions and kernels run.

A function mode reports each torch function that is called. Where a function mode would
change the results of a model, a dispatch mode is used instead; it reports the kernels that run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.call import SDPA

if TYPE_CHECKING:
    from saccade.attention.watching.foreign.intercept import Forwards

__all__ = ["Kernels", "Mode", "num_modes", "place_of", "put_in", "take_out"]


class FunctionKind(Enum):
    """Whether a torch function computes attention, and in which form."""

    SDPA = auto()
    MULTI_HEAD = auto()
    OTHER_KERNEL = auto()  # computes attention, but its calls cannot be translated
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
    """Passes each call of a torch function to ``Forwards``."""

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
    """Reports the attention kernels that run to ``Forwards``. This mode does not make modules leave their fast path."""

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


# --- the stack of modes, in which other modes may come after ours ---


def num_modes() -> int:
    return torch._C._len_torch_function_stack()


def place_of(mode: TorchFunctionMode) -> int | None:
    """Return the place of a mode in torch's stack of function modes; None if it is not there."""
    return next((i for i in range(num_modes()) if torch._C._get_function_stack_at(i) is mode), None)


def take_out(mode: TorchFunctionMode) -> int | None:
    """Remove a mode from torch's stack of function modes; return its place, or None if it was not there."""
    place = place_of(mode)
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
