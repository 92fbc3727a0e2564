"""Labels and rollouts are claims, and each that is made holds: found out by changing one token at a time.

The attentions here let every token look at itself alone. So if nothing else mixes the tokens, each row depends on its
own token and on no other; a label says just that. A rollout says that nothing but the attentions lies between the rows
of the first one and the output of the last one, so that both depend on the same tokens.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

BATCH, LENGTH, WIDTH, WORDS = 2, 5, 8, 7
TOKENS = [f"t{place}" for place in range(LENGTH)]
EYE = torch.eye(LENGTH, dtype=torch.bool)
ORDER = torch.tensor([2, 0, 4, 1, 3])
Change = Callable[[Tensor], Any]


def nothing(x: Tensor) -> Tensor:
    return x


class Attends(nn.Module):
    """Attention of each token to itself."""

    def __init__(self, change_values: Change = nothing) -> None:
        super().__init__()
        self.parts, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.change_values = change_values
        self.query = self.output = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.parts(x).chunk(3, -1)
        output = F.scaled_dot_product_attention(query, key, self.change_values(value), attn_mask=EYE)
        self.query, self.output = query.detach().clone(), output.detach().clone()
        result: Tensor = x + self.out(output)
        return result


class Model(nn.Module):
    """Two attentions, with a change somewhere."""

    def __init__(self, where: str, change: Change) -> None:
        super().__init__()
        self.embedding, self.codes = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.first = Attends(change if where == "values" else nothing)
        self.second = Attends()
        self.where, self.change = where, change

    def forward(self, ids: Tensor) -> Tensor:
        if self.where == "ids":
            ids = self.change(ids)
        x = self.codes(ids % 64) if self.where == "ids" else self.embedding(ids)
        x = self.first(self.change(x) if self.where == "before" else x)
        output: Tensor = self.second(self.change(x) if self.where == "between" else x)
        return output


def built(where: str, change: Change) -> tuple[Model, Tensor]:
    torch.manual_seed(0)
    model = Model(where, change).eval()
    return model, torch.randint(0, WORDS, (BATCH, LENGTH))


def influences(model: Model, ids: Tensor) -> list[Tensor]:
    """Which token (column) changes which row, of both attentions' queries and of the last output."""

    def rows() -> list[Tensor]:
        return [model.first.query, model.second.query, model.second.output]

    model(ids)
    expected = rows()
    found = [torch.zeros(LENGTH, LENGTH, dtype=torch.bool) for _ in expected]
    for place in range(LENGTH):
        for word in range(0, WORDS, 2):
            changed = ids.clone()
            changed[0, place] = word
            model(changed)
            for matrix, before, after in zip(found, expected, rows(), strict=True):
                matrix[:, place] |= ((after - before).abs() > 1e-6).any(-1)[0]
    return found


def check(where: str, change: Change) -> tuple[bool, bool]:
    """Check all claims; return whether the second attention has labels, and whether there is a rollout."""
    model, ids = built(where, change)
    with torch.no_grad():
        unwatched = model(ids)
        with saccade.watch(model) as seen:
            assert torch.equal(model(ids), unwatched)
        first, second, output = influences(model, ids)
    view = saccade.view(seen, TOKENS)
    labelled = [view.axes(name)[0].tokens == TOKENS for name in ("first", "second")]
    for name, is_labelled, matrix in zip(("first", "second"), labelled, (first, second), strict=True):
        assert not is_labelled or torch.equal(matrix, EYE), f"{name} has labels that are not its tokens"
    try:
        view.rollout()
    except OptionError:
        return labelled[1], False
    assert torch.equal(output, first), "a rollout leaves something out"
    return labelled[1], True


def of_others(function: Callable[[Tensor], Tensor]) -> Change:
    """Add what a function makes of all tokens to each of them."""
    return lambda x: x + function(x)


def in_place(write: Callable[[Tensor, Tensor], Any]) -> Change:
    def written(x: Tensor) -> Tensor:
        y = x.clone()
        write(y, x)
        return y

    return written


