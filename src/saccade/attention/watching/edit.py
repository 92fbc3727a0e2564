"""``edit``: switch off heads, replace their outputs or forbid links while a model runs, to see what depends on them.

A link is a query attending to a key. Attention weights do not show whether the output of the model depends on a head
or a link. An experiment does: run the model again without the head, or without the link, and compare the outputs
(Michel 2019, §2.2, switches heads off in the same way).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn

from saccade.attention.scores import Score
from saccade.attention.watching.coverage import looks_like_attention
from saccade.attention.watching.foreign.hooks import add_hooks, remove_hooks
from saccade.attention.watching.foreign.running import is_foreign
from saccade.attention.watching.interventions import (
    Edit,
    ForbiddenLink,
    HeadOutput,
    Target,
    active_edits,
    no_such_head,
    under_edits,
)
from saccade.attention.watching.watch import forwards, name_of
from saccade.attention.weights import Weights
from saccade.errors import OptionError, UnknownNameError

__all__ = ["edit", "editable"]

#: A link to forbid: the attention (``encoder.0.self``, or ``encoder.0.self:3`` for one head), query and key.
GivenLink = tuple[str, int, int]


@contextmanager
def edit(
    model: nn.Module,
    *,
    without_heads: Sequence[str] = (),
    without_links: Sequence[GivenLink] = (),
    set_heads: Mapping[str, Tensor] | None = None,
) -> Iterator[Edit]:
    """Run a model, Saccade's own or any other, with some of its attention changed: ``with saccade.edit(model, ...):``.

    ``without_heads`` names heads, such as ``"decoder.2.cross:3"``; their outputs become zero. ``set_heads``
    replaces the outputs of heads by tensors of shape (batch, positions, width), or of a shape that broadcasts to it:
    for example by the output for another input (``seen["encoder.0.self"].outputs(head=3)``, if that input was watched
    with ``values=True``), or by a mean output. ``without_links`` lists tuples ``("encoder.0.self", row, column)``, with
    ``"encoder.0.self:3"`` for one head only: the query at that row may not attend to the key at that column, and its
    other weights grow so that they sum to 1 again. Rows and columns are positions in the text, counted from 0; the link
    is forbidden in every sequence of the batch and in every step of generation.

    Names are those that ``watch`` uses. A module that runs several times in one forward pass is changed each time;
    ``name#2:3`` is head 3 of its second run alone. If a module cannot be edited, an error is raised: when it runs, if
    it does not call torch's attention; at the end of the ``with`` block, if the model ran but this module did not.

    Only calls of this thread or asynchronous task are edited; edits may be nested, and a compiled model runs in eager
    mode. A watcher sees the weights after the edit; a head that is switched off still shows the weights it computed.
    """
    if not isinstance(model, nn.Module):
        raise OptionError(f"edit() takes a torch module, not {type(model).__name__}.")
    made = make_edit(model, without_heads=without_heads, without_links=without_links, set_heads=set_heads or {})
    with applied(made):
        yield made


@contextmanager
def applied(made: Edit) -> Iterator[None]:
    """Run a block with an edit; at its end, raise an error if the model ran, but a module that is edited did not.

    This error is raised only for modules that are not Saccade's own.
    """
    is_foreign_edit = any(not target.is_ours for target in made.targets.values())
    if is_foreign_edit:
        add_hooks(forwards)
    try:
        with under_edits((*active_edits(), made)):
            yield
    finally:
        if is_foreign_edit:
            remove_hooks(forwards)
    idle = [target.name for target in made.targets.values() if not target.is_ours and not target.has_run]
    if idle and made.has_run:
        raise OptionError(f"The model ran, but its attention {idle[0]!r} did not, so the edit changed nothing in it.")


def make_edit(
    model: nn.Module,
    *,
    without_heads: Sequence[str] = (),
    without_links: Sequence[GivenLink] = (),
    set_heads: Mapping[str, Tensor],
) -> Edit:
    """Check the names and tensors that were passed to ``edit``, and return the changes that they ask for."""
    names, made = _empty(model)
    outputs: list[tuple[str, Tensor | None]] = [(given, None) for given in without_heads]
    for given, value in [*outputs, *set_heads.items()]:
        owner, target, head, use = _find(names, made, given)
        if head is None:
            raise OptionError(f"A head is named by its attention and its number, such as {given}:0; not {given!r}.")
        if value is not None and not isinstance(value, Tensor):
            raise OptionError(f"The output for {given} must be a tensor, not {type(value).__name__}.")
        made.targets[id(owner)] = target
        kept = None if value is None else value.clone()  # the caller may write into the tensor later
        target.heads.append(HeadOutput(given, head, kept, use=use))
    for link in without_links:
        given, row, column = _checked(link)
        owner, target, head, use = _find(names, made, given)
        made.targets[id(owner)] = target
        target.links.append(ForbiddenLink(f"{given}:{row}:{column}", head, row, column, use))
    return made


def find_target(model: nn.Module, name: str) -> tuple[Edit, Target]:
    """Return an edit that changes nothing yet, and its target for the named layer, to which changes can be added."""
    names, made = _empty(model)
    owner, target, _, _ = _find(names, made, name)
    made.targets[id(owner)] = target
    return made, target


def editable(model: nn.Module) -> dict[str, nn.Module]:
    """Return Saccade's own attention layers in a model, by name.

    These are the modules whose attributes ``score`` and ``weights`` are a score and a weights function, or whose
    attribute ``attends`` is True.
    """
    return {name_of(path): module for path, module in model.named_modules() if _is_ours(module)}


def _is_ours(module: nn.Module) -> bool:
    scores, weighs = (getattr(module, name, None) for name in ("score", "weights"))
    return getattr(module, "attends", False) is True or (isinstance(scores, Score) and isinstance(weighs, Weights))


class _Names(NamedTuple):
    ours: dict[str, nn.Module]
    foreign: dict[str, nn.Module]  # any of these may call attention; this is known only when they run


def _empty(model: nn.Module) -> tuple[_Names, Edit]:
    foreign = {name_of(path): module for path, module in model.named_modules() if is_foreign(module)}
    edit = Edit({}, {id(module): name for name, module in foreign.items()}, model)
    return _Names(editable(model), foreign), edit


def _find(names: _Names, made: Edit, given: str) -> tuple[nn.Module, Target, int | None, int | None]:
    """Return the module that a name such as ``decoder.2.cross#2:3`` refers to, its target, and the head (3) and use
    (2) if the name contains them."""
    if not names.ours and not names.foreign:
        raise OptionError("This model has no attention, so there is nothing to edit in it.")
    path, colon, number = str(given).partition(":")
    name, hash_sign, count = path.partition("#")
    is_ours = name in names.ours
    if not is_ours and name not in names.foreign:
        likely = [one for one, module in names.foreign.items() if looks_like_attention(module)]
        raise UnknownNameError("attention", name, [*names.ours, *(likely or names.foreign)])
    owner = names.ours[name] if is_ours else names.foreign[name]
    if hash_sign and (is_ours or not count.isdecimal() or int(count) < 1):
        raise OptionError(
            f"{path!r} is not the name of an attention layer; '#2' stands for the second call of a layer in one "
            "forward pass, and is possible only for layers from other libraries."
        )
    heads = getattr(owner, "num_heads", 1) if is_ours else None
    if colon and (not number.isdecimal() or (heads is not None and int(number) >= heads)):
        raise no_such_head(name, number, heads)
    target = made.targets.get(id(owner)) or Target(name, is_ours)
    return owner, target, int(number) if colon else None, int(count) if hash_sign else None


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
