"""Read a model's alignment from its attention; where to read it is chosen on training data, and saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from saccade.attention import Trace
from saccade.lens.alignment import Alignable, AlignmentChoice, Lengths, align, choose_alignment
from saccade.lens.cooccurrence import cooccurrence_links
from saccade.lens.links import WordLink

__all__ = ["choose_reading", "read_alignment", "written_out"]

#: The most weights that are computed at once (64 MB).
WRITTEN_OUT = 1 << 24


class _Ids(Protocol):
    @property
    def source(self) -> list[int]: ...  # with END

    @property
    def target(self) -> list[int]: ...


def choose_reading(
    seen: Mapping[str, Trace], pairs: Sequence[_Ids], links: Sequence[frozenset[WordLink] | None]
) -> AlignmentChoice | None:
    """The attention, heads and row that best match known links, or else with co-occurrence; None if there is none."""
    candidates = _cross(seen)
    if not candidates:
        return None
    lengths = [Lengths(len(pair.source) - 1, len(pair.target)) for pair in pairs]
    gold = [known for known in links if known is not None]
    if len(gold) < len(links):
        gold = cooccurrence_links([pair.source[:-1] for pair in pairs], [pair.target for pair in pairs])
    if not any(gold):
        return None
    return choose_alignment(candidates, lengths, gold)


def written_out(seen: Mapping[str, Trace], choice: AlignmentChoice | None) -> Mapping[str, Alignable]:
    """The weights that the alignment is read from, all at once if they are few: much faster than one by one."""
    if choice is None or math.prod(seen[choice.attention].shape) > WRITTEN_OUT:
        return seen
    return {choice.attention: seen[choice.attention].weights()}


def read_alignment(
    seen: Mapping[str, Alignable], choice: AlignmentChoice | None, *, rows: int, columns: int, batch: int = 0
) -> Float[Tensor, "T S"] | None:
    """How much each target token attends to each source token and END; None if the model cannot tell.

    Before a choice has been made: the mean of the last layer's heads, in the row that predicts the token.
    """
    candidates = _cross(seen)
    if not candidates:
        return None
    if choice is None:
        name = list(candidates)[-1]
        choice = AlignmentChoice(attention=name, heads=tuple(range(candidates[name].shape[1])))
    return align(choice, candidates, Lengths(columns - 1, rows), batch=batch, end=True)


def _cross(seen: Mapping[str, Alignable]) -> dict[str, Alignable]:
    return {name: weights for name, weights in seen.items() if name.rpartition(".")[2] == "cross"}
