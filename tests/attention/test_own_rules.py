"""Rules, scores, weights and layers that are not ours, or are used in ways that once went wrong."""

from __future__ import annotations

import asyncio

import pytest
import torch
from torch import Tensor, nn

import saccade
from saccade.attention import (
    ALiBi,
    Bias,
    Cosine,
    GrowingCache,
    MultiHead,
    Relu,
    Rotary,
    Score,
    Softmax,
    StaticCache,
    attend,
    causal,
    rule,
    watch,
)
from saccade.errors import KernelError, OptionError, ShapeError


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    return tuple(torch.randn(2, 3, 5, 7, dtype=dtype) for _ in range(3))  # type: ignore[return-value]


def test_a_rule_that_reads_a_tensor_sees_it_change() -> None:
    query, key, value = inputs()
    allowed = torch.ones(5, 5, dtype=torch.bool)
    table = torch.zeros(5, 5)
    reads = rule(lambda batch, head, row, column: allowed[row, column])
    adds = Bias(lambda batch, head, row, column: table[row, column])
    attend(query, key, value, mask=reads)
    attend(query, key, value, bias=adds)
    allowed[:, 1:] = False
    table[:, 1:] = -4.0
    for options in ({"mask": reads}, {"bias": adds}):
        expected = attend(query, key, value, kernel="equation", **options)
        torch.testing.assert_close(attend(query, key, value, **options), expected)


class Tempered(Softmax):
    """Softmax at another temperature: the fused kernel does not compute it."""

    def statistic(self, scores: Tensor) -> Tensor:
        return super().statistic(scores / 3)

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return super().apply(scores / 3, statistic, first_column)


def test_a_kind_of_softmax_is_not_taken_for_softmax() -> None:
    query, key, value = inputs()
    expected = torch.softmax(query @ key.mT / 7**0.5 / 3, dim=-1)
    with watch() as seen:
        output = attend(query, key, value, weights=Tempered())
    torch.testing.assert_close(output, expected @ value)
    torch.testing.assert_close(seen["attention"].weights(), expected)
    overview = seen["attention"].overview(size=1, head=1, batch=1)
    torch.testing.assert_close(overview.values[0, 0], expected[1, 1].mean())
    with pytest.raises(KernelError, match="Tempered"):
        attend(query, key, value, weights=Tempered(), kernel="fused")


class Weighted(Score, nn.Module):
    """A learned score of a person's own."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def __call__(self, query: Tensor, key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return self.scale * (query @ key.mT)


def test_an_own_learned_score_can_be_looked_at_after_it_was_trained_on() -> None:
    query, key, value = inputs()
    score = Weighted()
    with watch() as seen:
        attend(query, key, value, score=score)
    expected = torch.softmax(0.5 * query @ key.mT, dim=-1)
    with torch.no_grad():
        score.scale.fill_(9.0)
    torch.testing.assert_close(seen["attention"].weights(), expected)


def test_positions_without_the_keys_before_them_are_refused() -> None:
    layer = MultiHead(8, 2, rotary=Rotary(4))
    with pytest.raises(OptionError, match="first_row = 5 needs the keys before it"):
        layer(torch.randn(1, 3, 8), mask=causal, first_row=5)


def test_the_cosine_of_nothing_is_0_in_half_precision_too() -> None:
    query, key, value = inputs(torch.float16)
    query[0, 0, 0] = 0.0
    output = attend(query, key, value, score=Cosine())
    assert bool(torch.isfinite(output).all())
    torch.testing.assert_close(output[0, 0, 0], value[0, 0].float().mean(dim=0).half(), atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize(
    "answer", [lambda *at: 1.0, lambda *at: torch.ones(1, 1, 1, 1, 1), lambda *at: torch.ones(1, dtype=torch.bool)]
)
def test_a_bias_that_answers_otherwise_is_refused(answer: object) -> None:
    query, key, value = inputs()
    with pytest.raises(OptionError, match="A bias must return a tensor of numbers"):
        attend(query, key, value, bias=answer)  # type: ignore[arg-type]


def test_a_rule_may_answer_in_fewer_dimensions() -> None:
    query, key, value = inputs()
    none = rule(lambda batch, head, row, column: (column < 2).flatten())
    expected = attend(query, key[:, :, :2], value[:, :, :2])
    torch.testing.assert_close(attend(query, key, value, mask=none), expected)


def test_an_overview_of_no_keys() -> None:
    query, key, value = inputs()
    with watch() as seen:
        attend(query, key[:, :, :0], value[:, :, :0], weights=Relu())
    assert seen["attention"].overview().values.shape == (5, 0)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo looks at it itself
@torch.no_grad()
def test_a_compiled_model_is_watched_in_its_eager_form() -> None:
    layer = MultiHead(8, 2)
    compiled = torch.compile(layer, backend="eager")
    x = torch.randn(1, 3, 8)
    expected = compiled(x)
    with saccade.watch(compiled) as seen:
        output = compiled(x)
    assert list(seen) == ["attention"]
    assert seen["attention"].shape == (1, 2, 3, 3)
    torch.testing.assert_close(output, expected)


def test_rows_sum_to_1_at_any_score() -> None:
    query, key, value = torch.full((1, 1, 1, 1), 1e3), torch.full((1, 1, 4, 1), 1e3), torch.ones(1, 1, 4, 1)
    for kernel in ("equation", "fused"):
        output = attend(query, key, value, score="dot", kernel=kernel)  # type: ignore[arg-type]
        torch.testing.assert_close(output, torch.ones(1, 1, 1, 1), atol=1e-6, rtol=0)


def test_alibi_of_another_number_of_heads_is_refused() -> None:
    query, key, value = inputs()
    with pytest.raises(ShapeError, match="slopes for 8 heads, but the query has 3"):
        attend(query, key, value, bias=ALiBi(8))


def test_what_is_no_tensor_or_has_no_width_is_refused() -> None:
    query, key, value = inputs()
    with pytest.raises(ShapeError, match="The key is a list"):
        attend(query, key.tolist(), value)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="with width at least 1"):
        attend(query[..., :0], key[..., :0], value)


def test_a_cache_of_another_batch_is_refused() -> None:
    layer = MultiHead(8, 2)
    for cache in (GrowingCache(), StaticCache(9)):
        layer(torch.randn(2, 1, 8), cache=cache)
        with pytest.raises(
            ShapeError, match="holds 2 sequences with 2 key heads; the new keys have 3 sequences with 2"
        ):
            layer(torch.randn(3, 1, 8), cache=cache)


def test_asynchronous_tasks_see_their_own_calls() -> None:
    layer = MultiHead(8, 2)

    async def watched(length: int, ready: asyncio.Event, go: asyncio.Event) -> int:
        with watch(layer) as seen:
            ready.set()
            await go.wait()
            layer(torch.randn(1, length, 8))
            await asyncio.sleep(0)
        return seen["attention"].shape[2]

    async def both() -> list[int]:
        events = [asyncio.Event(), asyncio.Event()]
        return await asyncio.gather(watched(3, *events), watched(5, *reversed(events)))

    assert asyncio.run(both()) == [3, 5]


def test_nothing_watched_is_said() -> None:
    with watch() as seen:
        pass
    with pytest.raises(OptionError, match="No attention has been seen yet"):
        seen["attention"]
    assert list(seen) == []
