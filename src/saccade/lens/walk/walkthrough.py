"""Walk through attention as the lectures do, number by number: inputs, Q, K, V, scores, weights, sum.

``saccade explain`` and the studio's Walk page both show a `Walkthrough`. Every number comes from the functions that
``attend`` itself uses (``attention.equation``). Only the last matrix product is split into two steps here: weight
times value, and the sum of these products. Shapes: Q queries, K keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import SCORES, Additive, Dot, Mask, ScaledDot, Score, Weights, causal, dense, window
from saccade.attention.equation import Call
from saccade.attention.scores import resolve_score
from saccade.attention.weights import resolve_weights
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError, counted
from saccade.lens.walk.numbers import Numbers, boolean_matrix, matrix, require_finite, require_size
from saccade.lens.walk.step import Changed, Changes, Step
from saccade.lens.walk.steps import head_steps, joined_steps, projection_steps, sum_steps, weight_steps

__all__ = ["Step", "Walkthrough", "walkthrough"]

#: Maximum number of weighted values (Q · K · E), because a walkthrough is for people to read.
WEIGHTED_LIMIT = 1 << 22


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """The steps of a walkthrough in order; ``walk["scores"]`` returns a step by name."""

    steps: tuple[Step, ...]
    query_labels: tuple[str, ...]
    key_labels: tuple[str, ...]
    score: str
    weights: str
    mask: str

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise UnknownNameError("step", name, [step.name for step in self.steps])

    def __contains__(self, name: str) -> bool:
        return any(step.name == name for step in self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @property
    def output(self) -> Float[Tensor, "Q E"]:
        """The output of attention: the weighted sum of the values, multiplied by W_output if that was given."""
        return self.steps[-1].values

    def to_dict(self) -> dict[str, Any]:
        """Return what ``saccade explain --json`` prints, in the format that docs/learn/walkthrough.md describes."""
        return {
            "score": self.score,
            "weights": self.weights,
            "mask": self.mask,
            "query_labels": list(self.query_labels),
            "key_labels": list(self.key_labels),
            "steps": [step.to_dict() for step in self.steps],
        }


@torch.no_grad()
def walkthrough(
    *,
    inputs: Numbers | None = None,
    source: Numbers | None = None,
    W_query: Numbers | None = None,
    W_key: Numbers | None = None,
    W_value: Numbers | None = None,
    queries: Numbers | None = None,
    keys: Numbers | None = None,
    values: Numbers | None = None,
    W_output: Numbers | None = None,
    W_score: Numbers | None = None,
    heads: int = 1,
    tokens: Sequence[str] | None = None,
    source_tokens: Sequence[str] | None = None,
    value_names: Sequence[str] | None = None,
    mask: str | Mask | Tensor | Sequence[Sequence[bool]] | None = None,
    bias: Numbers | None = None,
    score: str | Score = "scaled_dot",
    weights: str | Weights = "softmax",
    scale: bool | None = None,
    temperature: float | None = None,
    changed: Changed | None = None,
) -> Walkthrough:
    """Compute attention step by step, from ``inputs`` or from ``queries``, ``keys`` and ``values``.

    Args:
        inputs: one row per position. Give W_query, W_key and W_value too, or none of them: then Q = K = V = inputs.
        source: the vectors that keys and values are computed from in cross-attention, one row per position.
        W_output: the matrix that multiplies the weighted sum of the values, as in multi-head attention.
        W_score: the vector w of the additive score, as a matrix of one column.
        heads: number of heads, which share the columns equally; lecture 004 has one for each column.
        tokens: names of the inputs or queries; ``source_tokens`` names the keys, ``value_names`` the values' columns.
        mask: "none", "causal", "window:R", a boolean matrix (Q, K) in which True = may attend, or a mask rule.
        bias: a matrix (Q, K) that is added to the scores, such as ALiBi's.
        score: as in ``attend``, or "additive", which needs W_score.
        weights: as in ``attend``; lookup compares queries and keys for equality, whatever the score.
        scale: True divides a dot product by √D, False does not, and None divides it if the score is "scaled_dot".
        temperature: also divides a dot product; below 1, the best key gets more weight; above 1, weights are evener.
        changed: numbers that replace computed ones before the next step uses them: {"scores": {(0, 1): 6.5}}.
    """
    rows = {"inputs": inputs, "source": source, "W_query": W_query, "W_key": W_key, "W_value": W_value}
    rows |= {"queries": queries, "keys": keys, "values": values, "W_output": W_output}
    given = {name: matrix(name, numbers) for name, numbers in rows.items() if numbers is not None}
    query, key, value = _sources(given)
    labels = _labels(given, len(query), len(key), tokens, source_tokens)
    weighting, vector = resolve_weights(weights), _score_vector(score, W_score, query.shape[1])
    _check_heads(heads, query, key, value, bias, changed, vector)
    compared = _compared(weighting.score or _resolve_score(score, vector), scale, temperature, query.shape[1] // heads)
    compared.check(1, query.shape[1], key.shape[1])
    rule, mask_name = _resolve_mask(mask, len(query), len(key))
    changes = Changes(changed)
    steps = projection_steps(given, query, key, value, *labels, changes)
    query, key, value = (step.values for step in steps[-3:])
    added, output = _resolve_bias(bias, len(query), len(key)), given.get("W_output")
    call = Call(query[None, None], key[None, None], compared, weighting, rule, added)
    steps += _attention_steps(call, value, heads, output, mask_name, labels, changes, vector, temperature)
    changes.check_steps(steps)
    names = _name(compared), _name(call.weights), mask_name
    return Walkthrough(tuple(_finished(step, value_names) for step in steps), *labels, *names)


def _attention_steps(
    call: Call,
    value: Tensor,
    num_heads: int,
    W_output: Tensor | None,
    mask_name: str,
    labels: tuple[tuple[str, ...], tuple[str, ...]],
    changes: Changes,
    vector: Tensor | None,
    temperature: float | None,
) -> list[Step]:
    """Return the steps from the scores to the output; the heads divide the columns, and their sums are joined."""
    if num_heads == 1:
        steps = weight_steps(call, mask_name, *labels, changes, vector, temperature)
        return steps + sum_steps(steps[-1].values, value, W_output, *labels, changes)
    steps, ends = [], []
    parts = (part.chunk(num_heads, dim=-1) for part in (call.query, call.key, value))
    for head, (query, key, own_value) in enumerate(zip(*parts, strict=True)):
        own = replace(call, query=query, key=key)
        steps += head_steps(own, own_value, head, mask_name, *labels, temperature)
        ends.append(steps[-1])
    return steps + joined_steps(ends, W_output, labels[0])


def _score_vector(score: str | Score, given: Numbers | None, width: int) -> Float[Tensor, "D 1"] | None:
    """Return the vector of the additive score, or None if the walk uses another."""
    if given is None:
        if score == "additive":
            raise OptionError("The additive score needs W_score, a column with one number for each column of queries.")
        return None
    if score != "additive":
        raise OptionError('W_score only applies to score = "additive".')
    vector = matrix("W_score", given)
    if vector.shape != (width, 1):
        size = " by ".join(map(str, vector.shape))
        raise ShapeError(f"W_score is {size}; expected {width} by 1, one number for each column of the queries.")
    return vector


def _resolve_score(score: str | Score, vector: Float[Tensor, "D 1"] | None) -> Score:
    if vector is None:
        return resolve_score(score)
    additive = Additive(len(vector)).double()
    additive.vector.copy_(vector.T)
    return additive


def _check_heads(
    heads: int, query: Tensor, key: Tensor, value: Tensor, bias: object, changed: object, vector: object
) -> None:
    if heads < 1:
        raise OptionError(f"A walkthrough needs at least 1 head, not {heads}.")
    if heads == 1:
        return
    for name, part in (("queries", query), ("keys", key), ("values", value)):
        if part.shape[1] % heads:
            raise ShapeError(f"{heads} heads do not divide the {part.shape[1]} columns of the {name}.")
    if bias is not None or changed or vector is not None:
        raise OptionError("bias, W_score and changed can only be given for a walkthrough with one head.")


# --- the arguments -----------------------------------------------------------------------------------------

_PROJECTIONS = ("W_query", "W_key", "W_value")
_DIRECT = ("queries", "keys", "values")


def _sources(given: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, given or projected from the inputs."""
    query, key, value = _given_or_projected(given)
    if len(key) != len(value):
        raise ShapeError(f"keys has {counted(len(key), 'row')} but values has {len(value)}; each key needs one value.")
    if len(query) * value.numel() > WEIGHTED_LIMIT:
        raise TooLargeError(
            f"{len(query)} queries × {len(key)} keys × values of width {value.shape[1]} are too many to read; the "
            f"limit of a walkthrough is {WEIGHTED_LIMIT} weighted values."
        )
    return query, key, value


