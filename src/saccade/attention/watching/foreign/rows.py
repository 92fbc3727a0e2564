"""Which token each number of a tensor belongs to, so that tokens that change places or are mixed are noticed.

The marks of ``lineage`` say what a tensor was computed from, but not in which order its rows are. So while a forward
pass is watched, each tensor also has *rows*: for each of its numbers, the number of the token that it belongs to
(``identity``). Each function passes them on by its rule (``row_rules``). After a function without a rule, nobody knows
the tokens any more: its output consists of new ones, so that it is never taken for the sequence that went in.

A tensor that was overwritten through another tensor, or whose memory was given away, consists of new tokens too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from saccade.attention.watching.foreign.call import unrepeated
from saccade.attention.watching.foreign.identity import (
    HASHED,
    MIXED_TEXT,
    NOBODY,
    by_place,
    fresh,
    has_text,
    is_in_order,
    merged,
    tokens,
)
from saccade.attention.watching.foreign.row_functions import (
    ESCAPES,
    KEEPS,
    MAKES,
    MOVES,
    READS,
    REORDERS,
    SAME,
    name_of,
)
from saccade.attention.watching.foreign.row_rules import Called, flat, rule_of

__all__ = ["Order", "Positions", "Rows", "agree", "are_distinct", "extra_columns", "order_of"]

OVERWRITTEN = "a write through another tensor"
ESCAPED = "{}, which lets others change its numbers"

#: A function may count one write into a tensor as several.
SEVERAL = 4

_numbers = itertools.count(1)


class Known(NamedTuple):
    """What is known about the numbers of a tensor."""

    ids: Int[Tensor, ...]  # of its shape
    by: str | None  # the function that last mixed the tokens, or moved them
    version: int | None
    num_writes: int  # how often other tokens had been written into its memory by then
    num_same: int  # how often the same tokens had been written there


class Positions(NamedTuple):
    """The tokens of queries or keys, as (batch, positions)."""

    ids: Int[Tensor, "B P"]
    by: str | None


@contextmanager
def _unseen() -> Iterator[None]:
    """Compute rows: nobody watches it, and the result can be used in any mode."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if not torch.is_inference_mode_enabled():
            yield
            return
        with torch.inference_mode(False):
            yield


def _is_recorded() -> bool:
    """Return whether someone records what torch computes, so that we must compute nothing of our own."""
    return _is_transformed() or torch._C._len_torch_dispatch_stack() > 0


def _is_transformed() -> bool:
    """Return whether torch.func or torch.jit.trace runs, so that tensors are not what they seem."""
    return torch._C._functorch.peek_interpreter_stack() is not None or torch._C._get_tracing_state() is not None


