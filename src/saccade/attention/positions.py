"""Positions: how a network that does not read in order is told where each word is (lectures 002 and 004).

A table has a vector for each position, which is added to the input (lecture 004) or concatenated with it (lecture
002); rotary positions rotate queries and keys; ALiBi and relative positions add a bias to the scores.

=====================  ===============================================================  ======================
``LinearPositions``    ``PE(pos) = (a·pos + b) · u``, u a learned direction             002
``Sinusoidal``         ``sin(pos / 10000^(2i/D))`` and ``cos`` of the same              Vaswani 2017, §3.5
``Learned``            a row of a table                                                 Gehring 2017
``Rotary``             pairs of q and k rotated by ``pos / 10000^(2i/D)``               Su 2021, eq. 34
``ALiBi``              ``-slope_h · |row - column|`` added to the score                 Press 2022
``RelativePositions``  a learned number for each distance and head, added to the score  Raffel 2020, §2.1
=====================  ===============================================================  ======================
"""

from __future__ import annotations

import functools
import math
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention.equation import Bias
from saccade.attention.tracing import is_traced
from saccade.errors import OptionError, PositionError, ShapeError

__all__ = [
    "ALiBi",
    "Learned",
    "LinearPositions",
    "PositionTable",
    "RelativePositions",
    "Rotary",
    "RotaryScaling",
    "Sinusoidal",
]

How = Literal["add", "concatenate"]

#: The sines and cosines of this many first positions are kept: 1 MB for vectors of width 128.
KEPT_POSITIONS = 2048


class PositionTable(nn.Module):
    """Base class for positions that are vectors, added to or concatenated with the input."""

    def __init__(self, width: int, how: How = "add") -> None:
        super().__init__()
        if width < 1:
            raise OptionError(f"Position vectors must have a width of at least 1, not {width}.")
        if how not in get_args(How):
            raise OptionError(f"how must be {' or '.join(map(repr, get_args(How)))}, not {how!r}.")
        self.width = width
        self.how = how

    def table(self, first: int, length: int) -> Float[Tensor, "N D"]:
        """Return the vectors of the ``length`` positions from ``first`` on."""
        raise AssertionError("subclasses must implement table()")

    def forward(self, x: Float[Tensor, "*B N D"], first: int = 0) -> Float[Tensor, "*B N E"]:
        """Add or concatenate the vectors of the positions to the input, whose first vector has position ``first``."""
        table = self.table(first, x.shape[-2]).to(x.dtype)
        if self.how == "concatenate":
            return torch.cat([x, table.expand(*x.shape[:-1], -1)], dim=-1)
        if x.shape[-1] != self.width:
            raise ShapeError(
                f"Positions of width {self.width} need an input of the same width; it has width {x.shape[-1]}."
            )
        return x + table


class LinearPositions(PositionTable):
    """``PE(pos) = (slope·pos + offset) · u`` (lecture 002), which grows without bound.

    The lecture has one number ``a·pos + b``, which needs a direction u in the input space. If the same number were
    added to every dimension, a layer norm would subtract it again with the mean, and the model would not see it. So u
    is learned if ``how`` is "add". If it is "concatenate", positions have dimensions of their own, and u is all ones.
    """

    direction: Tensor

    def __init__(self, width: int, how: How = "add", slope: float = 1.0, offset: float = 0.0) -> None:
        super().__init__(width, how)
        self.slope = slope
        self.offset = offset
        if how == "add":
            self.direction = nn.Parameter(torch.empty(width))
            nn.init.normal_(self.direction, std=0.02)
        else:
            self.register_buffer("direction", torch.ones(width), persistent=False)

    def table(self, first: int, length: int) -> Tensor:
        position = torch.arange(first, first + length, device=self.direction.device, dtype=torch.float32)
        return torch.outer(self.slope * position + self.offset, self.direction.float())


