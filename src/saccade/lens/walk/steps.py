"""The steps of a walkthrough of attention, in order.

Each step is computed from earlier steps. If the user changed numbers of a step by hand, later steps use the new ones.

Shapes: Q queries, K keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import Dot, ScaledDot
from saccade.attention.equation import Call, normalise
from saccade.errors import ShapeError, counted
from saccade.lens.walk.equations import Line, mask_line, score_line, weights_line
from saccade.lens.walk.step import Changes, Step

__all__ = ["additive_steps", "head_steps", "joined_steps", "projection_steps", "sum_steps", "weight_steps"]


def projection_steps(
    given: dict[str, Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
    changes: Changes,
) -> list[Step]:
    """Return the given matrices in the order of the lectures, then queries, keys and values."""
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
        elif name in changes:
            line = Line(line.equation, f"{line.code}.clone()")  # so that the origin does not change too
        steps.append(changes.applied(_matrix_step(name, title, line, values, labels)))
    return steps


def _given(name: str, title: str, symbol: str, values: Tensor, labels: tuple[str, ...] | None) -> Step:
    code = f'{name} = torch.tensor(given["{name}"], dtype=torch.float64)'
    return _matrix_step(name, title, Line(symbol, code), values, labels or _components(len(values)))


def _matrix_step(name: str, title: str, line: Line, values: Tensor, labels: tuple[str, ...]) -> Step:
    return Step(name, title, line.equation, line.code, values, labels, _components(values.shape[1]))


def _components(width: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, width + 1))


def weight_steps(
    call: Call,
    mask_name: str,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
    changes: Changes,
    W_score: Float[Tensor, "D 1"] | None = None,
    temperature: float | None = None,
) -> list[Step]:
    """Return the steps from scores to weights, as ``attend`` computes them.

    They are the scores (or the dot products and what they are divided by), then the biased and masked scores as far as
    they apply, and the weights. ``temperature`` is a part of the score's scale, which its equation names.
    """
    rows, columns = range(len(query_labels)), range(len(key_labels))
    steps: list[Step] = []

    def add(name: str, title: str, line: Line, values: Float[Tensor, "Q K"]) -> Tensor:
        steps.append(changes.applied(Step(name, title, line.equation, line.code, values, query_labels, key_labels)))
        return steps[-1].values

    compared = Dot() if isinstance(call.score, ScaledDot) else call.score
    plain = replace(call, score=compared, mask=None, bias=None)
    if W_score is None:
        title, line = "Scores", score_line(compared)
        if isinstance(call.score, ScaledDot):  # the scores are what softmax is taken of
            title, line = "Dot products", Line("Q Kᵀ", line.code)
        scores = add("scores", title, line, plain.scores(rows, columns)[0, 0])
    else:
        steps += additive_steps(call, W_score, query_labels, key_labels, changes)
        line = Line("E_ij = w·tanh(q_i + k_j)", "scores = (compared @ W_score)[..., 0]")
        scores = add("scores", "Scores", line, (steps[-1].values @ W_score)[..., 0])
    if isinstance(call.score, ScaledDot):
        line = _scaling(call.score, call.query.shape[-1], temperature)
        scores = add("scaled", "Scores", line, scores * call.score.as_product(call.query, call.key).scale)
    if isinstance(call.bias, Tensor):
        line = Line("E + B", f"biased = {steps[-1].name} + bias")
        bias = _given("bias", "Bias", "B", call.bias[0, 0], query_labels)
        steps.append(replace(bias, column_labels=key_labels))
        scores = add("biased", "Biased scores", line, scores + bias.values)
    if call.mask is not None:
        line = mask_line(mask_name, steps[-1].name, len(rows), len(columns))
        forbidding = replace(call, bias=None).added(rows, columns, scores.dtype)
        assert forbidding is not None
        scores = add("masked", "Masked scores", line, scores + forbidding[0, 0])
    empty_rows = bool((scores == -math.inf).all(dim=-1).any())
    line = weights_line(call.weights, steps[-1].name, len(columns), empty_rows)
    add("weights", "Weights", line, normalise(scores[None, None], call.weights, call.has_rules)[0][0, 0])
    return [*steps[:-1], _with_sums(steps[-1])]


def additive_steps(
    call: Call, W_score: Tensor, query_labels: tuple[str, ...], key_labels: tuple[str, ...], changes: Changes
) -> list[Step]:
    """Return the vector w of the additive score (method 2 of lecture 004), and the vectors tanh(q + k) for it."""
    query, key = call.query[0, 0], call.key[0, 0]
    line = Line("tanh(q_i + k_j)", "compared = torch.tanh(queries[:, None] + keys)")
    values, components = torch.tanh(query[:, None] + key), _components(query.shape[1])
    compared = Step("compared", "Compared", line.equation, line.code, values, key_labels, components, query_labels)
    return [_given("W_score", "Score vector", "w", W_score, components), changes.applied(compared)]


def head_steps(
    call: Call,
    value: Tensor,
    head: int,
    mask_name: str,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
    temperature: float | None = None,
) -> list[Step]:
    """Return the steps of one of several heads, from its scores to its output Z (lecture 003).

    The head uses its own part of the columns of queries, keys and values.
    """
    width, value_width = call.query.shape[-1], value.shape[-1]
    columns = f"[:, {head * width}:{(head + 1) * width}]"
    own = re.compile(r"\b(scores|scaled|masked|weights)\b")
    steps = []
    for step in weight_steps(call, mask_name, query_labels, key_labels, Changes(None), temperature=temperature):
        code = own.sub(rf"\g<1>{head}", re.sub(r"\b(queries|keys)\b", rf"\g<1>{columns}", step.code))
        title, equation = f"Head {head}: {step.title.lower()}", f"{step.equation} (head {head})"
        steps.append(replace(step, name=f"{step.name}{head}", title=title, equation=equation, code=code))
    values = f"values[:, {head * value_width}:{(head + 1) * value_width}]"
    line = Line(f"Z_{head} = A_{head} V_{head}", f"Z{head} = weights{head} @ {values}")
    return [*steps, _matrix_step(f"Z{head}", f"Head {head}: Z", line, steps[-1].values @ value, query_labels)]


def joined_steps(heads: list[Step], W_output: Tensor | None, query_labels: tuple[str, ...]) -> list[Step]:
    """Return the concatenated outputs Z_0, Z_1, ... of all heads, and their product with W_O if it is given."""
    names = ", ".join(step.name for step in heads)
    line = Line(f"[Z_0 … Z_{len(heads) - 1}]", f"concatenated = torch.cat([{names}], dim=-1)")
    joined = torch.cat([step.values for step in heads], dim=-1)
    steps = [_matrix_step("concatenated", "Concatenated", line, joined, query_labels)]
    return steps if W_output is None else [*steps, *_output_steps("concatenated", joined, W_output, query_labels)]


def _output_steps(name: str, total: Tensor, W_output: Tensor, query_labels: tuple[str, ...]) -> list[Step]:
    if len(W_output) != total.shape[1]:
        raise ShapeError(
            f"W_output has {counted(len(W_output), 'row')}; expected {total.shape[1]}, one for each column of "
            "the values."
        )
    line = Line("O = Z W_O", f"output = {name} @ W_output")
    output = _matrix_step("output", "Output", line, total @ W_output, query_labels)
    return [_given("W_output", "Output matrix", "W_O", W_output, None), output]


def _with_sums(weights: Step) -> Step:
    """Add a note on the sum of each row with a changed weight, because it may no longer be 1."""
    notes = {}
    for row in sorted({row for row, _ in weights.changed}):
        total = weights.values[row].sum().item()
        notes[row] = f"changed: they sum to {total:.4g}" + ("" if math.isclose(total, 1) else ", not to 1")
    return replace(weights, row_notes=notes)


def _scaling(score: ScaledDot, width: int, temperature: float | None) -> Line:
    """Return the line of the scaled scores, which names what the dot products are divided by."""
    if score.scale is None:
        return Line(f"E = Q Kᵀ / √D, D = {width}", f"scaled = scores / math.sqrt({width})")
    code = f"scaled = scores * {score.scale!r}"
    if temperature is None:
        return Line(f"E = {score.scale:g} · Q Kᵀ", code)
    if math.isclose(score.scale * temperature, 1):
        return Line(f"E = Q Kᵀ / T, T = {temperature:g}", code)
    if math.isclose(score.scale * temperature * math.sqrt(width), 1):
        return Line(f"E = Q Kᵀ / (√D · T), D = {width}, T = {temperature:g}", code)
    return Line(f"E = {score.scale * temperature:g} · Q Kᵀ / T, T = {temperature:g}", code)


def sum_steps(
    weights: Float[Tensor, "Q K"],
    value: Float[Tensor, "K E"],
    W_output: Tensor | None,
    query_labels: tuple[str, ...],
    key_labels: tuple[str, ...],
    changes: Changes,
) -> list[Step]:
    """Return the values times their weights, the sum over keys, and this sum times W_O if it is given."""
    values = weights.unsqueeze(-1) * value  # (Q, K, E)
    line = Line("A_ij v_j", "weighted = weights.unsqueeze(-1) * values")
    components = _components(value.shape[1])
    weighted = changes.applied(
        Step("weighted", "Weighted values", line.equation, line.code, values, key_labels, components, query_labels)
    )
    line = Line("z_i = Σ_j A_ij v_j", "sum = weighted.sum(dim=1)")
    total = changes.applied(_matrix_step("sum", "Sum", line, weighted.values.sum(dim=1), query_labels))
    steps = [weighted, total]
    if W_output is not None:
        given, output = _output_steps("sum", total.values, W_output, query_labels)
        steps += [given, changes.applied(output)]
    return steps
