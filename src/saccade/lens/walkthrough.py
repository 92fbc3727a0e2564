"""The lectures' walk through attention, number by number: inputs, Q, K, V, scores, weights, sum.

``saccade explain`` and the studio's Walk page show the same object. Every number comes from the functions that
``attend`` itself is made of (``attention.equation``); only the last two steps, weight times value and their sum,
which ``attend`` does in one matrix product, are taken apart here. Shapes: Q queries, K keys, D width of queries
and keys, E width of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import SCORES, Dot, Mask, ScaledDot, Score, Weights, causal, dense, window
from saccade.attention.equation import Call, normalise
from saccade.attention.scores import resolve_score
from saccade.attention.weights import resolve_weights
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens.lines import Line, mask_line, score_line, weights_line
from saccade.lens.matrices import Numbers, boolean_matrix, matrix, refuse_other_size, require_finite

__all__ = ["Step", "Walkthrough", "walkthrough"]

#: The most numbers of the weighted values (Q · K · E): a walk is for reading.
WEIGHTED_LIMIT = 1 << 22


@dataclass(frozen=True, eq=False)
class Step:
    """One matrix of the walk, and how it came about."""

    name: str  # the variable of its line of code: inputs, W_query, scores, ...
    title: str
    equation: str  # as the lectures write it
    code: str  # the line of Python that computes it from the steps before; ``given`` holds the arguments
    values: Float[Tensor, "rows columns"] | Float[Tensor, "blocks rows columns"]  # -inf where masked
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    block_labels: tuple[str, ...] = ()  # of the weighted values only: one block of rows for each query

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings; a masked score, which JSON cannot write as a number, is None."""
        return {
            "name": self.name,
            "title": self.title,
            "equation": self.equation,
            "code": self.code,
            "values": _without_infinity(self.values.tolist()),
            "row_labels": list(self.row_labels),
            "column_labels": list(self.column_labels),
            "block_labels": list(self.block_labels),
        }


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """The steps in order; ``walk["scores"]`` is one of them by name."""

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
        """What comes out: the sum, or the sum times W_O."""
        return self.steps[-1].values

    def to_dict(self) -> dict[str, Any]:
        """The documented form of ``saccade explain --json`` (docs/mechanisms/walkthrough.md)."""
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
    tokens: Sequence[str] | None = None,
    source_tokens: Sequence[str] | None = None,
    mask: str | Mask | Tensor | Sequence[Sequence[bool]] | None = None,
    bias: Numbers | None = None,
    score: str | Score = "scaled_dot",
    weights: str | Weights = "softmax",
    scale: bool | None = None,
) -> Walkthrough:
    """Attention step by step, from ``inputs`` or from ``queries``, ``keys`` and ``values``.

    Args:
        inputs: one row a position; with W_query, W_key, W_value, or without all three: then Q = K = V = inputs.
        source: where keys and values come from, if not from the inputs (cross-attention).
        W_output: applied to the sum, as multi-head attention does.
        tokens: names of the inputs or queries; ``source_tokens`` those of the keys, if they are others.
        mask: "none", "causal", "window:R", a boolean matrix (Q, K), True = may attend, or a mask rule.
        bias: a matrix (Q, K) that is added to the scores, such as ALiBi's.
        score, weights: as ``attend`` takes them.
        scale: True divides a dot product by √D, False does not; None leaves it to the score.
    """
    rows: dict[str, Numbers | None] = {"inputs": inputs, "source": source, "W_query": W_query, "W_key": W_key}
    rows |= {"W_value": W_value, "queries": queries, "keys": keys, "values": values, "W_output": W_output}
    rows |= {"bias": bias}
    given = {name: matrix(name, numbers) for name, numbers in rows.items() if numbers is not None}
    query, key, value = _sources(given)
    if len(key) != len(value):
        raise ShapeError(f"keys has length {len(key)}, values has length {len(value)}; each key has one value.")
    if len(query) * value.numel() > WEIGHTED_LIMIT:
        raise TooLargeError(
            f"{len(query)} queries × {len(key)} keys × values of width {value.shape[1]} are too many to read; "
            f"the limit of a walk is {WEIGHTED_LIMIT} weighted values."
        )
    query_labels, key_labels = _labels(given, len(query), len(key), tokens, source_tokens)
    compared = _scaled(resolve_score(score), scale).frozen(torch.float64)
    compared.check(1, query.shape[1], key.shape[1])
    rule, mask_name = _resolve_mask(mask, len(query), len(key))
    added = given["bias"][None, None] if "bias" in given else None
    if added is not None:
        size = (len(query), len(key))
        refuse_other_size("bias", added.shape[2:], size, "a row for each query, a column for each key")
    call = Call(query[None, None], key[None, None], compared, resolve_weights(weights), rule, added)

    steps = _projection_steps(given, query, key, value, query_labels, key_labels)
    steps += _weight_steps(call, mask_name, query_labels, key_labels)
    steps += _sum_steps(steps[-1].values, value, given.get("W_output"), query_labels, key_labels)
    for step in steps:
        if step.name != "masked":
            require_finite(step.name, step.values, "the numbers given are too large to multiply")
    return Walkthrough(tuple(steps), query_labels, key_labels, _name(compared), _name(call.weights), mask_name)


