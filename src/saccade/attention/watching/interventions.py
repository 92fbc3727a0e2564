"""Changes one call of an attention layer as an edit asks: forbids links (from a query to a key), replaces head outputs.

``edit`` says which attention layers of a model to change and for how long. The code that computes attention asks this
module what to change in a call: ``attend`` for Saccade's own layers, ``foreign.editing`` for all others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils import checkpoint

from saccade.attention.masks import Mask
from saccade.errors import OptionError, ShapeError

__all__ = [
    "Edit",
    "ForbiddenLink",
    "HeadOutput",
    "Shared",
    "Target",
    "active_edits",
    "cannot",
    "is_backward",
    "under_edits",
]


CHECKPOINTED = (
    "torch.utils.checkpoint computes it a second time in the backward pass, when the edit may be over; switch gradient "
    "checkpointing off, or run the model under torch.no_grad()"
)


class Shared(NamedTuple):
    """Says that the rows of a call are not successive positions, but hypotheses of one beam search.

    All of them are at the same position in their texts.
    """

    position: int
    key_positions: Sequence[int] | None  # where each key is in its text; None: 0, 1, 2, ...


@dataclass
class ForbiddenLink:
    """A link to forbid: the query at one position may not attend to the key at another."""

    label: str  # as the user wrote it: ``encoder.0.self:3:4:2``
    head: int | None  # None: every head
    row: int
    column: int
    use: int | None = None  # which call of the module within one forward pass, counted from 1; None: every call
    was_met: bool = False  # whether any call contained both the query and the key


@dataclass
class HeadOutput:
    """A head whose output, before W_O, is replaced."""

    label: str
    head: int
    value: Float[Tensor, "#B #Q V"] | None = None  # None: zeros
    row: int | None = None  # None: at every position
    use: int | None = None
    was_met: bool = False


@dataclass
class Target:
    """The changes of an edit to one attention layer."""

    name: str
    is_ours: bool
    has_run: bool = False
    heads: list[HeadOutput] = field(default_factory=list)
    links: list[ForbiddenLink] = field(default_factory=list)

    @property
    def changes(self) -> list[ForbiddenLink | HeadOutput]:
        return [*self.links, *self.heads]

    @property
    def needs_positions(self) -> bool:
        """Whether any of the changes applies only to certain positions of the text."""
        return bool(self.links) or any(head.row is not None for head in self.heads)


@dataclass
class Edit:
    """The changes to the attention layers of one model."""

    targets: dict[int, Target]  # by the identity of the module
    modules: dict[int, str]  # names of modules that are not Saccade's own but may call attention, by identity
    model: nn.Module  # held so that the identities above stay valid
    has_run: bool = False  # whether any of those modules ran during the edit

    @property
    def unmet(self) -> list[str]:
        """The names of edited links (such as ``encoder.0.self:4:2``) and heads that no call has contained so far."""
        return [one.label for target in self.targets.values() for one in target.changes if not one.was_met]


class RowRange(NamedTuple):
    """The positions in the text of the rows (queries) of a call, and its number of columns (keys)."""

    rows: range
    num_columns: int
    shared: Shared | None = None
    use: int | None = None  # which call of its module this is within one forward pass


#: The edits of this thread, or of this asynchronous task.
_active: ContextVar[tuple[Edit, ...]] = ContextVar("edits", default=())


def active_edits() -> tuple[Edit, ...]:
    """Return the edits of this thread or asynchronous task."""
    return _active.get()


@contextmanager
def under_edits(edits: tuple[Edit, ...]) -> Iterator[None]:
    """Run a block with only these edits active, in place of those that are active now."""
    token = _active.set(edits)
    try:
        if edits and "torch._dynamo" in sys.modules:  # compiled code would ignore the edits
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            yield
    finally:
        _active.reset(token)


def targets_of(owner: nn.Module | None) -> tuple[Target, ...]:
    """Return what the edits of this thread or asynchronous task change in this layer, the outermost edit first."""
    active = _active.get()
    if not active or owner is None:
        return ()
    targets = tuple(edit.targets[id(owner)] for edit in active if id(owner) in edit.targets)
    if targets and _is_computed_again():
        raise cannot(targets[0].name, CHECKPOINTED)
    return targets


def is_backward() -> bool:
    """Whether a backward pass is running in this thread."""
    return torch._C._current_graph_task_id() != -1


def _is_computed_again() -> bool:
    """Whether gradient checkpointing will repeat the running computation in the backward pass, or is repeating it."""
    if is_backward():
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is checkpoint.CheckpointFunction.forward.__code__:  # runs without gradients in any case
            return any(isinstance(part, Tensor) and part.requires_grad for part in frame.f_locals["args"])
        if frame.f_code.co_filename == checkpoint.__file__:
            return torch.is_grad_enabled()
        frame = frame.f_back
    return False


class _LocalLink(NamedTuple):
    """A forbidden link, given by the rows and columns of one call."""

    head: int | None  # None: every head
    row: int | None  # None: every row
    column: int


class _Without(Mask):
    """Allows everything but a few links."""

    def __init__(self, cells: Sequence[_LocalLink]) -> None:
        self.cells = cells

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        forbidden = torch.zeros((), dtype=torch.bool, device=column.device)
        for cell in self.cells:
            hit = column == cell.column
            hit = hit if cell.row is None else hit & (row == cell.row)
            forbidden = forbidden | (hit if cell.head is None else hit & (head == cell.head))
        return ~forbidden

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return not any(
            start <= cell.column < stop and (cell.row is None or first_row <= cell.row <= last_row)
            for cell in self.cells
        )


def forbid_links(targets: Sequence[Target], mask: Mask | None, where: RowRange) -> Mask | None:
    """Return a mask that allows what ``mask`` allows, except for the links that these targets forbid in this call."""
    cells = [cell for target in targets for link in target.links for cell in _in_call(link, where)]
    if not cells:
        return mask
    without = _Without(cells)
    return without if mask is None else mask & without


def _in_call(link: ForbiddenLink, where: RowRange) -> list[_LocalLink]:
    """Translate a link between positions of a text into rows and columns of a call; empty if the call lacks it."""
    found = []
    if link.use in (None, where.use):
        if where.shared is None:
            if link.row in where.rows and link.column < where.num_columns:
                found = [_LocalLink(link.head, link.row, link.column)]
        elif link.row == where.shared.position:
            keys = where.shared.key_positions
            places = range(where.num_columns) if keys is None else keys
            found = [_LocalLink(link.head, None, key) for key, place in enumerate(places) if place == link.column]
    link.was_met = link.was_met or bool(found)
    return found


def replace_outputs(
    targets: Sequence[Target], output: Float[Tensor, "B H Q V"], where: RowRange
) -> Float[Tensor, "B H Q V"]:
    """Replace the outputs of the edited heads in the output of a call; other heads do not change by a single bit."""
    changes = [head for target in targets for head in target.heads if head.use in (None, where.use)]
    if not changes:
        return output
    output = output.clone()
    for change in changes:
        if change.head >= output.shape[1]:
            raise no_such_head(change.label.partition(":")[0], change.head, output.shape[1])
        rows = where.rows
        if change.row is None:
            here = slice(None)
        elif where.shared is not None:
            here = slice(None) if change.row == where.shared.position else slice(0)
        else:
            here = slice(change.row - rows.start, change.row - rows.start + 1) if change.row in rows else slice(0)
        change.was_met = change.was_met or here != slice(0)
        if here != slice(0):
            output[:, change.head, here] = _value(change, output)[:, here]
    return output


def cannot(name: str, reason: str) -> OptionError:
    return OptionError(f"The attention {name} cannot be edited: {reason}.")


def no_such_head(name: str, head: object, count: int | None) -> OptionError:
    if count is None:
        return OptionError(f"There is no head '{head}' in {name}; heads are numbered from 0.")
    heads = f"heads 0 to {count - 1}" if count > 1 else "one head, 0"
    return OptionError(f"There is no head '{head}' in {name}; it has {heads}.")


def _value(change: HeadOutput, output: Float[Tensor, "B H Q V"]) -> Float[Tensor, "B Q V"]:
    """Return the replacement for the head's output, at each row of the call."""
    batch, _, num_rows, width = output.shape
    if change.value is None:
        return output.new_zeros(1, 1, 1).expand(batch, num_rows, width)
    value = change.value.to(dtype=output.dtype, device=output.device)
    try:
        return value.expand(batch, num_rows, width)
    except RuntimeError:
        raise ShapeError(
            f"The output given for {change.label} has shape {tuple(change.value.shape)}; expected (batch, positions, "
            f"width) = {(batch, num_rows, width)}, or a shape that broadcasts to it."
        ) from None
