"""Tracks which token each element of a tensor was computed from, to notice when tokens change places or are mixed.

The marks of ``lineage`` say what a tensor was computed from, but not in which order its rows are. So while a forward
pass is watched, each tensor also has *origin ids*: for each of its elements, the id of the token that it was computed
from (``identity``). A torch function has a rule that derives the ids of its output from those of its arguments
(``row_rules``). If it has none, its output gets new ids, and is never mistaken for the sequence that went in.

A tensor also gets new ids if it was overwritten through another tensor, if its memory was exposed outside torch (for
example as a NumPy array), or if it may have been computed from numbers that Python code has read (``outside``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from saccade.attention.watching.foreign.call import unrepeated
from saccade.attention.watching.foreign.called import Called, flat
from saccade.attention.watching.foreign.identity import (
    LENGTH,
    MADE,
    NOBODY,
    ROWS,
    TEXT,
    UNKNOWN,
    bits_of,
    fresh,
    merged,
    token,
    unseen,
)
from saccade.attention.watching.foreign.outside import Outside
from saccade.attention.watching.foreign.positions import RowTokens, learned, named, order_of, upright
from saccade.attention.watching.foreign.row_functions import ESCAPES, KEEPS, READS, REORDERS, name_of
from saccade.attention.watching.foreign.row_rules import rule_of

__all__ = ["Rows"]

OVERWRITTEN = "a write through another tensor"
ESCAPED = "{}, which lets code outside torch change its numbers"
RETURNED = "{}, with numbers that Python code may have computed from tokens"

#: One call of a function may raise the version counter of a tensor several times, but at most this many times.
SEVERAL = 4

_numbers = itertools.count(1)


class Known(NamedTuple):
    """The origin ids of a tensor, and how often the tensor had been written to when the ids were set."""

    ids: Int[Tensor, ...]  # one for each element of the tensor
    by: str | None  # the function that last mixed the tokens, or moved them
    version: int | None  # torch's count of writes into the tensor at that time
    num_writes: int  # how often other tokens had been written into its memory by then
    num_same: int  # how often the tokens that were already there had been written again


def _is_recorded() -> bool:
    """Return whether something records torch's computations, so that it would record those of Saccade as well."""
    return _is_transformed() or torch._C._len_torch_dispatch_stack() > 0


def _is_transformed() -> bool:
    """Return whether torch.func or torch.jit.trace is running; tensors are then only placeholders."""
    return torch._C._functorch.peek_interpreter_stack() is not None or torch._C._get_tracing_state() is not None


