"""What the figures of a view have in common."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from saccade.errors import OptionError, UnknownNameError
from saccade.lens.axis import Axis
from saccade.lens.drawing import label
from saccade.lens.view import Head, View

__all__ = ["MOST_TOKENS", "Array", "ThemeName", "as_array", "describe", "is_dark", "labels", "scale_end"]

Array = NDArray[np.float64]
ThemeName = Literal["light", "dark"]

#: The most tokens a side that are drawn weight by weight; longer inputs are drawn as an overview of that size.
MOST_TOKENS = 200


def as_array(values: Tensor) -> Array:
    """Numbers for matplotlib, exactly as they are: float64 holds every float32."""
    array: Array = values.detach().cpu().double().numpy()
    return array


def describe(view: View, name: str, head: Head) -> str:
    """The title of a figure that has none."""
    if isinstance(head, int):
        return f"{name}, head {head}"
    count = view.heads(name)
    return name if count == 1 else f"{name}, {head} of {count} heads"


def labels(axis: Axis, words: bool) -> list[str]:
    return [label(text) for text in axis.labels(words)]


def is_dark(theme: ThemeName) -> bool:
    if theme not in get_args(ThemeName):
        raise UnknownNameError("theme", theme, get_args(ThemeName))
    return theme == "dark"


def scale_end(scale: float | None, values: Array) -> float:
    """The number that is drawn as full ink: the one asked for, or the largest there is."""
    if scale is not None:
        if not scale > 0:
            raise OptionError(f"A scale ends at a weight above 0; not at {scale}.")
        return scale
    largest = float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0
    return largest if largest > 0 else 1.0
