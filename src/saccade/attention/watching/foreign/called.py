"""A call of one of torch's functions, and ids of the tokens that its arguments were computed from (``identity``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.attention.watching.foreign.identity import NOBODY, Ids

__all__ = ["Called", "Ids", "fits", "flat", "nobody"]


class Called(NamedTuple):
    """A call of a torch function, and a way to look up which tokens its arguments were computed from (``of``)."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: Sequence[Tensor]
    of: Callable[[Any], Ids | None]  # returns the origin ids of an argument; None if it belongs to no token
    made: Callable[[Ids, int], int]  # returns the number of a sequence of new tokens, from its origin and length
    texts: Sequence[Tensor] = ()  # the inputs of the forward pass that are texts

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.arguments[place] if len(self.arguments) > place else self.named.get(name, default)

    def first(self) -> Any:
        """Return the first argument, even if it was passed by name."""
        return self.arguments[0] if self.arguments else next(iter(self.named.values()))

    def tensors(self) -> list[Tensor]:
        return list(flat((self.arguments, tuple(self.named.values()))))

    def indices(self) -> list[Tensor]:
        """Return the tensors of integers or booleans among the arguments."""
        return [part for part in self.tensors() if not part.is_floating_point() and not part.is_complex()]

    def or_nobody(self, tensor: Tensor) -> Ids:
        ids = self.of(tensor)
        return nobody(tensor) if ids is None else ids

    def others_belong_to_nobody(self, *known: object) -> bool:
        """Return whether no tensor argument, apart from those in ``known``, was computed from tokens."""
        return all(any(part is one for one in known) or self.of(part) is None for part in self.tensors())


def flat(values: Iterable[Any]) -> Iterable[Any]:
    """Yield the tensors in nested lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from flat(value)


def nobody(tensor: Tensor) -> Ids:
    return torch.full((1,) * tensor.ndim, NOBODY, dtype=torch.int64, device=tensor.device).expand(tensor.shape)


def fits(shape: torch.Size, whole: torch.Size) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole), strict=False))
