"""Dropout (Srivastava 2014): training sets a fraction of the numbers to 0 and scales the rest up to keep the mean.

torch draws one random number for each entry, which on a CPU takes longer than the layer before it. Here, on a CPU, one
random number of 64 bits serves four entries, with 16 bits each, so the fraction is exact to 1/65536.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["dropout"]

STEPS = 1 << 16  # number of values in 16 bits


def dropout(x: Float[Tensor, "*N"], share: float, training: bool) -> Float[Tensor, "*N"]:
    """Set a random fraction ``share`` of x to 0 and divide the rest by 1 - ``share``; outside training, return x
    itself."""
    if not training or share == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    lowest = round(share * STEPS) - STEPS // 2
    kept = (_sixteen_bits(x.numel()) >= lowest).to(x.dtype).mul_(1 / (1 - share))
    return x * kept.view(x.shape)


def _sixteen_bits(count: int) -> Int[Tensor, " N"]:
    """Uniform integers from -32768 to 32767, from torch's default generator."""
    draws = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return draws.view(torch.int16)[:count]
