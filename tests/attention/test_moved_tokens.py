"""Tokens that change places between queries and keys, or between attentions, have no rollout; all others have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

BATCH, LENGTH, WIDTH = 3, 5, 12
ORDER = torch.tensor([2, 0, 4, 1, 3])
INVERSE = ORDER.argsort()
X = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0))


class Attends(nn.Module):
    """Attention of a sequence to itself, whose keys and values go through a function first."""

    def __init__(self, change: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.query, self.key, self.output = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        parts = (self.query(x), *self.key(self.change(x)).chunk(2, -1))
        query, key, value = (part.unflatten(-1, (3, 4)).transpose(1, 2) for part in parts)
        output = F.scaled_dot_product_attention(query, key, value)
        return x + self.output(output.transpose(1, 2).flatten(2))


class Changes(nn.Module):
    """A step between two attentions."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(x)


def written(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, ORDER] = x
    return y


def of_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy()[:, ::-1].copy())


def number_by_number(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape)
    for row in range(LENGTH):
        for column in range(WIDTH):
            y[0, row, column] = x[0, LENGTH - 1 - row, column].item()
    return y


def written_to_views(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape)
    for row in range(LENGTH):
        y[:, row].copy_(x[:, LENGTH - 1 - row])
    return y


def in_place(write: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """A function that writes into a copy of what it is given."""

    def written_copy(x: Tensor) -> Tensor:
        y = x.clone()
        write(y, x)
        return y

    return written_copy


PERMUTED = torch.eye(LENGTH)[ORDER]
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "pad": lambda x: F.pad(x, (0, 0, 1, -1)),
    "aten.flip": lambda x: torch.ops.aten.flip(x, [1]),
    "aten.bmm": lambda x: torch.ops.aten.bmm(PERMUTED.expand(BATCH, -1, -1), x),
    "tensordot": lambda x: torch.tensordot(PERMUTED, x, dims=([1], [1])).transpose(0, 1),
    "baddbmm": lambda x: torch.baddbmm(x, PERMUTED.expand(BATCH, -1, -1), x, beta=0),
    "inner": lambda x: torch.inner(x.mT, PERMUTED).mT,
    "product and sum": lambda x: (PERMUTED[None, :, :, None] * x[:, None]).sum(2),
    "fftshift": lambda x: torch.fft.fftshift(x, dim=1),
    "rfft": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=LENGTH, dim=1),
    "take": lambda x: torch.take(x, torch.arange(x.numel()).view(x.shape).flip(1)),
    "embedding_bag": lambda x: torch.stack([F.embedding_bag(ORDER[:, None], rows) for rows in x]),
    "softmax over tokens": lambda x: x * x.softmax(1),
    "normalized over tokens": lambda x: F.normalize(x, dim=1),
    "mean of tokens": lambda x: x + x.mean(1, keepdim=True),
    "mean of sequences": lambda x: x + x.mean(0, keepdim=True),
    "norm of the whole": lambda x: F.layer_norm(x, (LENGTH, WIDTH)),
    "instance norm": lambda x: F.instance_norm(x.mT).mT,
    "group norm": lambda x: F.group_norm(x.mT, 2).mT,
    "solve": lambda x: torch.linalg.solve(PERMUTED, x),
    "distances": lambda x: x + torch.cdist(x, x).sum(-1, keepdim=True),
    "a view": in_place(lambda y, x: y[:, 1:].copy_(x[:, :-1])),
    "data": in_place(lambda y, x: y.data.copy_(x.flip(1))),
    "out": in_place(lambda y, x: torch.index_select(x, 1, ORDER, out=y)),
    "addmm_": in_place(lambda y, x: y[0].addmm_(PERMUTED, x[1])),
    "memory of numpy": in_place(lambda y, x: y.numpy().__setitem__(slice(None), x.numpy()[:, ::-1])),
    "x[:, order]": lambda x: x[:, ORDER],
    "index_select": lambda x: x.index_select(1, ORDER),
    "gather": lambda x: x.gather(1, ORDER[None, :, None].expand_as(x)),
    "take_along_dim": lambda x: torch.take_along_dim(x, ORDER[None, :, None], 1),
    "cat": lambda x: torch.cat([x[:, 2:], x[:, :2]], 1),
    "split": lambda x: torch.cat(x.split([2, 3], 1)[::-1], 1),
    "stack": lambda x: torch.stack([x[:, place] for place in ORDER], 1),
    "unbind": lambda x: torch.stack(x.unbind(1)[::-1], 1),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(1, 1),
    "rot90": lambda x: torch.rot90(x, 2, (0, 1)),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(LENGTH, 1).values,
    "matmul": lambda x: torch.eye(LENGTH)[ORDER] @ x,
    "einsum": lambda x: torch.einsum("ts,bsd->btd", torch.eye(LENGTH)[ORDER], x),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, ORDER[None, :, None].expand_as(x), x),
    "index_copy": lambda x: torch.zeros_like(x).index_copy(1, ORDER, x),
    "y[:, order] = x": written,
    "embedding": lambda x: torch.stack([F.embedding(ORDER, rows) for rows in x]),
    "sequences": lambda x: x[torch.tensor([1, 2, 0])],
    "four dimensions": lambda x: x.view(BATCH, LENGTH, 3, 4)[:, ORDER].flatten(2),
    "flattened": lambda x: x.flatten(0, 1)[torch.arange(BATCH * LENGTH).flip(0)].view_as(x),
    "scrambled": lambda x: x.mT.reshape(x.shape),
    "convolution": lambda x: F.conv1d(x.mT, torch.ones(WIDTH, 1, 3), padding=1, groups=WIDTH).mT,
    "pooling": lambda x: F.avg_pool1d(x.mT, 3, 1, 1).mT,
    "cumsum": lambda x: x.cumsum(1),
    "fft": lambda x: torch.fft.fft2(x).real,
    "recurrent": nn.LSTM(WIDTH, WIDTH, batch_first=True),
    "numpy": of_numpy,
    "tensor(numpy)": lambda x: torch.tensor(x.numpy()[:, ::-1].copy()),
    "tolist": lambda x: torch.tensor(x.flip(1).tolist()),
    "tolist of each row": lambda x: torch.stack(
        [torch.stack([torch.tensor(row) for row in rows.tolist()]) for rows in x]
    ),
    "item": number_by_number,
    "full": lambda x: torch.stack([torch.full(x.shape[1:], float(rows.sum())) for rows in x]),
    "set_": lambda x: torch.zeros_like(x).set_(x.flip(1)),
    "set_ of memory": lambda x: torch.empty(0).set_(x.flip(1).untyped_storage(), 0, x.shape),
    "views of zeros": written_to_views,
    "zeroed": lambda x: x * (torch.arange(LENGTH) < 4)[:, None],
}


