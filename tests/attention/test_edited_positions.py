"""A link is forbidden at its own positions of the text, or refused: whoever keeps the keys of earlier steps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from foreign_models import both, padded
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError


def refused(name: str = "attention") -> AbstractContextManager[object]:
    said = f"The attention {name} cannot be edited: it is not known which positions .* the whole text, within the block"
    return pytest.raises(OptionError, match=said)


class KeepsKeys(nn.Module):
    """Keeps the keys of earlier passes itself: as many as there are, all behind a mask, or the last ones in a ring."""

    def __init__(self, keeps: str = "growing") -> None:
        super().__init__()
        self.keeps, self.project, self.kept = keeps, nn.Linear(8, 24), torch.zeros(2, 1, 2, 16, 4)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        query, *new = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        last = first + x.shape[1]
        self.kept = self.kept.clone()
        if self.keeps == "ring":
            self.kept[:, :, :, [place % 8 for place in range(first, last)]] = torch.stack(new)
            return F.scaled_dot_product_attention(query, *self.kept[:, :, :, : min(last, 8)])
        self.kept[:, :, :, first:last] = torch.stack(new)
        mask = torch.arange(16) <= torch.arange(first, last)[:, None]
        end = 16 if self.keeps == "behind a mask" else last
        key, value = self.kept[:, :, :, :end]
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, :end])


@pytest.mark.parametrize("num_outside", [0, 1, 2])
@pytest.mark.parametrize("keeps", ["growing", "behind a mask", "ring"])
@pytest.mark.parametrize("chunks", [(5, 1, 1), (4, 4), (1, 1, 1), (8, 1, 1)])
@torch.no_grad()
def test_a_step_whose_positions_are_not_known_is_refused(keeps: str, chunks: tuple[int, ...], num_outside: int) -> None:
    """The steps before it may have run before the edit began, within it, or some of them here and some there."""
    model, x, first = KeepsKeys(keeps), torch.randn(1, 10, 8), 0
    for length in chunks[:num_outside]:
        model(x[:, first : first + length], first)
        first += length
    if num_outside < len(chunks):
        with refused(), saccade.edit(model, without_links=[("attention", 0, 0)]):
            for length in chunks[num_outside:]:
                model(x[:, first : first + length], first)
                first += length
    with saccade.edit(model, without_heads=["attention:1"]):  # needs no positions
        output = model(x[:, first : first + 1], first)
        assert not output[:, 1].any()
        assert output[:, 0].any()
    with saccade.edit(model, without_links=[("attention", 6, 2)]):  # a new text, in one pass
        edited = model(x[:, :8])
    assert (edited - model(x[:, :8])).abs().amax((0, 1, 3)).nonzero().flatten().tolist() == [6]


class Given(nn.Module):
    """Is given the keys of earlier steps, in any form."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 16)

    def forward(self, x: Tensor, cache: Any = None) -> Tensor:
        query, key = self.project(x).chunk(2, -1)
        if cache is not None:
            key = torch.cat([cache if isinstance(cache, Tensor) else cache["keys"], key], 1)
        return F.scaled_dot_product_attention(query, key, key)


@pytest.mark.parametrize("num_kept", [2, 4])
@pytest.mark.parametrize("form", [lambda keys: keys, lambda keys: {"keys": keys}])
def test_keys_given_by_the_caller_are_refused(form: Callable[[Tensor], Any], num_kept: int) -> None:
    model = Given()
    with refused(), saccade.edit(model, without_links=[("attention", 3, 1)]):
        model(torch.randn(1, 4, 8), form(torch.randn(1, num_kept, 8)))


class Decoder(nn.Module):
    """Self-attention that keeps its keys, and attention to a source; either may come first."""

    def __init__(self, is_cross_first: bool, own: nn.Module, is_torchs: bool) -> None:
        super().__init__()
        self.is_cross_first, self.own = is_cross_first, own
        self.cross = nn.MultiheadAttention(8, 2, batch_first=True) if is_torchs else None
        self.across = Across()

    def forward(self, x: Tensor, source: Tensor, first: int = 0) -> Tensor:
        for is_cross in (self.is_cross_first, not self.is_cross_first):
            if not is_cross:
                x = x + self.own(x, first).transpose(1, 2).flatten(2)
            elif self.cross is not None:
                x = x + self.cross(x, source, source)[0]
            else:
                x = x + self.across(x, source)
        return x


class Across(nn.Module):
    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, source, source)