# --- what is given -----------------------------------------------------------------------------------------

_PROJECTIONS = ("W_query", "W_key", "W_value")
_DIRECT = ("queries", "keys", "values")


def _sources(given: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values: as given, or projected."""
    direct = [name for name in _DIRECT if name in given]
    projected = [name for name in ("inputs", "source", *_PROJECTIONS) if name in given]
    if direct and projected:
        raise OptionError(
            f"Both {projected[0]} and {direct[0]} are given; "
            "a walk starts from inputs or from queries, keys and values, not from both."
        )
    if direct:
        _require(_DIRECT, direct, "a walk that starts from queries needs queries, keys and values")
        return given["queries"], given["keys"], given["values"]
    if "inputs" not in given:
        raise OptionError("Nothing to walk through: give inputs, or queries, keys and values.")
    matrices = [name for name in _PROJECTIONS if name in given]
    if matrices:
        _require(_PROJECTIONS, matrices, "inputs are projected by W_query, W_key and W_value, or by none")
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
            f"{matrix_name} has length {len(weight)}; expected {vectors.shape[1]}, a row for each column of {name}."
        )
    return vectors @ weight


def _labels(
    given: dict[str, Tensor],
    num_queries: int,
    num_keys: int,
    tokens: Sequence[str] | None,
    source_tokens: Sequence[str] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the queries and of the keys; one and the same where both come from one source."""
    one_source = "inputs" in given and "source" not in given
    shared = one_source or ("queries" in given and num_queries == num_keys and source_tokens is None)
    if one_source and source_tokens is not None:
        raise OptionError("source_tokens names the rows of another source; here keys and queries are of one: tokens.")
    for name, labels, count in (("tokens", tokens, num_queries), ("source_tokens", source_tokens, num_keys)):
        if labels is not None and len(labels) != count:
            what = "query" if name == "tokens" else "key"
            raise ShapeError(f"{name} has length {len(labels)}; expected {count}, a name for each {what}.")
    noun = "input" if "inputs" in given else "token" if shared else "query"
    query_labels = tuple(tokens) if tokens is not None else _numbered(noun, num_queries)
    if shared:
        return query_labels, query_labels
    noun = "source" if "inputs" in given else "key"
    return query_labels, tuple(source_tokens) if source_tokens is not None else _numbered(noun, num_keys)


def _numbered(noun: str, count: int) -> tuple[str, ...]:
    return tuple(f"{noun} {number}" for number in range(1, count + 1))


def _scaled(score: Score, scale: bool | None) -> Score:
    """The score with its scale switched on or off."""
    if scale is None or (scale and isinstance(score, ScaledDot)):
        return score
    if isinstance(score, Dot | ScaledDot):
        return ScaledDot() if scale else Dot()
    if scale:
        raise OptionError(f"Only a dot product is scaled by √D; not the {type(score).__name__} score.")
    return score


def _resolve_mask(mask: object, num_queries: int, num_keys: int) -> tuple[Mask | None, str]:
    """The rule, and its name: none, causal, window:R or matrix; rule for any other."""
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
        size = (num_queries, num_keys)
        refuse_other_size("mask", allowed.shape, size, "a row for each query, a column for each key")
        return dense(allowed), "matrix"
    raise OptionError(f"A mask is a name, a boolean matrix or a rule; not {type(mask).__name__}.")


def _name(choice: Score | Weights) -> str:
    """The name by which ``attend`` knows it; else that of its class."""
    known: dict[type, str] = {type(score): name for name, score in SCORES.items()}
    return known.get(type(choice), type(choice).__name__.lower())


# --- the steps ---------------------------------------------------------------------------------------------


def _projection_steps(
    given: dict[str, Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
) -> list[Step]:
    """What is given, in the order of the lectures, then queries, keys and values."""
    steps = []
    titles = {"inputs": ("Inputs", "X"), "source": ("Source", "S")}
    titles |= {"W_query": ("Query matrix", "W_Q"), "W_key": ("Key matrix", "W_K"), "W_value": ("Value matrix", "W_V")}
    for name, (title, symbol) in titles.items():
        if name in given:
            labels = {"inputs": query_labels, "source": key_labels}.get(name)
            steps.append(_given(name, title, symbol, given[name], labels))
    source = ("source", "S") if "source" in given else ("inputs", "X")
    for name, title, symbol, values, labels, (origin, origin_symbol) in (
        ("queries", "Queries", "Q", query, query_labels, ("inputs", "X")),
        ("keys", "Keys", "K", key, key_labels, source),
        ("values", "Values", "V", value, key_labels, source),
    ):
        if name in given:
            steps.append(_given(name, title, symbol, values, labels))
            continue
        weight = {"queries": "W_query", "keys": "W_key", "values": "W_value"}[name]
        line = Line(f"{symbol} = {origin_symbol}", f"{name} = {origin}")
        if weight in given:
            line = Line(f"{line.equation} W_{symbol}", f"{line.code} @ {weight}")
        steps.append(_matrix_step(name, title, line, values, labels))
    return steps


def _given(name: str, title: str, symbol: str, values: Tensor, labels: tuple[str, ...] | None) -> Step:
    code = f'{name} = torch.tensor(given["{name}"], dtype=torch.float64)'
    return _matrix_step(name, title, Line(symbol, code), values, labels or _components(len(values)))


def _matrix_step(name: str, title: str, line: Line, values: Tensor, labels: tuple[str, ...]) -> Step:
    return Step(name, title, line.equation, line.code, values, labels, _components(values.shape[1]))


def _components(width: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, width + 1))


def _weight_steps(call: Call, mask_name: str, query_labels: tuple[str, ...], key_labels: tuple[str, ...]) -> list[Step]:
    """Scores, scaled, masked, weights: each of them is what ``attend`` would compute with the rules so far."""
    rows, columns = range(len(query_labels)), range(len(key_labels))
    plain = replace(call, mask=None, bias=None)
    stages: list[tuple[str, str, Line, Call]] = []
    if isinstance(call.score, ScaledDot):
        stages.append(("scores", "Scores", score_line(Dot()), replace(plain, score=Dot())))
        stages.append(("scaled", *_scaling(call.score, call.query.shape[-1]), plain))
    else:
        stages.append(("scores", "Scores", score_line(call.score), plain))
    if isinstance(call.bias, Tensor):
        code = f"biased = {stages[-1][0]} + bias"
        stages.append(("biased", "Biased scores", Line("E + B", code), replace(call, mask=None)))
    if call.mask is not None:
        line = mask_line(mask_name, stages[-1][0], len(rows), len(columns))
        stages.append(("masked", "Masked scores", line, call))
    steps = [
        Step(name, title, line.equation, line.code, stage.scores(rows, columns)[0, 0], query_labels, key_labels)
        for name, title, line, stage in stages
    ]
    if isinstance(call.bias, Tensor):
        given = _given("bias", "Bias", "B", call.bias[0, 0], query_labels)
        place = [step.name for step in steps].index("biased")
        steps.insert(place, replace(given, column_labels=key_labels))
    scores = steps[-1].values
    weights = normalise(scores[None, None], call.weights, call.has_rules)[0][0, 0]
    empty_rows = bool((scores == -math.inf).all(dim=-1).any())
    line = weights_line(call.weights, steps[-1].name, len(columns), empty_rows)
    steps.append(Step("weights", "Weights", line.equation, line.code, weights, query_labels, key_labels))
    return steps


def _scaling(score: ScaledDot, width: int) -> tuple[str, Line]:
    """Title and line of the scaled scores."""
    if score.scale is None:
        line = Line(f"E = Q Kᵀ / √D, D = {width}", f"scaled = scores / math.sqrt({width})")
        return f"Score / √{width}", line
    return f"Score · {score.scale:g}", Line(f"E = {score.scale:g} · Q Kᵀ", f"scaled = scores * {score.scale!r}")


def _sum_steps(
    weights: Float[Tensor, "Q K"],
    value: Float[Tensor, "K E"],
    W_output: Tensor | None,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
) -> list[Step]:
    weighted = weights.unsqueeze(-1) * value  # (Q, K, E)
    total = weighted.sum(dim=1)
    line = Line("A_ij v_j", "weighted = weights.unsqueeze(-1) * values")
    components = _components(value.shape[1])
    steps = [
        Step("weighted", "Weighted values", line.equation, line.code, weighted, key_labels, components, query_labels),
        _matrix_step("sum", "Sum", Line("z_i = Σ_j A_ij v_j", "sum = weighted.sum(dim=1)"), total, query_labels),
    ]
    if W_output is not None:
        if len(W_output) != total.shape[1]:
            raise ShapeError(
                f"W_output has length {len(W_output)}; expected {total.shape[1]}, a row for each column of the values."
            )
        steps.append(_given("W_output", "Output matrix", "W_O", W_output, None))
        line = Line("O = Z W_O", "output = sum @ W_output")
        steps.append(_matrix_step("output", "Output", line, total @ W_output, query_labels))
    return steps


def _without_infinity(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_infinity(entry) for entry in values]
    return None if values == -math.inf else values
