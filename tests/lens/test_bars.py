"""Bars as a figure: as long as their numbers, each with its name."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from saccade.errors import OptionError
from saccade.lens.figures.artists import Label
from saccade.lens.figures.bars import bars


def test_a_bar_is_as_long_as_its_value() -> None:
    figure = bars(["a", "bc"], [0.25, 1.0], marks=[None, 0.5], title="shares", caption="of all")
    (axes,) = figure.axes
    drawn = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [patch.get_width() for patch in drawn] == [0.25, 1.0]
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.5, 0.5]]  # type: ignore[arg-type]
    texts = [found.whole for found in figure.findobj(Label) if isinstance(found, Label)]
    assert sorted(texts) == ["0.25", "1.00", "a", "bc", "of all", "shares"]


@pytest.mark.parametrize(("names", "values"), [([], []), (["a"], [0.1, 0.2]), (["a"] * 121, [0.1] * 121)])
def test_too_few_or_too_many_are_refused(names: list[str], values: list[float]) -> None:
    with pytest.raises(OptionError, match=f"A bar chart takes 1 to 120 values, each with a name, not {len(values)}"):
        bars(names, values)