def in_a_thread(function: Change) -> Change:
    def run(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(function(x)))
        thread.start()
        thread.join()
        return found[0]

    return run


def turned(x: Tensor) -> Tensor:
    return x.flip(1).flatten(0, 1)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    SCRIPTED = torch.jit.script(turned)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy()[:, ::-1].copy())


def codes(numbers: Tensor) -> Tensor:
    """Vectors that whole numbers choose from a table."""
    return TABLE[numbers % len(TABLE)]


TABLE = torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(1))
RECURRENT = nn.GRU(WIDTH, WIDTH, batch_first=True)
NORM = nn.BatchNorm1d(WIDTH, affine=False)
MIXES: dict[str, Change] = {
    "convolution": lambda x: F.conv1d(x.mT, torch.ones(WIDTH, WIDTH, 3), padding=1).mT,
    "a convolution of width 1 after a shift": lambda x: F.conv1d(F.pad(x.mT, (1, -1)), torch.ones(WIDTH, WIDTH, 1)).mT,
    "sum so far": lambda x: x.cumsum(1),
    "product so far": lambda x: x.cumprod(1),
    "largest so far": lambda x: x.cummax(1).values,
    "place of the largest so far": of_others(lambda x: codes(x.cummax(1).indices.sum(-1))),
    "sort": lambda x: x.sort(1).values,
    "sorted by the first number": lambda x: x.gather(1, x[..., :1].argsort(1).expand_as(x)),
    "best tokens": of_others(lambda x: codes(x.mean(-1).topk(3, 1).indices.sum(1, keepdim=True))),
    "best of all": of_others(lambda x: codes(x[..., 0].argmax(1, keepdim=True))),
    "hard attention": of_others(lambda x: codes((x @ x.mT).argmax(-1))),
    "counts": of_others(lambda x: codes((x > 0).sum((1, 2), keepdim=True)[..., 0])),
    "counts so far": of_others(lambda x: (x > 0).long().cumsum(1).float()),
    "gate": lambda x: x * (x > x.mean(1, keepdim=True)),
    "gate of a neighbour": lambda x: torch.where(x.roll(1, 1)[..., :1] > 0, x, -x),
    "sign of the sum": of_others(lambda x: (x.sum(1, keepdim=True) > 0).float()),
    "bits": of_others(lambda x: x.sum(1, keepdim=True).view(torch.int32).remainder(5).float()),
    "histogram": of_others(lambda x: torch.histc(x, WIDTH)),
    "unique": of_others(lambda x: codes(torch.unique((x[..., 0] * 3).long(), return_inverse=True)[1])),
    "bincount": of_others(lambda x: torch.bincount(x.argmax(-1).flatten(), minlength=WIDTH).float()),
    "scatter of ones": of_others(lambda x: torch.zeros(WIDTH).scatter_add(0, x.argmax(-1).flatten(), torch.ones(10))),
    "searchsorted": of_others(lambda x: torch.searchsorted(x.flatten().sort().values, x.contiguous())),
    "bucketize": of_others(lambda x: torch.bucketize(x.contiguous(), x[0, :, 0].sort().values).float()),
    "median": of_others(lambda x: x.median(1, keepdim=True).values),
    "quantile": of_others(lambda x: x.quantile(0.3, 1, keepdim=True)),
    "covariance": lambda x: x @ torch.cov(x.flatten(0, 1).T),
    "distances": of_others(lambda x: torch.cdist(x, x).sum(-1, keepdim=True)),
    "normalized over tokens": lambda x: F.normalize(x, dim=1),
    "batch norm": lambda x: NORM.train()(x.mT).mT,
    "instance norm": lambda x: F.instance_norm(x.mT).mT,
    "recurrent": lambda x: RECURRENT(x)[0],
    "a number of Python": lambda x: x / x.abs().max().item(),
    "a number and a constant": of_others(lambda x: torch.ones(WIDTH) * (1 + float(x.mean()))),
    "a whole number of Python": lambda x: x + (100 * x.sum()).long().item(),
    "a small whole number of Python": lambda x: x * (1 + (x[:, 0, 0] > 0).sum().item()),
    "how many differ": lambda x: x * (1 + (x[..., 0] > 0).unique().numel()),
    "how many are chosen": of_others(lambda x: torch.full((WIDTH,), len(x[x > 0]) / 7)),
    "how many are not zero": lambda x: x.add(x, alpha=(x > 0).nonzero().shape[0]),
    "counted from a number": of_others(lambda x: torch.arange((n := len(torch.where(x > 0)[0])), n + WIDTH)),
    "numbers of Python": of_others(lambda x: torch.tensor(x.flip(1).tolist())),
    "new_tensor": of_others(lambda x: TABLE.new_tensor(x.flip(1).tolist())),
    "a tensor of Python's making": of_others(lambda x: torch.Tensor(x.flip(1)[0].tolist())),
    "numpy": lambda x: torch.from_numpy(x.numpy()[:, ::-1].copy()),
    "a function of one's own": lambda x: Reversed.apply(x),
    "another thread": lambda x: x + in_a_thread(lambda y: y.mean(1))(x)[:, None],
    "another thread, whole": in_a_thread(lambda x: x.flip(1)),
    "written by another thread": lambda x: (in_a_thread(lambda y: y.copy_(y.flip(1).clone()))(x), x)[1],
    "TorchScript": lambda x: SCRIPTED(x).view_as(x),
    "TorchScript beside it": lambda x: x + SCRIPTED(x).view_as(x),
    "vmap": torch.vmap(lambda rows: rows + rows.mean(0)),
    "matrix": lambda x: torch.eye(LENGTH)[ORDER] @ x,
    "einsum": lambda x: torch.einsum("nm,bmc->bnc", torch.eye(LENGTH)[ORDER], x),
    "fft of fft": lambda x: torch.fft.fft(torch.fft.fft(x, dim=1), dim=1).real / LENGTH,
    "solve": lambda x: torch.linalg.solve(torch.eye(LENGTH) + 0.1, x),
    "order": lambda x: x[:, ORDER],
    "reshape": lambda x: x.reshape(BATCH, WIDTH, LENGTH).mT,
    "batch": lambda x: x.roll(1, 0),
    "shift": lambda x: F.pad(x, (0, 0, 1, -1)),
    "shift by three": lambda x: torch.cat([torch.zeros(BATCH, 3, WIDTH), x[:, :-3]], 1),
    "half of the width": lambda x: torch.cat([x[..., :4], x.roll(1, 1)[..., 4:]], -1),
    "pairs": lambda x: torch.cat([x[:, :2].mean(1, keepdim=True).expand(-1, 2, -1), x[:, 2:]], 1),
    "a constant row": lambda x: torch.cat([TABLE[:1].expand(BATCH, 1, -1), x[:, 1:]], 1),
    "a row of zeros": lambda x: x * (torch.arange(LENGTH) != 3)[:, None],
    "a mask vector": lambda x: torch.where((torch.arange(LENGTH) == 2)[:, None], TABLE[0], x),
    "masked_fill": lambda x: x.masked_fill((torch.arange(LENGTH) == 2)[:, None], 0.5),
    "write": in_place(lambda y, x: y.__setitem__((slice(None), slice(1, None)), x[:, :-1])),
    "added in place": in_place(lambda y, x: y[:, 1:].add_(x[:, :-1])),
    "data": in_place(lambda y, x: y.data.copy_(x.flip(1))),
    "a view's data": in_place(lambda y, x: y[:, 1:].data.copy_(x[:, :-1])),
    "index_put": in_place(lambda y, x: y.index_put_((torch.tensor([0, 1]), torch.tensor([1, 0])), x[:, 3])),
    "index_add": in_place(lambda y, x: y.index_add_(1, ORDER, x)),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, ORDER[None, :, None].expand_as(x), x),
    "masked_scatter": lambda x: x.masked_scatter(EYE[:1].T.expand_as(x), x.flip(1)),
    "set_": in_place(lambda y, x: y.set_(x.flip(1).contiguous())),
    "out": in_place(lambda y, x: torch.index_select(x, 1, ORDER, out=y)),
}
OF_IDS: dict[str, Change] = {
    "sum so far": lambda ids: ids.cumsum(1),
    "pairs": lambda ids: ids + 7 * ids.roll(1, 1),
    "shift": lambda ids: F.pad(ids, (1, -1)),
    "shift to the left": lambda ids: F.pad(ids, (-1, 1)),
    "flip": lambda ids: ids.flip(1),
    "sort": lambda ids: ids.sort(1).values,
    "count of a word": lambda ids: ids + 7 * (ids == 3).cumsum(1),
    "largest": lambda ids: ids + 7 * (ids == ids.max()),
    "unique": lambda ids: torch.unique(ids, return_inverse=True)[1],
    "mean": lambda ids: ids + ids.float().mean(1, keepdim=True).long(),
    "sum of Python": lambda ids: ids + 10 * sum(ids[0].tolist()),
    "one word is replaced": lambda ids: torch.cat([torch.zeros_like(ids[:, :1]), ids[:, 1:]], 1),
    "batch": lambda ids: ids.flip(0),
    "how many words": lambda ids: ids + 7 * ids.unique().numel(),
    "table": lambda ids: torch.arange(WORDS)[ids.sum(1, keepdim=True) % WORDS].expand_as(ids),
}
KEEPS: dict[str, Change] = {
    "nothing": nothing,
    "norm": lambda x: F.layer_norm(x, (WIDTH,)),
    "network": lambda x: x + F.gelu(x @ torch.ones(WIDTH, WIDTH)),
    "gate of its own": lambda x: x * (1 + (x[..., :1] > 0)),
    "code of its own": of_others(lambda x: codes(x.argmax(-1))),
    "best of its own": of_others(lambda x: x.topk(2, -1).values.sum(-1, keepdim=True)),
    "scattered over its width": of_others(lambda x: torch.zeros_like(x).scatter(-1, x.topk(2, -1).indices, 1.0)),
    "there and back": lambda x: x[:, ORDER][:, ORDER.argsort()],
    "sorted and back": lambda x: x[:, (order := x[0, :, 0].argsort())][:, order.argsort()],
    "positions": lambda x: x + torch.arange(LENGTH)[:, None],
    "a number that is given": lambda x: x / 3.5 + 2,
    "chosen tokens and back": lambda x: x.masked_scatter(x > 0, 2 * x[x > 0]) * 3,
    "written to itself": in_place(lambda y, x: y[:, 1:].mul_(2.0)),
    "eval norm": lambda x: NORM.eval()(x.mT).mT,
}
WHERE = [
    pytest.param(where, marks=[pytest.mark.slow] * (where != "between")) for where in ("before", "between", "values")
]


