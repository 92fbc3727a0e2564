"""One step of a walkthrough of attention, and numbers that the user changes by hand before the next step uses them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.lens.walk.numbers import to_float

__all__ = ["Changed", "Changes", "Step"]

#: For each step by name, the new number at each place (row, column), counted from 0. The weighted values have places
#: (query, row, column).
Changed = Mapping[str, Mapping[tuple[int, ...], float]]


@dataclass(frozen=True, eq=False)
class Step:
    """One matrix of a walkthrough, and how it was computed."""

    name: str  # the variable of its line of code: inputs, W_query, scores, ...
    title: str
    equation: str  # as the lectures write it
    code: str  # the line of Python that computes it from earlier steps; ``given`` holds the arguments
    values: Float[Tensor, "rows columns"] | Float[Tensor, "blocks rows columns"]  # -inf where masked
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    block_labels: tuple[str, ...] = ()  # only for the weighted values: one block of rows for each query
    changed: tuple[tuple[int, ...], ...] = ()  # the places whose number was changed by hand
    row_notes: Mapping[int, str] = field(default_factory=dict)  # remarks on some rows

    @property
    def is_given(self) -> bool:
        """Whether the numbers are an argument of the walkthrough, and not computed from other steps."""
        return self.code.startswith(f'{self.name} = torch.tensor(given["{self.name}"]')

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain lists and strings for JSON; a masked score, -∞, becomes None."""
        return {
            "name": self.name,
            "title": self.title,
            "equation": self.equation,
            "code": self.code,
            "values": _without_infinity(self.values.tolist()),
            "row_labels": list(self.row_labels),
            "column_labels": list(self.column_labels),
            "block_labels": list(self.block_labels),
            "changed": [list(place) for place in self.changed],
            "row_notes": {str(row): note for row, note in self.row_notes.items()},
        }


class Changes:
    """The numbers that the user changed by hand, which replace computed ones."""

    def __init__(self, changed: Changed | None) -> None:
        self.changed = {name: cells for name, cells in (changed or {}).items() if cells}

    def __contains__(self, name: str) -> bool:
        return name in self.changed

    def applied(self, step: Step) -> Step:
        """Return the step with the user's numbers in place of the computed ones, and the same changes in its code."""
        cells = self.changed.get(step.name)
        if not cells:
            return step
        values, code = step.values.clone(), [step.code]
        for place, value in cells.items():
            _check(step, place, value)
            values[place] = float(value)
            code.append(f"{step.name}[{', '.join(map(str, place))}] = {float(value)!r}")
        return replace(step, values=values, code="; ".join(code), changed=tuple(cells))

    def check_steps(self, steps: Sequence[Step]) -> None:
        """Raise an error if a changed step does not exist, or is an argument of the walkthrough and not computed."""
        computed = [step.name for step in steps if not step.is_given]
        for name in self.changed:
            if any(step.name == name and step.is_given for step in steps):
                raise OptionError(f"{name} is an input and not computed; change the input itself.")
            if name not in computed:
                raise UnknownNameError("computed step", name, computed)


def _check(step: Step, place: tuple[int, ...], value: float) -> None:
    entry = step.name + "".join(f"[{index}]" for index in place)
    shape = step.values.shape
    fits = len(place) == len(shape) and all(
        type(index) is int and 0 <= index < size for index, size in zip(place, shape, strict=True)
    )
    if not fits:
        sizes = " by ".join(map(str, shape))
        raise ShapeError(f"There is no {entry} to change; {step.name} is {sizes}, and indices start at 0.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(to_float(value)):
        raise OptionError(f"The new value of {entry} must be a finite number, not {value!r}.")


def _without_infinity(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_infinity(entry) for entry in values]
    return None if values == -math.inf else values
