"""Numbers of tokens that are read outside torch, and may come back as plain numbers whose origin nobody can see.

What Python does with a number cannot be followed: ``x / x.max().item()`` mixes all tokens, but torch only sees a
division by a number. So once a number of a token has been read, every number that is passed to a function may have been
computed from it. Only whole numbers up to 2 are trusted, because every program uses them, for squares and halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

from saccade.attention.watching.foreign.row_functions import FILLS, MAKES, SETTINGS, name_of
from saccade.attention.watching.foreign.row_moves import chosen, elementwise
from saccade.attention.watching.foreign.row_rules import rule_of

__all__ = ["Outside"]

#: Whole numbers up to this size are in most programs, and tell nothing.
SMALL = 2


class Outside:
    """Remembers that numbers of tokens have left torch."""

    def __init__(self) -> None:
        self._has_fractions = False
        self._has_whole = False

    def note(self, tensor: Tensor) -> None:
        """Note that the numbers of a tensor are read."""
        if tensor.is_floating_point() or tensor.is_complex():
            self._has_fractions = True
        self._has_whole = True

    def may_return(self, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Return whether a function is given numbers that may have been computed from those that left torch."""
        if not self._has_whole:
            return False
        name = name_of(function)
        if name in MAKES:
            return True
        if name in FILLS:
            arguments = arguments[FILLS[name] : FILLS[name] + 1]
            named = {key: part for key, part in named.items() if key in ("fill_value", "value")}
        elif rule_of(function) not in (chosen, elementwise):
            return False
        numbers = _numbers_in((arguments, [part for key, part in named.items() if key not in SETTINGS]))
        return any(abs(number) > SMALL if isinstance(number, int) else self._has_fractions for number in numbers)


def _numbers_in(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _numbers_in(value)