@pytest.mark.parametrize("name", OF_IDS)
def test_no_claim_about_changed_words_is_wrong(name: str) -> None:
    labelled, has_rollout = check("ids", OF_IDS[name])
    assert not (labelled and has_rollout)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", MIXES)
def test_no_claim_is_wrong(where: str, name: str) -> None:
    labelled, has_rollout = check(where, MIXES[name])
    assert not (labelled and has_rollout)  # all of these mix, move or replace tokens


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", KEEPS)
def test_tokens_that_stay_themselves_keep_labels_and_rollout(where: str, name: str) -> None:
    assert check(where, KEEPS[name]) == (True, True)


# --- how attentions are put together ---------------------------------------------------------------------------


class Put(nn.Module):
    """Attentions of whole texts, put together by a function."""

    def __init__(self, together: Callable[..., Tensor]) -> None:
        super().__init__()
        self.embedding, self.patches = nn.Embedding(WORDS, WIDTH), nn.Conv2d(3, WIDTH, 2, 2)
        self.first, self.second, self.third = (nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(3))
        self.learned, self.other = (nn.Parameter(torch.randn(1, 1, WIDTH)) for _ in range(2))
        self.together = together

    def add(self, x: Tensor, number: int = 1) -> Tensor:
        layer = (self.first, self.second, self.third)[number - 1]
        return x + layer(x, x, x, need_weights=False)[0]

    def begun(self, x: Tensor) -> Tensor:
        return torch.cat([self.learned.expand(len(x), -1, -1), x], 1)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return self.together(self, self.embedding(x))
        return self.together(self, self.patches(x).flatten(2).mT)


