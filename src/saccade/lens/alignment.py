"""Read from a model's attention which source word each target word translates.

The attention layer, its heads and the row (see below) that give the best links are chosen once on training data and
saved with the model.

Rows: in a forced pass, the decoder reads START and the known target tokens y_1 to y_T, and predicts y_1 to y_T and END.

    row       0      1      2    ...   T
    reads     START  y_1    y_2        y_T
    predicts  y_1    y_2    y_3        END

The model looks for the source of y_t while it PREDICTS y_t, in row t - 1, which reads the token before it. If target
tokens are counted from 0, as in a list, token t belongs to row t + ``row_offset``: offset 0 is the row that predicts
it, and offset 1 is the row that reads it. The wrong offset links nearly every word to its neighbour's source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from saccade.attention import Trace
from saccade.attention.watching.overview import Reduce
from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.lens.links import Agreement, WordLink, agreement, hard_links
from saccade.models.config import Config

__all__ = [
    "AlignmentChoice",
    "RankedChoice",
    "align",
    "alignment_matrix",
    "choose_alignment",
    "rank_alignments",
]

#: An attention to read links from: a trace, or its weights.
Alignable = Trace | Float[Tensor, "B H Q K"]


class AlignmentChoice(Config):
    """The attention layer, the heads and the row from which a model's alignment is read; saved with the model."""

    attention: str = Field(description='Name of the attention, such as "decoder.1.cross"')
    heads: tuple[int, ...] = Field(min_length=1, description="Heads to use; if there are several, their mean")
    row_offset: int = Field(0, ge=0, le=1, description="0: the row that predicts the token; 1: the row that reads it")


class RankedChoice(NamedTuple):
    """A choice of attention layer, heads and row, and how well the links that it gives agree with the gold links of
    some sentences."""

    choice: AlignmentChoice
    agreement: Agreement  # between its links and the gold links
    mass: float  # the mean weight that a linked target token gives to its true source tokens


class PairLengths(NamedTuple):
    """The number of tokens in each sentence of a pair, not counting START, END and padding."""

    source: int
    target: int


def alignment_matrix(
    weights: Alignable, heads: Sequence[int] | None = None, reduce: Reduce = "mean", *, batch: int = 0
) -> Float[Tensor, "Q K"]:
    """Return the attention weights of one sequence of the batch, as the mean or maximum over ``heads``, or over all
    heads if they are not given."""
    chosen = range(weights.shape[1]) if heads is None else heads
    if not len(chosen):
        raise OptionError("An alignment needs at least one head; heads is empty.")
    if isinstance(weights, Trace):
        stacked = weights.weights(batch=batch)
    else:
        if weights.ndim != 4:
            raise ShapeError(f"Weights must have shape (batch, heads, queries, keys), not {tuple(weights.shape)}.")
        if not 0 <= batch < len(weights):
            raise ShapeError(f"There is no sequence {batch}; there are {len(weights)} sequences, numbered from 0.")
        stacked = weights[batch]
    for head in chosen:
        if not 0 <= head < len(stacked):
            raise ShapeError(f"There is no head {head}; there are {len(stacked)} heads, numbered from 0.")
    stacked = stacked[list(chosen)]
    if reduce == "mean":
        return stacked.mean(dim=0)
    if reduce == "max":
        return stacked.amax(dim=0)
    raise UnknownNameError("reduction of heads", reduce, ("mean", "max"))


def align(
    choice: AlignmentChoice,
    seen: Mapping[str, Alignable],
    lengths: PairLengths,
    *,
    batch: int = 0,
    end: bool = False,
) -> Float[Tensor, "T S"]:
    """Return how much each target token attends to each source token in a forced pass (see the module), in the
    attention layer, heads and row of ``choice``.

    With ``end``, the column of the source's END is kept, so that rows sum to 1, which pictures need. Links are read
    without this column: END is not the source of any word, but heads attend to it when there is nothing else to look
    for.
    """
    if choice.attention not in seen:
        raise UnknownNameError("attention", choice.attention, seen)
    matrix = alignment_matrix(seen[choice.attention], choice.heads, batch=batch)
    return _cut(matrix, choice.row_offset, lengths, end)


def rank_alignments(
    candidates: Mapping[str, Alignable], lengths: Sequence[PairLengths], gold: Sequence[Collection[WordLink]]
) -> list[RankedChoice]:
    """Rank all choices for an alignment, the best first: each attention layer, each of its heads or their mean, and
    both row offsets.

    ``candidates`` are the attention layers by name, with their weights in a forced pass over one batch of training
    sentences. ``gold`` are the true links between the tokens of each sentence pair, or those of ``cooccurrence_links``.
    Choices are ranked by how well their links agree with the gold links; if equal, by the weight on the gold links; and
    if that is equal too, in the order of the candidates, with the mean of the heads first.
    """
    if not candidates:
        raise OptionError("There is no attention to choose an alignment from; pass at least one.")
    ranked = [
        _try(choice, weights, lengths, gold)
        for name, seen in candidates.items()
        for weights in [seen.weights() if isinstance(seen, Trace) else seen]
        for row_offset in (0, 1)
        for heads in _head_groups(weights.shape[1])
        for choice in [AlignmentChoice(attention=name, heads=heads, row_offset=row_offset)]
    ]
    if not ranked[0].agreement.total:
        raise OptionError("An alignment cannot be chosen, because the sentences have no gold links.")
    return sorted(ranked, key=lambda tried: (tried.agreement.right, tried.mass), reverse=True)


def choose_alignment(
    candidates: Mapping[str, Alignable], lengths: Sequence[PairLengths], gold: Sequence[Collection[WordLink]]
) -> AlignmentChoice:
    """Return the best choice according to ``rank_alignments``."""
    return rank_alignments(candidates, lengths, gold)[0].choice


def _head_groups(num_heads: int) -> list[tuple[int, ...]]:
    all_heads = tuple(range(num_heads))
    return [all_heads] if num_heads == 1 else [all_heads, *((head,) for head in all_heads)]


def _try(
    choice: AlignmentChoice,
    weights: Float[Tensor, "B H Q K"],
    lengths: Sequence[PairLengths],
    gold: Sequence[Collection[WordLink]],
) -> RankedChoice:
    if not len(lengths) == len(gold) == len(weights):
        raise ShapeError(
            f"{choice.attention} has {len(weights)} sentences, but there are {len(lengths)} lengths and {len(gold)} "
            "gold alignments; each sentence needs one of each."
        )
    links, mass, linked = [], 0.0, 0
    for batch, (length, true) in enumerate(zip(lengths, gold, strict=True)):
        matrix = _cut(alignment_matrix(weights, choice.heads, batch=batch), choice.row_offset, length, end=False)
        links.append(hard_links(matrix))
        sources, targets = [source for source, _ in true], [target for _, target in true]
        mass += float(matrix[targets, sources].sum())
        linked += len(set(targets))
    return RankedChoice(choice, agreement(links, gold), mass / max(1, linked))


def _cut(matrix: Float[Tensor, "Q K"], row_offset: int, lengths: PairLengths, end: bool) -> Float[Tensor, "T S"]:
    columns = lengths.source + end
    rows = slice(row_offset, row_offset + lengths.target)
    if rows.stop > matrix.shape[0] or columns > matrix.shape[1]:
        raise ShapeError(
            f"An alignment of {lengths.target} target and {columns} source tokens needs {rows.stop} queries and "
            f"{columns} keys; the attention has {matrix.shape[0]} and {matrix.shape[1]}."
        )
    return matrix[rows, :columns]
