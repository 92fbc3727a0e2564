"""Whatever is written to the tensors of a call, and whenever: the weights are those of the call, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade
from saccade.errors import OptionError, StaleTraceError


def write_in_place(tensor: Tensor) -> None:
    tensor.mul_(-1.5)


def write_through_data(tensor: Tensor) -> None:
    tensor.data.mul_(-1.5)


def write_one_number(tensor: Tensor) -> None:
    tensor.data[..., -1, 0] += 3.0


def write_with_out(tensor: Tensor) -> None:
    torch.mul(tensor, -1.5, out=tensor)


def swap_columns(tensor: Tensor) -> None:
    tensor.data.copy_(tensor.clone().flip(-2))


def change_places(mask: Tensor) -> None:
    """As many allowed keys in each row and column, at other places."""
    mask.data.copy_(mask.clone().roll(1, -1))


WAYS = (write_in_place, write_through_data, write_one_number, write_with_out, swap_columns)


def weights_of(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = query.double() @ key.double().mT / query.shape[-1] ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, float("-inf"))).softmax(-1)


def check(seen: saccade.Watch, name: str, truth: list[Tensor]) -> bool:
    """The rows that are shown are the last ones that were computed; False if nothing is shown."""
    try:
        found = seen[name].weights().double()
    except (StaleTraceError, OptionError):
        return False
    rows = [F.pad(step, (0, found.shape[3] - step.shape[3])) for step in truth]
    torch.testing.assert_close(found, torch.cat(rows, 2)[:, :, -found.shape[2] :], atol=1e-5, rtol=0)
    return True


class Overwrites(nn.Module):
    """Calls attention several times, and writes to what it gave to the call before."""

    def __init__(self, write: Callable[[Tensor], None], which: int) -> None:
        super().__init__()
        self.write, self.which = write, which
        self.truth: list[Tensor] = []

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        for _ in range(3):
            self.truth.append(weights_of(query, key, mask))
            output = F.scaled_dot_product_attention(query, key, key, attn_mask=mask)
            self.write((query, key, mask)[self.which])
        return output


@pytest.mark.parametrize(("way", "which"), [*((way, which) for way in WAYS for which in (0, 1)), (change_places, 2)])
def test_what_a_forward_overwrites(way: Callable[[Tensor], None], which: int) -> None:
    torch.manual_seed(0)
    model = Overwrites(way, which)
    mask = torch.eye(5, dtype=torch.bool) | torch.eye(5, dtype=torch.bool).roll(2, -1)
    with saccade.watch(model) as seen, torch.no_grad():
        model(torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), mask)
    assert len(seen) == 3
    shown = [check(seen, name, [truth]) for name, truth in zip(seen, model.truth, strict=True)]
    if which < 2 and way in (write_in_place, write_with_out):
        assert shown[1]  # it was written to before the call, so a copy was kept


class Shared(nn.Module):
    """Two layers that use the same memory for their queries."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.memory = torch.zeros(2, 3, 5, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            torch.mul(layer(x), 1.0, out=self.memory)
            x = F.scaled_dot_product_attention(self.memory, x, x)
        return x


def test_memory_that_several_layers_use_is_copied() -> None:
    torch.manual_seed(0)
    model, x = Shared(), torch.randn(2, 3, 5, 4)
    with torch.no_grad(), saccade.watch(model) as seen:
        model(x)
        for layer, trace in zip(model.layers, seen.values(), strict=True):
            weights = weights_of(layer(x), x)
            torch.testing.assert_close(trace.weights().double(), weights, atol=1e-5, rtol=0)
            x = (weights @ x.double()).float()


class Decoder(nn.Module):
    """One query at a time, without a mask, to all keys so far; the first layer also looks at a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = Own(), Own()

    def forward(self, x: Tensor, cache: dict[str, Tensor], scale: float | None = None) -> Tensor:
        cache["keys"] = torch.cat([cache["keys"], x], 2)
        x = self.own(x, cache["keys"], scale)
        return self.cross(x, cache["memory"], scale)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.truth: list[Tensor] = []

    def forward(self, x: Tensor, key: Tensor, scale: float | None) -> Tensor:
        self.truth.append(weights_of(x * (1 if scale is None else scale * x.shape[-1] ** 0.5), key))
        return F.scaled_dot_product_attention(x, key, key, scale=scale)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_written_to_a_cache_between_steps(seed: int, values: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saccade.attention.watching.foreign.steps.SHARE_EVERY", 4)
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Decoder()
    cache: dict[str, Any] = {"keys": torch.zeros(2, 3, 0, 4), "memory": torch.randn(2, 3, 6, 4)}
    with saccade.watch(model, values=values) as seen, torch.no_grad():
        for number in range(14):
            model(torch.randn(2, 3, 1, 4), cache)
            if number > 2 and rng.random() < 0.2:
                rng.choice(WAYS)(cache[rng.choice(["keys", "memory"])])
            if rng.random() < 0.1:
                check(seen, "own", model.own.truth)
    for name in ("own", "cross"):
        check(seen, name, getattr(model, name).truth)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_steps_without_a_write_are_all_shown(context: Any) -> None:
    """So that the test above cannot pass by refusing everything."""
    torch.manual_seed(0)
    model, cache = Decoder(), {"keys": torch.zeros(2, 3, 0, 4), "memory": torch.randn(2, 3, 6, 4)}
    with saccade.watch(model) as seen, context():
        for _ in range(40):
            model(torch.randn(2, 3, 1, 4, requires_grad=context is torch.enable_grad), cache)
    assert seen["own"].shape == (2, 3, 40, 40)
    assert check(seen, "own", model.own.truth)
    assert check(seen, "cross", model.cross.truth)


def test_a_scale_that_changes_from_step_to_step() -> None:
    torch.manual_seed(0)
    model, cache = Decoder(), {"keys": torch.zeros(2, 3, 0, 4), "memory": torch.randn(2, 3, 6, 4)}
    with saccade.watch(model) as seen, torch.no_grad():
        for number in range(9):
            model(torch.randn(2, 3, 1, 4), cache, scale=0.5 + number // 3)
    assert seen["own"].shape[2] == 9
    assert check(seen, "own", model.own.truth)
