"""Heads in the dimension of the batch, or texts in that of the heads: told apart by their tokens, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 5, 4
X = torch.randn(BATCH, LENGTH, HEADS * WIDTH, generator=torch.Generator().manual_seed(0))
TRIANGLE = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()

#: From (batch, heads, positions, width) to what torch is given, and back.
LAYOUTS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "plain": (lambda t: t, lambda t: t),
    "(b h) l d": (lambda t: t.flatten(0, 1), lambda t: t.unflatten(0, (-1, HEADS))),
    "(h b) l d": (lambda t: t.transpose(0, 1).flatten(0, 1), lambda t: t.unflatten(0, (HEADS, -1)).transpose(0, 1)),
    "(b h) 1 l d": (lambda t: t.flatten(0, 1).unsqueeze(1), lambda t: t.squeeze(1).unflatten(0, (-1, HEADS))),
    "1 (b h) l d": (lambda t: t.flatten(0, 1)[None], lambda t: t[0].unflatten(0, (-1, HEADS))),
    "h b l d": (lambda t: t.transpose(0, 1), lambda t: t.transpose(0, 1)),
}
MASKS: dict[str, Tensor | None] = {
    "none": None,
    "triangle": TRIANGLE,
    "of each head": torch.where(TRIANGLE, torch.randn(BATCH, HEADS, LENGTH, LENGTH), torch.tensor(-torch.inf)),
}


class Folded(nn.Module):
    def __init__(self, layout: str, mask: Tensor | None = None) -> None:
        super().__init__()
        self.fold, self.unfold = LAYOUTS[layout]
        self.mask = mask
        self.given, self.output = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH), nn.Linear(HEADS * WIDTH, HEADS * WIDTH)

    def parts(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for part in self.given(x).chunk(3, -1)]

    def weights(self, x: Tensor) -> Tensor:
        query, key, _ = (part.double() for part in self.parts(x))
        scores = query @ key.mT / WIDTH**0.5
        if self.mask is not None:
            is_rule = self.mask.dtype == torch.bool
            scores = scores.masked_fill(~self.mask, -torch.inf) if is_rule else scores + self.mask[: len(x)]
        return scores.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        mask = self.mask if self.mask is None or self.mask.ndim == 2 else self.fold(self.mask[: len(x)])
        output = F.scaled_dot_product_attention(*map(self.fold, self.parts(x)), attn_mask=mask)
        return x + self.output(self.unfold(output).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("batch", [1, BATCH])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_shown_as_texts_and_heads(layout: str, mask: str, batch: int) -> None:
    layers = [Folded("plain"), Folded(layout, MASKS[mask]), Folded(layout)]
    model, x = Stack(*layers), X[:batch]
    expected = model(x)
    with saccade.watch(model) as seen:
        assert torch.equal(model(x), expected)
    for layer, trace in zip(layers, seen.values(), strict=True):
        assert trace.shape == (batch, HEADS, LENGTH, LENGTH)
        torch.testing.assert_close(trace.weights().double(), layer.weights(x), atol=1e-5, rtol=0)
        x = layer(x)
    view = saccade.view(seen, list("abcde"), batch=batch - 1)
    assert [view.kind(name) for name in view.names].count("unknown") == 0
    assert list(view.stacks.values()) == [view.names]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_gradients_follow_the_layout(layout: str) -> None:
    torch.manual_seed(0)
    plain, folded = Folded("plain"), Folded(layout)
    folded.load_state_dict(plain.state_dict())
    found = []
    for model in (plain, folded):
        with saccade.watch(model, values=True) as seen:
            output = model(X)
        output[1, 3].sum().backward()
        trace = seen["attention"]
        found.append((trace.outputs(), trace.norms(), trace.times_gradient()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


@pytest.mark.parametrize("batch", [1, BATCH])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_edit_is_right_or_refused(layout: str, batch: int) -> None:
    model, x = Folded(layout), X[:batch]
    by_hand = Folded(layout)
    by_hand.load_state_dict(model.state_dict())
    with torch.no_grad():
        by_hand.output.weight[:, WIDTH : 2 * WIDTH] = 0
        edit = saccade.edit(model, without_heads=["attention:1"])
        if layout == "plain" or (layout == "1 (b h) l d" and batch == 1):
            with edit:
                torch.testing.assert_close(model(x), by_hand(x), atol=1e-6, rtol=0)
        else:
            with pytest.raises(OptionError, match="cannot be edited: its heads"), edit:
                model(x)


def test_steps_with_a_cache_keep_the_layout() -> None:
    class Decoder(Folded):
        def forward(self, x: Tensor, cache: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
            query, *new = (self.fold(part) for part in self.parts(x))
            key, value = (
                torch.cat([cache[name], part], -2) if name in cache else part
                for name, part in zip("kv", new, strict=True)
            )
            cache |= {"k": key, "v": value}
            mask = TRIANGLE[key.shape[-2] - query.shape[-2] : key.shape[-2], : key.shape[-2]]
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            return self.unfold(output).transpose(1, 2).flatten(2)

    for layout in LAYOUTS:
        model, cache = Decoder(layout, TRIANGLE), dict[str, Tensor]()
        with torch.no_grad(), saccade.watch(model) as seen:
            for step in X.split([2, 1, 1, 1], 1):
                model(step, cache)
            torch.testing.assert_close(seen["attention"].weights().double(), model.weights(X), atol=1e-5, rtol=0)


def test_heads_in_the_batch_whose_tokens_are_unknown_are_refused() -> None:
    class FromNumpy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Folded("(b h) l d")

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(torch.from_numpy(x.numpy()))

    model = FromNumpy().requires_grad_(False)
    with saccade.watch(model) as seen:
        model(X)
    assert "batch dimension" in seen.refused["attention"]


class Windows(nn.Module):
    """Attention within windows of four tokens, which are in the dimension of the batch or in that of the heads."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.embed, self.project = where, nn.Embedding(20, 8), nn.Linear(8, 24)

    def forward(self, tokens: Tensor) -> Tensor:
        parts = (part.unflatten(-1, (2, 4)) for part in self.project(self.embed(tokens)).chunk(3, -1))
        windows = [part.unflatten(1, (-1, 4)).transpose(2, 3) for part in parts]  # (texts, windows, heads, 4, width)
        if self.where == "heads":
            windows = [part.transpose(1, 2) for part in windows]
        return F.scaled_dot_product_attention(
            *(part.flatten(*((0, 1) if self.where == "batch" else (1, 2))) for part in windows)
        )


@pytest.mark.parametrize("texts", [1, 2])
@pytest.mark.parametrize("where", ["batch", "heads"])
def test_links_and_heads_of_windows_are_not_edited_by_numbers_that_mean_others(where: str, texts: int) -> None:
    model, tokens = Windows(where), torch.arange(8).repeat(texts, 1) + torch.arange(texts)[:, None]
    cannot = pytest.raises(OptionError, match=r"cannot be edited: its (rows are not the positions|heads, or parts)")
    with cannot, saccade.edit(model, without_links=[("attention", 5, 2)]):
        model(tokens)
    if where == "heads":
        with cannot, saccade.edit(model, without_heads=["attention:1"]):
            model(tokens)
