"""The whole matrix as a small picture: against pooling of the exact weights."""

from __future__ import annotations

import importlib

import pytest
import torch
from attention_cases import SCORE_NAMES, WEIGHTS_NAMES, Problem, make_rule, make_score, make_weights
from torch import Tensor

from saccade import Trace, attend, causal, padding, watch, window
from saccade.attention.watching.overview import Reduce
from saccade.errors import OptionError, ShapeError, UnknownNameError

overview_module = importlib.import_module("saccade.attention.watching.overview")
PROBLEM = Problem(heads=4, key_heads=2, queries=23, keys=31)


def watched(problem: Problem = PROBLEM, **options: object) -> Trace:
    with watch() as seen:
        attend(*problem.tensors(), **options)  # type: ignore[arg-type]
    return seen["attention"]


def pooled(weights: Tensor, cell: tuple[int, int], reduce: Reduce) -> Tensor:
    """Each cell from its own rectangle, the last ones cut off by the edge."""
    rows = [weights[start : start + cell[0]] for start in range(0, weights.shape[0], cell[0])]
    cells = [[part[:, start : start + cell[1]] for start in range(0, weights.shape[1], cell[1])] for part in rows]
    take = torch.mean if reduce == "mean" else torch.amax
    return torch.tensor([[take(one).item() for one in row] for row in cells])


@pytest.mark.parametrize("tiny_tiles", [False, True], ids=["one tile", "many tiles"])
@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize(("size", "cell"), [(1, (23, 31)), (4, (6, 8)), (7, (4, 5)), (23, (1, 2)), (512, (1, 1))])
def test_direct_pooling(
    size: int, cell: tuple[int, int], reduce: Reduce, tiny_tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiny_tiles:
        monkeypatch.setattr(overview_module, "TILE_WEIGHTS", 35)
        monkeypatch.setattr(overview_module, "TILE_COLUMNS", 7)
    trace = watched(mask=causal & padding(torch.tensor([31, 12])))
    for batch, head in [(0, 0), (1, 3)]:
        overview = trace.overview(size, reduce, head=head, batch=batch)
        assert overview.cell == cell
        assert overview.exact
        expected = pooled(trace.weights(head=head, batch=batch), cell, reduce)
        torch.testing.assert_close(overview.values, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize("weights", [*WEIGHTS_NAMES, "hard sample"])
@pytest.mark.parametrize("mask_name", ["none", "window", "causal & padding", "dense", "window | ~causal"])
def test_every_weights_function(weights: str, mask_name: str, reduce: Reduce) -> None:
    trace = watched(weights=make_weights(weights), mask=make_rule(mask_name, PROBLEM.shape))
    overview = trace.overview(9, reduce, head=2, batch=1)
    expected = pooled(trace.weights(head=2, batch=1), overview.cell, reduce)
    torch.testing.assert_close(overview.values, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_every_score(score: str) -> None:
    trace = watched(score=make_score(score, 4, 4), mask=window(5))
    overview = trace.overview(9, head=3, batch=1)
    expected = pooled(trace.weights(head=3, batch=1), overview.cell, "mean")
    torch.testing.assert_close(overview.values, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_a_trace_of_many_steps(reduce: Reduce) -> None:
    query, key, value = PROBLEM.tensors()
    with watch() as seen:
        for start, stop in [(0, 5), (5, 6), (6, 17), (17, 23)]:
            attend(query[:, :, start:stop], key[:, :, : stop + 8], value[:, :, : stop + 8], first_row=start)
    trace = seen["attention"]
    overview = trace.overview(7, reduce, head=1, batch=1)
    expected = pooled(trace.weights(head=1, batch=1), overview.cell, reduce)
    torch.testing.assert_close(overview.values, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_a_preview_looks_at_one_row_of_each_cell_and_says_so(reduce: Reduce) -> None:
    trace = watched()
    preview = trace.overview(7, reduce, head=1, batch=1, preview=True)
    assert not preview.exact
    assert "preview" in preview.label
    assert "1 query in 4" in preview.label
    sampled = trace.weights(head=1, batch=1)[::4]
    torch.testing.assert_close(preview.values, pooled(sampled, (1, 5), reduce), atol=1e-6, rtol=1e-5)


def test_labels_say_what_a_cell_is() -> None:
    trace = watched()
    assert trace.overview(7, "max").label == "max of 4×5 weights"
    assert trace.overview(512).label == "exact weights"
    assert trace.overview(512, preview=True).exact  # each row of cells is one row: nothing was left out


def test_progress_goes_from_start_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "TILE_WEIGHTS", 35)
    monkeypatch.setattr(overview_module, "TILE_COLUMNS", 7)
    shares: list[float] = []
    watched().overview(4, progress=shares.append)
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_what_an_overview_refuses() -> None:
    trace = watched(mask=window(2))
    with pytest.raises(OptionError, match="size of at least 1, not 0"):
        trace.overview(0)
    with pytest.raises(UnknownNameError, match=r"no reduction 'maximum'; allowed: max, mean\."):
        trace.overview(reduce="maximum")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="no head 9"):
        trace.overview(head=9)
