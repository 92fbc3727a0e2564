"""Draw the effects of activation patching: how much of the clean result each patched head restores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from saccade.errors import OptionError, ShapeError
from saccade.lens.figures.canvas import ThemeName, is_dark, label
from saccade.lens.figures.matrix import MOST_LABELLED, Scale, draw_matrix, places
from saccade.lens.words import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from saccade.lens.patch import Patching

__all__ = ["draw_patching"]


def draw_patching(
    found: Patching, tokens: Sequence[str] | None, names: Sequence[str] | None, title: str | None, theme: ThemeName
) -> Figure:
    """Draw how much of the difference between the clean and the corrupted input each patch restores.

    Rows are heads and columns are positions. If all positions were patched at once, rows are layers and columns heads.
    """
    chosen = found.names if names is None else list(names)
    shares = [found.shares(name).double().numpy() for name in chosen]
    sizes = {share.shape[1] for share in shares}
    if len(sizes) != 1:
        lengths = ", ".join(map(str, sorted(sizes)))
        raise OptionError(
            f"All attentions of a picture must have the same number of queries, but these have {lengths}; choose "
            "attentions of equal length with names."
        )
    (num_columns,) = sizes
    if found.has_positions:
        if tokens is not None and len(tokens) != num_columns:
            raise ShapeError(f"{chosen[0]} has {num_columns} queries, but {len(tokens)} tokens were given.")
        matrix = np.concatenate(shares)
        rows = [
            f"{visible(name)}:{head}" for name, share in zip(chosen, shares, strict=True) for head in range(len(share))
        ]
        columns = [label(token) for token in tokens] if tokens is not None else [str(n) for n in range(num_columns)]
    else:
        widest = max(len(share) for share in shares)
        matrix = np.full((len(chosen), widest), np.nan)
        for row, share in enumerate(shares):
            matrix[row, : len(share)] = share[:, 0]
        rows, columns = [visible(name) for name in chosen], [f"head {head}" for head in range(widest)]
    if max(matrix.shape) > MOST_LABELLED:
        raise OptionError(
            f"A picture can have at most {MOST_LABELLED} rows or columns, not {max(matrix.shape)}; choose fewer "
            "attentions with names."
        )
    missing = len(found.coverage.refused) + len(found.coverage.unseen)
    said = title or "; ".join(
        [
            f"share of the difference ({found.corrupted:.3g} to {found.clean:.3g}) that each patch restores",
            *([f"{missing} more attentions of the model cannot be patched"] if missing else []),
        ]
    )
    scale = Scale(max(1.0, float(np.nanmax(np.abs(matrix)))), differences=True, name="share")
    return draw_matrix(matrix, places(rows), places(columns), scale, title=said, dark=is_dark(theme))
