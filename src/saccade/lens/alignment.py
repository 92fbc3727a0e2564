"""Alignment from attention: which source word a target word was made from.

Which attention, heads and row give the best links is a choice, made once on training data and saved with the model.

Which row: the forced pass reads START, y_1, ..., y_T and predicts y_1, ..., y_T, END, so it has T + 1 rows.

    row       0      1      2    ...   T
    reads     START  y_1    y_2        y_T
    predicts  y_1    y_2    y_3        END

The source word that y_t was made from is looked for while y_t is PREDICTED: in row t - 1, which reads the token before.
With target tokens counted from 0, as lists are, token t belongs to row t + ``row_offset``: offset 0 is the row that
predicts it, offset 1 the row that reads it. The wrong one links nearly every word to its neighbour's source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from saccade.attention import Trace
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

Weights = Trace | Float[Tensor, "B H Q K"]
Reduce = Literal["mean", "max"]


class AlignmentChoice(Config):
    """Which attention gives a model's alignment; saved with the model."""

    attention: str = Field(description='Name of the attention, such as "decoder.1.cross"')
    heads: tuple[int, ...] = Field(min_length=1, description="Heads to use; the mean of several")
    row_offset: int = Field(0, ge=0, le=1, description="0: the row that predicts the token; 1: the row that reads it")


class RankedChoice(NamedTuple):
    """One way to read the alignment, and how well it does on the sentences it was tried on."""

    choice: AlignmentChoice
    agreement: Agreement  # of its hard links with the given ones
    mass: float  # the mean weight that a linked target token gives to its true source tokens


class Lengths(NamedTuple):
    """Tokens of one sentence pair, without START, END and padding."""

    source: int
    target: int


def alignment_matrix(
    weights: Weights, heads: Sequence[int] | None = None, reduce: Reduce = "mean", *, batch: int = 0
) -> Float[Tensor, "Q K"]:
    """The exact weights of one sequence, of some heads or all, as one matrix: their mean or their maximum."""
    chosen = range(weights.shape[1]) if heads is None else heads
    if not len(chosen):
        raise OptionError("An alignment needs at least one head; none was given.")
    stacked = _one_sequence(weights, batch)
    for head in chosen:
        if not 0 <= head < len(stacked):
            raise ShapeError(f"There is no head {head}; there are {len(stacked)}, counted from 0.")
    stacked = stacked[list(chosen)]
    if reduce == "mean":
        return stacked.mean(dim=0)
    if reduce == "max":
        return stacked.amax(dim=0)
    raise UnknownNameError("reduction of heads", reduce, ("mean", "max"))


def align(
    choice: AlignmentChoice,
    seen: Mapping[str, Weights],
    lengths: Lengths,
    *,
    batch: int = 0,
    end: bool = False,
) -> Float[Tensor, "T S"]:
    """How much each target token took from each source token, as the model's choice reads it from a forced pass.

    ``end`` keeps the column of the token after the source, its END: with it the rows sum to 1, as a picture should
    show it. Without it links are read: no word is made from END, but attention that has nothing to do rests there.
    """
    if choice.attention not in seen:
        raise UnknownNameError("attention", choice.attention, seen)
    matrix = alignment_matrix(seen[choice.attention], choice.heads, batch=batch)
    return _cut(matrix, choice.row_offset, lengths, end)


def rank_alignments(
    candidates: Mapping[str, Weights], lengths: Sequence[Lengths], gold: Sequence[Collection[WordLink]]
) -> list[RankedChoice]:
    """Every attention, each head and the mean of all, the row that predicts and the row that reads: the best first.

    Candidates are the forced passes over one batch of training sentences, by the name of the attention; ``gold`` are
    the links of its tokens, known or from ``cooccurrence_links``. The order is that of the agreement of hard links;
    of equal ones, that of the weight on the gold links; then the order of the candidates, the mean of heads first.
    """
    if not candidates:
        raise OptionError("There is no attention to choose an alignment from; give at least one.")
    ranked = [
        _try(choice, weights, lengths, gold)
        for name, seen in candidates.items()
        for weights in [seen.weights() if isinstance(seen, Trace) else seen]
        for choice in _choices(name, weights.shape[1])
    ]
    if not ranked[0].agreement.total:
        raise OptionError("An alignment cannot be chosen from sentences without a single gold link.")
    return sorted(ranked, key=lambda tried: (tried.agreement.right, tried.mass), reverse=True)


def choose_alignment(
    candidates: Mapping[str, Weights], lengths: Sequence[Lengths], gold: Sequence[Collection[WordLink]]
) -> AlignmentChoice:
    """The first of ``rank_alignments``."""
    return rank_alignments(candidates, lengths, gold)[0].choice


def _choices(name: str, num_heads: int) -> list[AlignmentChoice]:
    all_heads = tuple(range(num_heads))
    groups = [all_heads] if num_heads == 1 else [all_heads, *((head,) for head in all_heads)]
    return [
        AlignmentChoice(attention=name, heads=heads, row_offset=row_offset) for row_offset in (0, 1) for heads in groups
    ]


def _try(
    choice: AlignmentChoice,
    weights: Float[Tensor, "B H Q K"],
    lengths: Sequence[Lengths],
    gold: Sequence[Collection[WordLink]],
) -> RankedChoice:
    if not len(lengths) == len(gold) == len(weights):
        raise ShapeError(
            f"{choice.attention} has {len(weights)} sentences; there are {len(lengths)} lengths and {len(gold)} gold "
            "alignments, and one is needed for each."
        )
    links, mass, linked = [], 0.0, 0
    for batch, (length, true) in enumerate(zip(lengths, gold, strict=True)):
        matrix = _cut(alignment_matrix(weights, choice.heads, batch=batch), choice.row_offset, length, end=False)
        links.append(hard_links(matrix))
        sources, targets = [source for source, _ in true], [target for _, target in true]
        mass += float(matrix[targets, sources].sum())
        linked += len(set(targets))
    return RankedChoice(choice, agreement(links, gold), mass / max(1, linked))


def _one_sequence(weights: Weights, batch: int) -> Float[Tensor, "H Q K"]:
    if isinstance(weights, Trace):
        return weights.weights(batch=batch)
    if weights.ndim != 4:
        raise ShapeError(f"Weights have shape (batch, heads, queries, keys), not {tuple(weights.shape)}.")
    if not 0 <= batch < len(weights):
        raise ShapeError(f"There is no sequence {batch}; there are {len(weights)}, counted from 0.")
    return weights[batch]


def _cut(matrix: Float[Tensor, "Q K"], row_offset: int, lengths: Lengths, end: bool) -> Float[Tensor, "T S"]:
    columns = lengths.source + end
    rows = slice(row_offset, row_offset + lengths.target)
    if rows.stop > matrix.shape[0] or columns > matrix.shape[1]:
        raise ShapeError(
            f"An alignment of {lengths.target} target and {columns} source tokens needs {rows.stop} queries and "
            f"{columns} keys; the attention has {matrix.shape[0]} and {matrix.shape[1]}."
        )
    return matrix[rows, :columns]
