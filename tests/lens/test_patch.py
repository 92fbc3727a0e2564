"""Patching finds exactly the heads and positions that carry the answer, in models built so that they are known."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from matplotlib.collections import QuadMesh
from torch import Tensor, nn

import saccade
from saccade import MultiHead
from saccade.errors import OptionError, ShapeError, UnknownNameError

TOKENS, POSITIONS, HEADS, WIDTH = 3, 4, 3, 4
#: Channels: the token, the position, and two places that heads write to.
TOKEN, POSITION, FIRST, SECOND = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 13)
SHARP = 100.0  # weights are 1 and 0 to the last bit


class Layer(nn.Module):
    """Someone's attention, which calls torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key_value = nn.Linear(13, 12), nn.Linear(13, 24)
        self.output = nn.Linear(12, 13)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = (self.query(x), *self.key_value(x).chunk(2, -1))
        heads = [part.view(batch, length, HEADS, WIDTH).transpose(1, 2) for part in parts]
        found = F.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        output: Tensor = self.output(found.transpose(1, 2).flatten(2))
        return output


class Model(nn.Module):
    """Two layers in which one head each moves the first token: from position 0 to 1, and from there to 3.

    Layer 0, head 2: position 1 looks at 0 and writes its token to FIRST.
    Layer 1, head 1: position 3 looks at 1 and copies FIRST to SECOND, which the logits are read from.
    All others look at themselves; some write what nobody reads.
    """

    def __init__(self, is_ours: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([MultiHead(13, HEADS, head_width=WIDTH) if is_ours else Layer() for _ in range(2)])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
        self._set(0, 2, {1: 0}, TOKEN, FIRST)
        self._set(1, 1, {3: 1}, FIRST, SECOND)
        self._set(0, 0, {3: 0}, TOKEN, None)
        self._set(1, 2, {3: 0}, TOKEN, FIRST)

    @torch.no_grad()
    def _set(self, number: int, head: int, looks: dict[int, int], reads: slice, writes: slice | None) -> None:
        layer = cast(Any, self.layers[number])
        cut = slice(head * WIDTH, (head + 1) * WIDTH)
        goals = F.one_hot(torch.tensor([looks.get(place, place) for place in range(POSITIONS)]), WIDTH).float()
        layer.query.weight[cut, POSITION] = SHARP * goals.T
        layer.key_value.weight[cut, POSITION] = torch.eye(WIDTH)
        layer.key_value.weight[12:][cut, reads] = torch.eye(WIDTH, TOKENS)
        if writes is not None:
            layer.output.weight[writes, cut] = torch.eye(TOKENS, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        places = F.one_hot(torch.arange(POSITIONS)).float().expand(len(ids), -1, -1)
        x = torch.cat([F.one_hot(ids, TOKENS).float(), places, torch.zeros(*ids.shape, 6)], dim=-1)
        for layer in self.layers:
            x = x + layer(x)
        return x[..., SECOND]


CLEAN, CORRUPTED = torch.tensor([[2, 0, 1, 1]]), torch.tensor([[0, 0, 1, 1]])
METRIC = saccade.logit_difference(2, 0)
ours = pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "foreign"])


@ours
def test_patching_finds_the_cause(is_ours: bool) -> None:
    shares: list[float] = []
    found = saccade.patch(Model(is_ours).eval(), CLEAN, CORRUPTED, METRIC, progress=shares.append)
    assert (found.clean, found.corrupted) == (1.0, -1.0)
    expected = {f"layers.{layer}": torch.zeros(HEADS, POSITIONS) for layer in range(2)}
    expected["layers.0"][2, 1] = expected["layers.1"][1, 3] = 1.0
    assert found.names == list(expected)
    for name, share in expected.items():
        assert torch.equal(found.shares(name), share.double())
    assert found.num_forwards == 3 + 2 * HEADS * POSITIONS
    assert shares == [(number + 1) / 24 for number in range(24)]
    assert {effect[:3] for effect in found.top(2)} == {("layers.0", 2, 1), ("layers.1", 1, 3)}


@ours
def test_all_positions_at_once(is_ours: bool) -> None:
    found = saccade.patch(Model(is_ours).eval(), (CLEAN,), {"ids": CORRUPTED}, METRIC, positions=False)
    assert found.shares("layers.0").tolist() == [[0.0], [0.0], [1.0]]
    assert found.shares("layers.1").tolist() == [[0.0], [1.0], [0.0]]
    assert found.num_forwards == 3 + 2 * HEADS
    assert found.top(1)[0].position is None


@ours
def test_the_other_way_round_one_corrupted_head_is_enough_to_lose_the_answer(is_ours: bool) -> None:
    found = saccade.patch(Model(is_ours).eval(), CORRUPTED, CLEAN, METRIC, names=["layers.1"])
    assert found.names == ["layers.1"]
    assert found.shares("layers.1").nonzero().tolist() == [[1, 3]]


