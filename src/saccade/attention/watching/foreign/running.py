"""The modules whose forward pass is running, and what their watchers are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from types import FrameType
from typing import Any, NamedTuple, Protocol

from torch import nn

from saccade.attention.equation import Call
from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.lineage import Marks
from saccade.attention.watching.foreign.positions import Positions
from saccade.attention.watching.interventions import active_edits
from saccade.attention.watching.trace import Place

__all__ = ["Audience", "RunningModule", "Seen", "Way", "is_foreign", "way_of"]

#: Modules of these packages call no attention of torch's, or record their calls themselves.
PLAIN_MODULES = ("torch.nn.modules.", "torch._dynamo.", "saccade.")


class Way(Enum):
    """How the attention of a running module is seen."""

    CALLS = auto()  # by the functions that it calls
    MODULE = auto()  # by the arguments of the module, which is torch's own
    KERNELS = auto()  # by the kernels that run, because a mode might make torch's module leave its fast path


@dataclass(slots=True)
class RunningModule:
    """A module whose forward is running."""

    number: int  # unique
    module: nn.Module
    way: Way
    caller: FrameType | None = None  # the frame that calls its forward
    mode_place: int | None = None  # where the mode was in the stack before
    is_watched: bool = False  # whether it is part of a watched model, or runs within one
    has_entered: bool = False  # whether modes were added or removed for it
    marks: Marks | None = None  # for one of torch's modules: those of what it has computed so far
    rows: Positions | None = None  # for one of torch's modules: those of what it was given
    given: tuple[Any, ...] = ()  # for one of torch's modules: its arguments, before hooks of its own changed them
    cached: int | str | None = None  # for an outermost run that is edited: see ``cached_positions``
    has_chosen_cache: bool = False  # for an outermost run: whether its cache was replaced by another since the last one
    is_later: bool = False  # for an outermost run: whether a call showed that it is a later step of a text
    linked: str | None = None  # for an outermost run: an attention that was edited at positions of the text
    attended: list[nn.Module] = field(default_factory=list)  # the modules inside that have called attention


class Seen(NamedTuple):
    """An attention of a module that is not part of Saccade."""

    call: Call | str  # or why it cannot be shown
    module: nn.Module
    place: Place | None  # None if nothing is followed: a step that is assumed to continue the last one
    is_written_out: bool = False
    has_chosen_cache: bool = False  # whether the cache was replaced before this forward pass, as in beam search


class Audience(Protocol):
    """The watchers that are active in this thread."""

    def is_present(self) -> bool: ...

    def wants(self, module: nn.Module) -> bool: ...

    def wants_values(self) -> bool: ...

    def is_root(self, module: nn.Module) -> bool: ...

    def show(self, runs: list[RunningModule], seen: Seen) -> None: ...

    def stray(self) -> None: ...

    def lose(self) -> None: ...

    def end(self, run: RunningModule, is_finished: bool) -> None: ...


def is_foreign(module: nn.Module) -> bool:
    """Whether this module may compute attention that only an interception can see."""
    return not type(module).__module__.startswith(PLAIN_MODULES) or isinstance(module, torch_modules.FAST)


def way_of(module: nn.Module) -> Way:
    """Return how to see one of torch's modules that may take a fast path, which it leaves only if it is edited."""
    if not torch_modules.has_own_functions():
        return Way.KERNELS  # a mode would make torch call the function that replaced its own a second time
    edited = {owner for edit in active_edits() for owner in edit.targets}
    if edited and any(id(part) in edited for part in module.modules()):
        return Way.CALLS
    if torch_modules.is_torchs_own(module):
        return Way.MODULE
    return Way.KERNELS if torch_modules.may_be_fast(module) else Way.CALLS
