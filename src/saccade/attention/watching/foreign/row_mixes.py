"""Rules that track tokens through functions that reduce dimensions, multiply matrices, or combine windows of positions.

Each rule takes the ids of the tokens that a function's arguments were computed from (``identity``) and returns those of
its outputs, or None if they are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from saccade.attention.watching.foreign.called import Called, Ids, fits, flat
from saccade.attention.watching.foreign.identity import NOBODY, combined, is_made_of_rows, merged, salt, salted, token
from saccade.attention.watching.foreign.row_functions import OVER, name_of
from saccade.attention.watching.foreign.row_moves import elementwise

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


def counted(called: Called) -> Any:
    """The rule for ``cumsum``. If it counts the tokens that are not padding, each result is a position and belongs to
    the token at that place; otherwise each result is a sum of several tokens."""
    first, dim = called.first(), called.argument(1, "dim")
    if not first.is_floating_point() and isinstance(dim, int) and _tells_padding(first, dim, called.texts):
        return called.of(first)
    return over(called)


def _tells_padding(numbers: Tensor, dim: int, texts: Sequence[Tensor]) -> bool:
    """Return whether the numbers are 1 for tokens and 0 for padding.

    Padding is at one end of each text, and all of it is the same word, which occurs nowhere else.
    """
    is_real = numbers.movedim(dim, -1) != 0
    is_one_end = ((is_real[..., 1:] != is_real[..., :-1]).sum(-1) <= 1).all() & is_real.any(-1).all()
    if not bool(is_one_end & ((numbers == 0) | (numbers == 1)).all()):
        return False
    for text in (text for text in texts if text.shape == numbers.shape):
        padding = text[numbers == 0]
        if not len(padding) or not bool((padding != padding[0]).any() | (text[numbers != 0] == padding[0]).any()):
            return True
    return False


def _over(called: Called, dims: Any) -> Any:
    ids: Ids | None = None
    for part in called.tensors():
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
    if shape != ids.shape or places == (ids.ndim - 1,):  # a reduction, or a whole row becomes one token
        return whole.expand(shape) if fits(whole.shape, shape) else None
    together = combined(ids, whole)
    return together if together is ids or torch.equal(together, ids) else salted(together, salt(name))


def normalized(called: Called) -> Any:
    """The rule for normalization over the last dimensions, over channels or over a batch."""
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
    """The rule for sorting: the result has known tokens only if all numbers sorted together belong to one token."""
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
    """The rule for matrix products: an element combines the tokens of a row on the left and a column on the right."""
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
    return combined(found, beside) if fits(beside.shape, found.shape) else None


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
        return None  # a constant matrix mixes or moves the tokens
    columns = (columns if left.ndim > 1 else columns.squeeze(-2)).expand(shape)
    return columns if result is None else combined(result, columns)


def summed(called: Called) -> Any:
    """The rule for ``einsum``, which sums over the dimensions that its output does not have."""
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
                return None  # a constant factor mixes or moves the tokens
            ids = whole.squeeze(lost)
        kept = [letter for letter in term if letter in result]
        ids = ids.permute([kept.index(letter) for letter in result if letter in kept])
        ids = ids[tuple(slice(None) if letter in kept else None for letter in result)].expand(called.outputs[0].shape)
        found = ids if found is None else combined(found, ids)
    return found


def _terms(equation: str, factors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each factor and of the result; each dimension that "..." stands for gets a name as well."""
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
    """The rule for ``grouped_mm``, which multiplies each row by the matrix of its group: rows keep their tokens."""
    rows, matrices = called.arguments[:2]
    ids = called.of(rows)
    if (
        ids is None
        or rows.ndim != 2
        or matrices.ndim != 3
        or not called.others_belong_to_nobody(rows, *called.indices())
    ):
        return None
    return merged(ids, (1,)).expand(called.outputs[0].shape)


# --- windows and lookups -------------------------------------------------------------------------------------


def windows(called: Called) -> Any:
    """The rule for convolution and pooling of (batch, channels, *places): each place of the output is a new token.

    But a convolution of size 1 keeps the tokens, and so does pooling if each channel is one token.
    """
    first, output = called.first(), called.outputs[0]
    ids = called.of(first)
    if ids is None or ids.ndim < 3 or output.ndim != ids.ndim or not called.others_belong_to_nobody(first):
        return None
    if name_of(called.function)[-2:] in ("1d", "2d", "3d") and ids.ndim != int(name_of(called.function)[-2]) + 2:
        return None  # the input has no batch dimension
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
    whole = salted(merged(channels, places), salt(repr((name_of(called.function), sizes)))).flatten()
    size = output.shape[2:]
    texts, new = (torch.arange(count, device=ids.device) for count in (len(ids), size.numel()))
    found = token(called.made(whole, len(new)), texts[:, None], new)
    if bool(is_made_of_rows(whole).any()):  # then they are mixtures of rows of an input, and get no labels
        found = combined(whole[:, None], found)
    return found.view(len(ids), 1, *size).expand(output.shape)


def embedded(called: Called) -> Any:
    """The rule for ``embedding``: a row combines the tokens of its index with those of the table, if it has any."""
    one, other = [*called.tensors()][:2]
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
