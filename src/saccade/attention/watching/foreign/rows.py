"""Which token each number of a tensor belongs to, so that tokens that change places are noticed.

The marks of ``lineage`` say what a tensor was computed from, but not in which order its rows are. So while a forward
pass is watched, each tensor also has *rows*: for each of its numbers, the number of the token that it belongs to.

- A function that only moves numbers (``reshape``, ``x[:, order]``, ``cat``, ``gather``) is called with the rows too.
- A product or a sum of numbers of one token gives numbers of that token. Of numbers of several tokens, as in a
  convolution or a recurrent network, it *mixes* them.
- The output of any other function has the rows of its arguments, if the shapes agree. If the rows differ, it is mixed.
- After everything else, nothing is known about the rows, and nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["MIXED", "Mixed", "Rows"]


@contextmanager
def _unseen() -> Iterator[None]:
    """Compute rows without being watched; the result can be used with and without gradients."""
    with torch._C.DisableTorchFunction():
        if not torch.is_inference_mode_enabled():
            yield
            return
        with torch.inference_mode(False):
            yield


def _is_recorded() -> bool:
    """Return whether someone records what torch computes, so that we must compute nothing of our own."""
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return is_transformed or torch._C._get_tracing_state() is not None or torch._C._len_torch_dispatch_stack() > 0


class Mixed(Enum):
    """The numbers of a tensor belong to several tokens each."""

    MIXED = auto()


MIXED = Mixed.MIXED
#: The token of numbers that belong to none, such as those of a parameter.
NOBODY = -1


def _named(names: str) -> set[Any]:
    """Return the functions of these names: of torch, and methods of tensors."""
    every = [getattr(place, name, None) for name in names.split() for place in (torch, Tensor, F)]
    return {function for function in every if function is not None}


#: Functions that move the numbers of their first argument.
MOVES = {
    *_named(
        "view reshape permute transpose t flatten unflatten squeeze unsqueeze expand expand_as view_as reshape_as "
        "repeat repeat_interleave tile movedim moveaxis swapaxes swapdims roll flip rot90 fliplr flipud split chunk "
        "unbind tensor_split narrow select index_select gather take_along_dim __getitem__ unfold as_strided diagonal"
    ),
    *(getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")),
}
#: Functions that put the tensors of a list together.
JOINS = _named("cat concat concatenate stack hstack vstack dstack column_stack")
#: Functions that write a tensor, given here by its place among the arguments, into the first one.
WRITES = {
    **dict.fromkeys(_named("index_copy index_copy_ index_add index_add_ scatter scatter_ scatter_add scatter_add_"), 3),
    **dict.fromkeys(_named("__setitem__ index_put index_put_ masked_scatter masked_scatter_"), 2),
}
#: Functions that give the numbers of their first argument in an order of their own.
SORTS = _named("sort topk")
EMBEDS = {F.embedding, torch.embedding}
REDUCES = _named("sum mean amax amin max min prod")
PRODUCTS = _named("matmul __matmul__ bmm mm")
CONVOLUTIONS = _named("conv1d conv2d conv3d")
MIXES = {
    *_named("conv_transpose1d conv_transpose2d cumsum cumprod cummax cummin logcumsumexp lstm gru rnn_tanh rnn_relu"),
    *_named("avg_pool1d avg_pool2d max_pool1d max_pool2d adaptive_avg_pool1d lp_pool1d interpolate"),
    *(getattr(torch.fft, name) for name in ("fft", "ifft", "fft2", "ifft2", "fftn", "rfft", "irfft")),
}

Known = Int[Tensor, "..."] | Mixed


class Rows:
    """The rows of the tensors that a thread computes while a model is watched."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()  # torch does not give its types
        self._sizes: set[tuple[int, int]] = set()  # of (batch, positions) whose tokens have numbers

    @_unseen()
    def begin(self, inputs: Iterable[Tensor]) -> None:
        """Begin a forward pass with these inputs: (batch, positions) of whole numbers, or (batch, positions, width)."""
        self._known, self._sizes = WeakIdKeyDictionary(), set()
        for tensor in sorted(inputs, key=lambda tensor: -(0 if tensor.is_nested else tensor.numel())):
            if tensor.is_nested or _is_recorded():
                continue
            is_of_tokens = tensor.ndim == (3 if tensor.is_floating_point() else 2) and tensor.dtype != torch.bool
            # One row of positions serves all sequences.
            if is_of_tokens and not (len(tensor) == 1 and any(size[1] == tensor.shape[1] for size in self._sizes)):
                self.number(tensor)

    @_unseen()
    def number(self, tensor: Tensor) -> None:
        """Give numbers to the tokens of (batch, positions) or (batch, positions, width)."""
        size = (tensor.shape[0], tensor.shape[1])
        self._sizes.add(size)
        numbers = torch.arange(size[0] * size[1], device=tensor.device, dtype=torch.int32)
        self.set(tensor, numbers.view(*size, *(1,) * (tensor.ndim - 2)).expand(tensor.shape))

    def has_size(self, tensor: Tensor) -> bool:
        """Return whether tokens are numbered for this many sequences and positions."""
        return tuple(tensor.shape[:2]) in self._sizes

    def of(self, tensor: object) -> Known | None:
        """Return the rows of a tensor; None if they are not known."""
        return self._known.get(tensor) if isinstance(tensor, Tensor) else None

    def set(self, tensor: Tensor, rows: Known | None) -> None:
        is_index = rows is MIXED and not (
            tensor.is_floating_point() or tensor.is_complex()
        )  # it chooses tokens, but is not made of them
        if rows is None or is_index or (isinstance(rows, Tensor) and rows.shape != tensor.shape):
            self._known.pop(tensor, None)
        else:
            self._known[tensor] = rows

    @_unseen()
    def attended(self, query: Tensor | None, output: object) -> None:
        """Give the output of an attention the rows of its queries."""
        rows = None if query is None else self.of(query)
        if isinstance(output, Tensor):
            if isinstance(rows, Tensor):
                rows = rows[..., :1].expand(output.shape) if rows.shape[:-1] == output.shape[:-1] else None
            self.set(output, rows)

    @_unseen()
    def of_heads(self, tensor: Tensor | None) -> Known | None:
        """Return the rows of queries or keys (batch, ..., positions, width), as (batch, positions)."""
        rows = self.of(tensor)
        if not isinstance(rows, Tensor) or rows.ndim < 3 or not rows.numel():
            return None if isinstance(rows, Tensor) else rows
        one = rows[..., :1].flatten(1, -3)[:, 0, :, 0] if rows.ndim > 3 else rows[..., 0]
        whole = one.view(len(one), *(1,) * (rows.ndim - 3), one.shape[1], 1)
        return one if _agree(rows, whole) else MIXED

    @_unseen()
    def agree(self, one: Known | None, other: Known | None) -> bool:
        """Return whether two tensors have the same tokens in the same order, as far as is known."""
        if one is None or other is None or one is other:
            return True
        if not isinstance(one, Tensor) or not isinstance(other, Tensor):
            return False
        return one.shape == other.shape and _agree(one, other)

    def follow(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], outputs: Sequence[Tensor]
    ) -> None:
        """Pass the rows of the arguments on to the output."""
        given = [part for part in _flat((arguments, tuple(named.values()))) if self.of(part) is not None]
        if not given or _is_recorded():
            for output in outputs:
                self.set(output, None)
            return
        with _unseen():
            found = self._rows_after(function, arguments, named, outputs, given)
            if not isinstance(found, (tuple, list)):
                found = [found] * len(outputs)
            for output, rows in zip(outputs, found, strict=False):
                self.set(output, rows)

    def _rows_after(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        outputs: Sequence[Tensor],
        given: list[Tensor],
    ) -> Any:
        """Return the rows of the outputs: for each of them, or the same for all."""
        first = self.of(arguments[0]) if arguments else None
        if any(self.of(part) is MIXED for part in given):
            return MIXED
        if function in MIXES and isinstance(first, Tensor):
            return [MIXED if output.shape == first.shape else None for output in outputs]
        try:
            if function in MOVES or function in SORTS or function in JOINS or function in WRITES:
                return self._moved(function, arguments, named)
            if function in EMBEDS:
                return self._embedded(*(arguments[:2] if function is F.embedding else arguments[1::-1]))
            if function in REDUCES and isinstance(first, Tensor) and outputs and outputs[0].shape != first.shape:
                highest, lowest = (reduce(first, *arguments[1:], **named) for reduce in (torch.amax, torch.amin))
                return highest if torch.equal(highest, lowest) else None
            if function is torch.einsum:
                return self._summed(arguments[0], list(_flat(arguments[1:])), outputs[0])
            if function in CONVOLUTIONS:
                return self._convolved(arguments[0], arguments[1], outputs[0])
            factors = self._factors(function, arguments)
            if factors is not None:
                return self._product(*factors, outputs[0])
        except (RuntimeError, TypeError, IndexError, ValueError, AttributeError):  # an option that only numbers have
            return None
        return [self._agreed(output.shape, given) for output in outputs]

    def _moved(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if function in JOINS:
            return function([self._or_nobody(part) for part in arguments[0]], *arguments[1:], **named)
        first = self.of(arguments[0])
        if function in WRITES:
            return self._written(function, arguments, WRITES[function])
        if not isinstance(first, Tensor):
            return None
        if function in SORTS:  # the numbers of one token among themselves, or each its own way
            place = 2 if "topk" in function.__name__ else 1
            dim = named.get("dim", arguments[place] if len(arguments) > place else -1)
            one = first.narrow(dim, 0, 1)
            size = list(first.shape)
            size[dim] = arguments[1] if place == 2 and len(arguments) > 1 else named.get("k", size[dim])
            return [one.expand(size) if _agree(first, one) else MIXED, None]
        return function(first, *arguments[1:], **named)

    def _written(self, function: Callable[..., Any], arguments: tuple[Any, ...], place: int) -> Known | None:
        """Return the rows of a tensor into which another one was written; those of a larger cache are not kept."""
        target, source = arguments[0], arguments[place] if len(arguments) > place else None
        first, name = self.of(target), getattr(function, "__name__", "")
        if not isinstance(source, Tensor) or self.of(source) is None:
            return first
        if first is None and "add" not in name and source.numel() != target.numel():
            return None
        rows, written = self._or_nobody(target).clone(), self._or_nobody(source)
        if "add" in name:  # a sum of numbers that belong to one token
            name = name.replace("index_add", "index_copy").replace("scatter_add", "scatter").rstrip("_")
            found: Tensor = getattr(rows, name)(*arguments[1:place], written)
            return found
        result = function(rows, *arguments[1:place], written)
        return rows if result is None else result

    def _embedded(self, indices: Tensor, table: Tensor) -> Known | None:
        of_table, of_indices = self.of(table), self.of(indices)
        if isinstance(of_table, Tensor):
            return of_table[indices]
        return (
            of_indices.unsqueeze(-1).expand(*indices.shape, table.shape[-1]) if isinstance(of_indices, Tensor) else None
        )

    def _convolved(self, inputs: Tensor, weight: Tensor, output: Tensor) -> Known | None:
        rows = self.of(inputs)
        if not isinstance(rows, Tensor):
            return None
        if weight.shape[2:].numel() == 1 and rows.ndim == weight.ndim and _agree(rows, rows[:, :1]):
            return rows[:, :1].expand(output.shape)
        return MIXED if output.shape == inputs.shape else None

    def _factors(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Any] | None:
        """Return the two factors of a matrix product, the second as (inner, outer); None if it is no product."""
        if function is F.linear and len(arguments) > 1:
            return arguments[0], None
        if function in PRODUCTS and len(arguments) == 2:
            return arguments[0], arguments[1]
        return (arguments[1], arguments[2]) if function is torch.addmm and len(arguments) == 3 else None

    def _product(self, left: Any, right: Any, output: Tensor) -> Known | None:
        """Return the rows of a product, which sums over the inner dimension of its factors."""
        of_left, of_right = self.of(left), self.of(right)
        if isinstance(of_right, Tensor):
            is_one = of_left is None and of_right.ndim > 1 and _agree(of_right, of_right[..., :1, :])
            return of_right[..., :1, :].expand(output.shape) if is_one else MIXED
        if not isinstance(of_left, Tensor):
            return None
        is_one = not of_left.stride(-1) or _agree(of_left, of_left[..., :1])
        return of_left[..., :1].expand(output.shape) if is_one else MIXED

    def _summed(self, equation: str, factors: list[Tensor], output: Tensor) -> Known | None:
        """Return the rows after ``einsum``, which sums over the dimensions that its output does not have."""
        terms, arrow, result = equation.replace(" ", "").partition("->")
        if not arrow or "." in equation:
            return None
        found: Tensor | None = None
        for term, factor in zip(terms.split(","), factors, strict=True):
            rows = self.of(factor)
            if not isinstance(rows, Tensor):
                continue
            for place in reversed(range(len(term))):
                if term[place] not in result:
                    if not _agree(rows, rows.narrow(place, 0, 1)):
                        return MIXED
                    rows = rows.select(place, 0)
            kept = [letter for letter in term if letter in result]
            rows = rows.permute([kept.index(letter) for letter in result if letter in kept])
            rows = rows[tuple(slice(None) if letter in kept else None for letter in result)].expand(output.shape)
            if found is not None and not _agree(found, rows):
                return MIXED
            found = rows
        return found

    def _agreed(self, shape: torch.Size, given: list[Tensor]) -> Known | None:
        """Return what the rows of all arguments agree on, where they broadcast to this shape."""
        found: Tensor | None = None
        for part in given:
            rows = self.of(part)
            if isinstance(rows, Tensor) and rows.ndim > 1 and rows.shape[:-1] == shape[:-1] and not rows.stride(-1):
                rows = rows[..., :1]  # the width may change
            if not isinstance(rows, Tensor) or not _fits(rows.shape, shape):
                continue
            if found is None:
                found = rows.expand(shape)
            elif not _agree(found, rows):
                return MIXED
            elif bool((_short(found) == NOBODY).any()):
                found = torch.where(found == NOBODY, rows, found)
        return found

    def _or_nobody(self, tensor: Tensor) -> Tensor:
        rows = self.of(tensor)
        if isinstance(rows, Tensor):
            return rows
        return torch.full((1,) * tensor.ndim, NOBODY, dtype=torch.int32, device=tensor.device).expand(tensor.shape)


def _agree(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of rows name the same tokens; NOBODY agrees with every token."""
    if one is other:
        return True
    one, other = (_short(part) for part in torch.broadcast_tensors(one, other))  # type: ignore[no-untyped-call]
    return bool(((one == other) | (one == NOBODY) | (other == NOBODY)).all())


def _short(rows: Tensor) -> Tensor:
    """Return rows without the repetition of ``expand``."""
    for dimension, (size, stride) in enumerate(zip(rows.shape, rows.stride(), strict=True)):
        if size > 1 and stride == 0:
            rows = rows.narrow(dimension, 0, 1)
    return rows


def _fits(shape: torch.Size, whole: torch.Size) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole), strict=False))


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (tuple, list):
            yield from _flat(value)
