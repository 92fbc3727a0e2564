"""Subtract the weights for another input, between the tokens that both inputs have."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from saccade.lens.view import Head, View

__all__ = ["Difference", "matching", "subtract"]


@dataclass(frozen=True)
class Difference:
    """Differences between weights, with the tokens of their rows and columns."""

    values: Float[Tensor, "Q K"]
    rows: list[str]
    columns: list[str]
    row_pairs: list[tuple[int, int]]  # the position of each row in the first and in the second input
    column_pairs: list[tuple[int, int]]


def subtract(view: View, other: View, name: str, head: Head, *, words: bool) -> Difference:
    """Subtract the weights of the other view; tokens that only one of the views has are dropped."""
    rows, columns = (axis.labels(words) for axis in view.axes(name))
    other_rows, other_columns = (axis.labels(words) for axis in other.axes(name))
    row_pairs, column_pairs = matching(rows, other_rows), matching(columns, other_columns)
    first, second = (
        side.matrix(name, head, words=words)[[pair[number] for pair in row_pairs]][
            :, [pair[number] for pair in column_pairs]
        ]
        for number, side in enumerate((view, other))
    )
    labels = [rows[row] for row, _ in row_pairs], [columns[column] for column, _ in column_pairs]
    return Difference(first - second, *labels, row_pairs, column_pairs)


def matching(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of the tokens that two lists have in common, in the same order in both."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]