def _given_or_projected(given: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    direct = [name for name in _DIRECT if name in given]
    projected = [name for name in ("inputs", "source", *_PROJECTIONS) if name in given]
    if direct and projected:
        raise OptionError(
            f"Both {projected[0]} and {direct[0]} are given; a walkthrough starts either from inputs or from "
            f"queries, keys and values."
        )
    if direct:
        _require(_DIRECT, direct, "a walkthrough that starts from queries also needs keys and values")
        return given["queries"], given["keys"], given["values"]
    if "inputs" not in given:
        raise OptionError("There is nothing to walk through: give inputs, or queries, keys and values.")
    matrices = [name for name in _PROJECTIONS if name in given]
    if matrices:
        _require(_PROJECTIONS, matrices, "inputs need all of W_query, W_key and W_value, or none of them")
    inputs = given["inputs"]
    source = given.get("source", inputs)
    source_name = "source" if "source" in given else "inputs"
    return (
        _project("inputs", inputs, "W_query", given),
        _project(source_name, source, "W_key", given),
        _project(source_name, source, "W_value", given),
    )


def _require(all_of: Sequence[str], found: Sequence[str], rule: str) -> None:
    missing = [name for name in all_of if name not in found]
    if missing:
        raise OptionError(f"{missing[0]} is missing: {rule}.")


def _project(name: str, vectors: Tensor, matrix_name: str, given: dict[str, Tensor]) -> Tensor:
    if matrix_name not in given:
        return vectors
    weight = given[matrix_name]
    if len(weight) != vectors.shape[1]:
        raise ShapeError(
            f"{matrix_name} has {counted(len(weight), 'row')}; expected {vectors.shape[1]}, one for each "
            f"column of {name}."
        )
    return vectors @ weight


def _labels(
    given: dict[str, Tensor],
    num_queries: int,
    num_keys: int,
    tokens: Sequence[str] | None,
    source_tokens: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the queries and of the keys, which are the same if both come from one sequence."""
    one_source = "inputs" in given and "source" not in given
    shared = one_source or ("queries" in given and num_queries == num_keys and source_tokens is None)
    if one_source and source_tokens is not None:
        raise OptionError("source_tokens names the rows of source, which is not given; use tokens.")
    for name, labels, count in (("tokens", tokens, num_queries), ("source_tokens", source_tokens, num_keys)):
        if labels is not None and len(labels) != count:
            what = "query" if name == "tokens" else "key"
            raise ShapeError(f"{name} has {counted(len(labels), 'name')}; expected {count}, one for each {what}.")
    noun = "input" if "inputs" in given else "token" if shared else "query"
    query_labels = tuple(tokens) if tokens is not None else _numbered(noun, num_queries)
    if shared:
        return query_labels, query_labels
    noun = "source" if "inputs" in given else "key"
    return query_labels, tuple(source_tokens) if source_tokens is not None else _numbered(noun, num_keys)


def _numbered(noun: str, count: int) -> tuple[str, ...]:
    return tuple(f"{noun} {number}" for number in range(1, count + 1))


def _scaled(score: Score, scale: bool | None) -> Score:
    """Return the score with its scale switched on or off."""
    if scale is None or (scale and isinstance(score, ScaledDot)):
        return score
    if isinstance(score, Dot | ScaledDot):
        return ScaledDot() if scale else Dot()
    if scale:
        raise OptionError(f"Only a dot product can be scaled by √D, not the {type(score).__name__} score.")
    return score


def _compared(score: Score, scale: bool | None, temperature: float | None, width: int) -> Score:
    """Return the score as it is computed: scaled, divided by the temperature, in float64."""
    return _tempered(_scaled(score, scale), temperature, width).frozen(torch.float64)


def _tempered(score: Score, temperature: float | None, width: int) -> Score:
    """Return the score divided by the temperature."""
    if temperature is None:
        return score
    if not 0 < temperature < math.inf:
        raise OptionError(f"temperature must be a number above 0, not {temperature}.")
    if not isinstance(score, Dot | ScaledDot):
        raise OptionError(f"A temperature only divides a dot product, not the {type(score).__name__} score.")
    scale = score.as_product(torch.empty(0, width), torch.empty(0, width)).scale
    return ScaledDot(scale / temperature)


def _finished(step: Step, value_names: Sequence[str] | None) -> Step:
    """Check that the numbers are finite, and name the columns of the values if the step has these columns."""
    if not step.name.startswith("masked"):
        require_finite(step.name, step.values, "the given numbers are too large to multiply")
    if value_names is None or step.name not in ("values", "weighted", "sum"):
        return step
    if len(value_names) != step.values.shape[-1]:
        raise ShapeError(
            f"value_names has {counted(len(value_names), 'name')}; expected {step.values.shape[-1]}, one for "
            "each column."
        )
    return replace(step, column_labels=tuple(value_names))


def _resolve_bias(bias: Numbers | None, num_queries: int, num_keys: int) -> Float[Tensor, "1 1 Q K"] | None:
    if bias is None:
        return None
    added = matrix("bias", bias)
    require_size("bias", added.shape, num_queries, num_keys)
    return added[None, None]


def _resolve_mask(mask: object, num_queries: int, num_keys: int) -> tuple[Mask | None, str]:
    """Return the mask rule and its name: none, causal, window:R, matrix, or rule for any other."""
    if mask is None or mask == "none":
        return None, "none"
    if isinstance(mask, Mask):
        mask.check(1, 1, 0, num_queries, num_keys)
        return mask, "causal" if mask is causal else "rule"
    if isinstance(mask, str):
        kind, _, radius = mask.partition(":")
        if mask == "causal":
            return causal, mask
        if kind == "window" and radius.isascii() and radius.isdigit() and len(radius) < 10:
            return window(int(radius)), f"window:{int(radius)}"
        raise UnknownNameError("mask", mask, ("none", "causal", "window:R"))
    if isinstance(mask, Tensor | Sequence):
        allowed = boolean_matrix("mask", mask)
        require_size("mask", allowed.shape, num_queries, num_keys)
        return dense(allowed), "matrix"
    raise OptionError(f"A mask must be a name, a boolean matrix or a rule, not {type(mask).__name__}.")


def _name(choice: Score | Weights) -> str:
    """Return the name that ``attend`` uses, or else the name of the class."""
    known: dict[type, str] = {type(score): name for name, score in SCORES.items()}
    return known.get(type(choice), type(choice).__name__.lower())
