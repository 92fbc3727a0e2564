"""Runs calls of torch's attention with the outputs of some heads replaced and some links forbidden.

To forbid links, ``scaled_dot_product_attention`` is given a different mask; the outputs of edited heads are replaced.
``multi_head_attention_forward`` applies W_O itself, so it is run with the identity in place of W_O. It then returns
exactly the concatenated heads, which are edited before W_O is applied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Shaped
from torch import Tensor

from saccade.attention.equation import Call
from saccade.attention.watching.foreign.call import SDPA, call_of_sdpa
from saccade.attention.watching.foreign.edited_rows import CallStep, Start, rows_of
from saccade.attention.watching.foreign.running import RunningModule
from saccade.attention.watching.foreign.torch_modules import believes_causal, call_of_function
from saccade.attention.watching.interventions import (
    RowRange,
    Target,
    active_edits,
    cannot,
    forbid_links,
    no_such_head,
    replace_outputs,
    targets_of,
)
from saccade.attention.watching.reach import FORBIDDEN

__all__ = ["Edited", "bound_sdpa", "check_edited", "run_edited"]

NOTHING_LEFT = "after this edit, a query may attend to nothing, for which torch's multi-head attention returns NaN"

# Torch's function is written in C and has no signature.
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


class Edited(NamedTuple):
    """The result of a call that was run with the changes of an edit."""

    output: Any
    arguments: dict[str, Any]  # by name; the mask includes the forbidden links


def run_edited(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    targets: Sequence[Target],
    step: CallStep,
) -> Edited:
    """Run a call of torch's attention function with the changes in ``targets``, and return its result."""
    is_sdpa = function is SDPA
    bound = bound_sdpa(arguments, named) if is_sdpa else _MULTI_HEAD.bind(*arguments, **named).arguments
    call = (call_of_sdpa if is_sdpa else call_of_function)(**bound)
    name = targets[0].name
    if isinstance(call, str):
        raise cannot(name, call)
    for head in [change.head for target in targets for change in target.changes]:
        if head is not None and head >= call.shape[1]:
            raise no_such_head(name, head, call.shape[1])
    for target in targets:
        target.has_run = True
    where = rows_of(call, bound["key"], targets, step, step.start is Start.FIRST_IF_HIDDEN and _hides_rest(call))
    allowed = _allowed(call, targets, where)
    run = _run_sdpa if is_sdpa else _run_multi_head
    return run(bound, call, allowed, targets, where)


def _hides_rest(call: Call) -> bool:
    """Return whether a call with n queries hides all keys after the first n."""
    _, _, num_rows, num_columns = call.shape
    if num_rows >= num_columns:
        return True
    rest = _dense_mask(call)[..., num_rows:]
    return not bool((rest if rest.dtype == torch.bool else rest > FORBIDDEN).any())


