"""What a watcher saw of a model, and what it did not: no attention is left out without a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

__all__ = ["Coverage", "advice_for", "looks_like_attention", "unseen_modules"]

#: How modules that are attention are called.
NAMES = ("attention", "attn")
#: So many names are told in a sentence.
TOLD = 3

NO_PLACE = "it ran, but called none of torch's attention functions"
TO_SDPA = 'load the model with attn_implementation="sdpa" and it is seen'
TO_VIEW = (
    "it has no form that can be watched; ask the model for its weights (output_attentions=True in Hugging Face models) "
    "and pass them to saccade.view(outputs.attentions, tokens)"
)


@dataclass(frozen=True)
class Coverage:
    """The attentions of the last forward, by their names in the model."""

    seen: tuple[str, ...]
    refused: Mapping[str, str]  # why each cannot be shown
    unseen: Mapping[str, str]  # ran, or looks as if it did: why it was not seen, and what to do
    notes: tuple[str, ...] = ()  # what else ran where a watcher does not look

    @property
    def is_complete(self) -> bool:
        return not self.refused and not self.unseen and not self.notes

    def __str__(self) -> str:
        parts = [f"{len(self.seen)} {'attention' if len(self.seen) == 1 else 'attentions'} seen"]
        for what, reasons in (("refused", self.refused), ("not seen", self.unseen)):
            for reason in dict.fromkeys(reasons.values()):
                names = [name for name, other in reasons.items() if other == reason]
                rest = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
                parts.append(f"{len(names)} {what} ({', '.join(names[:TOLD])}{rest}): {reason}")
        return "; ".join([*parts, *self.notes]) + "."


def looks_like_attention(module: nn.Module) -> bool:
    return any(name in type(module).__name__.lower() for name in NAMES)


def unseen_modules(ran: Mapping[str, nn.Module], known: Iterable[str]) -> list[str]:
    """The innermost modules that ran, look like attention, and hold no attention that is known."""
    holders = {path for name in known for path in _paths_to(name)}
    found = [name for name, module in ran.items() if looks_like_attention(module) and name not in holders]
    inner = {path for name in found for path in _paths_to(name) if path != name}
    return [name for name in found if name not in inner]


def advice_for(model: nn.Module, name: str) -> str:
    """What to do so that the attention of this name is seen: by what the nearest model around it says of itself."""
    nearest = None
    for path in ["", *_paths_to(name)]:
        try:
            module = model.get_submodule(path)
        except AttributeError:  # the model itself, under a name
            continue
        nearest = module if hasattr(type(module), "_supports_sdpa") else nearest
    if getattr(nearest, "_supports_sdpa", False):
        used = getattr(getattr(nearest, "config", None), "_attn_implementation", None)
        if used not in (None, "sdpa"):
            return TO_SDPA
    return TO_VIEW


def _paths_to(name: str) -> list[str]:
    """A name and those of all modules that hold it."""
    parts = name.split("#")[0].split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