class Rows:
    """The origin ids of all tensors that a thread computes while a model is watched (see the module)."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()  # the Known of each tensor; torch declares no types
        self._writes: dict[int, int] = {}  # for each piece of memory, how often other tokens were written into it
        self._same: dict[int, int] = {}  # for each piece of memory, how often the same tokens were written again
        self._open: dict[int, str] = {}  # memory that was exposed outside torch, and by which function
        self._outside = Outside()
        self.is_lost = False  # whether something ran whose tokens could not be tracked
        self.lengths: dict[int, int] = {}  # the length of each sequence, by its number
        self._made: dict[tuple[Any, ...], int] = {}  # the number of each sequence, by what it was made from
        self._texts: list[Tensor] = []  # the inputs that are texts

    # --- inputs ---

    def begin(self, inputs: Iterable[Tensor]) -> None:
        """Begin a forward pass: forget everything, and give ids to the tokens of these inputs."""
        self.__init__()  # type: ignore[misc]
        if _is_recorded():
            self.is_lost = True
            return
        with unseen():
            whole = [tensor for tensor in inputs if _has_numbers(tensor) and not isinstance(tensor, nn.Parameter)]
            sizes = [_size_of(tensor) for tensor in whole]
            known = [(size, tensor) for size, tensor in zip(sizes, whole, strict=True) if size is not None]
            batch = max((size[0] for size, tensor in known if tensor.dtype != torch.bool), default=1)
            of_text = {size for size, tensor in known if not tensor.is_floating_point()}
            self._texts = [tensor for _, tensor in known if not tensor.is_floating_point()]
            for size, tensor in zip(sizes, whole, strict=True):
                if size is not None and (size[0] == batch or size[0] > 1):  # not one row of positions for all texts
                    self._number(tensor, size, TEXT if size in of_text else ROWS)
                elif size is None and tensor.is_floating_point() and tensor.ndim > 3:
                    self._number_all(tensor)

    def _number(self, tensor: Tensor, size: tuple[int, int], kind: int) -> None:
        """Give ids to the tokens of a text, or to rows of vectors; inputs of the same kind and size get equal ids."""
        texts, places = (torch.arange(count, device=tensor.device) for count in size)
        ids = token(self._sequence((kind, *size), kind, size[1]), texts[:, None], places)
        is_vectors = tensor.is_floating_point()
        self._set(
            tensor, ids.view(*tensor.shape[:-1], 1).expand(tensor.shape) if is_vectors else ids.view(tensor.shape)
        )

    def _number_all(self, picture: Tensor) -> None:
        """Give each element of a picture its own id; a picture with too many elements becomes several sequences."""
        count = picture[:1].numel()
        parts = [self._sequence((picture.shape, part), MADE, 0) for part in range(-(-count // LENGTH))]
        texts, places = (torch.arange(size, device=picture.device) for size in (len(picture), count))
        sequences = torch.tensor(parts, device=picture.device)[places // LENGTH]
        self._set(picture, token(sequences, texts[:, None], places % LENGTH).view(picture.shape))

    def _sequence(self, key: tuple[Any, ...], kind: int, length: int) -> int:
        """Return the number of the sequence with this key; a new key gets a new number."""
        if key not in self._made:
            self._made[key] = 4 * (len(self._made) + (1 << 19)) + kind  # smaller numbers are those of learned rows
            self.lengths[self._made[key]] = length
        return self._made[key]

    def made(self, origin: Int[Tensor, " B"], length: int) -> int:
        """Return the number of a sequence of ``length`` new tokens, computed from elements with the ids ``origin``."""
        return self._sequence((length, *origin.tolist()), MADE, length)

    # --- what is known ---

    def of(self, tensor: object) -> Int[Tensor, ...] | None:
        """Return the id of the token that each element was computed from; None if none was computed from a token."""
        known = self._of(tensor) if isinstance(tensor, Tensor) else None
        return None if known is None else known.ids

    def holds_tokens(self, tensor: Tensor) -> bool:
        """Return whether any element of a tensor was computed from a token; False for integers and booleans."""
        with torch._C.DisableTorchFunction():
            ids = self.of(tensor)
        if ids is None or not tensor.is_floating_point():
            return False
        with unseen():
            return bool((unrepeated(ids) != NOBODY).any())

    @unseen()
    def are_in_order(self, tensor: Tensor) -> bool:
        """Return whether the rows of a tensor (batch, positions, width) are known to be an input's tokens, in order."""
        return order_of(self.positions(tensor, 0), None, self.lengths).is_in_order

    @unseen()
    def holds(self, tensor: Tensor, rows: RowTokens | None) -> bool:
        """Return whether a tensor has elements of each token in ``rows``; mixtures of several tokens do not count."""
        ids = self.of(tensor)
        return ids is not None and rows is not None and bool(torch.isin(named(rows), unrepeated(ids)).all())

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
        by = ESCAPED.format(self._open[memory]) if memory in self._open else OVERWRITTEN
        found = self._set(tensor, self._new(tensor, UNKNOWN if known is None else bits_of(known.ids)), by)
        if memory in self._open:
            self._known.pop(tensor, None)
        return found

    def _set(self, tensor: Tensor, ids: Int[Tensor, ...] | None, by: str | None = None) -> Known | None:
        if ids is None:
            self._known.pop(tensor, None)
            return None
        if ids.dtype != torch.int64:  # a rule made them from an empty tensor, such as an empty cache
            ids = self._new(tensor, UNKNOWN)
        memory = _memory(tensor) if self._writes or self._same else 0
        version = None if tensor.is_inference() else tensor._version
        known = Known(ids, by, version, self._writes.get(memory, 0), self._same.get(memory, 0))
        self._known[tensor] = known
        return known

    def _new(self, tensor: Tensor, bits: int) -> Int[Tensor, ...]:
        """Return new ids for elements of unknown origin; integers and booleans all get the same id."""
        if tensor.is_floating_point() or tensor.is_complex():
            return fresh(next(_numbers), tensor.shape, bits, tensor.device)
        return torch.full((1,) * tensor.ndim, UNKNOWN, device=tensor.device).expand(tensor.shape)

    # --- attention ---

    @unseen()
    def positions(
        self,
        tensor: Tensor | None,
        number: int,
        is_turned: bool = False,
        unfold: Callable[[Tensor], Tensor] | None = None,
    ) -> RowTokens | None:
        """Return which token each row of queries, keys or values (batch, ..., positions, width) is; None if unknown.

        ``is_turned`` says that the tensor is (positions, batch, width). ``unfold``, if given, reshapes it to (batch,
        heads, positions, width). Rows that belong to no token get ids made from the ``number`` of the attention call.
        """
        if tensor is None or self.is_lost or not _has_numbers(tensor) or _is_recorded():
            return None
        known = self._of(tensor)
        ids = torch.zeros((), dtype=torch.int64, device=tensor.device).expand(tensor.shape)
        if known is not None:
            ids = known.ids
        ids = ids.unsqueeze(0) if ids.ndim < 3 else ids if unfold is None else unfold(ids)
        places = merged(ids, (*range(1, ids.ndim - 2), ids.ndim - 1)).reshape(ids.shape[0], ids.shape[-2])
        places = upright(places.mT if is_turned else places, is_turned)
        return RowTokens(places, None if known is None else known.by, number)

    @unseen()
    def attended(
        self,
        query: Tensor | None,
        output: object,
        number: int,
        is_turned: bool = False,
        texts: Int[Tensor, ...] | None = None,
    ) -> None:
        """Give the output of an attention call the origin ids of its queries; rows without a token become new tokens.

        ``texts`` gives the text of each entry of the first dimensions; by default, the first dimension is the batch.
        """
        if not isinstance(output, Tensor) or self.is_lost:
            return
        if query is None or not _has_numbers(query) or not _has_numbers(output) or _is_recorded():
            self.is_lost = True
            return
        if query.shape[:-1] != output.shape[:-1]:
            self._set(output, fresh(next(_numbers), output.shape, UNKNOWN, output.device), "attention")
            return
        known = self._of(query)
        ids = torch.full((1,) * query.ndim, NOBODY, dtype=torch.int64, device=query.device)
        if known is not None:
            ids = merged(known.ids, (query.ndim - 1,))
        if bool((unrepeated(ids) == NOBODY).any()):
            ids = torch.where(ids == NOBODY, learned(number, *_places_of(query, is_turned, texts)), ids)
        self._set(output, ids.expand(output.shape), None if known is None else known.by)

    def replace(self, tensor: Tensor, by: str) -> None:
        """Give a tensor new origin ids, because its tokens are unknown; ``by`` describes what computed it."""
        if self.is_lost or not _has_numbers(tensor) or _is_transformed():
            self.is_lost = True
            return
        with unseen():
            self._set(tensor, self._new(tensor, UNKNOWN), by)

    # --- functions ---

    def follow(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], outputs: Sequence[Tensor]
    ) -> None:
        """Give the outputs of a function the origin ids that its rule derives from the ids of its arguments."""
        if self.is_lost or not outputs:
            return
        name = name_of(function)
        with torch._C.DisableTorchFunction():
            every = list(flat((arguments, tuple(named.values()))))
            written = [output for output in outputs if any(output is part for part in every)]
            for output in written:
                self._expect_write(output)
            given = [part for part in every if self._of(part) is not None]
            if self._writes or self._open:
                self._clear(outputs, every)
            returns = self._outside.may_return(function, arguments, named)
            self._outside.follow(function, arguments, named, outputs, given)
            if not given and not returns:
                for output in outputs:
                    self._known.pop(output, None)
                return
        if name in KEEPS:
            return
        if _is_recorded() or not all(map(_has_numbers, (*given, *outputs))):
            # Integer tensors that are computed within torch.func come out of it as new tensors, of unknown origin.
            self.is_lost = not _is_transformed() or any(output.is_floating_point() for output in outputs)
            return
        with unseen():
            found, by = self._after(function, arguments, named, outputs, given, returns)
            for output, ids in zip(outputs, found, strict=True):
                if any(output is part for part in written):
                    self._note_write(output, ids)
                self._set(output, ids, by)

    def left(self, function: Callable[..., Any], arguments: tuple[Any, ...], output: object) -> None:
        """Note the call of a function that returned no tensor, but perhaps a tensor's numbers, size or memory."""
        tensor, name = arguments[0] if arguments else None, name_of(function)
        if not isinstance(tensor, Tensor) or self.is_lost:
            return
        self._outside.read_size(function, tensor, output)
        if (name not in ESCAPES and name not in READS) or not _has_numbers(tensor) or _is_recorded():
            return
        with unseen():
            if self._of(tensor) is not None:
                self._outside.note(output)
            if name in ESCAPES and not isinstance(tensor, nn.Parameter):
                self._open[_memory(tensor)] = name

    def _clear(self, outputs: Sequence[Tensor], arguments: Sequence[Tensor]) -> None:
        """Forget the old content of memory that torch has reused: an output's memory that no argument shares."""
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
        returns: bool,
    ) -> tuple[Sequence[Int[Tensor, ...] | None], str | None]:
        """Return the origin ids of each output, and the name of the function that last mixed or moved the tokens."""
        name, rule = name_of(function), rule_of(function)
        found: Any = None
        if "out" in named:
            named = {key: part for key, part in named.items() if key != "out"}
        if rule is not None and not returns:
            try:
                found = rule(Called(function, arguments, named, outputs, self.of, self.made, self._texts))
            except (RuntimeError, TypeError, LookupError, ValueError, AttributeError, StopIteration):
                found = None  # the function was called in a way that its rule does not cover
        if isinstance(found, Tensor):
            found = [found] * len(outputs)
        known = [known for known in map(self._of, given) if known is not None]
        bits, every, changed = UNKNOWN if returns else 0, [], False
        for place, output in enumerate(outputs):
            ids = found[place] if found is not None and place < len(found) else None
            if ids is None or ids.shape != output.shape:
                for one in known:
                    bits |= bits_of(one.ids)
                ids, changed = self._new(output, bits), True
            every.append(ids)
        if returns:
            return every, RETURNED.format(name)
        by = next((one.by for one in known if one.by is not None), None)
        return every, name if changed or name in REORDERS else by

    def _expect_write(self, output: Tensor) -> None:
        """Note that the last write into this tensor was by the function that has just returned it."""
        known = self._known.get(output)
        if known is not None and known.version is not None:
            self._known[output] = known._replace(version=output._version)

    def _note_write(self, output: Tensor, ids: Int[Tensor, ...] | None) -> None:
        """Count a write into a tensor, so that other tensors in the same memory are known to have changed."""
        known, memory = self._known.get(output), _memory(output)
        if known is not None and ids is not None and known.ids.shape == ids.shape and torch.equal(known.ids, ids):
            self._same[memory] = self._same.get(memory, 0) + SEVERAL
        else:
            self._writes[memory] = self._writes.get(memory, 0) + 1