class Rows:
    """The rows of the tensors that a thread computes while a model is watched."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()  # torch does not give its types
        self._writes: dict[int, int] = {}  # for each piece of memory, how often other tokens were written into it
        self._same: dict[int, int] = {}  # how often the same tokens were written there
        self._open: dict[int, str] = {}  # memory that was given away, and by which function
        self._has_left = False  # whether numbers of tokens were read outside of torch
        self.is_lost = False  # whether something ran that could not be followed
        self._sizes: set[tuple[int, int]] = set()  # of (batch, positions) whose tokens have numbers

    def begin(self, inputs: Iterable[Tensor]) -> None:
        """Begin a forward pass with these inputs."""
        self.__init__()  # type: ignore[misc]
        if _is_recorded():
            self.is_lost = True
            return
        with _unseen():
            whole = [tensor for tensor in inputs if _has_numbers(tensor)]
            batch = max((len(tensor) for tensor in whole if tensor.ndim > 1), default=1)
            for tensor in whole:
                # One row of positions serves all sequences.
                if tensor.ndim != 2 or tensor.is_floating_point() or len(tensor) > 1 or batch == 1:
                    self._number(tensor)

    def _number(self, tensor: Tensor) -> None:
        """Give numbers to the tokens of a text, to the rows of vectors, or to every number of a picture."""
        if tensor.dtype == torch.bool or isinstance(tensor, nn.Parameter):
            return
        shape, is_text = tensor.shape, not tensor.is_floating_point()
        if tensor.ndim == (2 if is_text else 3):
            self._sizes.add((shape[0], shape[1]))
        if is_text and tensor.ndim in (1, 2):  # (batch, positions)
            self._set(tensor, tokens((1, *shape)[-2:], True, tensor.device).view(shape))
        elif not is_text and tensor.ndim in (2, 3):  # (batch, positions, width)
            rows = tokens((1, *shape[:-1])[-2:], False, tensor.device).view(*shape[:-1], 1)
            self._set(tensor, rows.expand(shape))
        elif not is_text and tensor.ndim > 3:
            self._set(tensor, by_place((1, tensor.numel()), tensor.device).view(shape))

    def has_size(self, tensor: Tensor) -> bool:
        """Return whether tokens are numbered for this many sequences and positions."""
        return tuple(tensor.shape[:2]) in self._sizes

    # --- what is known ---

    def of(self, tensor: object) -> Int[Tensor, ...] | None:
        """Return the token of each number; None if they belong to nobody."""
        known = self._of(tensor) if isinstance(tensor, Tensor) else None
        return None if known is None else known.ids

    def holds_tokens(self, tensor: Tensor) -> bool:
        """Return whether any number of a tensor belongs to a token."""
        with torch._C.DisableTorchFunction():
            ids = self.of(tensor)
        if ids is None or not tensor.is_floating_point():
            return False
        with _unseen():
            return bool((unrepeated(ids) != NOBODY).any())

    def _of(self, tensor: Tensor) -> Known | None:
        known: Known | None = self._known.get(tensor)
        if known is None and not self._writes and not self._open:
            return None
        memory = _memory(tensor) if self._writes or self._same or self._open else 0
        if known is not None and memory not in self._open and known.num_writes == self._writes.get(memory, 0):
            num_same = self._same.get(memory, 0) - known.num_same
            if known.version is None or 0 <= tensor._version - known.version <= num_same:
                return known
        if known is None and memory not in self._open and memory not in self._writes:
            return None
        if not tensor.is_floating_point() and not tensor.is_complex():
            return None
        by = ESCAPED.format(self._open[memory]) if memory in self._open else OVERWRITTEN
        is_text = known is None or has_text(known.ids)
        found = self._set(tensor, fresh(next(_numbers), tensor.shape, is_text, tensor.device), by)
        if memory in self._open:
            self._known.pop(tensor, None)
        return found

    def _set(self, tensor: Tensor, ids: Int[Tensor, ...] | None, by: str | None = None) -> Known | None:
        if ids is None:
            self._known.pop(tensor, None)
            return None
        memory = _memory(tensor) if self._writes or self._same else 0
        version = None if tensor.is_inference() else tensor._version
        known = Known(ids, by, version, self._writes.get(memory, 0), self._same.get(memory, 0))
        self._known[tensor] = known
        return known

    # --- attention ---

    @_unseen()
    def positions(
        self, tensor: Tensor | None, is_turned: bool = False, unfold: Callable[[Tensor], Tensor] | None = None
    ) -> Positions | None:
        """Return the tokens of queries or keys (batch, ..., positions, width); None if they cannot be known.

        ``is_turned`` says that these are (positions, batch, width); ``unfold`` gives them the right shape otherwise.
        """
        if tensor is None or self.is_lost or not _has_numbers(tensor) or _is_recorded():
            return None
        known = self._of(tensor)
        ids = torch.zeros((), dtype=torch.int64, device=tensor.device).expand(tensor.shape)
        if known is not None:
            ids = known.ids
        ids = ids.unsqueeze(0) if ids.ndim < 3 else ids if unfold is None else unfold(ids)
        places = merged(ids, (*range(1, ids.ndim - 2), ids.ndim - 1)).reshape(ids.shape[0], ids.shape[-2])
        return Positions(places.mT if is_turned else places, None if known is None else known.by)

    @_unseen()
    def attended(self, query: Tensor | None, output: object, is_turned: bool = False) -> None:
        """Give the output of an attention the tokens of its queries."""
        if not isinstance(output, Tensor) or self.is_lost:
            return
        if query is None or not _has_numbers(query) or not _has_numbers(output) or _is_recorded():
            self.is_lost = True
            return
        if query.shape[:-1] != output.shape[:-1]:
            self._set(output, fresh(next(_numbers), output.shape, True, output.device), "attention")
            return
        self._sizes.add((query.shape[0], query.shape[-2]))
        known = self._of(query)
        ids = torch.full((1,) * query.ndim, NOBODY, dtype=torch.int64, device=query.device)
        if known is not None:
            ids = merged(known.ids, (query.ndim - 1,))
        if bool((unrepeated(ids) == NOBODY).any()):
            size = (1, *query.shape)[-3:] if query.ndim < 3 else (query.shape[0], query.shape[-2], 1)
            places = by_place(size[1::-1] if is_turned else size[:2], query.device)
            places = places.mT if is_turned else places
            if query.ndim > 3:
                places = places.view(size[0], *(1,) * (query.ndim - 3), size[1])
            places = places.reshape(*places.shape[-(query.ndim - 1) :], 1) if query.ndim > 2 else places.mT
            ids = torch.where(ids == NOBODY, places, ids)
        self._set(output, ids.expand(output.shape), None if known is None else known.by)

    def replace(self, tensor: Tensor, by: str) -> None:
        """Note that nobody has seen how this was computed."""
        if self.is_lost or not _has_numbers(tensor) or _is_transformed():
            self.is_lost = True
            return
        with _unseen():
            self._set(tensor, fresh(next(_numbers), tensor.shape, True, tensor.device), by)

    # --- functions ---

    def follow(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], outputs: Sequence[Tensor]
    ) -> None:
        """Pass the rows of the arguments on to the output."""
        if self.is_lost or not outputs:
            return
        with torch._C.DisableTorchFunction():
            every = list(flat((arguments, tuple(named.values()))))
            written = [output for output in outputs if any(output is part for part in every)]
            for output in written:
                self._expect_write(output)
            given = [part for part in every if self._of(part) is not None]
            if self._writes or self._open:
                self._clear(outputs, every)
            name = name_of(function)
            if not given and not self._may_return(name, arguments, named, every, written):
                for output in outputs:
                    self._known.pop(output, None)
                return
        if name in KEEPS:
            return
        if _is_recorded() or not all(map(_has_numbers, (*given, *outputs))):
            # Whole numbers and truth values only choose tokens.
            self.is_lost = any(output.is_floating_point() for output in outputs)
            return
        with _unseen():
            found, by = self._after(function, arguments, named, outputs, given)
            for output, ids in zip(outputs, found, strict=True):
                if any(output is part for part in written):
                    self._note_write(output, ids)
                self._set(output, ids, by)

    def left(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Note that a function returned something other than tensors, which may be the numbers of a tensor."""
        tensor = arguments[0] if arguments else None
        if not isinstance(tensor, Tensor) or tensor.is_nested or not tensor.is_floating_point():
            return
        name = name_of(function)
        if name in ESCAPES or name in READS:
            with _unseen():
                if name in ESCAPES and not isinstance(tensor, nn.Parameter):
                    self._open[_memory(tensor)] = name
                self._has_left = self._has_left or self._of(tensor) is not None

    def _may_return(
        self,
        name: str,
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        tensors: Sequence[Tensor],
        written: Sequence[Tensor],
    ) -> bool:
        """Return whether numbers of tokens that left torch may come back in a function that is given no tokens."""
        if not self._has_left or name in MAKES:
            return self._has_left
        has_number = any(isinstance(part, float) for part in (*arguments, *named.values()))
        return has_number and all(any(part is output for output in written) for part in tensors)

    def _clear(self, outputs: Sequence[Tensor], arguments: Sequence[Tensor]) -> None:
        """Forget what happened to memory that is in use for something else now."""
        used = {_memory(part) for part in arguments if not part.is_nested}
        for output in outputs:
            if not output.is_nested and _memory(output) not in used:
                memory = _memory(output)
                for known in (self._writes, self._same):
                    known.pop(memory, None)
                self._open.pop(memory, None)

    def _after(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        outputs: Sequence[Tensor],
        given: Sequence[Tensor],
    ) -> tuple[Sequence[Int[Tensor, ...] | None], str | None]:
        """Return the rows of each output, and the function that last changed the order of tokens."""
        name, rule = name_of(function), rule_of(function)
        found: Any = None
        if "out" in named:
            named = {key: part for key, part in named.items() if key != "out"}
        if rule is not None and given:
            try:
                found = rule(Called(function, arguments, named, outputs, self.of))
            except (RuntimeError, TypeError, LookupError, ValueError, AttributeError, StopIteration):
                found = None  # it was called in a way that the rule does not know
        if isinstance(found, Tensor):
            found = [found] * len(outputs)
        by = next((known.by for known in map(self._of, given) if known is not None and known.by is not None), None)
        every, changed = [], False
        for place, output in enumerate(outputs):
            ids = found[place] if found is not None and place < len(found) else None
            is_number = output.is_floating_point() or output.is_complex()  # others choose tokens, if anything
            if ids is None or ids.shape != output.shape:
                is_text = any(has_text(known.ids) for known in map(self._of, given) if known is not None)
                ids = fresh(next(_numbers), output.shape, is_text, output.device) if is_number else None
                changed = changed or is_number
            elif not is_number and name not in SAME and name not in MOVES and bool((unrepeated(ids) >= HASHED).any()):
                ids = None
            every.append(ids)
        return every, name if changed or name in REORDERS else by

    def _expect_write(self, output: Tensor) -> None:
        """Take the last change of a tensor for that of the function that has just returned it."""
        known = self._known.get(output)
        if known is not None and known.version is not None:
            self._known[output] = known._replace(version=output._version)

    def _note_write(self, output: Tensor, ids: Int[Tensor, ...] | None) -> None:
        """Note that a function wrote into a tensor, so that others in the same memory are known to have changed."""
        known, memory = self._known.get(output), _memory(output)
        if known is not None and ids is not None and known.ids.shape == ids.shape and torch.equal(known.ids, ids):
            self._same[memory] = self._same.get(memory, 0) + SEVERAL
        else:
            self._writes[memory] = self._writes.get(memory, 0) + 1


