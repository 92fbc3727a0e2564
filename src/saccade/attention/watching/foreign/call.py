"""A call of torch's ``scaled_dot_product_attention``, translated into a ``Call`` of ours."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.masks import Mask, causal, dense
from saccade.attention.scores import ScaledDot
from saccade.attention.weights import Softmax

__all__ = ["FlooredSoftmax", "call_of_sdpa", "has_no_numbers", "softmax_of"]

NO_NUMBERS = "its queries are a nested or meta tensor, or one within torch.func, which has no rows of numbers to show"

#: Scores below this one are those of forbidden keys, whose mask is made of large negative numbers.
FLOOR = -1e5


class FlooredSoftmax(Softmax):
    """Softmax of scores with large negative numbers added, as others write "may not attend".

    Beside such a number (often the least of float32) a score is lost by rounding, so that a row of nothing else has
    equal weights. So it has here: all such scores are one, small enough that its logarithms of sums keep their digits.
    """

    def statistic(self, scores: Float[Tensor, "B H Q K"]) -> Shaped[Tensor, "B H Q 1"]:
        return super().statistic(_floored(scores))

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return super().apply(_floored(scores), statistic, first_column)


def _floored(scores: Tensor) -> Tensor:
    return torch.where(scores == float("-inf"), scores, scores.clamp(min=FLOOR))


def softmax_of(bias: Tensor | None) -> Softmax:
    """The weights of torch's attention with this mask of numbers."""
    return Softmax() if bias is None else FlooredSoftmax()


def call_of_sdpa(
    query: Float[Tensor, "*BH Q D"],
    key: Float[Tensor, "*BG K D"],
    value: Float[Tensor, "*BG K E"],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Call | str:
    """A call of ``scaled_dot_product_attention`` as ours, or why it cannot be told.

    Its causal flag counts rows and columns from the first query and key of the call ("top-left"), as ours does with
    ``first_row`` 0. Its mask is boolean (True = may attend), or added to the scores: a bias.
    """
    if query.is_nested or has_no_numbers(query):
        return NO_NUMBERS
    ndim = query.ndim
    leading = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])  # type: ignore[no-untyped-call]
    query, key = (_four_dimensional(_as_autocast(part), ndim, leading) for part in (query, key))
    batch = max(query.shape[0], key.shape[0])  # torch broadcasts a batch of 1
    query, key = query.expand(batch, -1, -1, -1), key.expand(batch, -1, -1, -1)
    if query.shape[1] % key.shape[1]:  # one query head for several key heads
        query = query.expand(-1, key.shape[1], -1, -1)
    mask: Mask | None = causal if is_causal else None
    bias: Tensor | None = None
    if attn_mask is not None:
        given = unrepeated(_four_dimensional(attn_mask, ndim, leading))
        if given.dtype == torch.bool:
            mask = dense(given) if mask is None else mask & dense(given)
        else:
            bias = given
    return Call(query, ungrouped(key), ScaledDot(scale), softmax_of(bias), mask, bias)


def has_no_numbers(tensor: Tensor) -> bool:
    """Whether this stands for numbers that do not exist yet (meta), or will not outlive its function (torch.func)."""
    return tensor.is_meta or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _four_dimensional(tensor: Tensor, ndim: int, leading: tuple[int, ...]) -> Tensor:
    """(batch, heads, ...) of a tensor that stands beside queries of ``ndim`` dimensions, ``leading`` of the batch."""
    if ndim == 3 and tensor.ndim == 3:  # (batch, positions, width): one head
        return tensor.unsqueeze(1)
    tensor = tensor.reshape((1,) * (max(4, ndim) - tensor.ndim) + tuple(tensor.shape))
    return tensor if ndim <= 4 else tensor.expand(*leading, -1, -1, -1).flatten(0, -4)


def _as_autocast(tensor: Tensor) -> Tensor:
    """What the kernel is given where torch casts its arguments."""
    device = tensor.device.type
    if torch.is_autocast_enabled(device) and tensor.dtype != torch.float64:
        return tensor.to(torch.get_autocast_dtype(device))
    return tensor


def unrepeated(mask: Float[Tensor, "#B #H #Q #K"] | Bool[Tensor, "#B #H #Q #K"]) -> Tensor:
    """A mask without the repetition of ``expand``, so that a copy of it is no larger than what was expanded."""
    for dimension, (size, stride) in enumerate(zip(mask.shape, mask.stride(), strict=True)):
        if size > 1 and stride == 0:
            mask = mask.narrow(dimension, 0, 1)
    return mask


def ungrouped(key: Float[Tensor, "B H K D"]) -> Float[Tensor, "B G K D"]:
    """Keys without the copies that were made of each for a group of query heads."""
    heads = key.shape[1]
    for group in sorted((size for size in range(2, heads + 1) if heads % size == 0), reverse=True):
        first = key[:, ::group]
        # One number of each key tells most that differ, at little cost.
        if all(
            torch.equal(key[..., cut][:, copy::group], first[..., cut])
            for cut in (slice(1), slice(None))
            for copy in range(1, group)
        ):
            return first
    return key
