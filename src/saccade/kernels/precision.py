"""Narrow matrix products, that is, in a lower precision, with everything else in full precision: ``precision = "bf16"``
in training.

On a GPU this is torch's autocast. On a CPU, autocast loses more time by converting types around small operations than
its faster products save. So on a CPU, only the products of ``F.linear`` and of the vocabulary loss are narrow, which is
twice as fast on a processor with bf16 instructions; weights and all other operations keep their type. A processor
without them would take two to three times as long as in fp32. On such processors, the same rounded numbers are
multiplied in fp32, and the products are not rounded.

Some virtual machines report matrix instructions (AMX) that they cannot run, and torch's narrow products then crash the
process. ``check_narrow_products`` tries such a product in a separate process first.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from saccade.errors import OptionError

__all__ = ["check_narrow_products", "narrow_products", "narrowed", "product_type", "without_autocast"]

#: torch reads this environment variable when it runs its first CPU kernel; this value excludes AMX.
_LIMIT, _WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
#: Names of bf16 instructions in /proc/cpuinfo, on x86 and ARM.
_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}
_PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"

_NARROW: ContextVar[torch.dtype | None] = ContextVar("narrow", default=None)


@contextmanager
def narrow_products(device: str, dtype: torch.dtype = torch.bfloat16) -> Iterator[None]:
    """A context in which matrix products on this device are computed in this type (see the module for which)."""
    if device != "cpu":
        with torch.autocast(device, dtype):
            yield
        return
    check_narrow_products()
    token = _NARROW.set(dtype)
    try:
        with _NarrowLinear():
            yield
    finally:
        _NARROW.reset(token)


@functools.cache
def check_narrow_products() -> None:
    """Raise an error if narrow products would crash the process. This is tried only on processors that report AMX."""
    if _LIMIT in os.environ or "amx_tile" not in _processor_features():
        return
    if subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False).returncode < 0:
        raise OptionError(
            "bf16 would crash on this machine, because it reports AMX instructions that it cannot run. "
            f"Set {_LIMIT}={_WITHOUT_AMX} in the environment and run the command again, or use fp32."
        )


@functools.cache
def _processor_features() -> frozenset[str]:
    """Names of the processor's instruction sets; none where the system does not list them."""
    processor = Path("/proc/cpuinfo")
    return frozenset(processor.read_text(encoding="utf-8").split()) if processor.exists() else frozenset()


def narrowed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x rounded to this type: in fp32 if this processor has no instructions to multiply such numbers."""
    narrow = x.to(dtype)
    features = _processor_features()
    is_slow = dtype == torch.bfloat16 and x.device.type == "cpu" and features and not features & _INSTRUCTIONS
    return narrow.float() if is_slow else narrow


def product_type(x: Tensor) -> torch.dtype:
    """Return the type in which matrix products with x are computed in the current context."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return _NARROW.get() or x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast on x's device."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


class _NarrowLinear(TorchFunctionMode):
    """Replaces ``F.linear`` and nothing else."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear and not named:
            return _narrow_linear(*arguments)
        return function(*arguments, **(named or {}))


def _narrow_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = _NarrowProduct.apply(x, weight, product_type(x))  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias


class _NarrowProduct(torch.autograd.Function):
    """``x Wᵀ`` and its gradients, computed from narrow copies and returned in the types of x and W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        rows = narrowed(x.reshape(-1, x.shape[-1]), dtype)
        narrow = narrowed(weight, dtype)
        ctx.save_for_backward(rows, narrow)
        ctx.types = x.dtype, weight.dtype, dtype
        return (rows @ narrow.T).to(x.dtype).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight = ctx.saved_tensors
        of_x, of_w, dtype = ctx.types
        narrow = narrowed(gradient.reshape(-1, gradient.shape[-1]), dtype)
        of_input = of_weight = None
        if ctx.needs_input_grad[0]:
            of_input = (narrow @ weight).to(of_x).view(*gradient.shape[:-1], weight.shape[1])
        if ctx.needs_input_grad[1]:
            of_weight = (narrow.T @ rows).to(of_w)
        return of_input, of_weight, None
