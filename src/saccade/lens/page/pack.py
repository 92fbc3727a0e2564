"""Store many matrices of weights in few bytes: exactly, or rounded to a step that the page states.

Compressed float32 is exact and takes about 3½ bytes per weight. If that is too much, a weight w is stored as the whole
number ``round(w / step)``, and the page shows the exact weight rounded to the step. Most of these numbers are
predicted from the scores, a product of two thin matrices,

    w'[i, j] = exp(left[i] · right[j] · grain² + offset[i]),

where ``left`` and ``right`` are the two matrices divided by a small number, the grain, and rounded to whole numbers.
Only the residuals ``round(w / step) - round(w' / step)`` are stored; they are mostly zeros, which compress well. The
page must compute exactly the same w' in JavaScript, to the last bit. It does, because Python and JavaScript use only
operations that IEEE 754 defines exactly: sums, products and ``floor``, from which the exponential is computed too.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade.attention.watching.overview import ReportProgress
from saccade.errors import TooLargeError
from saccade.lens.colours import Array

__all__ = ["STEPS", "Matrix", "Pack", "PackedMatrix", "pack"]

#: The steps to which weights can be rounded, from the finest to the coarsest; None stores float32.
STEPS: tuple[float | None, ...] = (None, 1e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2)

_HOPE = 1.03  # content that exceeds the limit by this factor may fit if it is compressed harder
_TRIED = 6  # number of matrices from which the size of all is estimated
_GRAINS = [0.01 * 1.6**power for power in range(-12, 13)]
_FIRST_GRAIN = _GRAINS.index(0.01)
_GRAIN_ROWS = 64  # number of rows by which a grain is chosen
_ESCAPE = 255
_LOWEST_POWER = -40  # lowest power of 2; a smaller prediction rounds to 0 at any step
#: The powers of 2 from the lowest to 2^1, followed by 0 for all lower powers.
_POWERS = np.append(np.exp2(np.arange(_LOWEST_POWER, 2, dtype=np.float64)), 0.0)
_LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453
_TERMS = 11  # terms of the exponential series; enough for 1e-15 within ±ln(2)/2


@dataclass(frozen=True)
class Matrix:
    """Exact weights, with the queries and keys as ``factors`` if the scores are a product of queries and keys."""

    weights: Float[np.ndarray, "Q K"]  # float32
    factors: tuple[Float[np.ndarray, "Q D"], Float[np.ndarray, "K D"]] | None = None


@dataclass(frozen=True)
class PackedMatrix:
    """One compressed matrix, and the numbers needed to decompress it."""

    content: bytes
    rank: int = 0  # the width of the two factors, which is 0 if all of them round to 0
    grain: float = 0.0  # the grain of the factors; 0 if nothing is predicted


@dataclass(frozen=True)
class Pack:
    """All compressed matrices, rounded to the finest ``step`` at which they fit on the page (None: not rounded)."""

    step: float | None
    matrices: list[PackedMatrix]

    @property
    def texts(self) -> list[str]:
        return [base64.b64encode(stored.content).decode("ascii") for stored in self.matrices]


def pack(matrices: Sequence[Matrix], limit: int, progress: ReportProgress | None = None) -> Pack:
    """Compress the matrices, rounded to the finest step at which their base64 takes at most ``limit`` characters."""
    tried = matrices[:: max(1, len(matrices) // _TRIED)]
    for step in STEPS:
        if _fitting(_store(tried, step), limit * len(tried) // len(matrices)) is None:
            continue
        stored = _fitting(_store(matrices, step, progress), limit)
        if stored is not None:
            return Pack(step, stored)
        progress = None  # the next attempt would start from 0 again
    count = sum(matrix.weights.size for matrix in matrices)
    raise TooLargeError(
        f"The page would hold {count:,} weights, which do not fit into {limit:,} bytes even when rounded to "
        f"{STEPS[-1]}; choose fewer attentions or heads, or draw an overview()."
    )


def _num_characters(stored: Sequence[PackedMatrix]) -> int:
    return sum(-(-len(one.content) // 3) * 4 for one in stored)


def _fitting(stored: list[PackedMatrix], limit: int) -> list[PackedMatrix] | None:
    """Return the matrices if they fit, if necessary after compressing them harder, which takes ten times as long."""
    if limit < _num_characters(stored) <= limit * _HOPE:
        stored = [_tighter(one) for one in stored]
    return stored if _num_characters(stored) <= limit else None


def _store(
    matrices: Sequence[Matrix], step: float | None, progress: ReportProgress | None = None
) -> list[PackedMatrix]:
    stored = []
    grain = _FIRST_GRAIN
    for matrix in matrices:
        if step is None:
            stored.append(PackedMatrix(_deflate(_planes(matrix.weights))))
        else:
            codes = np.floor(matrix.weights.astype(np.float64) * _per_step(step) + 0.5)
            best = PackedMatrix(_deflate(_whole_numbers(codes)))
            if matrix.factors is not None:
                left, right = _balanced(*matrix.factors)
                grain = _best_grain(codes, matrix.weights > 0, left, right, grain, step)
                predicted = _store_residuals(codes, matrix.weights > 0, left, right, _GRAINS[grain], step)
                best = min(best, predicted, key=lambda one: len(one.content))
            stored.append(best)
        if progress is not None:
            progress(len(stored) / len(matrices))
    return stored


def _per_step(step: float) -> int:
    return round(1 / step)


def _balanced(queries: Array, keys: Array) -> tuple[Float[np.ndarray, "R Q"], Float[np.ndarray, "R K"]]:
    """Return two factors of similar size whose product is the scores minus a number per row, strongest direction first.

    The part that all keys share adds the same number to every score of a row, which does not change the softmax.
    """
    left_basis, left = np.linalg.qr(queries.astype(np.float64))
    right_basis, right = np.linalg.qr(keys.astype(np.float64) - keys.mean(axis=0, dtype=np.float64))
    turn, strength, turn_back = np.linalg.svd(left @ right.T)
    rank = len(strength)
    root = np.sqrt(strength)
    return (left_basis @ (turn[:, :rank] * root)).T, (right_basis @ (turn_back[:rank].T * root)).T


def _best_grain(
    codes: Array, allowed: Bool[np.ndarray, "Q K"], left: Array, right: Array, start: int, step: float
) -> int:
    """Return the grain that takes the fewest bytes for a sample of rows; ``start`` is that of the previous matrix."""
    apart = max(1, len(codes) // _GRAIN_ROWS)

    @cache
    def size(grain: int) -> int:
        some = _Prediction.of(codes[::apart], allowed[::apart], left[:, ::apart], right, _GRAINS[grain], step)
        parts = (*some.factors, some.residuals)
        of_rows, of_keys, residuals = (len(_deflate(_whole_numbers(part))) for part in parts)
        return apart * (of_rows + residuals) + of_keys

    while (best := min((start, max(0, start - 1), min(start + 1, len(_GRAINS) - 1)), key=size)) != start:
        start = best
    return start


class _Prediction(NamedTuple):
    """The factors in multiples of a grain, and the residuals of the numbers predicted from them."""

    factors: tuple[Array, Array]
    offsets: Float[np.ndarray, " Q"]
    residuals: Array

    @classmethod
    def of(
        cls, codes: Array, allowed: Bool[np.ndarray, "Q K"], left: Array, right: Array, grain: float, step: float
    ) -> _Prediction:
        left, right = np.rint(left / grain), np.rint(right / grain)
        used = (left != 0).any(axis=1) & (right != 0).any(axis=1)
        left, right = left[used], right[used]
        scores = left.T @ right * (grain * grain)  # a product of whole numbers is exact in any order
        offsets = _offsets(scores, allowed)
        scores += offsets.astype(np.float64)[:, None]
        expected = np.floor(exponential(scores) * _per_step(step) + 0.5)
        return cls((left, right), offsets, codes - np.where(allowed, expected, 0))


def _store_residuals(
    codes: Array, allowed: Bool[np.ndarray, "Q K"], left: Array, right: Array, grain: float, step: float
) -> PackedMatrix:
    (left, right), offsets, residuals = _Prediction.of(codes, allowed, left, right, grain, step)
    content = offsets.tobytes() + np.packbits(allowed).tobytes()
    content += _whole_numbers(np.concatenate([left.ravel(), right.ravel(), residuals.ravel()]))
    return PackedMatrix(_deflate(content), rank=len(left), grain=grain)


def _offsets(scores: Array, allowed: Bool[np.ndarray, "Q K"]) -> Float[np.ndarray, " Q"]:
    """Return the negative log-sum-exp of each row, or 0 if no key is allowed."""
    masked = np.where(allowed, scores, -np.inf)
    largest = np.where(allowed.any(axis=1), masked.max(axis=1, initial=-np.inf), 0)
    total = np.exp(masked - largest[:, None]).sum(axis=1)
    logarithms = np.log(np.maximum(total, 1e-300))
    offsets: Float[np.ndarray, " Q"] = np.where(total > 0, -largest - logarithms, 0).astype("<f4")
    return offsets


def exponential(x: Array) -> Array:
    """Compute exp(x) as 2^n · Σ r^k / k! with x = n · ln 2 + r, by the same operations as the page's ``weights.js``."""
    power = np.floor(x * _LOG2_E + 0.5)
    rest = x - power * _LN_2
    series = np.ones_like(x)
    for term in range(_TERMS, 0, -1):
        series *= rest
        series /= term
        series += 1
    series *= _POWERS[np.clip(power - _LOWEST_POWER, -1, 1 - _LOWEST_POWER).astype(np.intp)]
    return series