def bound_sdpa(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``scaled_dot_product_attention`` by name."""
    return dict(zip(_SDPA, arguments, strict=False)) | named


def _allowed(call: Call, targets: Sequence[Target], where: RowRange) -> Bool[Tensor, "1 H Q K"] | None:
    """Return which links (a query attending to a key) the edits still allow; None if they forbid none."""
    mask = forbid_links(targets, None, where)
    if mask is None:
        return None
    _, heads, num_rows, num_columns = call.shape
    whole = replace(call, mask=None, bias=None, first_row=where.rows.start)
    at = whole.indices(range(num_rows), range(num_columns))
    return mask(*at).expand(1, heads, num_rows, num_columns)


def _run_sdpa(
    bound: dict[str, Any], call: Call, allowed: Tensor | None, targets: Sequence[Target], where: RowRange
) -> Edited:
    ndim = bound["query"].ndim
    empty: Tensor | None = None
    if allowed is not None:
        mask, empty = _forbid(_dense_mask(call), allowed)
        bound = {
            **bound,
            "attn_mask": mask if ndim == 4 else mask[:, 0] if ndim == 3 else mask[0, 0],
            "is_causal": False,
        }
    output = SDPA(**bound)
    heads = output if ndim == 4 else output.reshape(call.shape[0], 1, *output.shape[-2:])
    if empty is not None:
        heads = heads.masked_fill(empty, 0.0)
    return Edited(replace_outputs(targets, heads, where).reshape(output.shape), bound)


def _dense_mask(call: Call) -> Shaped[Tensor, "#B #H Q K"]:
    """Return the mask of a call in the form that torch takes: boolean, or numbers to add to the scores."""
    rows, columns = range(call.shape[2]), range(call.shape[3])
    if isinstance(call.bias, Tensor):
        mask = call.added(rows, columns, call.bias.dtype)
    else:
        mask = None if call.mask is None else call.mask(*call.indices(rows, columns))
    if mask is None:
        return torch.ones(1, 1, len(rows), len(columns), dtype=torch.bool, device=call.query.device)
    mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
    return mask.expand(-1, -1, len(rows), len(columns))


def _forbid(
    mask: Shaped[Tensor, "#B #H Q K"], allowed: Bool[Tensor, "1 H Q K"]
) -> tuple[Shaped[Tensor, "#B H Q K"], Bool[Tensor, "#B H Q 1"] | None]:
    """Return a mask without the forbidden links, and which rows have lost all their links (None if no row has)."""
    is_boolean = mask.dtype == torch.bool
    left = (mask if is_boolean else mask > FORBIDDEN) & allowed
    empty = ~left.any(-1, keepdim=True) & ~allowed.all(-1, keepdim=True)
    keeps = allowed & ~empty  # an empty row gets no weight even for keys that only a large negative number forbids
    mask = mask & keeps if is_boolean else mask.masked_fill(~keeps, float("-inf"))
    return mask, empty if bool(empty.any()) else None


def _run_multi_head(
    bound: dict[str, Any], call: Call, allowed: Tensor | None, targets: Sequence[Target], where: RowRange
) -> Edited:
    batch, num_heads, num_rows, _ = call.shape
    if allowed is not None:
        given = bound.get("attn_mask")
        hints = (bound.get("is_causal", False), bound.get("key_padding_mask"), bound.get("need_weights", True))
        if believes_causal(*hints):
            given = torch.ones(num_rows, bound["key"].shape[0], dtype=torch.bool, device=call.query.device).triu(1)
        num_keys = bound["key"].shape[0]  # not counting the keys that the module adds itself
        mask = bound["query"].new_zeros(batch, num_heads, num_rows, num_keys)
        if given is not None:
            given = given.view(batch, num_heads, *given.shape[1:]) if given.dim() == 3 else given
            mask = mask.masked_fill(given, float("-inf")) if given.dtype == torch.bool else mask + given
        mask = mask.masked_fill(~allowed[..., :num_keys], float("-inf"))
        bound = {**bound, "attn_mask": mask.flatten(0, 1), "is_causal": False}
        edited = call_of_function(**bound)
        assert isinstance(edited, Call)
        if _forbid(_dense_mask(edited), allowed)[1] is not None:
            raise cannot(targets[0].name, NOTHING_LEFT)
    width = call.query.shape[-1]
    same = torch.eye(num_heads * width, dtype=bound["out_proj_weight"].dtype, device=bound["query"].device)
    output, weights = F.multi_head_attention_forward(**{**bound, "out_proj_weight": same, "out_proj_bias": None})
    heads = output.view(num_rows, batch, num_heads, width).permute(1, 2, 0, 3)
    heads = replace_outputs(targets, heads, where).permute(2, 0, 1, 3).reshape(num_rows * batch, num_heads * width)
    projected = F.linear(heads, bound["out_proj_weight"], bound["out_proj_bias"])
    return Edited((projected.view(*output.shape[:-1], projected.shape[-1]), weights), bound)


def check_edited(run: RunningModule) -> None:
    """Raise an error if an edited module ran without calling torch's attention."""
    for target in targets_of(run.module):
        if target.is_ours or any(module is run.module for module in run.attended):
            continue
        names = [edit.modules.get(id(module)) for edit in active_edits() for module in run.attended]
        inner = next((name for name in names if name is not None), None)
        if inner is not None:
            raise cannot(target.name, f"it does not call attention itself, but {inner}, which runs inside it, does")
        raise cannot(
            target.name,
            "it ran, but did not call any of torch's attention functions, and an edit can change only those",
        )