def experts(x: Tensor) -> Tensor:
    """Each token goes to one of two experts, which compute one after the other."""
    flat = x.flatten(0, 1)
    chosen, found = flat.sum(-1) > 0, torch.zeros_like(flat)
    for number in (False, True):
        places = (chosen == number).nonzero().flatten()
        found.index_add_(0, places, flat[places] * (1.5 + number))
    return x + found.view_as(x)


def sorted_experts(x: Tensor) -> Tensor:
    """Each token goes to the best two of four experts, and the pairs are sorted by expert."""
    flat = x.flatten(0, 1)
    weights, chosen = flat[:, :4].softmax(-1).topk(2, -1)
    _, order = torch.sort(chosen.reshape(-1))
    found = flat[order // 2].tanh() * weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return x + found[back].view(-1, 2, WIDTH).sum(dim=1).view_as(x)


def rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * 0.8 + torch.cat((-second, first), -1) * 0.6


KEEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "back again": lambda x: x[:, ORDER].tanh()[:, INVERSE],
    "positions first": lambda x: F.layer_norm(x.transpose(0, 1), (WIDTH,)).transpose(0, 1),
    "channels first": lambda x: F.conv1d(x.mT, torch.ones(WIDTH, WIDTH, 1) / WIDTH).mT,
    "einsum": lambda x: torch.einsum("btd,de->bte", x, torch.ones(WIDTH, WIDTH) / WIDTH),
    "glu": lambda x: F.glu(torch.cat([x, x], -1)),
    "halves": rotated,
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "experts": experts,
    "sorted experts": sorted_experts,
    "addmm": lambda x: torch.addmm(torch.zeros(WIDTH), x.flatten(0, 1), torch.ones(WIDTH, WIDTH)).view(x.shape),
}


