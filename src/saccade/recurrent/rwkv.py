"""RWKV (Peng et al. 2023): a recurrent network that computes many steps at once in training, as attention does.

Time mixing replaces attention. Every channel weighs the past by how long ago it was, not by a query:

    wkv_t = (Σ_{i<t} e^{-(t-1-i)w + k_i} v_i + e^{u+k_t} v_t) / (Σ_{i<t} e^{-(t-1-i)w + k_i} + e^{u+k_t})

with a decay w > 0 and a bonus u for the current step, both learned for each channel. Channel mixing replaces the
feed-forward layer. Both read a mixture of the current and the previous input, x̃_t = μ ⊙ x_t + (1-μ) ⊙ x_{t-1}.

`wkv` computes many steps, a few at a time; `wkv_step` computes one, from the two sums over the previous steps. Both
factor out the largest exponent, so that no exponential overflows. Shapes: B batch, T steps, D width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import ShapeError

__all__ = ["ChannelMixing", "TimeMixing", "WKVState", "wkv", "wkv_step"]

#: Number of steps to compute at once; memory grows with its square.
PIECE = 8  # the fastest on a CPU
#: The exponent of an empty sum.
NOTHING = -1e38


class WKVState(NamedTuple):
    """The two sums over the steps so far: numerator · e^exponent and denominator · e^exponent; each field is (B, D)."""

    numerator: Tensor
    denominator: Tensor
    exponent: Tensor

    @classmethod
    def empty(cls, like: Float[Tensor, "B D"]) -> WKVState:
        return cls(torch.zeros_like(like), torch.zeros_like(like), torch.full_like(like, NOTHING))


def wkv_step(
    key: Float[Tensor, "B D"],
    value: Float[Tensor, "B D"],
    decay: Float[Tensor, " D"],
    bonus: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B D"], WKVState]:
    """Compute one step; return wkv_t, and the sums that the next step needs."""
    above, below, largest = state
    now = torch.maximum(largest, bonus + key)
    old, new = torch.exp(largest - now), torch.exp(bonus + key - now)
    found = (old * above + new * value) / (old * below + new)
    then = torch.maximum(largest - decay, key)
    old, new = torch.exp(largest - decay - then), torch.exp(key - then)
    return found, WKVState(old * above + new * value, old * below + new, then)


def wkv(
    key: Float[Tensor, "B T D"],
    value: Float[Tensor, "B T D"],
    decay: Float[Tensor, " D"],
    bonus: Float[Tensor, " D"],
    state: WKVState,
) -> tuple[Float[Tensor, "B T D"], WKVState]:
    """Return wkv_t for all steps, computed a few steps at a time, and the sums with which the next step continues."""
    found = []
    for keys, values in zip(torch.split(key, PIECE, dim=1), torch.split(value, PIECE, dim=1), strict=True):
        output, state = _piece(keys, values, decay, bonus, state)
        found.append(output)
    return torch.cat(found, dim=1), state


def _piece(key: Tensor, value: Tensor, decay: Tensor, bonus: Tensor, state: WKVState) -> tuple[Tensor, WKVState]:
    above, below, largest = state
    steps = torch.arange(key.shape[1], device=key.device)
    lag = (steps[:, None] - 1 - steps).to(key.dtype)  # how many steps before the last one
    # The exponent of every earlier step i seen from t, and of t itself: (B, T, T, D).
    exponent = key.unsqueeze(1) - lag.clamp(min=0)[..., None] * decay
    itself = (lag == -1)[..., None]
    exponent = torch.where(itself, key.unsqueeze(1) + bonus, exponent).masked_fill((lag < -1)[..., None], -torch.inf)
    before = largest.unsqueeze(1) - steps[:, None].to(key.dtype) * decay  # of all that came before the piece
    top = torch.maximum(exponent.amax(dim=2), before).detach()
    weights, old = torch.exp(exponent - top.unsqueeze(2)), torch.exp(before - top)
    numerator = torch.einsum("btid,bid->btd", weights, value) + old * above.unsqueeze(1)
    denominator = weights.sum(dim=2) + old * below.unsqueeze(1)
    # The sums as the step after the piece reads them.
    left = key - (len(steps) - 1 - steps)[:, None].to(key.dtype) * decay
    gone = largest - len(steps) * decay
    then = torch.maximum(left.amax(dim=1), gone).detach()
    shares, old = torch.exp(left - then.unsqueeze(1)), torch.exp(gone - then)
    after = WKVState((shares * value).sum(dim=1) + old * above, shares.sum(dim=1) + old * below, then)
    return numerator / denominator, after


def _shifted(x: Float[Tensor, "B T D"], last: Float[Tensor, "B D"]) -> Float[Tensor, "B T D"]:
    """Return x shifted by one step: each step gets the one before it, and the first gets ``last``."""
    if last.shape != (len(x), x.shape[-1]):
        raise ShapeError(
            f"Expected last, the previous input, of shape {(len(x), x.shape[-1])}, got {tuple(last.shape)}."
        )
    return torch.cat([last.unsqueeze(1), x[:, :-1]], dim=1)


class TimeMixing(nn.Module):
    """``o = W_o (σ(r) ⊙ wkv)``, where r, k and v are ``W x̃``, each with its own W and its own mixture x̃."""

    def __init__(self, width: int) -> None:
        super().__init__()
        channel = torch.linspace(0, 1, width)
        self.mix = nn.Parameter(torch.stack([channel.sqrt(), channel, channel]))  # μ of r, k, v
        self.log_decay = nn.Parameter(-5 + 8 * channel**0.7)  # from about 150 steps to less than one
        self.bonus = nn.Parameter(torch.full((width,), -1.2))
        self.receptance, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(
        self, x: Float[Tensor, "B T D"], last: Float[Tensor, "B D"], sums: WKVState
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D"], WKVState]:
        """Return the output of each step, and the state that the next step needs: the last input and the sums."""
        before = _shifted(x, last)
        to_r, to_k, to_v = (before + mix * (x - before) for mix in self.mix)
        gate, key, value = torch.sigmoid(self.receptance(to_r)), self.key(to_k), self.value(to_v)
        decay = torch.exp(self.log_decay)
        if x.shape[1] == 1:
            found, sums = wkv_step(key[:, 0], value[:, 0], decay, self.bonus, sums)
            found = found.unsqueeze(1)
        else:
            found, sums = wkv(key, value, decay, self.bonus, sums)
        return self.output(gate * found), x[:, -1], sums


class ChannelMixing(nn.Module):
    """``σ(r) ⊙ W_v (max(k, 0)²)``, where r and k are ``W x̃``, each with its own W and its own mixture x̃."""

    def __init__(self, width: int, hidden_width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.linspace(0, 1, width).repeat(2, 1))  # μ of r, k
        self.receptance = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, hidden_width, bias=False)
        self.value = nn.Linear(hidden_width, width, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], last: Float[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D"]]:
        before = _shifted(x, last)
        to_r, to_k = (before + mix * (x - before) for mix in self.mix)
        output: Tensor = torch.sigmoid(self.receptance(to_r)) * self.value(torch.relu(self.key(to_k)).square())
        return output, x[:, -1]
