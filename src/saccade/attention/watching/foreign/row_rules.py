"""What the functions of torch do to tokens: the list of all that are known.

Each rule takes the tokens of a function's arguments (``identity``) and returns those of its outputs. A function that
has no rule, or that is called in a way its rule does not know, returns ``None`` here: nobody knows which tokens its
output belongs to. So a function is only ever trusted because of what is written below.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.attention.watching.foreign.identity import NOBODY, combined, merged, salt, salted
from saccade.attention.watching.foreign.row_functions import (
    ADDS,
    CONSTANTS,
    ELEMENTWISE,
    JOINS,
    MOVES,
    OVER,
    RANDOM,
    SAME,
    WRITES,
    is_in_place,
    name_of,
    pointwise,
    words,
)

__all__ = ["Called", "flat", "rule_of"]

Ids = Tensor  # of whole numbers, one for each number of the tensor that they belong to


class Called(NamedTuple):
    """A call of a function, and the tokens of its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: Sequence[Tensor]
    of: Callable[[Any], Ids | None]  # the tokens of an argument; None if it belongs to nobody

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.arguments[place] if len(self.arguments) > place else self.named.get(name, default)

    def first(self) -> Any:
        """Return the first argument, by whatever name."""
        return self.arguments[0] if self.arguments else next(iter(self.named.values()))

    def or_nobody(self, tensor: Tensor) -> Ids:
        ids = self.of(tensor)
        return _nobody(tensor) if ids is None else ids

    def others_belong_to_nobody(self, *known: object) -> bool:
        """Return whether no tensor but these has tokens."""
        every = flat((self.arguments, tuple(self.named.values())))
        return all(any(part is one for one in known) or self.of(part) is None for part in every)


Rule = Callable[[Called], Any]


def flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from flat(value)


# --- each number by itself ----------------------------------------------------------------------------------


def elementwise(called: Called) -> Any:
    """Each output has the tokens of all arguments, at the same places."""
    found: list[Ids | None] = []
    for output in called.outputs:
        ids: Ids | None = None
        for part in flat((called.arguments, tuple(called.named.values()))):
            one = called.of(part)
            if one is None:
                continue
            if not _fits(one.shape, output.shape):
                return None
            ids = one if ids is None else combined(ids, one)
        found.append(_nobody(output) if ids is None else ids.expand(output.shape))
    return found


def same(called: Called) -> Any:
    return called.or_nobody(called.first())


def constant(called: Called) -> Any:
    return [_nobody(output) for output in called.outputs]


def random(called: Called) -> Any:
    return constant(called) if is_in_place(called.function) else None


def _nobody(tensor: Tensor) -> Ids:
    return torch.full((1,) * tensor.ndim, NOBODY, dtype=torch.int64, device=tensor.device).expand(tensor.shape)


def _fits(shape: torch.Size, whole: torch.Size) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole), strict=False))


# --- functions that move numbers -----------------------------------------------------------------------------


def moved(called: Called) -> Any:
    name, first = name_of(called.function), called.first()
    ids = called.of(first)
    if ids is None:
        return _looked_up(called)
    if not (name.endswith("_as") or called.others_belong_to_nobody(first, *_indices(called))):
        return None
    arguments, named = called.arguments[1:], {key: part for key, part in called.named.items() if part is not first}
    if any(isinstance(part, torch.dtype) for part in (*arguments, *named.values())):  # the bits of each number
        return ids if called.outputs[0].shape == ids.shape else None
    if name in ("view", "view_as", "_unsafe_view"):  # repeated tokens need not have strides that fit
        return ids.reshape(called.outputs[0].shape)
    if name == "as_strided":
        is_plain = first.is_contiguous() and first.storage_offset() == 0 and not is_in_place(called.function)
        return ids.contiguous().as_strided(*arguments, **named) if is_plain else None
    if name == "unfold" and isinstance(called.function, FunctionType):  # torch.nn.functional's cuts out windows
        return None
    function = called.function
    if is_in_place(function):
        function = getattr(Tensor, name)
    return function(ids, *arguments, **named)


def _looked_up(called: Called) -> Any:
    """Numbers of a table that belongs to nobody, chosen by tokens."""
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


def _indices(called: Called) -> list[Any]:
    """Return the whole numbers and truth values among the arguments, which only choose."""
    every = flat((called.arguments, tuple(called.named.values())))
    return [part for part in every if not part.is_floating_point() and not part.is_complex()]