def look(change: Callable[[Tensor], Any], where: str) -> tuple[saccade.Watch, saccade.View]:
    torch.manual_seed(0)
    if isinstance(change, nn.LSTM):
        network = change
        change = lambda x: network(x)[0]  # noqa: E731
    layers = (Attends(), Attends(change)) if where == "keys" else (Attends(), Changes(change), Attends())
    model = nn.Sequential(*layers)

    def run() -> Tensor:
        if where == "passes":  # each layer is called as a forward pass of its own
            return model[2](change(model[0](X)))  # type: ignore[no-any-return]
        return model(X)  # type: ignore[no-any-return]

    with torch.no_grad(), saccade.watch(model) as seen:
        watched = run()
    with torch.no_grad():
        assert torch.equal(run(), watched)
    return seen, saccade.view(seen)


@pytest.mark.parametrize("where", ["keys", "between", "passes"])
@pytest.mark.parametrize("change", MOVES.values(), ids=MOVES.keys())
def test_moved_tokens_have_no_rollout(change: Callable[[Tensor], Tensor], where: str) -> None:
    seen, view = look(change, where)
    last = list(seen.values())[-1]
    assert last.place is not None
    if where == "keys":
        assert last.place.source == "unknown"
    assert all(len(names) == 1 for names in view.stacks.values())
    if where == "passes" and len(view.stacks) == 2:  # nothing tells that the second pass continues the first
        return
    with pytest.raises(OptionError, match="There is no rollout"):
        view.rollout()


@pytest.mark.parametrize("where", ["keys", "between", "passes"])
@pytest.mark.parametrize("change", KEEPS.values(), ids=KEEPS.keys())
def test_tokens_in_their_places_have_one(change: Callable[[Tensor], Tensor], where: str) -> None:
    seen, view = look(change, where)
    assert all(trace.place is not None and trace.place.source == "self" for trace in seen.values())
    first, second = ((trace.weights()[0].mean(0) + torch.eye(LENGTH)) / 2 for trace in seen.values())
    torch.testing.assert_close(view.rollout(), second @ first, atol=1e-6, rtol=0)