@pytest.mark.parametrize("is_torchs", [False, True])
@pytest.mark.parametrize("is_cross_first", [False, True])
@pytest.mark.parametrize("num_source", [1, 6])
@torch.no_grad()
def test_a_link_across_is_refused_in_a_step(num_source: int, is_cross_first: bool, is_torchs: bool) -> None:
    """The keys of the source do not tell how many steps came before, but those of the self-attention beside it do."""
    torch.manual_seed(0)
    model, x, source = Decoder(is_cross_first, KeepsKeys(), is_torchs), torch.randn(1, 5, 8), torch.randn(1, 6, 8)
    name = "cross" if is_torchs else "across"
    plain = model(x, source)
    with saccade.edit(model, without_links=[(name, 3, 1)]):
        rows = (model(x, source) - plain).abs().amax((0, 2)).gt(1e-6).nonzero().flatten().tolist()
    assert rows[0] == 3
    model(x[:, :4], source)
    with refused(name), saccade.edit(model, without_links=[(name, 4, 0)]):
        model(x[:, 4:], source[:, :num_source], 4)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@torch.no_grad()
def test_torchs_own_modules_are_given_a_source_or_the_text_so_far() -> None:
    x, source = torch.randn(1, 5, 8), torch.randn(1, 6, 8)
    model = nn.Transformer(8, 2, 1, 2, 16, dropout=0.0)  # takes (positions, batch, width)
    name = "decoder.layers.1.multihead_attn"
    plain = model(source.transpose(0, 1), x.transpose(0, 1))
    with saccade.edit(model, without_links=[(name, 3, 5)]):
        edited = model(source.transpose(0, 1), x.transpose(0, 1))
    assert (edited - plain).abs().amax((1, 2)).gt(1e-6).nonzero().flatten().tolist() == [3]
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    with refused(), saccade.edit(module, without_links=[("attention", 0, 0)]):
        module(x[:, 4:], x, x)


class Learned(nn.Module):
    """Has learned keys before or behind those of the text."""

    def __init__(self, is_before: bool) -> None:
        super().__init__()
        self.is_before, self.memory = is_before, nn.Parameter(torch.randn(1, 2, 8))

    def forward(self, x: Tensor) -> Tensor:
        keys = torch.cat([self.memory, x] if self.is_before else [x, self.memory], 1)
        return F.scaled_dot_product_attention(x, keys, keys)


@torch.no_grad()
def test_learned_keys_are_not_taken_for_positions_of_the_text() -> None:
    x = torch.randn(1, 5, 8)
    for is_before in (True, False):
        model = Learned(is_before)
        with refused(), saccade.edit(model, without_links=[("attention", 3, 1)]):
            model(x)
    module = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)  # behind the others
    plain = module(x, x, x)[0]
    with saccade.edit(module, without_links=[("attention", 3, 1)]):
        edited, weights = module(x, x, x)
    assert (edited - plain).abs().amax((0, 2)).gt(1e-6).nonzero().flatten().tolist() == [3]
    assert (weights[0] == 0).nonzero().tolist() == [[3, 1]]


@pytest.mark.parametrize("is_left", [False, True])
@torch.no_grad()
def test_a_cache_made_before_the_edit_tells_its_positions(is_left: bool) -> None:
    """The last steps of a text, after a cache of Hugging Face and padding, equal the last rows of one whole pass."""
    model, _ = both("llama")
    inputs = padded([7, 4] if is_left else [7, 7], left=True)
    places = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
    links = [("model.layers.0.self_attn", 5, 4), ("model.layers.0.self_attn:1", 6, 3)]
    with saccade.edit(model, without_links=links):
        whole = model(**inputs, position_ids=places).logits
    plain = model(**inputs, position_ids=places).logits
    assert (whole - plain).abs().amax((0, 2)).gt(1e-4).nonzero().flatten().tolist() == [5, 6]
    begun = {name: given[:, :5] for name, given in inputs.items()}
    past = model(**begun, position_ids=places[:, :5], use_cache=True).past_key_values
    with saccade.edit(model, without_links=links):
        for place in (5, 6):
            mask, at = inputs["attention_mask"][:, : place + 1], places[:, place : place + 1]
            step = model(inputs["input_ids"][:, place : place + 1], mask, at, past).logits
            torch.testing.assert_close(step[:, 0], whole[:, place], atol=1e-5, rtol=1e-4)


class HoldsCache(nn.Module):
    """A model of Hugging Face with the cache that was made before, which it does not show."""

    def __init__(self, model: nn.Module, past: object) -> None:
        super().__init__()
        self.model, self.past = model, [past]

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.model(ids, past_key_values=self.past[0]).logits
        return logits


@torch.no_grad()
def test_a_cache_that_is_not_given_to_the_model_is_refused() -> None:
    model, _ = both("gpt2")
    past = model(torch.tensor([[3, 4, 5]]), use_cache=True).past_key_values
    name = "model.transformer.h.0.attn"
    holder = HoldsCache(model, past)
    with refused(name), saccade.edit(holder, without_links=[(name, 1, 0)]):
        holder(torch.tensor([[6, 7]]))
