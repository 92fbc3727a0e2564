"""Random models, random orders of layers, several inputs: every picture is that of a computation in float64."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.attention.watching.foreign.call import FIVE_DIMENSIONS

WIDTH = 12
SEEDS = [*range(50), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(50, 500))]


class Layer(nn.Module):
    """Attention of a stream of tokens to itself or to another one, computed in one of several ways."""

    def __init__(self, kind: str, heads: int, inner: Layer | None = None) -> None:
        super().__init__()
        self.kind, self.heads, self.inner = kind, heads, inner
        self.torchs = nn.MultiheadAttention(WIDTH, heads, batch_first=True)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.6)

    def projected(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, heads, positions, width of a head) of queries, keys and values, as torch's module has them."""
        weight, bias = self.torchs.in_proj_weight.to(x.dtype), self.torchs.in_proj_bias.to(x.dtype)
        parts = zip((x, memory, memory), weight.chunk(3), bias.chunk(3), strict=True)
        query, key, value = (
            F.linear(part, w, b).view(*part.shape[:2], self.heads, -1).transpose(1, 2) for part, w, b in parts
        )
        return query, key, value

    def finish(self, x: Tensor, output: Tensor) -> Tensor:
        out = self.torchs.out_proj
        mixed = F.linear(output.transpose(1, 2).flatten(2), out.weight.to(x.dtype), out.bias.to(x.dtype))
        return F.layer_norm(x + mixed, (WIDTH,))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.inner is not None:
            x = self.inner(x, memory)
        keys = x if memory is None else memory
        if self.kind == "torch":
            output, _ = self.torchs(x, keys, keys, need_weights=False)
            return F.layer_norm(x + output, (WIDTH,))
        query, key, value = self.projected(x, keys)
        if self.kind == "written out":
            scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
            return self.finish(x, F.dropout(scores.softmax(-1), 0.0) @ value)
        if self.kind == "five":
            parts = [part.unsqueeze(1) for part in (query, key, value)]
            return self.finish(x, F.scaled_dot_product_attention(*parts).squeeze(1))
        return self.finish(x, F.scaled_dot_product_attention(query, key, value))


class Op(NamedTuple):
    layer: int
    stream: int
    memory: int | None  # the stream whose tokens are the keys; None: its own


class Model(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, streams: list[Tensor], program: list[Op]) -> list[Tensor]:
        streams = [stream * 1.0 for stream in streams]
        for op in program:
            memory = None if op.memory is None else streams[op.memory]
            streams[op.stream] = self.layers[op.layer](streams[op.stream], memory)
        return streams


@dataclass
class Expected:
    """What a forward must show."""

    weights: dict[str, Tensor] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    written_out: list[str] = field(default_factory=list)
    stacks: list[list[str]] = field(default_factory=list)  # of each stream, its own self-attentions
    is_mixed: bool = False  # whether a written-out attention, whose queries do not show, has mixed two streams
    may_be_refused: set[int] = field(default_factory=set)  # streams
    is_whole: list[bool] = field(default_factory=list)  # of each stream, whether all its attentions are seen


def reference(model: Model, inputs: list[Tensor], program: list[Op]) -> Expected:
    """The same program in float64, by hand."""
    found = Expected(stacks=[[] for _ in inputs], is_whole=[True for _ in inputs])
    uses: dict[str, int] = {}
    streams = [stream.double() for stream in inputs]

    def attend(layer: Layer, name: str, x: Tensor, op: Op) -> Tensor:
        if layer.inner is not None:
            x = attend(layer.inner, f"{name}.inner", x, op)
        keys = x if op.memory is None else streams[op.memory]
        query, key, value = layer.projected(x, keys)
        weights = torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, -1)
        name = f"{name}.torchs" if layer.kind == "torch" else name
        if layer.kind == "written out":
            found.written_out.append(name)
        else:
            uses[name] = uses.get(name, 0) + 1
        label = name if uses.get(name, 1) == 1 else f"{name}#{uses[name]}"
        if layer.kind in ("five", "written out"):
            found.is_whole[op.stream] = False
            if layer.kind == "written out" and op.memory is not None:
                found.is_mixed = True
                found.may_be_refused.add(op.memory)  # nothing tells which of the two streams are its queries
            if layer.kind == "five":
                found.refused.add(label)
        else:
            found.weights[label] = weights
            found.sources[label] = "self" if op.memory is None else "unknown" if found.is_mixed else "cross"
            if op.memory is None:
                found.stacks[op.stream].append(label)
        return layer.finish(x, weights @ value)

    for op in program:
        layer = model.layers[op.layer]
        assert isinstance(layer, Layer)
        streams[op.stream] = attend(layer, f"layers.{op.layer}", streams[op.stream], op)
    return found