def test_a_shared_layer_is_patched_use_by_use() -> None:
    model = Model(False).eval()
    model.layers[1] = model.layers[0]
    model._set(0, 1, {3: 1}, FIRST, SECOND)
    found = saccade.patch(model, CLEAN, CORRUPTED, METRIC)
    assert found.names == ["layers.0", "layers.0#2"]
    assert found.shares("layers.0").nonzero().tolist() == [[2, 1]]
    assert found.shares("layers.0#2").nonzero().tolist() == [[1, 3]]


def test_the_picture_shows_the_shares() -> None:
    found = saccade.patch(Model(True).eval(), CLEAN, CORRUPTED, METRIC)
    figure = found.figure(["a", "b", "c", "d"])
    drawn = next(part for axes in figure.axes for part in axes.collections if isinstance(part, QuadMesh))
    whole = torch.cat([found.shares(name) for name in found.names])
    assert torch.equal(torch.tensor(drawn.get_array()).reshape(6, 4), whole)
    texts = {text.get_text() for axes in figure.axes for text in axes.texts} | {
        artist.get_text() for axes in figure.axes for artist in axes.artists if hasattr(artist, "get_text")
    }
    assert {"layers.0:2", "d"} <= texts
    heads = saccade.patch(Model(True).eval(), CLEAN, CORRUPTED, METRIC, positions=False).figure()
    drawn = next(part for axes in heads.axes for part in axes.collections if isinstance(part, QuadMesh))
    assert torch.tensor(drawn.get_array()).reshape(2, 3).tolist() == [[0, 0, 1], [0, 1, 0]]
    with pytest.raises(ShapeError, match="has 4 queries, but 3 tokens were given"):
        found.figure(["a", "b", "c"])


def test_what_cannot_be_compared_is_refused() -> None:
    model = Model(True).eval()
    with pytest.raises(OptionError, match=r"The metric is 1 on both inputs"):
        saccade.patch(model, CLEAN, CLEAN, METRIC)
    with pytest.raises(OptionError, match=r"dropout makes them differ; call model.eval"):
        saccade.patch(Model(True), CLEAN, CORRUPTED, METRIC)
    with pytest.raises(ShapeError, match=r"same number of tokens: layers.0 is .*\(1, 3, 4, 4\) on the clean"):
        saccade.patch(model, CLEAN, CORRUPTED.expand(2, -1), METRIC)
    with pytest.raises(UnknownNameError, match=r"no watched attention 'layers.2'"):
        saccade.patch(model, CLEAN, CORRUPTED, METRIC, names=["layers.2"])
    with pytest.raises(OptionError, match="metric of the clean input is nan"):
        saccade.patch(model, CLEAN, CORRUPTED, lambda output: float("nan"))
    with pytest.raises(ShapeError, match=r"must be one number; for the clean input it has shape \(1, 4, 3\)"):
        saccade.patch(model, CLEAN, CORRUPTED, lambda output: output)
    with pytest.raises(OptionError, match="There is nothing to patch: 0 attentions seen"):
        saccade.patch(nn.Linear(4, 4).eval(), torch.ones(1, 4), torch.zeros(1, 4), lambda output: output.sum())
    with pytest.raises(OptionError, match="takes a torch module, not str"):
        saccade.patch("model", CLEAN, CORRUPTED, METRIC)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"needs an output of logits with shape \(batch, positions, vocabulary\)"):
        saccade.patch(nn.Linear(3, 3).eval(), torch.ones(1, 3), torch.ones(1, 3), METRIC)


@ours
def test_patching_inside_an_edit_is_refused(is_ours: bool) -> None:
    """The recorded outputs are those of all heads, so a head that is cut off outside would come back."""
    model = Model(is_ours).eval()
    with (
        saccade.edit(model, without_heads=["layers.1:2"]),
        pytest.raises(OptionError, match=r"does not work inside saccade\.edit; call it outside"),
    ):
        saccade.patch(model, CLEAN, CORRUPTED, METRIC)


def test_passes_that_differ_by_themselves_are_refused() -> None:
    """A cache that each pass lengthens, or a random draw, would look like the effect of a patch."""

    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Model(False)

        def forward(self, ids: Tensor, cache: list[Tensor]) -> Tensor:
            cache.append(ids)
            output: Tensor = self.inner(ids) / len(cache)
            return output

    with pytest.raises(OptionError, match=r"-1 in one forward pass and -0\.5 in the next"):
        saccade.patch(Forgetful().eval(), (CLEAN, []), (CORRUPTED, []), METRIC)