def agree(one: Positions | None, other: Positions | None) -> bool:
    """Return whether queries and keys, or two queries, are known to be the same tokens in the same order.

    There may be more keys than queries, if the others belong to nobody: learned keys, or the empty part of a cache.
    """
    if one is None or other is None:
        return False
    with _unseen():
        first, second = one.ids, other.ids
        if first.shape == second.shape:
            return bool(((first == second) | (first == NOBODY) | (second == NOBODY)).all())
        return extra_columns(one, other) is not None


def are_distinct(rows: Positions | None) -> bool:
    """Return whether each position is another token; channels and heads are not."""
    if rows is None:
        return False
    with _unseen():
        ordered = rows.ids.sort(1).values
        return not bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NOBODY)).any())


class Order(NamedTuple):
    """What is known about the tokens of an attention, seen from the tokens of the input."""

    is_in_order: bool  # whether the tokens of the input may label its rows
    change: str | None  # the function that last mixed or moved the tokens of the queries or keys
    is_mixed: bool  # whether its queries were made of several tokens of a text each
    extra: tuple[int, ...]  # its keys that belong to no token


def order_of(rows: Positions | None, keys: Positions | None, is_whole: bool) -> Order:
    if rows is None:
        return Order(True, None, False, ())
    with _unseen():
        is_mixed = bool((rows.ids >= MIXED_TEXT).any())
        extra = None if keys is None or keys.ids.shape == rows.ids.shape else extra_columns(rows, keys)
        change = rows.by or (None if keys is None else keys.by)
        return Order(are_distinct(rows) and is_in_order(rows.ids, is_whole), change, is_mixed, extra or ())


def extra_columns(query: Positions, key: Positions) -> tuple[int, ...] | None:
    """Return which keys belong to no token, if all others are the tokens of the queries in their order."""
    with _unseen():
        is_token = key.ids != NOBODY
        first = is_token[:1]
        if len(key.ids) != len(query.ids) or not len(key.ids) or not torch.equal(is_token, first.expand_as(is_token)):
            return None
        if int(first.sum()) != query.ids.shape[1] or not torch.equal(key.ids[:, first[0]], query.ids):
            return None
        extra: list[int] = (~first[0]).nonzero().flatten().tolist()
        return tuple(extra)


def _has_numbers(tensor: Tensor) -> bool:
    return not tensor.is_nested and not tensor.is_meta


def _memory(tensor: Tensor) -> int:
    """Return where the numbers of a tensor are; its views have the same."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # it has none of its own
        return -1