def _size_of(tensor: Tensor) -> tuple[int, int] | None:
    """Return the (batch, positions) of a text or of vectors; None for anything else."""
    shape = tensor.shape if not tensor.is_floating_point() else tensor.shape[:-1]
    if not tensor.ndim or tensor.is_complex() or not 1 <= len(shape) <= 2:
        return None
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])


def _places_of(query: Tensor, is_turned: bool, texts: Int[Tensor, ...] | None) -> tuple[Tensor, Tensor]:
    """Return the text and the place of each row of queries, in shapes that broadcast to that of the queries."""
    place = 0 if is_turned else query.ndim - 2
    places = torch.arange(query.shape[place], device=query.device).view(-1, *(1,) * (query.ndim - place - 1))
    if texts is not None:
        return texts[..., None, None], places
    if query.ndim < 3:
        return torch.zeros_like(places), places
    batch = 1 if is_turned else 0
    return torch.arange(query.shape[batch], device=query.device).view(-1, *(1,) * (query.ndim - batch - 1)), places


def _has_numbers(tensor: Tensor) -> bool:
    return not tensor.is_nested and not tensor.is_meta


def _memory(tensor: Tensor) -> int:
    """Return the address of a tensor's memory, which is the same for all its views; -1 if it has no memory."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return -1
