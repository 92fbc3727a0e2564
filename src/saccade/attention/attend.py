"""``attend``: the function that every model calls to compute attention, whatever the kernel.

    output = weights(score(query, key) + bias, where the mask allows) · value

There are two kernels. ``equation`` computes the line above step by step, in blocks of rows. ``fused`` calls torch's
``scaled_dot_product_attention`` if that computes the same result: softmax weights of a score that is a scaled product.
No kernel needs a whole N×N mask in memory: ``fused`` computes masks and biases for at most ``MASK_LIMIT`` entries at
a time, and only for keys that the mask lets some of these queries attend to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.attention.equation import Bias, Call, DenseTile, check_bias, normalise
from saccade.attention.masks import Mask, causal, resolve_mask
from saccade.attention.scores import Product, Score, resolve_score
from saccade.attention.tracing import is_exporting
from saccade.attention.watching.interventions import RowRange, Shared, forbid_links, replace_outputs, targets_of
from saccade.attention.watching.watch import record, refuse, tell
from saccade.attention.weights import Hard, Softmax, Weights, resolve_weights
from saccade.errors import KernelError, OptionError, ShapeError, UnknownNameError

__all__ = ["Kernel", "attend", "weigh"]

Kernel = Literal["auto", "equation", "fused"]

#: Maximum number of mask or bias entries in memory at once (16 MB in float32).
MASK_LIMIT = 1 << 22
#: Maximum number of scores that the kernel ``equation`` holds in memory at once (256 MB in float32).
EQUATION_LIMIT = 1 << 26
#: On the CPU, more queries than this run in blocks of rows, so that progress is visible and Ctrl-C works.
LONG = 8192
#: Number of scores in such a block, which takes about a second on one core.
LONG_BLOCK = 1 << 26
#: Rows per block if rows reach few columns, as in a window; a small block wastes little computation.
NARROW_BLOCK = 256


def attend(
    query: Float[Tensor, "*BH Q D"],
    key: Float[Tensor, "*BH K D"],
    value: Float[Tensor, "*BH K E"],
    *,
    score: str | Score = "scaled_dot",
    weights: str | Weights = "softmax",
    mask: Mask | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    dropout: float = 0.0,
    kernel: Kernel = "auto",
    first_row: int = 0,
    owner: nn.Module | None = None,
    shared: Shared | None = None,
) -> Float[Tensor, "*BH Q E"]:
    """Combine the values for each query, weighted by how well the query matches their keys.

    Leading dimensions are (batch, heads), (batch,) or none; if there are more, the last is for heads and the others
    for the batch. Key and value may have fewer heads than the query if their number divides its (grouped heads).

    Args:
        score: dot, scaled_dot, cosine, equal, or a score object (Bilinear, Additive, MLP, your own).
        weights: softmax, relu, sparsemax, hard, lookup (which takes no score), or a weights object.
        mask: a rule (``causal``, ``padding(lengths)``, ``window(radius)``, combined with & | ~) or a boolean tensor,
            True = may attend. The output of a query that may attend to nothing is all zeros.
        bias: a rule or tensor that is added to the scores.
        dropout: fraction of the weights to drop; 0 outside training.
        kernel: "equation", "fused" (raises an error if it cannot compute these weights), or "auto" to choose one.
        first_row: the absolute position of the first query, for the steps of a cached or recurrent decoder.
        owner: the module that this attention belongs to; ``watch`` names what it records after the module's path.
        shared: given if the queries are hypotheses of a beam search, all at the same position of a text.
    """
    leading = query.shape[:-2]
    query, key, value = _four_dimensional(query, key, value)
    call = _make_call(query, key, value, score, weights, mask, bias, first_row)
    if is_exporting():  # nothing is watched, edited or dropped then
        return _exported(call, value).reshape(*leading, -1, value.shape[-1])
    targets = targets_of(owner)
    where = RowRange(range(first_row, first_row + call.shape[2]), call.shape[3], shared)
    if targets:
        call = replace(call, mask=forbid_links(targets, call.mask, where))
    if not 0.0 <= dropout < 1.0:
        raise OptionError(f"dropout must be at least 0 and below 1, not {dropout}.")
    if _choose(kernel, call) == "fused":
        output = _fused(call, value, dropout, owner)
    else:
        call, output = _equation(call, value, dropout, owner)
    if targets:
        output = replace_outputs(targets, output, where)
    if shared is None:
        record(owner, replace(call, has_dropout=True) if dropout else call, value, output)
    else:
        refuse(owner)
    return output.reshape(*leading, *output.shape[-2:])


def weigh(
    query: Float[Tensor, "B H Q D"],
    key: Float[Tensor, "B G K D"],
    *,
    score: str | Score = "scaled_dot",
    weights: str | Weights = "softmax",
    mask: Mask | Tensor | None = None,
    bias: Bias | Tensor | None = None,
    first_row: int = 0,
) -> Float[Tensor, "B H Q K"]:
    """Return the weights that ``attend`` uses, as one tensor with gradient, so that a loss can depend on them."""
    call = _make_call(query, key, key, score, weights, mask, bias, first_row)
    return normalise(call.scores(range(call.shape[2]), range(call.shape[3])), call.weights, call.has_rules)[0]


def _choose(kernel: Kernel, call: Call) -> Literal["equation", "fused"]:
    """Choose the kernel; this is the only place in the package that does so."""
    if kernel not in get_args(Kernel):
        raise UnknownNameError("kernel", kernel, get_args(Kernel))
    if kernel == "equation":
        return "equation"
    if type(call.weights) is not Softmax:  # a subclass may compute something else
        reason = f"{type(call.weights).__name__} weights"
    elif not call.score.is_product:
        reason = f"the {type(call.score).__name__} score, which is not a product"
    elif kernel == "auto" and _is_learned(call.bias) and math.prod(call.shape) <= EQUATION_LIMIT:
        return "equation"  # torch has no faster kernel for this case, and checks each row several times
    else:
        return "fused"
    if kernel == "fused":
        raise KernelError(
            f"The fused kernel computes softmax of a scaled product, not {reason}; "
            'use kernel="auto" or kernel="equation".'
        )
    return "equation"


def _is_learned(bias: Bias | Tensor | None) -> bool:
    return isinstance(bias, Tensor) and bias.requires_grad and torch.is_grad_enabled()


# --- the kernel "equation" --------------------------------------------------------------------------------


def _equation(call: Call, value: Tensor, dropout: float, owner: nn.Module | None) -> tuple[Call, Tensor]:
    """Compute the equation in blocks of whole rows; the returned call includes the choices of hard attention, if
    any."""
    _, heads, num_rows, num_columns = call.shape
    if value.shape[1] != heads:
        value = value.repeat_interleave(heads // value.shape[1], dim=1)
    outputs, statistics, log_probabilities = [], [], []
    for rows in _blocks(num_rows, call.block_rows(EQUATION_LIMIT)):
        scores = call.scores(rows, range(num_columns))
        if type(call.weights) is Softmax and num_columns:
            weights = _softmax(scores, call.has_rules)
        else:
            weights, statistic = normalise(scores, call.weights, call.has_rules)
        weights = F.dropout(weights, dropout) if dropout else weights
        outputs.append(weights.to(value.dtype) @ value)
        if call.weights.decides:
            statistics.append(statistic.detach())
        if isinstance(call.weights, Hard) and call.weights.log_probability is not None:
            log_probabilities.append(call.weights.log_probability)
        tell(owner, rows.stop / max(num_rows, 1))
    if log_probabilities:
        assert isinstance(call.weights, Hard)
        call.weights.log_probability = torch.cat(log_probabilities, dim=-1)
    if statistics:
        call = replace(call, statistic=torch.cat(statistics, dim=-2))
    return call, outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-2)


def _softmax(scores: Float[Tensor, "B H Q K"], has_rules: bool) -> Float[Tensor, "B H Q K"]:
    """Compute the weights of ``normalise`` with torch's softmax, which reads and writes the scores only once."""
    if has_rules and (scores.is_meta or bool((scores.detach().amax(dim=-1) == float("-inf")).any())):
        # torch's softmax is undefined in rows without a key, and such rows cannot be found on the meta device.
        return normalise(scores, Softmax(), has_rules)[0]
    return scores.softmax(dim=-1)


