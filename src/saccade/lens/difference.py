"""The difference between a model's attention weights for two inputs, for the tokens that both inputs have."""

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
    """Differences between the attention weights for two inputs, with the tokens of their rows and columns."""

    values: Float[Tensor, "Q K"]
    rows: list[str]
    columns: list[str]
    row_pairs: list[tuple[int, int]]  # the position of each row in the first and in the second input
    column_pairs: list[tuple[int, int]]


def subtract(view: View, other: View, name: str, head: Head, *, words: bool) -> Difference:
    """Return the weights of a view minus those of the other view; tokens that only one of the views has are left
    out."""
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
    """Return pairs of positions, in the first and in the second list, of the tokens that both lists have in the same
    order."""
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]