def replaced(model: Put, x: Tensor) -> Tensor:
    x = model.add(model.begun(x))
    return model.add(torch.cat([model.other.expand(len(x), -1, -1), x[:, 1:]], 1), 2)


NAMED, NUMBERED = True, False
TOGETHER: dict[str, tuple[Callable[..., Tensor], bool, bool]] = {
    "one after the other": (lambda m, x: m.add(m.add(x), 2), NAMED, True),
    "one layer twice": (lambda m, x: m.add(m.add(x)), NAMED, True),
    "after a learned row": (lambda m, x: m.add(m.add(m.begun(x)), 2), NAMED, True),
    "a learned row is replaced": (replaced, NAMED, False),
    "a token is replaced by a learned row": (lambda m, x: m.add(m.begun(x[:, 1:])), NUMBERED, True),
    "beside each other": (lambda m, x: m.add(x) + m.add(x, 2), NAMED, False),
    "beside each other, and one after them": (lambda m, x: m.add(m.add(x) + m.add(x, 2), 3), NAMED, False),
    "beside each other in the width": (lambda m, x: torch.cat([m.add(x), m.add(x, 2)], -1), NAMED, False),
    "one window after the other": (lambda m, x: torch.cat([m.add(x[:, :2]), m.add(x[:, 2:])], 1), NAMED, False),
    "over the batch": (lambda m, x: m.add(x.transpose(0, 1)), NUMBERED, False),
    "two towers": (lambda m, x: m.add(x).mean(1) * m.add(x, 2).mean(1), NAMED, True),
    "in another order": (lambda m, x: m.add(x.flip(1)), NUMBERED, True),
}


