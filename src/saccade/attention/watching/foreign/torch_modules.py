"""Translates torch's own ``nn.MultiheadAttention`` into a ``Call``, by projecting its queries and keys a second time.

In inference, the module may take a fast path: one kernel that shows nothing of what it computes. On its slow path, it
computes the softmax itself if the caller asks for the weights (``need_weights``). All paths compute
``softmax(q·k / √D + masks)`` of the same projections.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import FunctionType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.equation import Call
from saccade.attention.masks import Mask, causal, dense, padding, rule
from saccade.attention.scores import ScaledDot
from saccade.attention.watching.foreign.call import (
    NO_NUMBERS,
    SDPA,
    autocast,
    call_of_sdpa,
    has_no_numbers,
    softmax_of,
)
from saccade.attention.watching.foreign.direct import unwrapped

__all__ = [
    "believes_causal",
    "call_of_function",
    "call_of_kernel",
    "call_of_layer",
    "call_of_module",
    "has_inner_hooks",
    "is_torchs_own",
    "is_turned",
    "may_be_fast",
]

#: Torch's modules that leave their fast path if a torch function mode is active.
FAST = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
#: Torch's function, unless someone replaced it before Saccade was imported.
MULTI_HEAD = F.multi_head_attention_forward
METHODS = {kind: [n for n, f in vars(kind).items() if callable(f) and not n.startswith("__")] for kind in FAST}
FILES = {kind: inspect.getfile(kind) for kind in FAST}

REPLACED = (
    "torch.nn.functional.scaled_dot_product_attention, which torch's module calls, was replaced by another function"
)
HINT = (
    "it was called with is_causal=True and a mask that is not causal, and torch uses one or the other, depending on "
    "the path that it takes"
)
UNKNOWN_KERNEL = "its module is a changed version of torch's, which computes it in a way that does not show its keys"


def is_torchs_own(module: nn.Module) -> bool:
    """Return whether a module computes what torch's code computes: none of its methods or functions was replaced."""
    if not has_own_functions():
        return False
    kind = next(kind for kind in FAST if isinstance(module, kind))
    if "parametrizations" in module._modules:  # each read of a parameter computes it again, perhaps at random
        return False
    for name in METHODS[kind]:
        method = unwrapped(getattr(kind, name))
        is_replaced = name in vars(module) or unwrapped(getattr(type(module), name)) is not method
        if is_replaced or not isinstance(method, FunctionType) or method.__code__.co_filename != FILES[kind]:
            return False
    inner = getattr(module, "self_attn", None)
    return inner is None or (isinstance(inner, nn.MultiheadAttention) and is_torchs_own(inner))


def has_own_functions() -> bool:
    """Return whether the functions that torch's modules call are still torch's own."""
    code = getattr(F.multi_head_attention_forward, "__code__", None)
    return F.scaled_dot_product_attention is SDPA and code is not None and code.co_filename == F.__file__


def may_be_fast(module: nn.Module) -> bool:
    """Return whether torch may take the fast path of this module, which it does only without training and gradients."""
    has_gradients = torch.is_grad_enabled() and any(part.requires_grad for part in module.parameters())
    return not module.training and not has_gradients


def is_turned(module: nn.Module) -> bool:
    """Return whether this module takes inputs of (positions, batch, width) instead of (batch, positions, width)."""
    inner = next((part for part in module.modules() if isinstance(part, nn.MultiheadAttention)), None)
    return inner is not None and not inner.batch_first


