"""Reports which attention layers of a model a watcher saw and which it missed, so that none is left out silently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["Coverage", "advice_for", "looks_like_attention", "reason_for", "unseen_modules"]

#: Parts of class names by which attention modules are recognised.
NAMES = ("attention", "attn")
#: Maximum number of names listed in a sentence.
MAX_NAMES = 3

NOT_CALLED = "it ran, but did not call any of torch's attention functions"
SCRIPTED = "it is compiled by TorchScript, which does not show what it computes; watch the model before it is compiled"
USE_SDPA = 'load the model with attn_implementation="sdpa" to see it'
USE_VIEW = (
    "it cannot be watched; ask the model for its weights (output_attentions=True in Hugging Face models) "
    "and pass them to saccade.view(outputs.attentions, tokens)"
)


@dataclass(frozen=True)
class Coverage:
    """Which attention layers, named by their paths in the model, were seen, refused or missed in a forward pass.

    A refused layer was seen, but its weights cannot be shown.
    """

    seen: tuple[str, ...]
    refused: Mapping[str, str]  # seen but not shown, each with the reason
    unseen: Mapping[str, str]  # not seen although it probably ran, each with the reason and the remedy
    notes: tuple[str, ...] = ()  # other attention that ran where the watcher cannot see it

    @property
    def is_complete(self) -> bool:
        return not self.refused and not self.unseen and not self.notes

    def __str__(self) -> str:
        parts = [f"{len(self.seen)} {'attention' if len(self.seen) == 1 else 'attentions'} seen"]
        for what, reasons in (("refused", self.refused), ("not seen", self.unseen)):
            for reason in dict.fromkeys(reasons.values()):
                names = [name for name, other in reasons.items() if other == reason]
                rest = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
                parts.append(f"{len(names)} {what} ({', '.join(names[:MAX_NAMES])}{rest}): {reason}")
        return "; ".join([*parts, *self.notes]) + "."


def looks_like_attention(module: nn.Module) -> bool:
    if isinstance(module, torch.jit.ScriptModule):
        computed = str(getattr(module, "inlined_graph", ""))
        return "attention" in computed or "softmax" in computed
    return any(name in type(module).__name__.lower() for name in NAMES)


def unseen_modules(ran: Mapping[str, nn.Module], known: Iterable[str]) -> list[str]:
    """Return the names of modules in ``ran`` that look like attention, but neither are nor contain one in ``known``.

    If such modules contain each other, only the innermost one is returned.
    """
    holders = {path for name in known for path in _paths_to(name)}
    found = [name for name, module in ran.items() if looks_like_attention(module) and name not in holders]
    inner = {path for name in found for path in _paths_to(name) if path != name}
    return [name for name in found if name not in inner]


def reason_for(model: nn.Module, name: str, module: nn.Module) -> str:
    """Return why the attention of a module that ran was not seen, and what the user can do about it."""
    return SCRIPTED if isinstance(module, torch.jit.ScriptModule) else f"{NOT_CALLED}; {advice_for(model, name)}"


def advice_for(model: nn.Module, name: str) -> str:
    """Return what the user can do to see the attention of the module with this name.

    This depends on the innermost Hugging Face model that contains the module.
    """
    nearest = None
    for path in ["", *_paths_to(name)]:
        try:
            module = model.get_submodule(path)
        except AttributeError:  # the name stands for the model itself
            continue
        nearest = module if hasattr(type(module), "_supports_sdpa") else nearest
    if getattr(nearest, "_supports_sdpa", False):
        used = getattr(getattr(nearest, "config", None), "_attn_implementation", None)
        if used not in (None, "sdpa"):
            return USE_SDPA
    return USE_VIEW


def _paths_to(name: str) -> list[str]:
    """Return a name and the names of all modules that contain it, the outermost first."""
    parts = name.split("#")[0].split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