def joined(called: Called) -> Any:
    parts = called.first()
    rest = {key: part for key, part in called.named.items() if part is not parts}
    return called.function([called.or_nobody(part) for part in parts], *called.arguments[1:], **rest)


def padded(called: Called) -> Any:
    """Padding with a constant adds numbers that belong to nobody."""
    ids, pad = called.of(called.first()), called.argument(1, "pad")
    is_constant = called.argument(2, "mode", "constant") == "constant" or name_of(called.function) == "constant_pad_nd"
    if ids is None or not is_constant:
        return None
    return torch.constant_pad_nd(ids, tuple(pad), NOBODY)


def broadcast(called: Called) -> Any:
    tensors = list(flat(called.arguments))
    return [called.or_nobody(part).expand(out.shape) for part, out in zip(tensors, called.outputs, strict=True)]


def of_complex(called: Called) -> Any:
    """Two numbers become one complex number, or the other way round."""
    ids = called.of(called.first())
    if ids is None:
        return None
    if name_of(called.function) == "view_as_real":
        return ids.unsqueeze(-1).expand(called.outputs[0].shape)
    return merged(ids, (ids.ndim - 1,)).squeeze(-1)


# --- functions that write ------------------------------------------------------------------------------------


def copied(called: Called) -> Any:
    """``target.copy_(source)``, or ``target.data = source``."""
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
    return of_target if result is None else result


def added(called: Called) -> Any:
    """Several tokens that are added into one place become a new one."""
    name = name_of(called.function)
    target, dim, index = called.arguments[:3]
    source = called.argument(3, "source" if name == "index_add" else "src")
    if not called.others_belong_to_nobody(target, source, index):
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


# --- functions over a dimension ------------------------------------------------------------------------------


def over(called: Called) -> Any:
    name = name_of(called.function)
    place, default = OVER[name]
    if name in ("max", "min") and isinstance(called.argument(1, "other"), Tensor):
        return elementwise(called)
    dims = called.argument(place, "dim", called.named.get("axis", default))
    if dims is None and (default == "all" or name == "argmax"):
        dims = "all"
    if isinstance(dims, bool):  # var(x, unbiased)
        dims = called.named.get("dim", "all")
    return _over(called, dims)


def _over(called: Called, dims: Any) -> Any:
    ids: Ids | None = None
    for part in flat((called.arguments, tuple(called.named.values()))):
        one = called.of(part)
        if one is not None:
            ids = one if ids is None else combined(ids, one)
    if ids is None or dims is None:
        return None
    every = range(ids.ndim) if dims == "all" or dims == () else [dims] if isinstance(dims, int) else dims
    places = tuple(sorted({dim % ids.ndim for dim in every})) if ids.ndim else ()
    whole = merged(ids, places)
    return [_after(ids, whole, places, output.shape, name_of(called.function)) for output in called.outputs]


def _after(ids: Ids, whole: Ids, places: tuple[int, ...], shape: torch.Size, name: str) -> Ids | None:
    if len(shape) < ids.ndim:
        whole = whole.squeeze(places)
        return whole if whole.shape == shape else None
    if shape != ids.shape or places == (ids.ndim - 1,):  # a row is one token, or becomes one
        return whole.expand(shape) if _fits(whole.shape, shape) else None
    together = combined(ids, whole)
    return together if together is ids or torch.equal(together, ids) else salted(together, salt(name))


def normalized(called: Called) -> Any:
    """Norms over the last dimensions, over channels or over a batch."""
    name, first = name_of(called.function), called.first()
    ids = called.of(first)
    if ids is None or not called.others_belong_to_nobody(first):
        return None
    if name in ("layer_norm", "rms_norm"):
        size = len(called.argument(1, "normalized_shape"))
        return _over(called, tuple(range(ids.ndim - size, ids.ndim)))
    if name == "batch_norm":
        return _over(called, (0, *range(2, ids.ndim))) if called.argument(5, "training", False) else ids
    return _over(called, tuple(range(2 if name == "instance_norm" else 1, ids.ndim)))