def has_inner_hooks(module: nn.Module) -> bool:
    """Return whether a part of this module has hooks, which could change its results without Saccade noticing."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules() if part is not module)


class _Projection(NamedTuple):
    """The projections to queries, keys and values: for each of the three, a weight and a bias."""

    num_heads: int
    weights: tuple[Float[Tensor, "D E"], ...]
    biases: tuple[Float[Tensor, " D"] | None, ...]
    extra: tuple[Float[Tensor, "1 1 D"] | None, ...]  # ``add_bias_kv``: one more learned key and value
    has_zero_key: bool  # ``add_zero_attn``: one more key and value, of zeros


def call_of_module(
    module: nn.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Call | str:
    """Translate a forward pass of the module, or return the reason why it cannot be shown.

    ``is_causal`` is a hint that ``attn_mask`` is causal; torch may rely on it without looking at the mask.
    """
    believes = believes_causal(is_causal, key_padding_mask, need_weights)
    has_fast_path = module.bias_k is None and not module.add_zero_attn
    if believes and has_fast_path and not _is_causal(attn_mask):
        return HINT
    if module.batch_first and query.dim() == 3 and not query.is_nested:
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    projection = _projection(
        module.num_heads,
        module.in_proj_weight,
        weights,
        module.in_proj_bias,
        (module.bias_k, module.bias_v),
        module.add_zero_attn,
    )
    if believes and not has_fast_path:
        attn_mask = None
    call = _call(projection, (query, key, value), key_padding_mask, attn_mask, believes)
    return replace(call, has_dropout=True) if module.training and module.dropout and isinstance(call, Call) else call


def call_of_layer(
    layer: nn.TransformerEncoderLayer,
    src: Tensor,
    src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Call | str:
    """Translate the attention of an encoder layer that ran as one kernel, or return why it cannot be shown."""
    inputs = src
    if layer.norm_first:
        norm = layer.norm1
        with torch.no_grad():
            inputs = F.layer_norm(src, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return call_of_module(layer.self_attn, inputs, inputs, inputs, src_key_padding_mask, attn_mask=src_mask)


def call_of_function(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float = 0.0,
    *others: Any,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    is_causal: bool = False,
    **rest: Any,
) -> Call | str:
    """Translate a call of ``F.multi_head_attention_forward``, or return the reason why it cannot be shown."""
    if F.scaled_dot_product_attention is not SDPA:
        return REPLACED
    if len(others) > 2 or static_k is not None or static_v is not None:
        return (
            "it passes F.multi_head_attention_forward masks as positional arguments, or keys that are already projected"
        )
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    projection = _projection(num_heads, in_proj_weight, weights, in_proj_bias, (bias_k, bias_v), add_zero_attn)
    believes = believes_causal(is_causal, key_padding_mask, need_weights)
    call = _call(projection, (query, key, value), key_padding_mask, None if believes else attn_mask, believes)
    return replace(call, has_dropout=True) if training and dropout_p and isinstance(call, Call) else call


def believes_causal(is_causal: bool, key_padding_mask: Tensor | None, need_weights: bool) -> bool:
    """Return whether torch's function ignores the mask that it is given, and attends causally instead."""
    return is_causal and key_padding_mask is None and not need_weights


def _is_causal(mask: Tensor | None) -> bool:
    """Return whether a mask of torch's modules forbids exactly the keys after each query."""
    if mask is None:
        return False
    later = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).triu(1)
    if mask.dtype != torch.bool:
        later = torch.zeros(later.shape, dtype=mask.dtype, device=mask.device).masked_fill(later, float("-inf"))
    return bool((mask == later).all())