def check(seen: saccade.Watch, expected: Expected, tolerance: float) -> None:
    assert set(seen) == set(expected.weights)
    assert set(seen.refused) == expected.refused
    assert all(reason == FIVE_DIMENSIONS.format(5) for reason in seen.refused.values())
    assert set(seen.coverage.unseen) == set(expected.written_out)
    for label, weights in expected.weights.items():
        torch.testing.assert_close(seen[label].weights().double(), weights, atol=tolerance, rtol=0)
        place = seen[label].place
        assert place is not None
        assert place.source == expected.sources[label] or (place.source, expected.sources[label]) == (
            "cross",
            "unknown",
        )
    if not seen:
        return
    view = saccade.view(seen)
    stacks = list(view.stacks.values())
    whole = [
        (number, names)
        for number, (names, is_whole) in enumerate(zip(expected.stacks, expected.is_whole, strict=True))
        if names and is_whole
    ]
    assert all(names in stacks for number, names in whole if number not in expected.may_be_refused)
    assert all(stack in [names for _, names in whole] for stack in stacks)
    for name, names in view.stacks.items():
        flow: Tensor | float = 1.0
        for label in names:
            mean = expected.weights[label][0].mean(0)
            step = (mean + torch.eye(len(mean))) / 2
            flow = step if isinstance(flow, float) else step @ flow
        torch.testing.assert_close(view.rollout(name).double(), flow, atol=tolerance, rtol=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_models(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kinds = ["sdpa", "sdpa", "sdpa", "torch", "torch", "five", "written out"]

    def layer(depth: int = 0) -> Layer:
        inner = layer(depth + 1) if depth < 2 and rng.random() < 0.25 else None
        return Layer(rng.choice(kinds[: rng.choice([3, 5, 7])]), rng.choice([1, 2, 3]), inner)

    # In float32 the layers before an attention differ from the reference by rounding; in float64 nothing does.
    dtype, tolerance = rng.choice([(torch.float32, 1e-4), (torch.float64, 1e-9)])
    model = Model([layer() for _ in range(rng.randint(1, 4))]).train(rng.random() < 0.5).to(dtype)
    with saccade.watch(model) as seen:
        for _ in range(rng.randint(1, 3)):
            num_streams = rng.randint(1, 2)
            batch, length = rng.randint(1, 3), rng.randint(1, 6)
            inputs = [torch.randn(batch, length, WIDTH, dtype=dtype) for _ in range(num_streams)]
            program = []
            for _ in range(rng.randint(1, 6)):
                stream = rng.randrange(num_streams)
                memory = 1 - stream if num_streams == 2 and rng.random() < 0.3 else None
                program.append(Op(rng.randrange(len(model.layers)), stream, memory))
            with torch.set_grad_enabled(rng.random() < 0.5):
                streams = model(inputs, program)
            check(seen, reference(model, inputs, program), tolerance)
    again = model(inputs, program)
    for one, other in zip(streams, again, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


class Decoder(nn.Module):
    """Two layers with a cache of keys, given some tokens at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer("sdpa", 3), Layer("sdpa", 2)])

    def forward(self, x: Tensor, cache: list[Any]) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = self.step(layer, x, cache, number)
        return x

    def step(self, layer: Any, x: Tensor, cache: list[Any], number: int) -> Tensor:
        query, key, value = layer.projected(x, x)
        if cache[number] is not None:
            key, value = (torch.cat(pair, 2) for pair in zip(cache[number], (key, value), strict=True))
        cache[number] = (key, value)
        rows = torch.arange(key.shape[2] - x.shape[1], key.shape[2])
        mask = rows[:, None] >= torch.arange(key.shape[2])
        output: Tensor = layer.finish(x, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))
        return output


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps_of_decoders(seed: int) -> None:
    """Prompts, steps of one token and of several, tokens that are taken back, and other texts between them."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Decoder().double()
    with saccade.watch(model) as seen, torch.no_grad():
        for _ in range(rng.randint(1, 2)):
            cache: list[Any] = [None, None]
            text = torch.randn(2, 0, WIDTH).double()
            for _ in range(rng.randint(1, 8)):
                if text.shape[1] > 2 and rng.random() < 0.3:
                    kept = rng.randint(1, text.shape[1] - 1)
                    text = text[:, :kept]
                    cache = [tuple(part[:, :, :kept] for part in pair) for pair in cache]
                chunk = torch.randn(2, rng.choice([1, 1, 2, 4]), WIDTH).double()
                text = torch.cat([text, chunk], 1)
                model(chunk, cache)
    x = text
    for number, (name, layer) in enumerate(zip(seen, model.layers, strict=True)):
        query, key, value = layer.projected(x, x)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
        found = seen[name]
        assert found.shape[2:] == (text.shape[1], text.shape[1]), number
        torch.testing.assert_close(found.weights(), weights, atol=1e-9, rtol=0)
        x = layer.finish(x, weights @ value)
