"""The modules that are running, and the interface through which watchers learn what these modules compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from types import FrameType
from typing import Any, NamedTuple, Protocol

from torch import nn

from saccade.attention.equation import Call
from saccade.attention.watching.foreign import torch_modules
from saccade.attention.watching.foreign.lineage import Marks
from saccade.attention.watching.foreign.positions import RowTokens
from saccade.attention.watching.interventions import active_edits
from saccade.attention.watching.trace import Place

__all__ = ["Audience", "RunningModule", "Seen", "Way", "is_foreign", "way_of"]

#: Modules of these packages do not call torch's attention, or record their calls themselves.
PLAIN_MODULES = ("torch.nn.modules.", "torch._dynamo.", "saccade.")


class Way(Enum):
    """How Saccade finds out what attention a running module computes."""

    CALLS = auto()  # from the functions that it calls
    MODULE = auto()  # from the arguments of the module, which is torch's own
    KERNELS = auto()  # from the kernels that run, because a mode might make torch's module leave its fast path


@dataclass(slots=True)
class RunningModule:
    """A module whose forward pass is running."""

    number: int  # unique
    module: nn.Module
    way: Way
    caller: FrameType | None = None  # the stack frame that calls its forward
    mode_place: int | None = None  # the place of the function mode in the stack of modes, before this run changed it
    is_watched: bool = False  # whether it is part of a watched model, or runs within one
    has_entered: bool = False  # whether modes were added or removed for it
    marks: Marks | None = None  # for one of torch's modules: the marks of what it has computed so far
    rows: RowTokens | None = None  # for one of torch's modules: the tokens of its input
    given: tuple[Any, ...] = ()  # for one of torch's modules: its arguments, before the module's hooks changed them
    cached: int | str | None = None  # for an outermost run that is edited: see ``cached_positions``
    has_chosen_cache: bool = False  # for an outermost run: whether its cache was replaced since the last run
    is_later: bool = False  # for an outermost run: whether a call showed that it is a later step of a text
    linked: str | None = None  # for an outermost run: the name of an attention with an edit that names positions
    attended: list[nn.Module] = field(default_factory=list)  # this module and those inside it that called attention


class Seen(NamedTuple):
    """An attention call that a module from another library has made."""

    call: Call | str  # the call, or the reason why it cannot be shown
    module: nn.Module
    place: Place | None  # None in a step that is assumed to continue the last step: nothing is tracked then
    is_written_out: bool = False
    has_chosen_cache: bool = False  # whether the cache was replaced before this forward pass, as in beam search


class Audience(Protocol):
    """The interface of the watchers that are active in this thread."""

    def is_present(self) -> bool: ...

    def wants(self, module: nn.Module) -> bool: ...

    def wants_values(self) -> bool: ...

    def is_root(self, module: nn.Module) -> bool: ...

    def show(self, runs: list[RunningModule], seen: Seen) -> None: ...

    def stray(self) -> None: ...

    def lose(self) -> None: ...

    def end(self, run: RunningModule, is_finished: bool) -> None: ...


def is_foreign(module: nn.Module) -> bool:
    """Return whether a module may call torch's attention and, unlike Saccade's modules, does not record the call."""
    return not type(module).__module__.startswith(PLAIN_MODULES) or isinstance(module, torch_modules.FAST)


def way_of(module: nn.Module) -> Way:
    """Return how to see the attention of one of torch's modules. A module that may take its fast path leaves it only if
    it is edited."""
    if not torch_modules.has_own_functions():
        return Way.KERNELS  # with a mode, torch would call the function that replaced its own twice
    edited = {owner for edit in active_edits() for owner in edit.targets}
    if edited and any(id(part) in edited for part in module.modules()):
        return Way.CALLS
    if torch_modules.is_torchs_own(module):
        return Way.MODULE
    return Way.KERNELS if torch_modules.may_be_fast(module) else Way.CALLS
