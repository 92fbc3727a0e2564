"""Attention weights that a model wrote out itself: ``saccade.view(outputs.attentions, tokens)``.

Models whose attention calls no ``scaled_dot_product_attention`` (DeBERTa, MPNet, GPT-J, BLOOM, ...) cannot be watched,
but give their weights when they are asked for them. Each layer becomes a trace whose scores are the weights as they
are, so that every view, measure and picture works from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.attention import Dot, Trace, Weights
from saccade.attention.equation import Call
from saccade.attention.watching.foreign.steps import Gap
from saccade.errors import OptionError, ShapeError
from saccade.lens.axis import looks_elsewhere

__all__ = ["Given", "given_traces"]

#: The fields of a Hugging Face output that hold weights, and what their layers are called.
_FIELDS = {
    "attentions": "layer.{}",
    "encoder_attentions": "encoder.{}.self",
    "decoder_attentions": "decoder.{}.self",
    "cross_attentions": "decoder.{}.cross",
}
#: What such an output always holds, with or without weights.
_BESIDE = ("logits", "last_hidden_state")
_NO_WEIGHTS = "the model gave no weights for it"
_ASK_FOR_THEM = 'load the model with attn_implementation="eager" and call it with output_attentions=True'
#: How far a row may sum from 1 by rounding alone; numbers of 16 bits are that coarse.
_ROUNDING, _HALF_ROUNDING = 1e-3, 2e-2


class Given(NamedTuple):
    """The layers as traces, what must be said of some of them, and those that came without weights."""

    traces: dict[str, Trace]
    notes: dict[str, str]
    gaps: dict[str, Gap]


class _AsTheyAre(Weights):
    """The scores are the weights."""

    is_given = True
    merges = True
    shifts = False

    def statistic(self, scores: Tensor) -> Tensor:
        return scores.new_zeros((*scores.shape[:-1], 1))

    def merge(self, left: Tensor, right: Tensor) -> Tensor:
        return left

    def apply(self, scores: Tensor, statistic: Tensor, first_column: int = 0) -> Tensor:
        return scores


def given_traces(given: object) -> Given:
    """Layers of weights (batch, heads, queries, keys) as traces.

    They come as a list or tuple, named ``layer.0``, ``layer.1``, ...; as a mapping from names to one layer or to
    several (``{"encoder": ..., "cross": ...}`` gives ``encoder.0``, ``cross.0``, ...); or as a Hugging Face output.
    """
    found = Given({}, {}, {})
    for name, weights in _layers(given):
        if weights is None:
            found.gaps[name] = Gap(name, _NO_WEIGHTS, None)
            continue
        call = _checked(name, weights)
        found.traces[name] = Trace(name, call)
        if note := _note(name, weights):
            found.notes[name] = note
    if not found.traces:
        raise OptionError(f"The model gave no weights; {_ASK_FOR_THEM}.")
    return found


def _layers(given: object) -> Iterator[tuple[str, Any]]:
    if isinstance(given, Mapping):
        if not set(given).isdisjoint([*_FIELDS, *_BESIDE]):
            parts = [(name, given[field]) for field, name in _FIELDS.items() if given.get(field) is not None]
        else:
            parts = [(str(name), weights) for name, weights in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str):
        parts = [(_FIELDS["attentions"], given)]
    elif given is None:
        parts = []
    else:
        shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor) else ""
        raise OptionError(
            "view() takes what watch() has seen, or weights as a list of layers or a mapping from names to layers; "
            f"not {type(given).__name__}{shape}."
        )
    for name, weights in parts:
        if isinstance(weights, Sequence):
            several = name if "{}" in name else f"{name}.{{}}"
            yield from ((several.replace("{}", str(number)), one) for number, one in enumerate(weights))
        else:
            yield name.replace("{}", "0"), weights


def _checked(name: str, weights: object) -> Call:
    if isinstance(weights, Sequence) and weights and isinstance(weights[0], Tensor):
        raise OptionError(
            f"{name} is a list again: generate() gives a list of layers for each step. Run the model once over the "
            "whole text and view its attentions."
        )
    if not isinstance(weights, Tensor):
        raise OptionError(f"The weights of {name} are a tensor, not {type(weights).__name__}.")
    if weights.ndim != 4 or not weights.is_floating_point():
        raise ShapeError(
            f"The weights of {name} are numbers of shape (batch, heads, queries, keys), not {weights.dtype} of shape "
            f"{tuple(weights.shape)}."
        )
    whole = weights.detach()
    wrong = whole[~(whole.isfinite() & (whole >= 0))]
    if len(wrong):
        raise OptionError(f"The weights of {name} are finite numbers of at least 0, not {float(wrong[0]):g}.")
    batch, heads, queries, keys = whole.shape
    exact = torch.float64 if whole.dtype == torch.float64 else torch.float32
    query, key = (torch.zeros(batch, heads, size, 1, dtype=exact, device=whole.device) for size in (queries, keys))
    return Call(query, key, Dot(), _AsTheyAre(), bias=whole)


def _note(name: str, weights: Tensor) -> str | None:
    """What a reader of these weights must know: rows that do not sum to 1, keys that are not the queries."""
    said = []
    totals = weights.detach().sum(-1, dtype=torch.float64)
    totals = totals[totals > 0]  # a row that may attend to nothing is zero
    allowed = _HALF_ROUNDING if weights.element_size() < 4 else _ROUNDING
    if len(totals) and float((totals - 1).abs().max()) > allowed:
        said.append(f"rows sum to {float(totals.min()):.3g} to {float(totals.max()):.3g}, not to 1")
    if weights.shape[2] != weights.shape[3] and not looks_elsewhere(name):
        said.append(f"{weights.shape[2]} queries look at {weights.shape[3]} keys")
    return "; ".join(said) or None
