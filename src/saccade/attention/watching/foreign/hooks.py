"""The global hooks through which torch reports every forward pass of every module, in all threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.direct import unwrap_forwards, wrap_forwards

if TYPE_CHECKING:
    from saccade.attention.watching.foreign.intercept import Forwards

__all__ = ["add_hooks", "remove_hooks"]

_lock = threading.Lock()
_handles: list[RemovableHandle] = []
_num_users = 0


def add_hooks(forwards: Forwards) -> None:
    """Make torch report every forward pass; the hooks are added only for the first of several watchers and edits."""
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
                # remove() leaves this entry behind, and torch then warns at every compiled module that there are hooks.
                torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)
