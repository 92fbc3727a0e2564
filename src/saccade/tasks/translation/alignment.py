"""Read word alignments from a model's cross-attention. The heads to read them from are chosen on training data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from saccade.attention import Trace
from saccade.lens.alignment import Alignable, AlignmentChoice, PairLengths, align, choose_alignment
from saccade.lens.axis import is_cross_by_name
from saccade.lens.cooccurrence import cooccurrence_links
from saccade.lens.links import WordLink

__all__ = ["alignment_used", "choose_alignment_heads", "compute_weights", "read_alignment"]

#: The maximum number of weights that are computed at once (64 MB).
MOST_WEIGHTS = 1 << 24


class _Ids(Protocol):
    @property
    def source(self) -> list[int]: ...  # with END

    @property
    def target(self) -> list[int]: ...


def choose_alignment_heads(
    seen: Mapping[str, Trace], pairs: Sequence[_Ids], links: Sequence[frozenset[WordLink] | None]
) -> AlignmentChoice | None:
    """Return the attention, heads and row (see ``AlignmentChoice``) whose alignment best matches ``links``, the known
    links between tokens. If some are unknown, links are derived from how often tokens occur together. Return None if
    the model has no cross-attention, or if there are no links."""
    candidates = _cross_attention(seen)
    if not candidates:
        return None
    lengths = [PairLengths(len(pair.source) - 1, len(pair.target)) for pair in pairs]
    gold = [known for known in links if known is not None]
    if len(gold) < len(links):
        gold = cooccurrence_links([pair.source[:-1] for pair in pairs], [pair.target for pair in pairs])
    if not any(gold):
        return None
    return choose_alignment(candidates, lengths, gold)


def compute_weights(seen: Mapping[str, Trace], choice: AlignmentChoice | None) -> Mapping[str, Alignable]:
    """Return the weights of the chosen attention, computed all at once, which is much faster than row by row; if they
    would take too much memory, or no heads were chosen, return ``seen`` itself."""
    if choice is None or math.prod(seen[choice.attention].shape) > MOST_WEIGHTS:
        return seen
    return {choice.attention: seen[choice.attention].weights()}


def read_alignment(
    seen: Mapping[str, Alignable], choice: AlignmentChoice | None, *, rows: int, columns: int, batch: int = 0
) -> Float[Tensor, "T S"] | None:
    """Return how much each target token attends to each source token and END; None if the model has no
    cross-attention."""
    used = alignment_used(seen, choice)
    return None if used is None else align(used, seen, PairLengths(columns - 1, rows), batch=batch, end=True)


def alignment_used(seen: Mapping[str, Alignable], choice: AlignmentChoice | None) -> AlignmentChoice | None:
    """Return which attention, heads and row the alignment is read from; None if the model has no cross-attention.

    If ``choice`` is None, these are all heads of the last layer, and the row that predicts the token.
    """
    candidates = _cross_attention(seen)
    if choice is not None or not candidates:
        return choice if candidates else None
    name = list(candidates)[-1]
    return AlignmentChoice(attention=name, heads=tuple(range(candidates[name].shape[1])))


def _cross_attention(seen: Mapping[str, Alignable]) -> dict[str, Alignable]:
    """Return the attention to the source; networks of other libraries have other names for it."""
    ends = {name: name.rpartition(".")[2] for name in seen}
    return {name: seen[name] for name, end in ends.items() if end != "pooling" and is_cross_by_name(end)}