class Sinusoidal(PositionTable):
    """``PE(pos, 2i) = sin(pos / 10000^(2i/D))``, ``PE(pos, 2i+1) = cos`` of the same (Vaswani 2017, §3.5).

    ``interleaved=False`` puts all sines before all cosines, as some published models do.
    """

    where: Tensor

    def __init__(self, width: int, how: How = "add", base: float = 10000.0, interleaved: bool = True) -> None:
        super().__init__(width, how)
        self.interleaved = interleaved
        self.base = base
        self.register_buffer("where", torch.zeros(0), persistent=False)  # carries the device

    def table(self, first: int, length: int) -> Tensor:
        sine, cosine = _sines(first, length, self.width, self.base, self.where.device, torch.float32)
        if not self.interleaved:
            return torch.cat([sine, cosine[:, : self.width // 2]], dim=-1)
        return torch.stack([sine, cosine], dim=-1).flatten(-2)[:, : self.width]


class Learned(PositionTable):
    """A learned vector for each position, up to a fixed number of positions (Gehring 2017)."""

    def __init__(self, width: int, max_length: int, how: How = "add", skipped: int = 0) -> None:
        """Make a table whose first ``skipped`` rows are not used, as in some published models."""
        super().__init__(width, how)
        self.skipped = skipped
        self.weight = nn.Parameter(torch.empty(skipped + max_length, width))
        nn.init.normal_(self.weight, std=0.02)

    def table(self, first: int, length: int) -> Tensor:
        if first + length > len(self.weight) - self.skipped:
            raise PositionError(
                f"This model has {len(self.weight) - self.skipped} learned positions; the input needs "
                f"{first + length}. Shorten it, or train with sinusoidal, rotary or alibi positions."
            )
        return self.weight[self.skipped + first : self.skipped + first + length]


class RotaryScaling(NamedTuple):
    """How the rotation is slowed down, so that a model can read longer texts than it was first trained on.

    A rate is the angle by which a pair of dimensions is rotated from one position to the next. All rates are divided
    by ``factor`` (Chen 2023) or, with ``bands``, only the slow ones (Llama 3.1, Dubey 2024): those that make fewer
    than ``bands[0]`` full turns within ``trained_length`` positions are divided, those that make more than ``bands[1]``
    stay as they are, and between the two the change is gradual.
    """

    factor: float
    bands: tuple[float, float] | None = None
    trained_length: int = 0

    def apply(self, rate: Float[Tensor, " D"]) -> Float[Tensor, " D"]:
        if self.bands is None:
            return rate / self.factor
        low, high = self.bands
        turns = self.trained_length * rate / (2 * math.pi)
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return kept * rate + (1 - kept) * rate / self.factor


class Rotary(nn.Module):
    """Rotates each pair of dimensions of q and k by an angle that grows with the position (Su 2021, eq. 34).

    The product of a query and a key then depends only on their content and distance. A pair is (i, i + D/2), or
    (2i, 2i+1) with ``interleaved``. Some published models use the first layout and some the second; they differ only
    in the order of the dimensions.
    """

    def __init__(
        self,
        head_width: int,
        base: float = 10000.0,
        interleaved: bool = False,
        turned_width: int | None = None,
        scaling: RotaryScaling | None = None,
    ) -> None:
        super().__init__()
        self.turned_width = head_width if turned_width is None else turned_width
        if self.turned_width % 2 or not 0 < self.turned_width <= head_width:
            raise OptionError(
                f"Rotary positions rotate an even number of dimensions, at most the head's {head_width}; "
                f"not {self.turned_width}."
            )
        self.head_width = head_width
        self.base = base
        self.interleaved = interleaved
        self.scaling = scaling

    def forward(self, x: Float[Tensor, "B H N D"], first: int = 0) -> Float[Tensor, "B H N D"]:
        if x.shape[-1] != self.head_width:
            raise ShapeError(f"Rotary positions were made for heads of width {self.head_width}; got {x.shape[-1]}.")
        # Half precision is too coarse for the sine of the angle: rotate in float32 at least.
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        sine, cosine = _sines(first, x.shape[-2], self.turned_width, self.base, x.device, dtype, self.scaling)
        turned = x[..., : self.turned_width].to(dtype)
        if self.interleaved:
            left, right = turned[..., 0::2], turned[..., 1::2]
        else:
            left, right = turned.chunk(2, dim=-1)
        pair = (left * cosine - right * sine, left * sine + right * cosine)
        turned = torch.stack(pair, dim=-1).flatten(-2) if self.interleaved else torch.cat(pair, dim=-1)
        return torch.cat([turned.to(x.dtype), x[..., self.turned_width :]], dim=-1)


class ALiBi(Bias):
    """``-slope_h · |row - column|`` added to the score: nearer keys score higher, with one slope per head.

    The slopes are ``2^(-8/H), 2^(-16/H), ...`` (Press 2022, section 3). If H is not a power of two, they are the
    slopes of the next lower power, followed by every second slope of the next higher power.
    """

    is_fixed = True

    def __init__(self, num_heads: int) -> None:
        super().__init__(self._bias)
        if num_heads < 1:
            raise OptionError(f"ALiBi needs at least 1 head, not {num_heads}.")
        self.slopes = _slopes(num_heads)

    def check(self, num_heads: int) -> None:
        if num_heads != len(self.slopes):
            raise ShapeError(f"This ALiBi has slopes for {len(self.slopes)} heads, but the query has {num_heads}.")

    def _bias(self, batch: Int[Tensor, ...], head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return -self.slopes.to(row.device)[head] * (row - column).abs()


class RelativePositions(nn.Module):
    """A learned number for each head and each distance between query and key, added to the score (T5, Raffel 2020).

    Each short distance has its own number; longer distances are grouped into ranges that get wider up to
    ``max_distance``, with one number each (``buckets`` numbers in all, for each head). With ``causal``, no number is
    for keys after the query; otherwise half of them are.
    """

    def __init__(self, num_heads: int, buckets: int = 32, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        each = buckets if causal else buckets // 2  # for one direction; half of them are for near distances
        if each < 2 or each // 2 >= max_distance:
            raise OptionError(
                f"Relative positions need at least {2 if causal else 4} buckets of distances, and a max_distance above "
                f"{each // 2}, half the buckets of one direction; got buckets={buckets}, max_distance={max_distance}."
            )
        self.weight = nn.Parameter(torch.empty(buckets, num_heads))
        nn.init.normal_(self.weight, std=0.02)
        self.max_distance = max_distance
        self.causal = causal

    def rule(self) -> Bias:
        """Return a bias rule that adds the current values of the learned numbers to the scores."""
        return _RelativeBias(self.weight, self.max_distance, self.causal)


class _RelativeBias(Bias):
    def __init__(self, weight: Float[Tensor, "buckets H"], max_distance: int, causal: bool) -> None:
        super().__init__(self._bias)
        self.weight = weight
        self.max_distance = max_distance
        self.causal = causal

    def check(self, num_heads: int) -> None:
        if num_heads != self.weight.shape[1]:
            raise ShapeError(
                f"These relative positions are for {self.weight.shape[1]} heads, but the query has {num_heads}."
            )

    def frozen(self) -> Bias:
        return _RelativeBias(self.weight.detach().clone(), self.max_distance, self.causal)

    def _bias(self, batch: Int[Tensor, ...], head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return self.weight[self._bucket(column - row), head]

    def _bucket(self, distance: Int[Tensor, ...]) -> Int[Tensor, ...]:
        """Return the range that a distance belongs to (Raffel 2020, §2.1)."""
        each = len(self.weight) if self.causal else len(self.weight) // 2
        first = 0 if self.causal else (distance > 0) * each
        size = (-distance).clamp(min=0) if self.causal else distance.abs()
        near = each // 2
        ratio = torch.log(size.clamp(min=1).float() / near) / math.log(self.max_distance / near)
        far = (near + (ratio * (each - near)).long()).clamp(max=each - 1)
        return first + torch.where(size < near, size, far)


def _slopes(num_heads: int) -> Float[Tensor, " H"]:
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * (num_heads - power), 2)]
    return torch.tensor(slopes)


def _sines(
    first: int,
    length: int,
    width: int,
    base: float,
    device: torch.device,
    dtype: torch.dtype,
    scaling: RotaryScaling | None = None,
) -> tuple[Float[Tensor, "N D/2"], Float[Tensor, "N D/2"]]:
    """Return the sines and cosines of the angles ``pos · base^(-2i/D)`` of these positions.

    Those of the first positions are kept for later calls, because each step of a decoder needs one row of them.
    """
    if is_traced() or first + length > KEPT_POSITIONS:
        return _computed_sines(first, length, width, base, device, dtype, scaling)
    with torch.inference_mode(False):  # a later training step may use them
        sine, cosine = _kept_sines(0, KEPT_POSITIONS, width, base, device, dtype, scaling)
    return sine[first : first + length], cosine[first : first + length]


def _computed_sines(
    first: int,
    length: int,
    width: int,
    base: float,
    device: torch.device,
    dtype: torch.dtype,
    scaling: RotaryScaling | None,
) -> tuple[Float[Tensor, "N D/2"], Float[Tensor, "N D/2"]]:
    angle = _angles(first, length, width, base, device, scaling)
    return torch.sin(angle).to(dtype), torch.cos(angle).to(dtype)


_kept_sines = functools.lru_cache(maxsize=8)(_computed_sines)


def _angles(
    first: int, length: int, width: int, base: float, device: torch.device, scaling: RotaryScaling | None = None
) -> Float[Tensor, "N D/2"]:
    """Compute ``pos · base^(-2i/D)`` in float64: at position 100,000 a float32 angle is off by a hundredth.

    The angles are not kept in a buffer of the module, because ``model.half()`` would round it.
    """
    exact = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
    rate = base ** (-torch.arange(0, width, 2, device=device, dtype=exact) / width)
    rate = rate if scaling is None else scaling.apply(rate)
    return torch.outer(torch.arange(first, first + length, device=device, dtype=exact), rate)