@pytest.mark.parametrize("kind", ["words", "patches"])
@pytest.mark.parametrize("name", TOGETHER)
def test_attentions_that_are_put_together(name: str, kind: str) -> None:
    together, is_named, has_rollout = TOGETHER[name]
    torch.manual_seed(0)
    model = Put(together).eval()
    x = torch.randint(0, WORDS, (4, 4)) if kind == "words" else torch.randn(4, 3, 4, 4)
    with torch.no_grad(), saccade.watch(model) as seen:
        model(x)
    length = seen["first"].shape[2]
    view = saccade.view(dict(list(seen.items())[:1]), [f"t{place}" for place in range(length)])
    assert (view.axes("first")[0].tokens[0] == "t0") is is_named
    view = saccade.view(seen)
    if has_rollout:
        view.rollout()
    else:
        with pytest.raises(OptionError, match="There is no rollout"):
            view.rollout()


def test_shifted_labels_are_not_the_rows() -> None:
    """Hugging Face's encoder-decoders move their labels one to the right, and read a start token first."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=8, d_kv=4, num_heads=2, num_layers=1, d_ff=8, vocab_size=20, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config).eval()
    with torch.no_grad(), saccade.watch(model) as seen:
        model(input_ids=torch.randint(2, 20, (1, 6)), labels=torch.tensor([[11, 12, 13, 14]]))
    view = saccade.view(seen, list("abcd"), source_tokens=list("uvwxyz"))
    own, across = (f"decoder.block.0.layer.{layer}" for layer in ("0.SelfAttention", "1.EncDecAttention"))
    for name, columns in ((own, list("0123")), (across, list("uvwxyz"))):
        assert view.axes(name)[0].tokens == list("0123")
        assert view.axes(name)[1].tokens == columns
        assert "not the tokens of the text in their order" in view.notes[name]
    assert view.axes("encoder.block.0.layer.0.SelfAttention")[0].tokens == list("uvwxyz")
    assert view.kind(own) == "causal"
    assert view.kind(across) == "cross"


def test_columns_of_cross_attention_are_named_only_in_order() -> None:
    class Across(nn.Module):
        def __init__(self, change: Change) -> None:
            super().__init__()
            self.change = change

        def forward(self, query: Tensor, memory: Tensor) -> Tensor:
            memory = self.change(memory)
            return F.scaled_dot_product_attention(query, memory, memory)

    for change, expected in ((nothing, list("uvwxyz")), (lambda x: x.flip(1), list("012345"))):
        with saccade.watch(model := Across(change)) as seen:
            model(torch.randn(2, 4, 8), torch.randn(2, 6, 8))
        assert saccade.view(seen, list("abcd"), source_tokens=list("uvwxyz")).axes("attention")[1].tokens == expected


@pytest.mark.parametrize("length", [LENGTH, 3])
def test_counting_tokens_that_are_not_padding_gives_positions(length: int) -> None:
    """RoBERTa and OPT find positions so; a count of words of the text is no position."""
    ids = torch.randint(1, WORDS, (BATCH, LENGTH)) * (torch.arange(LENGTH) < torch.tensor([[LENGTH], [length]]))
    ids[0, 1], ids[0, 3] = 5, 1
    for change, is_position in (
        (lambda ids: ids + 7 * (ids != 0).cumsum(1), True),
        (lambda ids: ids + 7 * (ids == 5).cumsum(1), False),
    ):
        model, _ = built("ids", change)
        with torch.no_grad(), saccade.watch(model) as seen:
            model(ids)
        view = saccade.view(seen, TOKENS)
        assert (view.axes("second")[0].tokens == TOKENS) is is_position
        assert bool(view.stacks) is is_position


#: How two inputs of equal length can depend on each other before one of them attends to the other.
EXCHANGES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "gates": lambda a, b: (a * b.sigmoid(), b * a.sigmoid()),
    "means": lambda a, b: (a + b.mean(1, keepdim=True), b + a.mean(1, keepdim=True)),
    "differences": lambda a, b: (a - b, b - a),
    "halves": lambda a, b: (torch.where(torch.arange(8) < 4, a, b), torch.where(torch.arange(8) < 4, b, a)),
}


class TwoInputs(nn.Module):
    """Attends from one of two inputs of equal length, in a way that a function decides."""

    def __init__(self, choose: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> None:
        super().__init__()
        self.choose = choose

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*self.choose(a, b))


def seen_in(choose: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> saccade.View:
    with saccade.watch(model := TwoInputs(choose)) as seen:
        model(torch.randn(2, 6, 8), torch.randn(2, 6, 8))
    return saccade.view(seen, list("abcdef"))


@pytest.mark.parametrize("name", EXCHANGES)
def test_two_inputs_that_depend_on_each_other_are_not_one_sequence(name: str) -> None:
    def across(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        one, other = EXCHANGES[name](a, b)
        return one, other, other

    view = seen_in(across)
    assert view.axes("attention")[1].tokens == list("012345")
    with pytest.raises(OptionError, match="A rollout needs self-attention"):
        view.rollout()


def test_two_inputs_that_are_added_are_one_sequence() -> None:
    view = seen_in(lambda a, b: (a + b, a + b, a))  # as positions are, once for queries and once for keys
    assert view.axes("attention")[1].tokens == list("abcdef")
    view.rollout()


def test_values_of_another_input_are_not_the_tokens_of_the_keys() -> None:
    with pytest.raises(OptionError, match="the values that attention mixes are not known to be the tokens"):
        seen_in(lambda a, b: (a, a, b)).rollout()
