"""Pictures of parts at any scale are those of the weights themselves."""

from __future__ import annotations

import pytest
import torch

import saccade
from saccade.attention import MultiHead
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens.view import View
from saccade.serving import pooling
from saccade.serving.looks import telling_head
from saccade.serving.pooling import Pyramid

LENGTH = 75


@pytest.fixture
def long_view(monkeypatch: pytest.MonkeyPatch) -> View:
    """Longer than what is looked at weight by weight, which is made short here."""
    monkeypatch.setattr(pooling, "BASE", 20)
    monkeypatch.setattr(pooling, "SMALL", 300)
    monkeypatch.setattr(pooling, "WEIGHTS", 900)
    monkeypatch.setattr(pooling, "BAND", 200)
    layer = MultiHead(6, 3, head_width=2).eval()
    with saccade.watch(layer) as seen, torch.inference_mode():
        layer(torch.randn(1, LENGTH, 6, generator=torch.Generator().manual_seed(2)))
    return saccade.view(seen)


def expected(view: View, rows: range, columns: range, cell: int, reduce: str) -> torch.Tensor:
    """Every cell by itself, from the exact weights."""
    weights = view.tile(view.names[0], 1, rows, columns)
    pooled = [
        [getattr(weights[r : r + cell, c : c + cell], reduce)() for c in range(0, len(columns), cell)]
        for r in range(0, len(rows), cell)
    ]
    return torch.tensor(pooled)


@pytest.mark.parametrize("reduce", ["max", "mean"])
@pytest.mark.parametrize(
    ("rows", "columns", "cell"),
    [
        (range(LENGTH), range(LENGTH), 4),  # from the cells that are kept
        (range(LENGTH), range(LENGTH), 16),
        (range(32, LENGTH), range(64), 8),
        (range(3, 18), range(7, 20), 5),  # from the weights
        (range(2, 22), range(40), 3),
    ],
)
def test_cells_of_any_part(reduce: str, rows: range, columns: range, cell: int, long_view: View) -> None:
    pyramid = Pyramid(long_view)
    found = pyramid.picture(long_view.names[0], 1, rows, columns, (cell, cell), reduce)  # type: ignore[arg-type]
    assert torch.allclose(found.values, expected(long_view, rows, columns, cell, reduce), atol=1e-6)


def test_the_whole_is_pooled_once(long_view: View) -> None:
    pyramid, name = Pyramid(long_view), long_view.names[0]
    first = pyramid.whole(name, 1, 10, "max")
    assert first.cell == (8, 8)
    assert torch.allclose(first.values, expected(long_view, range(LENGTH), range(LENGTH), 8, "max"), atol=1e-6)
    assert pyramid.nbytes == 4 * 19 * 19  # 75 positions in cells of 4
    assert pyramid.whole(name, "mean", 5, "mean").cell == (15, 15)
    for head in range(3):
        pyramid.whole(name, head, 10, "mean")
        pyramid.whole(name, head, 10, "max")
    assert pyramid.nbytes == pooling.KEPT * 4 * 19 * 19


def test_what_would_take_too_long_is_refused(long_view: View) -> None:
    pyramid, name = Pyramid(long_view), long_view.names[0]
    with pytest.raises(TooLargeError, match="multiples of 4"):
        pyramid.picture(name, 0, range(1, 60), range(60), (4, 4), "max")
    with pytest.raises(OptionError, match="pool = max needs a single head"):
        pyramid.whole(name, "mean", 10, "max")


def test_small_pictures_of_long_heads_are_previews(long_view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    every, exact = Pyramid(long_view).heads(long_view.names[0], 5)
    assert (tuple(every.shape), exact.exact) == ((3, 5, 5), True)
    monkeypatch.setattr(pooling, "LONG", 50)
    every, preview = Pyramid(long_view).heads(long_view.names[0], 5)
    assert (tuple(every.shape), preview.exact) == ((3, 5, 5), False)


@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_a_preview_looks_at_the_first_row_of_each_row_of_cells(reduce: str, long_view: View) -> None:
    pyramid, name = Pyramid(long_view), long_view.names[0]
    found = pyramid.preview(name, 1, 5, reduce)  # type: ignore[arg-type]
    rows = [expected(long_view, range(row, row + 1), range(LENGTH), 15, reduce) for row in range(0, LENGTH, 15)]
    assert (found.cell, found.exact) == ((15, 15), False)
    assert torch.allclose(found.values, torch.cat(rows), atol=1e-6)
    every = [pyramid.preview(name, head, 5, reduce).values for head in range(3)]  # type: ignore[arg-type]
    together = pyramid.preview(name, reduce, 5, reduce)  # type: ignore[arg-type]
    assert torch.allclose(
        together.values, torch.stack(every).amax(0) if reduce == "max" else torch.stack(every).mean(0)
    )
    assert pyramid.nbytes == 0  # the whole was not made for it


def test_the_whole_is_not_made_for_what_does_not_follow_from_it(long_view: View) -> None:
    pyramid = Pyramid(long_view)
    pyramid.picture(long_view.names[0], 1, range(20), range(40), (3, 3), "max")
    assert pyramid.nbytes == 0
    pyramid.picture(long_view.names[0], 1, range(20), range(40), (4, 4), "max")
    assert pyramid.nbytes > 0


def test_a_preview_of_what_is_not_there_is_refused(long_view: View) -> None:
    pyramid = Pyramid(long_view)
    with pytest.raises(UnknownNameError, match="decoder"):
        pyramid.preview("decoder", 0, 5, "max")
    with pytest.raises(ShapeError, match="no head 3"):
        pyramid.preview(long_view.names[0], 3, 5, "max")


def test_a_picture_from_weights_tells_how_far_it_is(long_view: View) -> None:
    told: list[float] = []
    pyramid = Pyramid(long_view, lambda share: told.append(pyramid.share))
    pyramid.picture(long_view.names[0], 1, range(2, 22), range(40), (3, 3), "max")
    assert told == [3 / 20, 6 / 20, 9 / 20, 12 / 20, 15 / 20, 18 / 20, 1.0]  # 200 weights are 5 rows: one of cells


def test_a_page_never_opens_on_a_head_that_stares_at_one_column() -> None:
    sink = torch.tensor([1.0, 0, 0]).expand(3, 3)
    sharp = torch.tensor([[0.9, 0.1, 0], [0, 0.9, 0.1], [0.1, 0, 0.9]])
    flat = torch.full((3, 3), 1 / 3)
    tokens = ["a", "b", "c"]
    for heads, best in (((flat, sink, sharp), 2), ((sink, flat), 1), ((sink, sink), 0)):
        view = saccade.view((torch.stack(heads)[None],), tokens)
        assert telling_head(view, view.names[0]) == best
