"""Translates a call of torch's ``scaled_dot_product_attention`` into a ``Call``, Saccade's record of such a call."""

from __future__ import annotations

import sys

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.masks import Mask, causal, dense
from saccade.attention.scores import ScaledDot
from saccade.attention.watching.reach import FORBIDDEN
from saccade.attention.weights import Softmax

__all__ = ["SDPA", "RoundedSoftmax", "autocast", "call_of_sdpa", "has_no_numbers", "softmax_of", "unrepeated"]

#: Torch's original function, even if someone has replaced it in ``torch.nn.functional``.
SDPA = torch._C._nn.scaled_dot_product_attention

NO_NUMBERS = (
    "its queries are a nested tensor, a meta tensor, or a tensor inside torch.func or torch.jit.trace, and such "
    "tensors have no rows of numbers to show"
)

FIVE_DIMENSIONS = "its queries have {} dimensions, so it is unclear which dimension is the heads"
SUBCLASS = "its {} is a {}, a kind of tensor whose numbers only its own class can read"

#: Neighbouring float32 numbers of this size are 64 apart, so that a score that is added to one of them is lost.
COARSE = 1e9
HUGE = 1e12


class RoundedSoftmax(Softmax):
    """Softmax of scores in which a large negative number, added by a mask, stands for "may not attend".

    Adding such a number rounds off the last digits of a score, and adding the lowest float32 rounds off all of them.
    That does not matter in a row that has an allowed key. In a row without an allowed key, the weights depend only on
    the rounded scores, so they are rounded here to float32 as the kernel does. Scores below -``COARSE`` are replaced by
    scores nearer to it in the same order, because the log-sum-exp of larger numbers would be too coarse. Equal scores
    stay equal; different ones stay so far apart that only the highest of them has a weight.
    """

    needs_double = True

    def __init__(self, is_double: bool) -> None:
        self._is_double = is_double  # a kernel that computes in float64 needs no rounding to float32

    def statistic(self, scores: Float[Tensor, "B H Q K"]) -> Shaped[Tensor, "B H Q 1"]:
        return super().statistic(self._rounded(scores))

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return super().apply(self._rounded(scores), statistic, first_column)

    def _rounded(self, scores: Tensor) -> Tensor:
        if self._is_double:
            return torch.where(scores == float("-inf"), scores, scores.clamp(min=-COARSE))
        return _rounded(scores)


def _rounded(scores: Tensor) -> Tensor:
    as_kernel = scores.float().clamp(min=torch.finfo(torch.float32).min)
    # The bits of a float32, read as a whole number, count float32 numbers. Between -COARSE and -HUGE, neighbouring
    # numbers become 40 apart. Below -HUGE, where masks were added to masks, only six binary digits of a number count.
    below, far_below = (
        as_kernel.clamp(max=limit).view(torch.int32) - torch.tensor(limit, device=scores.device).view(torch.int32)
        for limit in (-COARSE, -HUGE)
    )
    places = below - far_below + (far_below >> 17)
    replaced = torch.where(places > 0, -COARSE - 40.0 * places.to(scores.dtype), as_kernel.to(scores.dtype))
    return torch.where((scores > FORBIDDEN) | (scores == float("-inf")), scores, replaced)


def softmax_of(bias: Tensor | None) -> Softmax:
    """Return the softmax that torch's attention applies if ``bias`` is added to its scores."""
    return Softmax() if bias is None else RoundedSoftmax(bias.dtype == torch.float64)


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
    """Translate a call of ``scaled_dot_product_attention`` to a ``Call``, or return the reason why it cannot be shown.

    ``is_causal`` counts rows and columns from the first query and key of the call ("top-left"), as Saccade does with
    ``first_row`` 0. ``attn_mask`` is boolean (True = may attend), or a bias: numbers that are added to the scores.
    """
    if query.is_nested or has_no_numbers(query):
        return NO_NUMBERS
    # Importing this module takes as long as importing torch. A caller with such a mask has imported it already.
    masks = sys.modules.get("torch.nn.attention.bias")
    if masks is not None and isinstance(attn_mask, masks.CausalBias):
        attn_mask = attn_mask._materialize(query.device)
    for what, tensor in (("query", query), ("key", key), ("mask", attn_mask)):
        if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer, type(None)):
            return SUBCLASS.format(what, type(tensor).__name__)
    ndim = query.ndim
    if ndim > 4:
        return FIVE_DIMENSIONS.format(ndim)
    device = query.device.type
    if torch.is_autocast_enabled(device):  # convert the tensors as torch does before it calls the kernel
        query, key, value = (autocast(part, device) for part in (query, key, value))
        attn_mask = None if attn_mask is None else autocast(attn_mask, device)
    query, key, value = (_four_dimensional(part, ndim) for part in (query, key, value))
    batch = max(query.shape[0], key.shape[0], value.shape[0])  # torch broadcasts a batch of 1
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        query, key, value = (part.expand(batch, -1, -1, -1) for part in (query, key, value))
    heads = max(key.shape[1], value.shape[1])
    if not query.shape[1] or not heads or not query.shape[3]:
        return "it has no heads, or heads of width 0"
    if query.shape[1] == 1 and heads > 1:  # one query head for several heads of keys or values
        query = query.expand(-1, heads, -1, -1)
    mask: Mask | None = causal if is_causal else None
    bias: Tensor | None = None
    if attn_mask is not None:
        given = unrepeated(_four_dimensional(attn_mask, ndim))
        if given.dtype == torch.bool:
            mask = dense(given) if mask is None else mask & dense(given)
        else:
            bias = given
    rules = (ScaledDot(scale), softmax_of(bias), mask, bias)
    return Call(query, ungrouped(key), *rules, value=value, has_dropout=dropout_p > 0)


def autocast(tensor: Tensor, device: str) -> Tensor:
    """Return the tensor converted to the type that autocast would give it."""
    is_changed = tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(torch.get_autocast_dtype(device)) if is_changed else tensor


def has_no_numbers(tensor: Tensor) -> bool:
    """Return whether a tensor has no readable numbers: a meta tensor, or one inside torch.func or torch.jit.trace."""
    is_traced = torch._C._get_tracing_state() is not None
    return tensor.is_meta or is_traced or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _four_dimensional(tensor: Tensor, ndim: int) -> Tensor:
    """Reshape a tensor that is used with queries of ``ndim`` dimensions to (batch, heads, ...)."""
    if tensor.ndim == 4:
        return tensor
    if ndim == 3 and tensor.ndim == 3:  # (batch, positions, width): one head
        return tensor.unsqueeze(1)
    return tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))


def unrepeated(tensor: Tensor) -> Tensor:
    """Return a tensor without the repetition of ``expand``, so that a copy takes no more memory than the original."""
    for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if size > 1 and stride == 0:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def ungrouped(key: Float[Tensor, "B H K D"]) -> Float[Tensor, "B G K D"]:
    """Return keys with one head for each group of query heads, if a group has copies of the same keys; else ``key``."""
    heads = key.shape[1]
    if heads < 2 or not torch.equal(key[:, 0, :1], key[:, 1, :1]):  # a group has at least two heads: cheap to rule out
        return key
    for group in sorted((size for size in range(2, heads + 1) if heads % size == 0), reverse=True):
        first = key[:, ::group]
        # Compare the first number of each key first: this finds most differences at little cost.
        if all(
            torch.equal(key[..., cut][:, copy::group], first[..., cut])
            for cut in (slice(1), slice(None))
            for copy in range(1, group)
        ):
            return first
    return key
