"""Where a tensor's rows come from: the inputs and the attentions that lie behind them.

No name and no shape says whether an attention looks at its own sequence or at another one, or which attentions come
before it. So while a forward pass is watched, each tensor carries *marks*: one for each input that its rows were
computed from, and one for each attention that they went through. A function passes the marks of its arguments on to
its output. The output of an attention has the marks of its queries and one more, because its rows are theirs.

- If queries and keys have the same marks, they are the same tokens in the same state: self-attention.
- If each has marks that the other lacks, they are different sequences: cross-attention.
- Everything else is unknown, and is labelled so.

Tensors of unknown origin, such as a table that was made outside the watched block, have no marks and add none. But one
that has a row for each token, and that no module holds, may be the output of something that torch does not report
(a function compiled by TorchScript, another thread), so it has a mark like that of an attention. So has one that is
made of no token although it holds tokens (``rows``), because their numbers left torch and came back.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.attention.watching.foreign.rows import Positions, Rows, agree

__all__ = ["EARLIER", "LOST", "KeySource", "Lineage", "Marks", "source_of"]

#: Where the keys of an attention come from, seen from its queries.
KeySource = Literal["self", "cross", "unknown"]
Marks = frozenset[int]

#: The mark of what an earlier forward pass of the model computed.
EARLIER = 0
#: The mark of an attention whose queries come from where torch reports nothing.
LOST = -1
#: Made of parameters alone.
CONSTANT: Marks = frozenset()

#: Functions that select or move positions of a sequence, so that the rows of their output are different rows.
CUTS = {Tensor.__getitem__, torch.narrow, Tensor.narrow, torch.split, Tensor.split, torch.chunk, Tensor.chunk}
MOVES = {torch.roll, Tensor.roll, torch.flip, Tensor.flip}
SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
PRODUCTS = {
    torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum, torch.baddbmm, Tensor.baddbmm,
}  # fmt: skip

_numbers = itertools.count(EARLIER + 1)


class Origin(NamedTuple):
    """What is known about where a tensor comes from."""

    forward: int  # the outermost forward pass in which it was computed
    marks: Marks
    memory: int  # where its numbers were: torch does not report set_(), which gives a tensor the memory of another


def source_of(query: Marks | None, key: Marks | None) -> KeySource:
    """Whether keys with these marks are the sequence of the queries, another one, or unknown."""
    if query is None or key is None or (not query and not key):
        return "unknown"
    if query == key:
        return "self"
    if LOST in query or LOST in key:
        return "unknown"
    return "unknown" if query and key and (query < key or key < query) else "cross"


class Lineage:
    """The marks of the tensors that a thread computes while a model is watched."""

    def __init__(self) -> None:
        self.is_on = True
        self.forward = 0  # the outermost forward pass that is running, or ran last
        self.is_lost = False  # whether tokens were computed where torch reports nothing, since someone asked
        self.joins = True  # whether the results of an earlier forward pass keep their marks in this one
        self.read: set[int] = set()  # the earlier forward passes whose results this one used
        self._inputs: set[tuple[int, ...]] = set()  # their shapes
        self._attentions: set[int] = set()
        self.rows = Rows()
        self._rows_of: dict[int, Positions | None] = {}  # of the queries of the attentions of this forward pass
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._softmaxes: dict[int, weakref.ref[Tensor]] = {}
        self._module: nn.Module | None = None  # whose forward pass is running
        self._held: dict[int, Tensor] | None = None  # the tensors that its modules hold, by identity, once needed

    def begin(self, forward: int, module: nn.Module, arguments: object, joins: bool) -> None:
        """Begin a new outermost forward pass, whose arguments are inputs."""
        self.forward, self.joins, self.read = forward, joins, set()
        if module is not self._module:
            self._module, self._held = module, None
        self._origins = {number: known for number, known in self._origins.items() if known[0]() is not None}
        self._softmaxes = {number: known for number, known in self._softmaxes.items() if known() is not None}
        self._rows_of = {}
        self.note_inputs(arguments)
        self.rows.begin(_tensors_in(arguments))
        for tensor in _tensors_in(arguments):
            if not self._is_computed(tensor) and tensor.dtype != torch.bool and not isinstance(tensor, nn.Parameter):
                self.set(tensor, frozenset((next(_numbers),)))

    def note_inputs(self, arguments: object) -> None:
        """Note the shapes of the inputs of an outermost forward pass."""
        self._inputs = {tuple(tensor.shape) for tensor in _tensors_in(arguments) if not tensor.is_nested}

    def marks(self, tensor: Tensor) -> Marks | None:
        """The marks of a tensor in this forward pass; None if nothing is known about it."""
        if isinstance(tensor, nn.Parameter):
            return CONSTANT
        origin = self._origin(tensor)
        if origin is None:
            return None
        if origin.forward == self.forward or not origin.marks:
            return origin.marks
        if origin.marks.isdisjoint(self._attentions):
            return None  # nothing of the sequences that it looked at, such as a table of positions
        self.read.add(origin.forward)
        return origin.marks if self.joins else frozenset((EARLIER,))

    def set(self, tensor: Tensor, marks: Marks | None) -> None:
        if marks is None:
            self._origins.pop(id(tensor), None)
        else:
            self._origins[id(tensor)] = (weakref.ref(tensor), Origin(self.forward, marks, _first_number(tensor)))

    def attended(self, marks: Marks | None, output: object) -> int:
        """Mark the output of an attention whose queries have these marks; the number of the attention."""
        number = next(_numbers)
        self._attentions.add(number)
        if isinstance(output, Tensor):
            self.set(output, (marks or CONSTANT) | {number})
        return number

    def before(self, marks: Marks | None) -> Marks:
        """The attentions among the marks."""
        return CONSTANT if marks is None else marks & self._attentions

    def placed(self, number: int, marks: Marks | None, query: Positions | None) -> Marks:
        """Return what comes before an attention with these marks and rows of its queries.

        If the tokens changed places since an earlier attention, this change gets its own number.
        """
        before = frozenset((LOST,)) if marks is None else self.before(marks)
        earlier = [self._rows_of[other] for other in before if other in self._rows_of]
        self._rows_of[number] = query
        return before if all(agree(rows, query) for rows in earlier) else before | {next(_numbers)}

    def has_batch(self, size: int, num_queries: int) -> bool:
        """Whether a batch of this size is that of the inputs: (batch, ...), or (positions, batch, width)."""
        return any(
            shape[:1] == (size,) or (len(shape) == 3 and shape[:2] == (num_queries, size)) for shape in self._inputs
        )

    def may_fold(self, batch: int, heads: int, num_queries: int) -> bool:
        """Whether queries of these sizes may have heads in the dimension of the batch, or texts in that of the heads.

        That is judged by shapes alone, for calls whose rows are not known.
        """
        if self.has_batch(batch, num_queries):
            return False
        texts = [shape[0] for shape in self._inputs if len(shape) > 1 and shape[1] == num_queries and shape[0] > 1]
        return heads == 1 < batch or any(heads == text or (batch == 1 and heads % text == 0) for text in texts)

    def follow(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any
    ) -> tuple[int, Marks] | None:
        """Pass the arguments' marks on to the output.

        If the function weights values by a softmax, return the number of this written-out attention and the marks
        that precede it.
        """
        if isinstance(output, Tensor):
            outputs: Iterable[Tensor] = (output,)
        elif output is None:  # an item was set
            outputs = list(_shallow(arguments[:1]))
        elif isinstance(output, (tuple, list)):
            outputs = [part for part in output if isinstance(part, Tensor)]
        else:
            outputs = ()
        if not outputs:
            self.rows.left(function, arguments)
            return None
        inputs = [*_shallow(arguments), *_shallow(named.values())] if named else list(_shallow(arguments))
        marks = self._joined(inputs)
        self.rows.follow(function, arguments, dict(named), tuple(outputs))
        if not marks and any(map(self.rows.holds_tokens, outputs)):
            marks = self._new_lost()
        found = None
        if function in SOFTMAX and isinstance(output, Tensor) and output.ndim >= 3:
            self._softmaxes[id(output)] = weakref.ref(output)
        elif self._softmaxes and function in PRODUCTS and self._weighs(inputs):
            found = next(_numbers), self.before(marks)
            self._attentions.add(found[0])
            marks = (marks or CONSTANT) | {found[0]}
        elif self._softmaxes and isinstance(output, Tensor) and self._carries(inputs, output):
            self._softmaxes[id(output)] = weakref.ref(output)
        elif marks and (function in MOVES or (function in CUTS and _is_cut(inputs, outputs))):
            for part in outputs:
                number = next(_numbers)
                if function in MOVES and not marks.isdisjoint(self._attentions):
                    self._attentions.add(number)  # what comes after it is not row by row what came before it
                self.set(part, marks | {number})
            return None
        for part in outputs:
            self.set(part, marks)
        return found

    def _joined(self, inputs: list[Tensor]) -> Marks | None:
        joined: Marks | None = CONSTANT  # what is made of no tensor is made of no token
        for part in inputs:
            marks = self.marks(part)
            if marks is None and self._origin(part) is None:
                marks = self._marks_of_unknown(part)
            if marks is None:
                joined = joined or None
            elif joined is None:
                joined = marks or None
            elif marks is not joined and not marks <= joined:
                joined = joined | marks
        return joined

    def _marks_of_unknown(self, tensor: Tensor) -> Marks | None:
        """Return the marks of a tensor that no function of this forward pass, as torch reports them, has made."""
        if self._module is None:
            return None
        if self._held is None:
            holders = [vars(module) for module in self._module.modules()]
            self._held = {id(held): held for holder in holders for held in _tensors_in(holder)}
        if id(tensor) in self._held:
            return CONSTANT
        is_of_tokens = not tensor.is_nested and tensor.ndim > 2 and self.rows.has_size(tensor)
        if not is_of_tokens or not tensor.is_floating_point():
            return None
        marks = self._new_lost()
        self.set(tensor, marks)
        self.is_lost = True
        return marks

    def _new_lost(self) -> Marks:
        """Return the marks of tokens that come from where torch reports nothing."""
        marks = frozenset((LOST, next(_numbers)))
        self._attentions |= marks
        return marks

    def _weighs(self, inputs: list[Tensor]) -> bool:
        return any(self._is_softmax(part) for part in inputs) and not all(self._is_softmax(part) for part in inputs)

    def _carries(self, inputs: list[Tensor], output: Tensor) -> bool:
        """Whether this function passes a softmax on, as dropout, a cast or a mixing of heads does."""
        return output.ndim >= 3 and any(self._is_softmax(part) and part.numel() == output.numel() for part in inputs)

    def _is_softmax(self, tensor: Tensor) -> bool:
        known = self._softmaxes.get(id(tensor))
        return known is not None and known() is tensor

    def _is_computed(self, tensor: Tensor) -> bool:
        """Whether an earlier forward pass computed this with attention; then it is not a new input."""
        origin = self._origin(tensor)
        return origin is not None and not origin.marks.isdisjoint(self._attentions)

    def _origin(self, tensor: Tensor) -> Origin | None:
        known = self._origins.get(id(tensor))
        if known is None or known[0]() is not tensor or known[1].memory != _first_number(tensor):
            return None
        return known[1]


def _first_number(tensor: Tensor) -> int:
    """Return where the numbers of a tensor begin in memory."""
    try:
        with torch._C.DisableTorchFunction():
            return 0 if tensor.is_nested else tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # it has no memory of its own
        return 0


def _is_cut(inputs: list[Tensor], outputs: Iterable[Tensor]) -> bool:
    """Whether some of the positions of (batch, positions, width), or of (positions, batch, width), were taken out."""
    whole = inputs[0].shape if inputs else torch.Size()
    return len(whole) == 3 and any(
        part.ndim == 3 and part.shape[2] == whole[2] and part.shape[:2] != whole[:2] for part in outputs
    )


def _shallow(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (tuple, list):
            for part in value:
                if isinstance(part, Tensor):
                    yield part


def _tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors_in(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors_in(part)