def sorted_along(called: Called) -> Any:
    """The numbers of one token among themselves; those of several tokens are mixed."""
    ids = called.of(called.first())
    place = 2 if name_of(called.function) == "topk" else 1
    dim = called.argument(place, "dim", -1)
    if ids is None or not isinstance(dim, int) or isinstance(dim, bool):
        return None
    whole = merged(ids, (dim % ids.ndim,))
    return whole.expand(called.outputs[0].shape) if torch.equal(whole.expand(ids.shape), ids) else None


# --- products ------------------------------------------------------------------------------------------------


def linear(called: Called) -> Any:
    inputs = called.first()
    ids = called.of(inputs)
    if ids is None or not called.others_belong_to_nobody(inputs):
        return None
    return merged(ids, (ids.ndim - 1,)).expand(called.outputs[0].shape)


def product(called: Called) -> Any:
    """A matrix product: its numbers belong to the row of the left factor and the column of the right one."""
    name, arguments = name_of(called.function), called.arguments
    beside: Any = None
    if name in ("addmm", "baddbmm"):
        beside, arguments = called.or_nobody(arguments[0]), arguments[1:]
    if len(arguments) < 2 or called.named.keys() - {"beta", "alpha", "out"}:
        return None
    left, right = arguments[:2]
    if getattr(called.function, "__name__", "") == "__rmatmul__":
        left, right = right, left
    found = _product(called, left, right)
    if found is None or beside is None:
        return found
    return combined(found, beside) if _fits(beside.shape, found.shape) else None


def _product(called: Called, left: Tensor, right: Tensor) -> Ids | None:
    of_left, of_right = called.of(left), called.of(right)
    if left.ndim < 1 or (right.ndim < 2 and of_right is not None):
        return None
    shape, result = called.outputs[0].shape, None
    if of_left is not None:
        result = merged(of_left, (of_left.ndim - 1,))
        result = (result if right.ndim > 1 else result.squeeze(-1)).expand(shape)
    if of_right is None:
        return result
    columns = merged(of_right, (of_right.ndim - 2,))
    if of_left is None and not torch.equal(columns.expand(of_right.shape) * (of_right != NOBODY), of_right):
        return None  # something else decides which of the tokens goes where
    columns = (columns if left.ndim > 1 else columns.squeeze(-2)).expand(shape)
    return columns if result is None else combined(result, columns)


def summed(called: Called) -> Any:
    """``einsum`` sums over the dimensions that its output does not have."""
    equation, factors = called.arguments[0], list(flat(called.arguments[1:]))
    if not isinstance(equation, str):
        return None
    terms, result = _terms(equation, factors)
    found: Ids | None = None
    has_constant = any(called.of(factor) is None for factor in factors)
    for term, factor in zip(terms, factors, strict=True):
        ids = called.of(factor)
        if ids is None:
            continue
        lost = tuple(place for place, letter in enumerate(term) if letter not in result)
        if lost:
            whole = merged(ids, lost)
            if has_constant and not _are_last(lost, term) and not torch.equal(whole.expand(ids.shape), ids):
                return None  # the constant decides which of the tokens goes where
            ids = whole.squeeze(lost)
        kept = [letter for letter in term if letter in result]
        ids = ids.permute([kept.index(letter) for letter in result if letter in kept])
        ids = ids[tuple(slice(None) if letter in kept else None for letter in result)].expand(called.outputs[0].shape)
        found = ids if found is None else combined(found, ids)
    return found