def test_texts_that_change_places_between_two_passes_are_not_the_same_texts() -> None:
    with pytest.raises(OptionError, match="a computation between two forward passes"):
        look(lambda x: x.flip(0), "passes")[1].rollout()


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_moved_tokens_of_torchs_module(is_batch_first: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = (nn.MultiheadAttention(WIDTH, 3, batch_first=is_batch_first) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.one(x, x, x)[0]
            moved = x[:, ORDER] if is_batch_first else x[ORDER]
            output: Tensor = self.two(x, moved, moved)[0]
            return output

    model = Model()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(X if is_batch_first else X.transpose(0, 1))
    assert [trace.place and trace.place.source for trace in seen.values()] == ["self", "unknown"]


def test_a_hook_that_moves_the_queries_of_torchs_module() -> None:
    module = nn.MultiheadAttention(WIDTH, 3, batch_first=True).eval()
    module.register_forward_pre_hook(lambda _, given: (given[0].flip(1), *given[1:]))
    model = nn.Sequential()
    model.attention = module
    model.forward = lambda x: x + module(x, x, x, need_weights=False)[0]  # type: ignore[method-assign]
    with torch.no_grad(), saccade.watch(model) as seen:
        model(X)
    assert [trace.place and trace.place.source for trace in seen.values()] == ["unknown"]


class Channels(nn.Module):
    """Attention between channels, of which there are as many as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, LENGTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        channels = x.mT[:, None]
        return x + F.scaled_dot_product_attention(channels, channels, channels)[:, 0].mT


def test_channels_are_not_labelled_with_tokens() -> None:
    model = Channels()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.arange(LENGTH)[None])
    view = saccade.view(seen, list("abcde"))
    assert view.kind("attention") == "unknown"
    assert view.rows["attention"].tokens == view.columns["attention"].tokens == ["0", "1", "2", "3", "4"]
    assert "rows and columns are numbered" in view.notes["attention"]
    with pytest.raises(OptionError, match="rollout"):
        view.rollout()


class MovesKeys(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)[:, None]
        return F.scaled_dot_product_attention(x, x.flip(2), x.flip(2))[:, 0]


def test_keys_of_unknown_origin_are_numbered() -> None:
    model, name = MovesKeys(), "attention"
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.arange(LENGTH)[None])
    view = saccade.view(seen, list("abcde"))
    assert view.kind(name) == "unknown"
    assert (view.rows[name].tokens, view.columns[name].tokens) == (list("abcde"), list("01234"))
    assert "columns are numbered, because it is not known which tokens its keys are" in view.describe(name, 0)
    with pytest.raises(OptionError, match="attention is not known to have the same tokens on both axes"):
        view.distance(name)
    view = saccade.view(seen, list("abcde"), source_tokens=list("edcba"))
    assert view.columns[name].tokens == list("01234")  # either could be right


class Hierarchy(nn.Module):
    """Attention within each text, then between the texts, each of which one position stands for."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.within, self.between, self.position = Attends(), Attends(), position

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.between(self.within(x)[:, self.position].unsqueeze(0))
        return found


@pytest.mark.parametrize("position", [0, 3])
def test_texts_that_attend_to_each_other_are_not_labelled_with_the_words_of_one(position: int) -> None:
    model, texts = Hierarchy(position), X.new_ones(LENGTH, LENGTH, WIDTH)
    with torch.no_grad(), saccade.watch(model) as seen:
        model(texts)
    view = saccade.view(seen, list("abcde"))
    assert view.rows["within"].tokens == list("abcde")
    assert view.rows["between"].tokens == list("01234")
    assert "numbered" in view.notes["between"]


class Remembers(nn.Module):
    """Attention with two learned keys before those of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.memory = nn.Embedding(20, WIDTH), nn.Parameter(torch.randn(1, 1, 2, WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)[:, None]
        keys = torch.cat([self.memory.expand(len(ids), -1, -1, -1), x], 2)
        return F.scaled_dot_product_attention(x, keys, keys)[:, 0]


def test_learned_keys_have_labels_of_their_own() -> None:
    model = Remembers()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.arange(LENGTH)[None])
    view = saccade.view(seen, list("abcde"))
    assert view.rows["attention"].tokens == list("abcde")
    assert view.columns["attention"].tokens == ["extra key 0", "extra key 1", *"abcde"]
    assert view.kind("attention") == "self"
    with pytest.raises(OptionError, match="rows and columns are the same tokens"):
        view.rollout()


@pytest.mark.parametrize("needs_weights", [True, False])
def test_keys_that_torchs_module_adds_have_labels_of_their_own(needs_weights: bool) -> None:
    embed = nn.Embedding(20, WIDTH)
    attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True, add_bias_kv=True, add_zero_attn=True).eval()
    model = nn.Sequential(embed, attention)
    model.forward = lambda ids: attention(*[embed(ids)] * 3, need_weights=needs_weights)[0]  # type: ignore[method-assign]
    with torch.no_grad(), saccade.watch(model) as seen:
        model(torch.arange(LENGTH)[None])
    view = saccade.view(seen, list("abcde"))
    assert view.rows["1"].tokens == list("abcde")
    assert view.columns["1"].tokens == [*"abcde", "extra key 0", "extra key 1"]
