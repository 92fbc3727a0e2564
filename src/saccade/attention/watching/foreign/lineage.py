"""Tracks where a tensor's rows come from: the inputs and the attention calls that they were computed from.

Neither names nor shapes show whether an attention call is self- or cross-attention, or which calls come before it. So
while a forward pass is watched, each tensor carries *marks*: one for each input that its rows were computed from, and
one for each attention call that they went through. A function passes the marks of its arguments on to its output. The
output of an attention call has the marks of its queries, because its rows are theirs, and a new mark for the call.

- If queries and keys have the same marks, they are the same tokens in the same state: self-attention.
- If each has marks that the other lacks, they are different sequences: cross-attention.
- Everything else is unknown, and is labelled so.

If a function combines rows of different inputs, its output also gets a mark for these inputs in this order. So a·f(b)
and b·f(a) do not have the same marks, although both come from the same inputs.

If a tensor was not computed by any function that torch reported in this forward pass, it is either a constant or
unknown. It is a constant if it existed before: a module holds it, or the code of a module refers to it. Otherwise it
may come from something that torch does not report (a function compiled by TorchScript, another thread). It then gets a
new mark, as if attention had computed it, and the tokens of its rows are unknown. The same applies to a new tensor that
may have been made from numbers that Python code read from other tensors (``outside``).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.attention.watching.foreign.positions import RowTokens, agree, are_parts
from saccade.attention.watching.foreign.row_rules import joins
from saccade.attention.watching.foreign.rows import Rows

__all__ = ["EARLIER", "LOST", "KeySource", "Lineage", "Marks", "source_of"]

#: Where the keys of an attention come from, seen from its queries.
KeySource = Literal["self", "cross", "unknown"]
Marks = frozenset[int]
Beside = set[int]

#: The mark of a tensor that an earlier forward pass of the model computed.
EARLIER = 0
#: The mark of a tensor that was computed by code that torch does not report.
LOST = -1
#: The marks of a tensor that was computed from parameters alone: none.
CONSTANT: Marks = frozenset()

#: Functions that may select positions of a sequence (CUTS), or move them, so that the rows of their output differ.
CUTS = {Tensor.__getitem__, torch.narrow, Tensor.narrow, torch.split, Tensor.split, torch.chunk, Tensor.chunk}
MOVES = {torch.roll, Tensor.roll, torch.flip, Tensor.flip}
SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
PRODUCTS = {
    torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum, torch.baddbmm, Tensor.baddbmm,
}  # fmt: skip

BETWEEN = "a computation between two forward passes"
UNREPORTED = "a function that torch does not report"

_numbers = itertools.count(EARLIER + 1)
_orders = itertools.count(LOST - 1, -1)  # the marks of combined inputs are smaller than all others


#: Types of values that contain no other tensors.
PLAIN = (Tensor, str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)
#: How deeply objects within objects are searched for tensors.
DEEPEST = 3
#: Lists longer than this are not searched.
LONGEST = 4096


class Origin(NamedTuple):
    """The forward pass that computed a tensor, and the tensor's marks."""

    forward: int  # the outermost forward pass in which it was computed
    marks: Marks
    memory: int  # its address; it changes with set_(), which torch does not report


def source_of(query: Marks | None, key: Marks | None) -> KeySource:
    """Return "self" if queries and keys have the same marks, "cross" if the marks show two sequences, or "unknown"."""
    if query is None or key is None or (not query and not key):
        return "unknown"
    if query == key:
        return "self"
    query, key = (frozenset(mark for mark in marks if mark >= LOST) for marks in (query, key))
    if LOST in query or LOST in key or query == key:
        return "unknown"
    return "unknown" if query and key and (query < key or key < query) else "cross"