def _terms(equation: str, factors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each factor and of the result, with one for each dimension that "..." stands for."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    counts = [factor.ndim - len(term.replace("...", "")) for term, factor in zip(terms, factors, strict=True)]
    most = max(count for count, term in zip([*counts, 0], [*terms, "..."], strict=True) if "..." in term)

    def letters(term: str, count: int) -> list[str]:
        before, dots, after = term.partition("...")
        return [*before, *(f"dimension {place}" for place in range(most - count, most) if dots), *after]

    if not arrow:
        once = sorted(letter for letter in set(given) - set(",.") if given.count(letter) == 1)
        result = ("..." if "..." in given else "") + "".join(once)
    return [letters(term, count) for term, count in zip(terms, counts, strict=True)], letters(result, most)


def _are_last(places: tuple[int, ...], term: Sequence[str]) -> bool:
    return places == tuple(range(len(term) - len(places), len(term)))


def grouped(called: Called) -> Any:
    """``grouped_mm``: each row is multiplied by the matrix of its group."""
    rows, matrices = called.arguments[:2]
    ids = called.of(rows)
    if (
        ids is None
        or rows.ndim != 2
        or matrices.ndim != 3
        or not called.others_belong_to_nobody(rows, *_indices(called))
    ):
        return None
    return merged(ids, (1,)).expand(called.outputs[0].shape)


# --- windows and lookups -------------------------------------------------------------------------------------


def windows(called: Called) -> Any:
    """Convolutions and pools of (batch, channels, *places): each place of the output is a new token."""
    first, output = called.first(), called.outputs[0]
    ids = called.of(first)
    if ids is None or ids.ndim < 3 or output.ndim != ids.ndim or not called.others_belong_to_nobody(first):
        return None
    if name_of(called.function)[-2:] in ("1d", "2d", "3d") and ids.ndim != int(name_of(called.function)[-2]) + 2:
        return None  # without a batch
    is_convolution = name_of(called.function).startswith(("conv", "_conv"))
    options = [*called.arguments[1:6], *(part for key, part in called.named.items() if key != "groups")]
    sizes = [tuple(part.shape[2:]) if isinstance(part, Tensor) else part for part in options if part is not None]
    if (
        is_convolution
        and all(size == 1 for size in called.arguments[1].shape[2:])
        and output.shape[2:] == ids.shape[2:]
    ):
        return merged(ids, (1,)).expand(output.shape)
    places = tuple(range(2, ids.ndim))
    inner = merged(ids, places)
    if not is_convolution and torch.equal(inner.expand(ids.shape), ids):
        return inner.expand(output.shape)  # each channel is a token
    channels = merged(ids, (1,))
    if not is_convolution and not torch.equal(channels.expand(ids.shape), ids):
        return None
    whole = salted(merged(channels, places), salt(repr((name_of(called.function), sizes))))
    size = output.shape[2:]
    place = torch.arange(size.numel(), device=ids.device).view(size) + 2 * salt("place")
    return combined(whole, place.expand(len(ids), 1, *size)).expand(output.shape)


def embedded(called: Called) -> Any:
    """Rows of a table that the tokens choose, or tokens that are themselves a table."""
    one, other = [*flat((called.arguments, tuple(called.named.values())))][:2]
    indices, table = (one, other) if other.is_floating_point() else (other, one)
    of_table, of_indices = called.of(table), called.of(indices)
    shape = called.outputs[0].shape
    found = None if of_table is None else of_table[indices]
    if of_indices is None:
        return found
    of_indices = of_indices.unsqueeze(-1).expand(shape)
    return of_indices if found is None else combined(found, of_indices)


def one_hot(called: Called) -> Any:
    ids = called.of(called.first())
    return None if ids is None else ids.unsqueeze(-1).expand(called.outputs[0].shape)


@functools.cache
def _rules() -> dict[str, Rule]:
    products = words("addmm baddbmm bmm matmul mm mv")
    norms = ["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"]
    pools = ["avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool"]
    sized = [f"{name}{size}d" for name in ("conv", *pools) for size in (1, 2, 3)]
    rules: dict[str, Rule] = {
        **dict.fromkeys(ELEMENTWISE | pointwise() - {"max", "min"}, elementwise),
        **dict.fromkeys(SAME, same),
        **dict.fromkeys(CONSTANTS, constant),
        **dict.fromkeys(RANDOM, random),
        **dict.fromkeys(MOVES, moved),
        **dict.fromkeys(JOINS, joined),
        **dict.fromkeys(WRITES, written),
        **dict.fromkeys(ADDS, added),
        **dict.fromkeys(OVER, over),
        **dict.fromkeys(norms, normalized),
        **dict.fromkeys(products, product),
        **dict.fromkeys([*sized, "interpolate", "upsample"], windows),
        **dict.fromkeys(["sort", "topk"], sorted_along),
        **dict.fromkeys(["pad", "constant_pad_nd"], padded),
        **dict.fromkeys(["view_as_real", "view_as_complex"], of_complex),
        **dict.fromkeys(["copy", "data ="], copied),
        **dict.fromkeys(["_grouped_mm", "grouped_mm"], grouped),
    }
    return rules | {
        "fill": filled, "linear": linear, "einsum": summed, "embedding": embedded, "one_hot": one_hot,
        "broadcast_tensors": broadcast,
    }  # fmt: skip


@functools.lru_cache(4096)
def rule_of(function: Callable[..., Any]) -> Rule | None:
    return _rules().get(name_of(function))
