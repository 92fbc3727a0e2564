"""A call of one of torch's functions, with the tokens that the numbers of its arguments belong to (``identity``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.attention.watching.foreign.identity import NOBODY

__all__ = ["Called", "Ids", "fits", "flat", "nobody"]

Ids = Tensor  # for each number of another tensor, the id of the token that it belongs to


class Called(NamedTuple):
    """A function call, and the tokens of its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: Sequence[Tensor]
    of: Callable[[Any], Ids | None]  # the tokens of an argument; None if its numbers belong to no token
    made: Callable[[Ids, int], int]  # the number of a sequence of this many new tokens, made from these
    texts: Sequence[Tensor] = ()  # the inputs of the forward pass that are texts

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.arguments[place] if len(self.arguments) > place else self.named.get(name, default)

    def first(self) -> Any:
        """Return the first argument, even if it was passed by name."""
        return self.arguments[0] if self.arguments else next(iter(self.named.values()))

    def tensors(self) -> list[Tensor]:
        return list(flat((self.arguments, tuple(self.named.values()))))

    def indices(self) -> list[Tensor]:
        """Return the tensors of whole numbers or truth values among the arguments."""
        return [part for part in self.tensors() if not part.is_floating_point() and not part.is_complex()]

    def or_nobody(self, tensor: Tensor) -> Ids:
        ids = self.of(tensor)
        return nobody(tensor) if ids is None else ids

    def others_belong_to_nobody(self, *known: object) -> bool:
        """Return whether none of the other tensors among the arguments belongs to a token."""
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
