"""``edit``: switch off heads and forbid links while a model runs, to see what depends on them.

Where a head looked does not say what its look was good for. What does is an experiment: run the model again without
the head, or without the link, and compare the outputs (Michel 2019, §2.2, switches heads off in the same way).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.masks import Mask
from saccade.attention.scores import Score
from saccade.attention.watching.watch import name_of
from saccade.attention.weights import Weights
from saccade.errors import OptionError, UnknownNameError

__all__ = ["Edit", "Shared", "active_edits", "edit", "editable", "under_edits"]

#: A link to forbid: the attention (``encoder.0.self``, or ``encoder.0.self:3`` for one head), query and key.
GivenLink = tuple[str, int, int]


class Shared(NamedTuple):
    """Rows that are the hypotheses of a search, side by side: they all stand at one position of their texts."""

    position: int
    key_positions: Sequence[int] | None  # where each key stands in its text; None: 0, 1, 2, ...


class _Link(NamedTuple):
    head: int | None  # None: every head
    row: int | None  # None: every row
    column: int


class _Without(Mask):
    """Everything but a few links."""

    def __init__(self, links: Sequence[_Link]) -> None:
        self.links = links

    def __call__(self, batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        forbidden = torch.zeros((), dtype=torch.bool, device=column.device)
        for link in self.links:
            hit = column == link.column
            hit = hit if link.row is None else hit & (row == link.row)
            forbidden = forbidden | (hit if link.head is None else hit & (head == link.head))
        return ~forbidden

    def is_full(self, first_row: int, last_row: int, start: int, stop: int) -> bool:
        return not any(
            start <= link.column < stop and (link.row is None or first_row <= link.row <= last_row)
            for link in self.links
        )


@dataclass
class Edit:
    """What is changed in the attentions of one model."""

    heads: dict[int, list[int]] = field(default_factory=dict)  # owner -> the heads that are switched off
    links: dict[int, list[_Link]] = field(default_factory=dict)  # owner -> the links that are forbidden
    _said: dict[tuple[int, _Link], str] = field(default_factory=dict)
    _met: set[tuple[int, _Link]] = field(default_factory=set)

    @property
    def unmet(self) -> list[str]:
        """The links that no pass so far had both a query and a key for, as ``encoder.0.self:4:2``."""
        return [said for link, said in self._said.items() if link not in self._met]

    def forbid(self, owner: int, rows: range, columns: int, shared: Shared | None) -> list[_Link]:
        """The links of an attention that a call meets, in the call's own rows and columns."""
        found = []
        for link in self.links.get(owner, ()):
            here = list(_in_call(link, rows, columns, shared))
            if here:
                self._met.add((owner, link))
            found += here
        return found


#: The edits of this thread, or of this asynchronous task.
_active: ContextVar[tuple[Edit, ...]] = ContextVar("edits", default=())


@contextmanager
def edit(
    model: nn.Module,
    *,
    without_heads: Sequence[str] = (),
    without_links: Sequence[GivenLink] = (),
) -> Iterator[Edit]:
    """Run one of our models with heads switched off and links forbidden: ``with saccade.edit(model, ...):``.

    ``without_heads`` are heads such as ``"decoder.2.cross:3"``: their outputs before W_O are zero. ``without_links``
    are ``("encoder.0.self", row, column)``, or ``"encoder.0.self:3"`` for one head: the query at that row may not
    attend to that key, and its other weights grow so that they sum to 1 again. Rows and columns are positions in the
    text, counted from 0, in every sequence of the batch; a step of a generation is at its own position.

    Only calls of this thread or asynchronous task are edited; edits may be nested, and a compiled model runs in its
    eager form. Who watches sees the edited weights; those of a head that is off are as it computed them.
    """
    if not isinstance(model, nn.Module):
        raise OptionError(f"edit() takes a torch module; not {type(model).__name__}.")
    names = editable(model)
    made = Edit()
    for given in without_heads:
        owner, head = _named(names, given)
        if head is None:
            raise OptionError(f"A head is named by its attention and its number, such as {given}:0; not {given!r}.")
        made.heads.setdefault(id(owner), []).append(head)
    for link in without_links:
        name, row, column = _checked(link)
        owner, head = _named(names, name)
        one = _Link(head, row, column)
        made.links.setdefault(id(owner), []).append(one)
        made._said[id(owner), one] = f"{name}:{row}:{column}"
    with under_edits((*_active.get(), made)):
        yield made


