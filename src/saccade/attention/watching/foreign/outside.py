"""Notices when a program reads numbers out of tensors, because they may come back into torch without a known origin.

Saccade cannot follow what Python does with a number: ``x / x.max().item()`` mixes all tokens, but torch only sees a
division by a number. The same holds for a size that depends on tokens, such as that of ``x.unique()``. So once a
program has read such a number or size, any number that it passes to a torch function may have been computed from it,
and the tokens of the result count as unknown. Whole numbers from -2 to 2 are an exception, because every program uses
them, for squares and halves; but not if the program has read a number in this range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from saccade.attention.watching.foreign.called import flat
from saccade.attention.watching.foreign.row_functions import (
    COUNTS,
    FILLS,
    MAKES,
    SETTINGS,
    SIZED,
    SIZES,
    name_of,
)
from saccade.attention.watching.foreign.row_mixes import product
from saccade.attention.watching.foreign.row_moves import chosen, elementwise
from saccade.attention.watching.foreign.row_rules import rule_of

__all__ = ["Outside"]

#: Whole numbers up to this size occur in most programs, and are trusted.
SMALL = 2


class Outside:
    """Remembers whether Python code has read numbers that torch computed from tokens, for example with ``item()``."""

    def __init__(self) -> None:
        self._has_left = False
        self._has_small = False  # whether a small number (see ``SMALL``) was among those that were read
        self._sized: Any = WeakIdKeyDictionary()  # the tensors whose size depends on the content of tokens

    def note(self, numbers: object) -> None:
        """Note that Python code has read these numbers from a tensor; ``numbers`` may be a number or nested lists."""
        self._has_left = True
        self._has_small = self._has_small or any(abs(number) <= SMALL for number in _numbers_in((numbers,)))

    def follow(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
        outputs: Sequence[Tensor],
        given: Sequence[Tensor],
    ) -> None:
        """Remember which outputs of a function have a size that depends on the content of tokens.

        A size does if the function derives it from an argument that was computed from tokens (``given`` lists these
        arguments), or if the size of any argument already depends on tokens.
        """
        name, is_sized = name_of(function), False
        if given and name in SIZED:
            is_sized = True
        elif given and name in ("where", "one_hot"):
            is_sized = len(arguments) + len(named) == 1
        elif given and name in ("getitem", "index", "repeat_interleave"):
            others = flat((arguments[1:], tuple(named.values())))
            choosing = [part for part in others if any(part is one for one in given)]
            is_sized = any(part.dtype == torch.bool or name == "repeat_interleave" for part in choosing)
        every = list(flat((arguments, tuple(named.values())))) if is_sized or self._sized else []
        if is_sized or any(part in self._sized for part in every):
            self._sized.update({output: True for output in outputs if not any(output is part for part in every)})

    def read_size(self, function: Callable[..., Any], tensor: Tensor, output: object) -> None:
        """If a function returned a size that depends on tokens, note that Python has read this size."""
        if self._sized and name_of(function) in SIZES and tensor in self._sized:
            self.note(output)

    def may_return(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Return whether an argument of a function may have been computed from numbers that Python has read."""
        if not self._has_left:
            return False
        name = name_of(function)
        if name in MAKES:
            return True
        if name in FILLS:
            arguments = arguments[FILLS[name] : FILLS[name] + 1]
            named = {key: part for key, part in named.items() if key in ("fill_value", "value")}
        elif name in COUNTS:
            is_size = name == "arange" and len(arguments) + len(named.keys() & {"start", "end", "step"}) < 2
            arguments, named = (() if is_size else arguments), ({} if is_size else named)
        elif rule_of(function) not in (chosen, elementwise, product):
            return False
        return any(map(self._is_suspect, _numbers_in((arguments, [named[key] for key in named.keys() - SETTINGS]))))

    def _is_suspect(self, number: complex) -> bool:
        return self._has_small or not isinstance(number, int) or abs(number) > SMALL


def _numbers_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _numbers_in(value)
