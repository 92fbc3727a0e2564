"""Rules that track tokens through functions that compute each element separately, move elements, or write them.

Each rule takes the ids of the tokens that a function's arguments were computed from (``identity``) and returns those of
its outputs, or None if they are not known.

An index that says which elements to read or write may itself be computed from tokens. This is ignored, just as it is
for attention weights: an element that is read keeps its token. But if the element belongs to no token, as in a table
of parameters, the result belongs to the token of the index.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from saccade.attention.watching.foreign.called import Called, Ids, fits, flat, nobody
from saccade.attention.watching.foreign.identity import NOBODY, combined, merged, salt, salted
from saccade.attention.watching.foreign.row_functions import WRITES, is_in_place, name_of

# --- functions that compute each element separately ----------------------------------------------------------


def elementwise(called: Called) -> Any:
    """The rule for elementwise functions: each element of the output combines the tokens of the arguments' elements at
    the same place. An element that is multiplied by a constant zero belongs to no token."""
    found: list[Ids] = []
    for output in called.outputs:
        ids = nobody(output)
        for part in called.tensors():
            one = called.of(part)
            if one is not None and not fits(one.shape, output.shape):
                return None
            ids = ids if one is None else combined(ids, one)
        found.append(ids.expand(output.shape))
    if name_of(called.function) in ("mul", "multiply"):
        for factor in (*called.arguments, *called.named.values()):
            is_constant = not isinstance(factor, Tensor) or called.of(factor) is None
            is_zero = torch.as_tensor(factor == 0 if is_constant else False, device=called.outputs[0].device)
            if bool(is_zero.any()):
                found = [torch.where(is_zero, NOBODY, ids) for ids in found]
    return found


def alone(called: Called) -> Any:
    """The rule for functions such as ``bucketize``: the output has the tokens of the first argument.

    Its tokens are unknown if any other argument was computed from tokens.
    """
    return called.of(called.first()) if called.others_belong_to_nobody(called.first()) else None


def chosen(called: Called) -> Any:
    """The rule for ``where`` and ``masked_fill``: each element of the output combines the tokens of the element that
    was chosen and those of the condition."""
    if name_of(called.function) == "masked_fill":
        other, condition, one = called.first(), called.argument(1, "mask"), called.argument(2, "value")
    else:
        condition, one, other = called.first(), called.argument(1, "input"), called.argument(2, "other")
    of_condition = called.of(condition)
    of_one, of_other = (called.of(part) if isinstance(part, Tensor) else None for part in (one, other))
    shape = called.outputs[0].shape
    if of_one is None and of_other is None:
        return None if of_condition is None else of_condition.expand(shape)
    none = torch.full((), NOBODY, dtype=torch.int64, device=condition.device)
    ids = torch.where(condition, none if of_one is None else of_one, none if of_other is None else of_other)
    return (ids if of_condition is None else combined(ids, of_condition)).expand(shape)


def same(called: Called) -> Any:
    return called.or_nobody(called.first())


def constant(called: Called) -> Any:
    return [nobody(output) for output in called.outputs]


def random(called: Called) -> Any:
    return constant(called) if is_in_place(called.function) else None


# --- functions that move elements ----------------------------------------------------------------------------


def moved(called: Called) -> Any:
    name, first = name_of(called.function), called.first()
    ids = called.of(first)
    if ids is None:
        return _looked_up(called)
    if not (name.endswith("_as") or called.others_belong_to_nobody(first, *called.indices())):
        return None
    arguments, named = called.arguments[1:], {key: part for key, part in called.named.items() if part is not first}
    if any(isinstance(part, torch.dtype) for part in (*arguments, *named.values())):  # view(dtype): the same bits
        return ids if called.outputs[0].shape == ids.shape else None
    if name in ("view", "view_as", "_unsafe_view"):  # view() may fail for the strides of the ids
        return ids.reshape(called.outputs[0].shape)
    if name == "as_strided":
        is_plain = first.is_contiguous() and first.storage_offset() == 0 and not is_in_place(called.function)
        return ids.contiguous().as_strided(*arguments, **named) if is_plain else None
    if name == "unfold" and isinstance(called.function, FunctionType):  # not Tensor.unfold, but F.unfold
        return None
    function = called.function
    if is_in_place(function):
        function = getattr(Tensor, name)
    return function(ids, *arguments, **named)


def _looked_up(called: Called) -> Any:
    """Return the origin ids of what is read from a table without tokens: those of the index; None if it has none."""
    name, output = name_of(called.function), called.outputs[0]
    index = called.argument(1 if name in ("getitem", "take") else 2, "index")
    ids = called.of(index) if isinstance(index, Tensor) else None
    if ids is None or not called.others_belong_to_nobody(index):
        return None
    if name == "getitem" and index.dtype != torch.bool:
        return ids.view(*ids.shape, *(1,) * (output.ndim - ids.ndim)).expand(output.shape)
    if name == "index_select":
        after = output.ndim - called.argument(1, "dim") % output.ndim - 1
        return ids.view(-1, *(1,) * after).expand(output.shape)
    return ids if name in ("gather", "take", "take_along_dim") and ids.shape == output.shape else None


def joined(called: Called) -> Any:
    parts = called.first()
    rest = {key: part for key, part in called.named.items() if part is not parts}
    return called.function([called.or_nobody(part) for part in parts], *called.arguments[1:], **rest)


def padded(called: Called) -> Any:
    """The rule for padding: the constants that it adds belong to no token."""
    ids, pad = called.of(called.first()), called.argument(1, "pad")
    is_constant = called.argument(2, "mode", "constant") == "constant" or name_of(called.function) == "constant_pad_nd"
    if ids is None or not is_constant:
        return None
    return torch.constant_pad_nd(ids, tuple(pad), NOBODY)


def broadcast(called: Called) -> Any:
    tensors = list(flat(called.arguments))
    return [called.or_nobody(part).expand(out.shape) for part, out in zip(tensors, called.outputs, strict=True)]


def of_complex(called: Called) -> Any:
    """The rule for ``view_as_complex`` and ``view_as_real``: a complex number combines the tokens of its two parts."""
    ids = called.of(called.first())
    if ids is None:
        return None
    if name_of(called.function) == "view_as_real":
        return ids.unsqueeze(-1).expand(called.outputs[0].shape)
    return merged(ids, (ids.ndim - 1,)).squeeze(-1)


# --- functions that write ------------------------------------------------------------------------------------


def copied(called: Called) -> Any:
    """The rule for ``target.copy_(source)`` and ``target.data = source``: the target gets the tokens of the source."""
    source = called.argument(1, "src")
    return called.or_nobody(source).expand(called.outputs[0].shape) if isinstance(source, Tensor) else None


def filled(called: Called) -> Any:
    value = called.argument(1, "value")
    ids = called.of(value) if isinstance(value, Tensor) else None
    return constant(called) if ids is None else ids.expand(called.outputs[0].shape)


def written(called: Called) -> Any:
    name = name_of(called.function)
    place, target = WRITES[name], called.first()
    source = called.argument(place, "src" if "scatter" in name else "source")
    if called.named.get("reduce") is not None or called.argument(3, "accumulate", False) is True:
        return None
    of_target = called.or_nobody(target).clone()
    of_source: Any = NOBODY
    if isinstance(source, Tensor):
        of_source = called.or_nobody(source)
    arguments = (*called.arguments[1:place], of_source, *called.arguments[place + 1 :])
    function = torch.Tensor.__setitem__ if name == "setitem" else getattr(torch, name, None) or getattr(Tensor, name)
    result = function(of_target, *arguments)
    ids = of_target if result is None else result
    choosing = [part for part in flat(called.arguments[1:place]) if called.of(part) is not None]
    if not choosing or (isinstance(source, Tensor) and called.of(source) is not None):
        return ids
    return _chosen_places(called, choosing, ids)


def _chosen_places(called: Called, choosing: list[Tensor], ids: Ids) -> Ids | None:
    """Return the origin ids of a tensor after a constant was written to places that an index of tokens chose.

    Each element now also depends on the tokens of the index, because these decide whether it was overwritten.
    """
    name, index = name_of(called.function), called.arguments[1]
    if name == "setitem" and index is choosing[0] and index.dtype == torch.bool:
        spread = called.or_nobody(index)
        return combined(ids, spread.view(*spread.shape, *(1,) * (ids.ndim - spread.ndim)))
    if name == "scatter" and len(choosing) == 1:
        spread = merged(called.or_nobody(choosing[0]), (index % ids.ndim,))
        return combined(ids, spread) if fits(spread.shape, ids.shape) else None
    return None


def added(called: Called) -> Any:
    """The rule for functions that add to some elements of a tensor: an element that gets several tokens is mixed."""
    name = name_of(called.function)
    target, dim, index = called.arguments[:3]
    source = called.argument(3, "source" if name == "index_add" else "src")
    is_counted = called.of(source) is None and called.of(index) is not None  # counts how often tokens name each place
    if is_counted or not called.others_belong_to_nobody(target, source, index):
        return None
    ids, of_target = called.or_nobody(source), called.or_nobody(target)
    if name == "index_add":
        shape = [1] * ids.ndim
        shape[dim] = -1
        index = index.view(shape).expand(ids.shape)
    ids = ids.contiguous()[tuple(slice(size) for size in index.shape)]
    empty = torch.zeros(of_target.shape, dtype=torch.int64, device=ids.device)
    highest = empty.scatter_reduce(dim, index, ids, "amax")
    largest = torch.iinfo(torch.int64).max
    lowest = (empty + largest).scatter_reduce(dim, index, torch.where(ids == NOBODY, largest, ids), "amin")
    total = empty.scatter_add(dim, index, ids)
    hashed = combined(salted(highest, salt(name)), torch.where(total == highest, NOBODY, salted(total, salt(name))))
    return combined(of_target, torch.where(lowest < highest, hashed, highest))
