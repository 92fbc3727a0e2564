"""Whether torch follows a computation, for instance to export it, instead of just running it."""

from __future__ import annotations

import torch
from torch._guards import TracingContext

__all__ = ["is_exporting", "is_traced"]


def is_exporting() -> bool:
    """Return whether this thread's computation is exported. torch's own flag is then true in all threads."""
    return torch.compiler.is_exporting() and _is_followed()


def is_traced() -> bool:
    """Return whether tensors made now may belong to a trace, so that they must not be kept for later computations."""
    return bool(
        torch.compiler.is_compiling()
        or _is_followed()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def _is_followed() -> bool:
    """Return whether operations of this thread are intercepted, or its code is compiled."""
    return torch._C._len_torch_dispatch_stack() > 0 or TracingContext.try_get() is not None


# What ``torch.compiler.assume_constant_result`` does, which would import the compiler: the compiler calls this function
# itself, and takes its result for a constant.
_is_followed._dynamo_marked_constant = True  # type: ignore[attr-defined]