class Lineage:
    """The marks of the tensors that a thread computes while a model is watched."""

    def __init__(self) -> None:
        self.is_on = True
        self.forward = 0  # the outermost forward pass that is running, or ran last
        self.is_lost = False  # whether unreported code has computed tokens; the caller sets it back to False
        self.joins = True  # whether the results of an earlier forward pass keep their marks in this one
        self.read: set[int] = set()  # the earlier forward passes whose results this one used
        self._inputs: set[tuple[int, ...]] = set()  # the shapes of the inputs
        self._attentions: set[int] = set()  # the marks of attentions, and of what may hide an attention
        self._recorded: set[int] = set()  # the marks of attentions that were reported
        self.rows = Rows()
        # For each attention of this forward pass, the tokens of its queries, and the inputs that they come from.
        self._rows_of: dict[int, tuple[RowTokens | None, Marks]] = {}
        self._new: Marks = CONSTANT  # the marks of the inputs of this forward pass
        self._combined: dict[tuple[Marks, Marks], int] = {}  # the marks of inputs that were combined in this order
        self._beside: dict[int, Beside] = {}
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._softmaxes: dict[int, weakref.ref[Tensor]] = {}
        self._held: dict[int, Tensor] = {}  # the tensors that the model holds, by their Python id
        self._given: dict[int, Tensor] = {}  # the tensors in the arguments, also inside objects, by their Python id

    def begin(self, forward: int, module: nn.Module, arguments: object, kept: set[int], joins: bool) -> None:
        """Begin a new outermost forward pass.

        Its arguments count as inputs, except for tensors that the previous pass stored in them, such as a cache
        (``kept``: their Python ids). ``joins`` says whether results of earlier passes keep their marks in this one.
        """
        self.forward, self.joins, self.read = forward, joins, set()
        self._held = {id(held): held for held in held_by(module)}
        self._given = {id(held): held for held in held_by(arguments)}
        self._origins = {number: known for number, known in self._origins.items() if known[0]() is not None}
        self._softmaxes = {number: known for number, known in self._softmaxes.items() if known() is not None}
        self._rows_of, self._beside, self._combined, self._new = {}, {}, {}, CONSTANT
        self.note_inputs(arguments)
        inputs = [tensor for tensor in _tensors_in(arguments) if id(tensor) not in kept]
        attended = [tensor for tensor in inputs if self._went_through(tensor, self._recorded)]
        # Whole numbers that were chosen from the results of an earlier pass, such as generated words, are new tokens.
        moved = [one for one in attended if one.is_floating_point() and not self.rows.are_in_order(one)]
        self.rows.begin(inputs)
        for tensor in moved:
            self._note_moved(tensor)
        for tensor in inputs:
            if not self._is_computed(tensor) and not isinstance(tensor, nn.Parameter):
                self.set(tensor, CONSTANT if tensor.dtype == torch.bool else frozenset((next(_numbers),)))
                self._new |= self.marks(tensor) or CONSTANT
        for number in kept:
            self._origins.pop(number, None)  # the origin of these tensors is unknown from now on

    def _note_moved(self, tensor: Tensor) -> None:
        """Note that this input was computed from the result of an earlier forward pass, but does not have its rows in
        the same order."""
        self.rows.replace(tensor, BETWEEN)
        if self.joins:
            number = next(_numbers)
            self._attentions.add(number)
            self.set(tensor, (self.marks(tensor) or CONSTANT) | {number})

    def note_inputs(self, arguments: object) -> None:
        """Store the shapes of the inputs of an outermost forward pass."""
        self._inputs = {tuple(tensor.shape) for tensor in _tensors_in(arguments) if not tensor.is_nested}

    def marks(self, tensor: Tensor) -> Marks | None:
        """Return the marks of a tensor in this forward pass; None if its origin is unknown."""
        if isinstance(tensor, nn.Parameter):
            return CONSTANT
        origin = self._origin(tensor)
        if origin is None:
            return None
        if origin.forward == self.forward or not origin.marks:
            return origin.marks
        if origin.marks.isdisjoint(self._attentions):
            return None  # from an earlier pass, but through no attention: such as a table of positions
        self.read.add(origin.forward)
        return origin.marks if self.joins else frozenset((EARLIER,))

    def set(self, tensor: Tensor, marks: Marks | None) -> None:
        if marks is None:
            self._origins.pop(id(tensor), None)
        else:
            self._origins[id(tensor)] = (weakref.ref(tensor), Origin(self.forward, marks, _first_number(tensor)))

    def attended(self, marks: Marks | None, output: object) -> int:
        """Return a number for an attention call; its output gets this number and the marks of its queries as marks."""
        number = next(_numbers)
        self._attentions.add(number)
        self._recorded.add(number)
        if isinstance(output, Tensor):
            self.set(output, (marks or CONSTANT) | {number})
        return number

    def new_number(self) -> int:
        return next(_numbers)

    def before(self, marks: Marks | None) -> Marks:
        """Return those of these marks that stand for attention calls."""
        return CONSTANT if marks is None else marks & self._attentions

    def inputs(self, marks: Marks | None) -> Marks:
        """Return those of these marks that stand for inputs."""
        return frozenset(mark for mark in marks or CONSTANT if mark >= LOST and mark not in self._attentions)

    def placed(self, number: int, marks: Marks | None, query: RowTokens | None) -> tuple[Marks, Beside]:
        """Return the numbers of the attention calls before this one and of those beside it, judging by the marks and
        origin ids of its queries.

        Two calls are beside each other if neither comes before the other, and they either have the same tokens and
        their outputs are combined, or have different parts of one sequence. The set of those beside this one may still
        grow until the forward pass ends. If tokens changed places since an earlier call, the calls before this one
        include a new number, which stands for that change.
        """
        before = frozenset((LOST,)) if marks is None else self.before(marks)
        inputs = self.inputs(marks)
        earlier = [self._rows_of[other][0] for other in before if other in self._rows_of]
        self._beside[number] = set()
        for other, (rows, others) in self._rows_of.items():
            if other not in before and not inputs.isdisjoint(others) and are_parts(rows, query):
                self._set_beside(number, other)
        self._rows_of[number] = query, inputs
        before = before if all(agree(rows, query) for rows in earlier) else before | {next(_numbers)}
        return before, self._beside[number]

    def _set_beside(self, one: int, other: int) -> None:
        self._beside[one].add(other)
        self._beside[other].add(one)

    def _joined_attentions(self, inputs: list[Tensor]) -> list[tuple[int, int]]:
        """Return the pairs of attentions that these inputs went through, and of which neither came before the other."""
        known = frozenset(self._rows_of)
        sets = list({found & known for part in inputs if (found := self.marks(part)) and not found.isdisjoint(known)})
        pairs = itertools.combinations(sets, 2)
        return [pair for one, other in pairs for pair in itertools.product(one - other, other - one)]

    def has_batch(self, size: int, num_queries: int) -> bool:
        """Return whether an input has a batch of this size, as (batch, ...) or (positions, batch, width)."""
        return any(
            shape[:1] == (size,) or (len(shape) == 3 and shape[:2] == (num_queries, size)) for shape in self._inputs
        )

    def may_fold(self, batch: int, heads: int, num_queries: int) -> bool:
        """Return whether queries of these sizes may have heads in the batch dimension, or texts in the dimension of the
        heads.

        This is judged by shapes alone, for calls whose tokens are not known.
        """
        if self.has_batch(batch, num_queries):
            return False
        texts = [shape[0] for shape in self._inputs if len(shape) > 1 and shape[1] == num_queries and shape[0] > 1]
        return heads == 1 < batch or any(heads == text or (batch == 1 and heads % text == 0) for text in texts)

    def follow(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any], output: Any
    ) -> tuple[int, Marks] | None:
        """Pass the marks of a function's arguments on to its output.

        If the function multiplies values by the result of a softmax, the model's own code computes attention: return
        a number for this computation, and the numbers of the attention calls before it. Otherwise return None.
        """
        if isinstance(output, Tensor):
            outputs: Iterable[Tensor] = (output,)
        elif output is None:  # as in x[0] = y, which changes the first argument
            outputs = list(_shallow(arguments[:1]))
        elif isinstance(output, (tuple, list)):
            outputs = [part for part in output if isinstance(part, Tensor)]
        else:
            outputs = ()
        if not outputs:
            self.rows.left(function, arguments, output)
            return None
        inputs = [*_shallow(arguments), *_shallow(named.values())] if named else list(_shallow(arguments))
        marks = self._joined(inputs)
        joined = self._joined_attentions(inputs) if len(self._rows_of) > 1 and joins(function) else []
        self.rows.follow(function, arguments, dict(named), tuple(outputs))
        for first, second in joined:
            rows, others = self._rows_of[first][0], self._rows_of[second][0]
            if agree(rows, others) and any(self.rows.holds(part, rows) for part in outputs):
                self._set_beside(first, second)
        if not marks and any(map(self.rows.holds_tokens, outputs)):
            marks = self._new_lost()
        found = None
        if function in SOFTMAX and isinstance(output, Tensor) and output.ndim >= 3:
            self._softmaxes[id(output)] = weakref.ref(output)
        elif self._softmaxes and function in PRODUCTS and self._weighs(inputs):
            found = next(_numbers), self.before(marks)
            self._attentions.add(found[0])
            marks = marks | {found[0]}
        elif self._softmaxes and isinstance(output, Tensor) and self._carries(inputs, output):
            self._softmaxes[id(output)] = weakref.ref(output)
        elif marks and (function in MOVES or (function in CUTS and _is_cut(inputs, outputs))):
            for part in outputs:
                number = next(_numbers)
                if function in MOVES and not marks.isdisjoint(self._attentions):
                    self._attentions.add(number)  # rows after this move are not the same tokens as rows before it
                self.set(part, marks | {number})
            return None
        for part in outputs:
            self.set(part, marks)
        return found

    def _joined(self, inputs: list[Tensor]) -> Marks:
        joined: Marks = CONSTANT  # no inputs, no marks
        for part in inputs:
            marks = self.marks(part)
            if marks is None:
                marks = self._marks_of_unknown(part) if self._origin(part) is None else CONSTANT
            if marks is not joined and marks:
                combined = joined & self._new, marks & self._new
                if all(combined) and combined[0] != combined[1]:
                    joined |= {self._combined.setdefault(combined, next(_orders))}
                joined = joined if marks <= joined else joined | marks
        return joined

    def _marks_of_unknown(self, tensor: Tensor) -> Marks:
        """Return the marks of a tensor that was not computed by any of the functions that torch reported."""
        is_given = id(tensor) in self._given
        if id(tensor) in self._held and not is_given:
            return CONSTANT
        marks = self._new_lost() if tensor.is_floating_point() else CONSTANT
        self.set(tensor, marks)
        if not is_given:  # an argument existed before this pass computed any tokens
            self.rows.replace(tensor, UNREPORTED)
            self.is_lost = self.is_lost or marks is not CONSTANT
        return marks

    def _new_lost(self) -> Marks:
        """Return new marks for tokens that were computed by code that torch does not report."""
        marks = frozenset((LOST, next(_numbers)))
        self._attentions |= marks
        return marks

    def _weighs(self, inputs: list[Tensor]) -> bool:
        return any(self._is_softmax(part) for part in inputs) and not all(self._is_softmax(part) for part in inputs)

    def _carries(self, inputs: list[Tensor], output: Tensor) -> bool:
        """Return whether the output still holds softmax weights, as after dropout, a cast or a mixture of heads."""
        return output.ndim >= 3 and any(self._is_softmax(part) and part.numel() == output.numel() for part in inputs)

    def _is_softmax(self, tensor: Tensor) -> bool:
        known = self._softmaxes.get(id(tensor))
        return known is not None and known() is tensor

    def _is_computed(self, tensor: Tensor) -> bool:
        """Return whether an earlier forward pass computed this tensor with attention; then it is not a new input."""
        return self._went_through(tensor, self._attentions)

    def _went_through(self, tensor: Tensor, attentions: Beside) -> bool:
        origin = self._origin(tensor)
        return origin is not None and not origin.marks.isdisjoint(attentions)

    def _origin(self, tensor: Tensor) -> Origin | None:
        known = self._origins.get(id(tensor))
        if known is None or known[0]() is not tensor or known[1].memory != _first_number(tensor):
            return None
        return known[1]