def _whole_numbers(numbers: Array) -> bytes:
    """Encode 0, -1, 1, -2, 2, ... as the bytes 0, 1, 2, 3, 4, ...; larger numbers follow in four bytes each."""
    whole = numbers.ravel().astype(np.int64)
    folded = np.where(whole >= 0, 2 * whole, -2 * whole - 1)
    large = folded[folded >= _ESCAPE].astype("<u4")
    return np.minimum(folded, _ESCAPE).astype(np.uint8).tobytes() + _planes(large)


def _planes(numbers: Float[np.ndarray, "*shape"] | Int[np.ndarray, "*shape"]) -> bytes:
    """Write all first bytes, then all second bytes, and so on: similar bytes stand together and compress better."""
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return np.ascontiguousarray(little).view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def _deflate(content: bytes) -> bytes:
    """Compress only runs of equal bytes, because little else repeats in such numbers, and a full search is slow."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS, memLevel=9, strategy=zlib.Z_RLE)
    return packer.compress(content) + packer.flush()


def _tighter(stored: PackedMatrix) -> PackedMatrix:
    """Compress harder, with a full search for repetitions."""
    packer = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS, memLevel=9)
    content = packer.compress(zlib.decompress(stored.content, wbits=-zlib.MAX_WBITS)) + packer.flush()
    return min(stored, replace(stored, content=content), key=lambda one: len(one.content))