def active_edits() -> tuple[Edit, ...]:
    """The edits of this thread, or of this asynchronous task."""
    return _active.get()


@contextmanager
def under_edits(edits: tuple[Edit, ...]) -> Iterator[None]:
    """Run with these edits, and with no others that are in force outside."""
    token = _active.set(edits)
    try:
        if edits and "torch._dynamo" in sys.modules:  # compiled code would not ask for edits
            with torch.compiler.set_stance("force_eager"):
                yield
        else:
            yield
    finally:
        _active.reset(token)


def editable(model: nn.Module) -> dict[str, nn.Module]:
    """The attentions of a model that can be edited, by name: the modules of ours that score and weigh."""
    return {
        name_of(path): module
        for path, module in model.named_modules()
        if isinstance(getattr(module, "score", None), Score) and isinstance(getattr(module, "weights", None), Weights)
    }


def edits_of(owner: nn.Module | None) -> tuple[Edit, ...]:
    """The edits of this thread that change this attention."""
    active = _active.get()
    if not active or owner is None:
        return ()
    return tuple(one for one in active if id(owner) in one.heads or id(owner) in one.links)


def forbid_links(
    edits: Sequence[Edit], owner: nn.Module, mask: Mask | None, rows: range, columns: int, shared: Shared | None
) -> Mask | None:
    """The mask of a call without the links that are forbidden."""
    links = [link for one in edits for link in one.forbid(id(owner), rows, columns, shared)]
    if not links:
        return mask
    without = _Without(links)
    return without if mask is None else mask & without


def switch_off_heads(
    edits: Sequence[Edit], owner: nn.Module, output: Float[Tensor, "B H Q E"]
) -> Float[Tensor, "B H Q E"]:
    """Zeros in the place of what these heads took."""
    heads = [head for one in edits for head in one.heads.get(id(owner), ())]
    if not heads:
        return output
    off = torch.zeros(1, output.shape[1], 1, 1, dtype=torch.bool, device=output.device)
    off[:, heads] = True
    return output.masked_fill(off, 0.0)


def _in_call(link: _Link, rows: range, columns: int, shared: Shared | None) -> Iterator[_Link]:
    """A link between positions of a text as links between rows and columns of a call; none if they are not in it."""
    assert link.row is not None
    if shared is None:
        if link.row in rows and link.column < columns:
            yield link
    elif link.row == shared.position:
        places = range(columns) if shared.key_positions is None else shared.key_positions
        yield from (_Link(link.head, None, key) for key, place in enumerate(places) if place == link.column)


def _named(names: dict[str, nn.Module], given: str) -> tuple[nn.Module, int | None]:
    """``decoder.2.cross:3`` as the module and its head; without ``:3`` the head is None."""
    if not names:
        raise OptionError("This model has no attention of ours, so there is nothing to edit in it.")
    name, colon, number = str(given).partition(":")
    if name not in names:
        raise UnknownNameError("attention", name, names)
    if not colon:
        return names[name], None
    count = getattr(names[name], "num_heads", 1)
    if not number.isdecimal() or int(number) >= count:
        heads = f"heads 0 to {count - 1}" if count > 1 else "one head, 0"
        raise OptionError(f"There is no head {number!r} in {name}; it has {heads}.")
    return names[name], int(number)


def _checked(link: GivenLink) -> GivenLink:
    try:
        name, row, column = link
    except (TypeError, ValueError):
        raise OptionError(
            f"A link is (attention, row, column), such as ('encoder.0.self', 4, 2); not {link!r}."
        ) from None
    for place in (row, column):
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise OptionError(f"The row and column of a link are positions of at least 0; not {place!r} in {link!r}.")
    return name, row, column