def _first_number(tensor: Tensor) -> int:
    """Return the memory address of a tensor's first element; 0 if the tensor has no memory."""
    try:
        with torch._C.DisableTorchFunction():
            return 0 if tensor.is_nested else tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _is_cut(inputs: list[Tensor], outputs: Iterable[Tensor]) -> bool:
    """Return whether an output has only some of the positions of the first input (batch, positions, width)."""
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


def held_by(value: object, known: dict[int, object] | None = None, depth: int = 0) -> Iterator[Tensor]:
    """Yield the tensors stored in an object, and those that its functions refer to through closures or global
    variables."""
    known = {} if known is None else known  # keeps the objects alive, so that no other object gets the same id
    if isinstance(value, Tensor):
        yield value
    if isinstance(value, PLAIN) or id(value) in known or depth > DEEPEST:
        return
    known[id(value)] = value
    if isinstance(value, Mapping):
        yield from held_by(list(value.values()), known, depth)
    elif isinstance(value, (tuple, list)):
        for part in value if len(value) <= LONGEST else ():
            yield from held_by(part, known, depth)
    elif isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        yield from held_by(cells, known, depth + 1)
        if id(value.__globals__) not in known:
            known[id(value.__globals__)] = None
            named = [part for part in list(value.__globals__.values()) if isinstance(part, (Tensor, nn.Module))]
            yield from held_by(named, known, depth + 1)
    elif hasattr(value, "__dict__") and not isinstance(value, ModuleType):
        if isinstance(value, nn.Module):
            kinds = type(value).__mro__[: type(value).__mro__.index(nn.Module)]
            yield from held_by(kinds, known, depth)
        yield from held_by(vars(value), known, depth + (not isinstance(value, (type, nn.Module))))


def _is_empty(cell: CellType) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:
        return True
