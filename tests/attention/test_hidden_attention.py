"""Attention between two others, in places where a watcher might miss it: rolled out, or named and refused."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError

pytestmark = [pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")]


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.given = nn.Linear(8, 24)

    def parts(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.given(x).chunk(3, -1)]

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*self.parts(x)).transpose(1, 2).flatten(2)


def traced() -> Callable[[Tensor], Tensor]:
    example = (torch.randn(1, 2, 6, 4),) * 3
    function = torch.jit.trace(lambda query, key, value: F.scaled_dot_product_attention(query, key, value), example)

    def attend(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        output: Tensor = function(heads, heads, heads)
        return output.transpose(1, 2).flatten(2)

    return attend


def scripted() -> Callable[[Tensor], Tensor]:
    function: Callable[[Tensor], Tensor] = torch.jit.script(written_out)
    return function


def written_out(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x


def in_a_thread() -> Callable[[Tensor], Tensor]:
    module = Attends()

    def attend(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(module(x).detach()))
        thread.start()
        thread.join()
        return found[0]

    return attend


def in_numpy() -> Callable[[Tensor], Tensor]:
    return lambda x: torch.from_numpy(written_out(x).detach().numpy())


def encoder() -> Callable[[Tensor], Tensor]:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()


def multi_head() -> Callable[[Tensor], Tensor]:
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    return lambda x: module(x, x, x, need_weights=False)[0]


#: Each with the number of attentions that a watcher sees in it.
SEEN = {encoder: 2, multi_head: 1, Attends: 1}
UNREPORTED = [traced, scripted, in_a_thread, in_numpy]


class Between(nn.Module):
    """Something that no module registers, between two attentions."""

    def __init__(self, between: Callable[[Tensor], Tensor], has_residual: bool) -> None:
        super().__init__()
        self.first, self.between, self.last = Attends(), [between], Attends()
        self.has_residual = has_residual

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        added = self.between[0](x)
        x = x + added if self.has_residual else added
        return x + self.last(x)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("has_residual", [True, False])
@pytest.mark.parametrize("has_gradients", [True, False])
@pytest.mark.parametrize("make", [*SEEN, *UNREPORTED])
def test_what_no_module_registers(
    make: Callable[[], Callable[[Tensor], Tensor]], has_gradients: bool, has_residual: bool, batch: int
) -> None:
    torch.manual_seed(0)
    model, x = Between(make(), has_residual).eval(), torch.randn(batch, 6, 8)
    with torch.set_grad_enabled(has_gradients):
        expected = model(x)
        with saccade.watch(model) as seen:
            assert torch.equal(model(x), expected)
    view = saccade.view(seen, list("abcdef"))
    if make in SEEN:
        assert seen.coverage.is_complete
        assert len(seen) == 2 + SEEN[make]
        assert view.rollout().shape == (6, 6)
        assert list(view.stacks.values()) == [view.names]
        return
    assert len(seen) == 2
    assert "where torch reports nothing" in str(seen.coverage)
    assert not view.stacks
    with pytest.raises(OptionError, match="There is no rollout of first"):
        view.rollout()


def test_tables_that_a_module_holds_or_computes_hide_nothing() -> None:
    class Positions(Between):
        def __init__(self) -> None:
            super().__init__(lambda x: x, has_residual=True)
            self.register_buffer("table", torch.randn(1, 6, 8))
            self.plain, self.kept = torch.randn(1, 6, 8), {"cosine": torch.randn(1, 6, 8)}

        def forward(self, x: Tensor) -> Tensor:
            angles = torch.arange(6.0).view(1, 6, 1) * torch.ones(8)
            made = self.table[:, :6] + self.plain + self.kept["cosine"] + angles.sin()
            return super().forward(x + made)

    model = Positions()
    with saccade.watch(model) as seen:
        model(torch.randn(1, 6, 8))
    assert seen.coverage.is_complete
    assert saccade.view(seen).rollout().shape == (6, 6)


def test_torchs_attention_of_another_model_is_named() -> None:
    watched, other = Attends(), nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(1, 6, 8)
    with torch.no_grad(), saccade.watch(watched) as seen:
        watched(x)
        other(x, x, x)
    assert list(seen) == ["attention"]
    assert "in a deep copy or another model" in str(seen.coverage)
