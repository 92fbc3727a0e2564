"""Matrix products in a lower precision, everything else in full: what ``precision = "bf16"`` means in training.

On a GPU that is torch's autocast. On a CPU autocast loses more by changing types around each small operation than its
products gain; here only the products of ``F.linear`` and of the vocabulary are narrow (a processor with bf16
instructions does them twice as fast), while what stands between them, and the weights, stay as they are.

Some virtual machines announce matrix instructions (AMX) that they cannot run: torch's narrow products end the process
there. ``check_narrow_products`` finds that out in another process first.
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

__all__ = ["check_narrow_products", "narrow_products", "product_type", "without_autocast"]

#: torch's CPU kernels read this variable when the first of them runs; AMX is left out by this value.
_LIMIT, _WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
_PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"

_NARROW: ContextVar[torch.dtype | None] = ContextVar("narrow", default=None)


@contextmanager
def narrow_products(device: str, dtype: torch.dtype = torch.bfloat16) -> Iterator[None]:
    """A context in which matrix products have this type."""
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
    """Refuse narrow products where they would end the process; only processors that announce AMX are tried."""
    processor = Path("/proc/cpuinfo")
    if _LIMIT in os.environ or not processor.exists() or "amx_tile" not in processor.read_text(encoding="utf-8"):
        return
    if subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False).returncode < 0:
        raise OptionError(
            "Products in bf16 or int8 would crash here: this machine announces AMX instructions that it cannot run. "
            f"Set {_LIMIT}={_WITHOUT_AMX} in the environment and start again, or use precision fp32."
        )


def product_type(x: Tensor) -> torch.dtype:
    """The type in which products with x are computed here."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return _NARROW.get() or x.dtype


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which torch leaves the types of products on x's device unchanged."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


class _NarrowLinear(TorchFunctionMode):
    """Replaces ``F.linear``, and nothing else."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear and not named:
            return _linear(*arguments)
        return function(*arguments, **(named or {}))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = _Product.apply(x, weight, product_type(x))  # type: ignore[no-untyped-call]
    return product if bias is None else product + bias


class _Product(torch.autograd.Function):
    """``x Wᵀ`` and its gradients, each computed from narrow copies and given in the types of x and W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        rows = x.reshape(-1, x.shape[-1]).to(dtype)
        narrow = weight.to(dtype)
        ctx.save_for_backward(rows, narrow)
        ctx.types = x.dtype, weight.dtype
        return (rows @ narrow.T).to(x.dtype).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight = ctx.saved_tensors
        narrow = gradient.reshape(-1, gradient.shape[-1]).to(weight.dtype)
        of_input = of_weight = None
        if ctx.needs_input_grad[0]:
            of_input = (narrow @ weight).to(ctx.types[0]).view(*gradient.shape[:-1], weight.shape[1])
        if ctx.needs_input_grad[1]:
            of_weight = (narrow.T @ rows).to(ctx.types[1])
        return of_input, of_weight, None