def call_of_kernel(kernel: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Call | str | None:
    """Translate a call of an attention kernel of torch, or return why that is impossible; None for other kernels."""
    aten = torch.ops.aten
    if kernel is aten._native_multi_head_attention.default:
        query, _, _, _, heads, weight, bias, _, _, *rest = arguments
        mask, kind = rest[0] if rest else named.get("mask"), rest[3] if len(rest) > 3 else named.get("mask_type")
        return _call_of_packed(query, heads, weight, bias, mask, kind)
    if kernel is aten._transformer_encoder_layer_fwd.default:
        source, width, heads, weight, bias, _, _, _, norm_first, epsilon, norm_weight, norm_bias = arguments[:12]
        mask, kind = (*arguments[18:], named.get("mask"), named.get("mask_type"))[:2]
        if norm_first:
            source = F.layer_norm(source, (width,), norm_weight, norm_bias, epsilon)
        return _call_of_packed(source, heads, weight, bias, mask, kind)
    if kernel is aten._scaled_dot_product_flash_attention_for_cpu.default:
        return call_of_sdpa(*arguments, **named)
    name = kernel.name().removeprefix("aten::")
    is_softmax = name.startswith(("_softmax", "_safe_softmax")) and arguments[0].ndim >= 3
    return UNKNOWN_KERNEL if name.startswith("_scaled_dot_product") or is_softmax else None


def _call_of_packed(
    query: Tensor, heads: int, weight: Tensor, bias: Tensor, mask: Tensor | None, kind: int | None
) -> Call | str:
    """Translate the call of a kernel that takes (batch, positions, width).

    The mask type (``kind``) is 0 for a mask of scores, 1 for a padding mask, 2 for both.
    """
    projection = _projection(heads, weight, (None,) * 3, bias, (None,) * 2, False)
    if not query.is_nested:
        query = query.transpose(0, 1)
    if kind == 2 and mask is not None:
        mask = mask.expand(query.shape[1], heads, -1, -1).flatten(0, 1)
    return _call(projection, (query,) * 3, mask if kind == 1 else None, None if kind == 1 else mask)


def _projection(
    num_heads: int,
    joint: Tensor | None,
    separate: tuple[Tensor | None, ...],
    bias: Tensor | None,
    extra: tuple[Tensor | None, ...],
    has_zero_key: bool,
) -> _Projection:
    weights = tuple(weight for weight in separate if weight is not None)
    if len(weights) < 3:
        assert joint is not None  # torch needs one or the other, and has run
        weights = joint.chunk(3)
    return _Projection(num_heads, weights, (None,) * 3 if bias is None else bias.chunk(3), extra, has_zero_key)


@torch.no_grad()
def _call(
    projection: _Projection,
    inputs: tuple[Float[Tensor, "N *B E"], ...],
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool = False,
) -> Call | str:
    """Project these inputs to queries, keys and values, and return their call, or the reason why it cannot be shown.

    The inputs are (positions, batch, width) or (positions, width), or nested tensors with the batch first.
    """
    query = inputs[0]
    if has_no_numbers(query):
        return NO_NUMBERS
    mask: Mask | None = causal if is_causal else None
    if query.is_nested:
        lengths = query._nested_tensor_size()[:, 0]
        inputs = (query.to_padded_tensor(0.0).transpose(0, 1),) * 3  # torch has only self-attention for nested tensors
        mask = padding(lengths) & rule(lambda batch, head, row, column: row < lengths[batch])  # no rows past the end
    elif query.dim() == 2:
        inputs = tuple(part.unsqueeze(1) for part in inputs)
    batch, num_keys, heads = inputs[0].shape[1], inputs[1].shape[0], projection.num_heads
    queries, keys, values = map(F.linear, inputs, projection.weights, projection.biases)
    if projection.extra[0] is not None and projection.extra[1] is not None:
        keys, values = (
            torch.cat([part, extra.to(part.dtype).expand(1, batch, -1)])
            for part, extra in zip((keys, values), projection.extra, strict=True)
            if extra is not None
        )
    if projection.has_zero_key:
        keys, values = (torch.cat([part, torch.zeros_like(part[:1])]) for part in (keys, values))
    bias: Tensor | None = None
    if attn_mask is not None:
        attn_mask = (
            attn_mask.view(batch, heads, *attn_mask.shape[1:]) if attn_mask.dim() == 3 else attn_mask[None, None]
        )
        mask, bias = _joined(mask, bias, _wide(attn_mask, keys.shape[0]))
    if key_padding_mask is not None:
        mask, bias = _joined(mask, bias, _wide(key_padding_mask.view(batch, 1, 1, num_keys), keys.shape[0]))
    # All sizes are given, because torch cannot infer one (-1) if the batch is empty.
    query, key, value = (
        part.view(*part.shape[:2], heads, part.shape[-1] // heads).permute(1, 2, 0, 3)
        for part in (queries, keys, values)
    )
    device = query.device.type
    if bias is not None and torch.is_autocast_enabled(device):
        bias = autocast(bias, device)
    return Call(query, key, ScaledDot(), softmax_of(bias), mask, bias, value=value)


def _wide(mask: Tensor, num_keys: int) -> Tensor:
    """Return a mask widened to ``num_keys`` columns; the extra keys, which the module adds itself, are allowed."""
    return mask if mask.shape[-1] == num_keys else F.pad(mask, (0, num_keys - mask.shape[-1]))


def _joined(mask: Mask | None, bias: Tensor | None, given: Tensor) -> tuple[Mask | None, Tensor | None]:
    """Combine a mask of torch's modules with a mask and a bias. Its True forbids a key; its numbers are added.

    (In ``scaled_dot_product_attention``, True allows a key.)
    """
    if given.dtype != torch.bool and given.shape[2] == 1 and not given[given != float("-inf")].any():
        given = given == float("-inf")  # a padding mask that torch has turned into numbers
    if given.dtype == torch.bool:
        allowed = ~dense(given)
        return allowed if mask is None else mask & allowed, bias
    return mask, given if bias is None else bias + given
