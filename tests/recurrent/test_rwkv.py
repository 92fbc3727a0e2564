"""RWKV against its equation by hand, the parallel form against the recurrence, and gradients."""

from __future__ import annotations

from math import exp

import pytest
import torch
from torch import Tensor

from saccade.errors import ShapeError
from saccade.recurrent import ChannelMixing, TimeMixing, WKVState, wkv, wkv_step


def test_wkv_by_hand() -> None:
    """Three steps of one channel, as the equation has them: w = 0.5, u = 0.2."""
    k, v, w, u = [0.3, -0.7, 1.1], [2.0, -1.0, 0.5], 0.5, 0.2
    expected = []
    for t in range(3):
        shares = [exp(-(t - 1 - i) * w + k[i]) for i in range(t)] + [exp(u + k[t])]
        expected.append(sum(a * b for a, b in zip(shares, v[: t + 1], strict=True)) / sum(shares))
    assert expected[0] == v[0]
    key, value = (torch.tensor(numbers, dtype=torch.float64).view(1, 3, 1) for numbers in (k, v))
    decay, bonus = torch.tensor([w], dtype=torch.float64), torch.tensor([u], dtype=torch.float64)
    found, _ = wkv(key, value, decay, bonus, WKVState.empty(key[:, 0]))
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-12)


def problem(steps: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, ...]:
    torch.manual_seed(steps)
    key, value = torch.randn(2, steps, 5, dtype=dtype) * scale, torch.randn(2, steps, 5, dtype=dtype)
    return key, value, torch.rand(5, dtype=dtype) + 0.01, torch.randn(5, dtype=dtype)


@pytest.mark.parametrize("steps", [1, 7, 32, 33, 101])
@pytest.mark.parametrize("scale", [1.0, 60.0])  # e^60 squared is beyond what a number of half the width holds
def test_many_steps_at_once_are_one_after_the_other(steps: int, scale: float) -> None:
    key, value, decay, bonus = problem(steps, torch.float32, scale)
    state, found = WKVState.empty(key[:, 0]), []
    for t in range(steps):
        output, state = wkv_step(key[:, t], value[:, t], decay, bonus, state)
        found.append(output)
    together, last = wkv(key, value, decay, bonus, WKVState.empty(key[:, 0]))
    torch.testing.assert_close(together, torch.stack(found, dim=1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        state.numerator / state.denominator, last.numerator / last.denominator, rtol=1e-4, atol=1e-5
    )
    assert together.isfinite().all()


def test_gradients() -> None:
    key, value, decay, bonus = (tensor.requires_grad_() for tensor in problem(6))

    def outputs(*tensors: Tensor) -> Tensor:
        return wkv(*tensors, WKVState.empty(tensors[0][:, 0]))[0]  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(outputs, (key, value, decay, bonus))


@pytest.mark.parametrize("kind", ["time", "channel"])
def test_layers_by_steps_are_layers_at_once(kind: str) -> None:
    torch.manual_seed(0)
    layer = (TimeMixing(6) if kind == "time" else ChannelMixing(6, 11)).double()
    x = torch.randn(3, 40, 6, dtype=torch.float64)
    rest = (WKVState.empty(x[:, 0]),) if kind == "time" else ()
    whole = layer(x, torch.zeros_like(x[:, 0]), *rest)[0]
    carried, found = (torch.zeros_like(x[:, 0]), *rest), []
    for t in range(40):
        output, *carried = layer(x[:, t : t + 1], *carried)
        found.append(output)
    torch.testing.assert_close(torch.cat(found, dim=1), whole, rtol=0, atol=1e-10)


def test_channel_mixing_by_hand() -> None:
    """One channel: x̃ is the mean of this step and the one before."""
    layer = ChannelMixing(1, 1)
    with torch.no_grad():
        layer.mix.fill_(0.5)
        for linear, weight in ((layer.receptance, 0.4), (layer.key, 1.5), (layer.value, -2.0)):
            linear.weight.fill_(weight)
    output, last = layer(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[-1.0]]))
    assert output.flatten().tolist() == pytest.approx([0.0, -2.0 * 3.0**2 / (1 + exp(-0.8))])
    assert last.tolist() == [[3.0]]


def test_another_width_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"Expected last, the previous input, of shape \(2, 6\), got \(2, 5\)"):
        ChannelMixing(6, 7)(torch.zeros(2, 3, 6), torch.zeros(2, 5))