def _exported(call: Call, value: Tensor) -> Tensor:
    """Compute the equation in one piece, with sizes that may be symbolic, so that an exported graph accepts any
    length."""
    _, heads, num_rows, num_columns = call.shape
    at = call.indices_of(call.first_row, num_rows, 0, num_columns)
    key = call.key
    if key.shape[1] != heads:
        key, value = (one.repeat_interleave(heads // one.shape[1], dim=1) for one in (key, value))
    scores = call.score(call.query, key, at.row.flatten(), at.column.flatten())
    if isinstance(call.bias, Tensor):
        scores = scores + call.bias
    elif call.bias is not None:
        scores = scores + call.bias(*at)
    if call.mask is not None:
        scores = torch.where(call.mask(*at), scores, float("-inf"))
    return normalise(scores, call.weights, call.has_rules)[0] @ value


def _blocks(num_rows: int, size: int) -> Iterator[range]:
    for start in range(0, max(num_rows, 1), size):
        yield range(start, min(start + size, num_rows))


# --- the kernel "fused" -----------------------------------------------------------------------------------


def _fused(call: Call, value: Tensor, dropout: float, owner: nn.Module | None) -> Tensor:
    product = call.score.as_product(call.query, call.key)
    width = value.shape[-1]
    product, value = _one_width(product, value)
    whole = range(call.shape[2])
    if len(whole) > LONG and call.query.device.type == "cpu":
        output = _fused_blocks(call, product, value, _long_rows(call), dropout, owner)
    elif _is_square_causal(call):
        output = _sdpa(product, value, None, dropout, is_causal=True)
    else:
        # ``causal`` allows everything in the last row of a text, which is what each step of a cached decoder computes.
        ruled = call.has_rules_in(whole, range(call.shape[3]))
        added = _remembered(call, whole) if ruled else None
        if added is not None or not ruled:
            output = _sdpa(product, value, added, dropout)
        else:
            output = _fused_blocks(call, product, value, _mask_rows(call), dropout, owner)
    return output[..., :width]


def _fused_blocks(
    call: Call, product: Product, value: Tensor, size: int, dropout: float, owner: nn.Module | None
) -> Tensor:
    """Compute all rows, ``size`` at a time."""
    num_rows = call.shape[2]
    diagonal = _diagonal(size, num_rows, _mask_dtype(call), call.query.device) if _is_square_causal(call) else None
    parts = []
    for rows in _blocks(num_rows, size):
        parts.append(_fused_rows(call, product, value, rows, dropout, diagonal))
        tell(owner, rows.stop / max(num_rows, 1))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)


def _diagonal(size: int, num_rows: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "size columns"]:
    """Return zeros followed by a causal triangle; what ``causal`` adds to any block of rows is a slice of it."""
    numbers = torch.zeros(size, num_rows + size, dtype=dtype, device=device)
    numbers[:, num_rows:] = torch.full((size, size), float("-inf"), dtype=dtype, device=device).triu(1)
    return numbers


def _is_square_causal(call: Call) -> bool:
    return call.mask is causal and call.bias is None and call.first_row == 0 and call.shape[2] == call.shape[3]


def _long_rows(call: Call) -> int:
    """Return how many rows to compute at a time when there are many."""
    batch, heads, _, num_columns = call.shape
    most = max(1, LONG_BLOCK // max(1, batch * heads * num_columns))
    return min(most, _mask_rows(call)) if call.has_rules else most


def _fused_rows(
    call: Call, product: Product, value: Tensor, rows: range, dropout: float, diagonal: Tensor | None
) -> Tensor:
    """Compute a block of rows over the columns that it can reach."""
    if not len(rows) or not call.shape[3]:
        return product.query[:, :, rows.start : rows.stop] * 0.0
    # If no column is in reach, one forbidden key keeps the graph, so that every gradient is 0 rather than None.
    columns = call.span(rows) or range(1)
    cut = slice(columns.start, columns.stop)
    part = Product(product.query[:, :, rows.start : rows.stop], product.key[:, :, cut], product.scale)
    added: Tensor | None = None
    if diagonal is not None:
        first = diagonal.shape[1] - len(diagonal) - rows.start
        added = diagonal[None, None, : len(rows), first : first + rows.stop]
    elif call.has_rules_in(rows, columns):
        added = call.added(rows, columns, _mask_dtype(call))
    return _sdpa(part, value[:, :, cut], added, dropout)


def _remembered(call: Call, rows: range) -> Tensor | None:
    """Return the rules evaluated for the whole matrix if it is small; all layers of a forward pass share the result."""
    holder = call.mask if call.mask is not None else call.bias
    rules = [rule for rule in (call.mask, call.bias) if isinstance(rule, Mask | Bias)]
    if not isinstance(holder, Mask | Bias) or not all(rule.is_fixed for rule in rules):
        return None
    version = 0 if call.mask is None else call.mask.version()
    key = (call.shape, call.first_row, _mask_dtype(call), call.query.device, version)
    memo = holder.memo
    if memo is not None and memo.key == key and memo.bias is call.bias:
        return memo.added
    if isinstance(call.bias, Tensor) or _mask_rows(call) < len(rows) or len(call.span(rows)) < call.shape[3]:
        return None
    if not call.has_rules_in(rows, range(call.shape[3])):
        return None
    # Created outside inference mode, because a later training step may reuse it.
    with torch.inference_mode(False):
        added = call.added(rows, range(call.shape[3]), _mask_dtype(call))
    assert added is not None
    if not added.requires_grad:
        holder.memo = DenseTile(key, call.bias, added)
    return added


def _mask_rows(call: Call) -> int:
    """Return for how many rows at a time the rules are evaluated."""
    _, _, num_rows, num_columns = call.shape
    if isinstance(call.bias, Tensor) and call.bias.requires_grad and math.prod(call.shape) <= EQUATION_LIMIT:
        return num_rows  # the bias is in memory anyway, and each block's gradient would be as large
    if num_rows <= NARROW_BLOCK and math.prod(call.shape) <= MASK_LIMIT:
        return num_rows  # small, like each step of a decoder, which the probe below would make slower
    probe = call.added(range(min(2, num_rows)), range(min(2, num_columns)), torch.float32)
    assert probe is not None
    batch, heads = probe.shape[:2]
    if probe.shape[2] == 1 and num_rows > 1 and batch * heads * num_columns <= MASK_LIMIT:
        return num_rows  # a padding mask is the same for every row
    narrow = range(min(NARROW_BLOCK, num_rows))
    middle = range(num_rows // 2, num_rows // 2 + len(narrow)) if num_rows >= 2 * NARROW_BLOCK else narrow
    reach = len(call.span(middle))
    if num_rows > NARROW_BLOCK and 2 * reach <= num_columns:
        return max(1, min(NARROW_BLOCK, MASK_LIMIT // max(1, batch * heads * reach)))
    return max(1, MASK_LIMIT // max(1, batch * heads * num_columns))


def _mask_dtype(call: Call) -> torch.dtype:
    # The kernels accept a float32 mask with half-precision queries; a half-precision bias would round positions.
    return torch.float64 if call.query.dtype == torch.float64 else torch.float32


def _sdpa(product: Product, value: Tensor, added: Tensor | None, dropout: float, is_causal: bool = False) -> Tensor:
    return F.scaled_dot_product_attention(
        product.query,
        product.key,
        value,
        attn_mask=added,
        dropout_p=dropout,
        is_causal=is_causal,
        scale=product.scale,
        enable_gqa=product.query.shape[1] != product.key.shape[1],
    )


def _one_width(product: Product, value: Tensor) -> tuple[Product, Tensor]:
    """Pad keys and values to the same width, which torch's long-sequence kernel needs. Zeros change no product."""
    difference = value.shape[-1] - product.key.shape[-1]
    if difference > 0:
        query, key = F.pad(product.query, (0, difference)), F.pad(product.key, (0, difference))
        return Product(query, key, product.scale), value
    return product, F.pad(value, (0, -difference)) if difference < 0 else value


# --- checking the arguments -------------------------------------------------------------------------------


def _four_dimensional(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Reshape any leading dimensions to (batch, heads)."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"The {name} is a {type(tensor).__name__}; expected a tensor (..., positions, width).")
        if tensor.ndim < 2 or tensor.shape[-1] == 0:
            raise ShapeError(
                f"The {name} has shape {tuple(tensor.shape)}; expected (..., positions, width) with width at least 1."
            )
        if tensor.ndim != query.ndim:
            raise ShapeError(
                f"The {name} has shape {tuple(tensor.shape)}; expected (..., positions, width) "
                f"with as many dimensions as the query, which has shape {tuple(query.shape)}."
            )
    if query.ndim == 4:
        return query, key, value
    if query.ndim == 3:  # (batch, positions, width): one head
        return query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
    if query.ndim == 2:
        return query[None, None], key[None, None], value[None, None]
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape[:-3] != query.shape[:-3]:
            raise ShapeError(
                f"The {name} has batch shape {tuple(tensor.shape[:-3])}, but the query has {tuple(query.shape[:-3])}."
            )
    return query.flatten(0, -4), key.flatten(0, -4), value.flatten(0, -4)


def _make_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: str | Score,
    weights: str | Weights,
    mask: Mask | Tensor | None,
    bias: Bias | Tensor | None,
    first_row: int,
) -> Call:
    batch, heads, num_rows, width = query.shape
    if first_row < 0:
        raise OptionError(f"first_row must be at least 0, not {first_row}.")
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape[0] != batch:
            raise ShapeError(
                f"The {name} has batch size {tensor.shape[0]}, but the query has {batch}: "
                f"{tuple(tensor.shape)} and {tuple(query.shape)}."
            )
    if key.shape[:3] != value.shape[:3]:
        raise ShapeError(
            f"Each key needs one value; the key has shape {tuple(key.shape)}, the value {tuple(value.shape)}."
        )
    if key.shape[1] == 0 or heads % key.shape[1]:
        raise ShapeError(f"The number of key heads, {key.shape[1]}, must divide that of query heads, {heads}.")
    if not query.dtype == key.dtype == value.dtype or not query.dtype.is_floating_point:
        raise OptionError(
            f"Query, key and value must share one floating-point type; got {query.dtype}, {key.dtype}, {value.dtype}."
        )
    weighting = resolve_weights(weights)
    resolved = resolve_score(score) if weighting.score is None else weighting.score
    own = type(resolved) is type(score) or score in ("scaled_dot", "equal")  # the default, or the only one possible
    if weighting.score is not None and (bias is not None or not own):
        raise OptionError(
            f"{type(weighting).__name__} weights compare queries and keys for equality; leave out score and bias."
        )
    resolved.check(heads, width, key.shape[-1])
    rule = resolve_mask(mask, first_row, num_rows)
    if rule is not None:
        rule.check(batch, heads, first_row, num_rows, key.shape[2])
    shape = (batch, heads, num_rows, key.shape[2])
    return Call(query, key, resolved, weighting, rule, check_bias(bias, shape), first_row)
