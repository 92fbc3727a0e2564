"""The equation of each step as the lectures write it, and the same step as one line of Python.

The lines of Python are shown beside the numbers, which come from ``saccade.attention``; a test runs every line and
compares its result with these numbers. The lines use the names ``math``, ``torch``, ``F`` (torch.nn.functional),
``Sparsemax``, the names of earlier steps, and four more: ``given`` (the arguments of the walkthrough), ``score`` (the
score object), ``rule`` (a mask rule) and ``weigh`` (a weights object).
"""

from __future__ import annotations

from typing import NamedTuple

from saccade.attention import (
    MLP,
    Additive,
    Bilinear,
    Cosine,
    Dot,
    Equal,
    Hard,
    Lookup,
    Relu,
    Score,
    Softmax,
    Sparsemax,
    Weights,
)

__all__ = ["Line", "mask_line", "score_line", "weights_line"]


class Line(NamedTuple):
    """One step as an equation and as Python."""

    equation: str
    code: str


SCORE_LINES: dict[type[Score], Line] = {
    Dot: Line("E = Q Kᵀ", "scores = queries @ keys.T"),
    Cosine: Line(
        "E_ij = q_i·k_j / (|q_i| |k_j|)", "scores = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T"
    ),
    Equal: Line("E_ij = 1 if q_i = k_j, else 0", "scores = (queries[:, None] == keys).all(dim=-1).to(queries.dtype)"),
    Bilinear: Line("E = Q W Kᵀ", "scores = queries @ score.weight[0] @ keys.T"),
    Additive: Line("E_ij = w·tanh(q_i + k_j)", "scores = torch.tanh(queries[:, None] + keys) @ score.vector[0]"),
    MLP: Line(
        "E_ij = w·tanh(W [q_i; k_j] + b)",
        "scores = torch.tanh((queries @ score.query_weight[0] + score.bias[0])[:, None]"
        " + keys @ score.key_weight[0]) @ score.vector[0]",
    ),
}

#: {scores} is the name of the previous step, and {keys} the number of keys.
WEIGHTS_LINES: dict[type[Weights], Line] = {
    Softmax: Line("A = softmax(E), row by row", "weights = torch.softmax({scores}, dim=-1)"),
    Relu: Line("A = max(E, 0)", "weights = torch.relu({scores})"),
    Lookup: Line("A = E: each equal key counts once", "weights = torch.relu({scores})"),
    Sparsemax: Line(
        "A = max(E − τ, 0), each row's τ such that it sums to 1",
        "weights = Sparsemax().apply({scores}, Sparsemax().statistic({scores}))",
    ),
    Hard: Line(
        "A_ij = 1 for the best j, else 0", "weights = F.one_hot({scores}.argmax(dim=-1), {keys}).to({scores}.dtype)"
    ),
}


def score_line(score: Score) -> Line:
    general = Line(
        f"E_ij = {type(score).__name__}(q_i, k_j)",
        "scores = score(queries[None, None], keys[None, None], "
        "torch.arange(len(queries)), torch.arange(len(keys)))[0, 0]",
    )
    return SCORE_LINES.get(type(score), general)


def mask_line(mask_name: str, scores: str, num_queries: int, num_keys: int) -> Line:
    """Return the equation and the code of the masked scores, which state the entries that the mask forbids."""
    kind, _, radius = mask_name.partition(":")
    rows, columns = f"torch.arange({num_queries})[:, None]", f"torch.arange({num_keys})"
    ones = f"torch.ones({num_queries}, {num_keys})"
    who, forbidden = {
        "causal": ("j > i", f"{ones}.tril() == 0"),
        "window": (f"|i − j| > {radius}", f"{ones}.tril({radius}).triu(-{radius}) == 0"),
        "matrix": ("the mask is false", '~torch.tensor(given["mask"])'),
        "rule": ("the rule forbids", f"~rule(torch.tensor(0), torch.tensor(0), {rows}, {columns})"),
    }[kind]
    return Line(f"E_ij = −∞ where {who}", f"masked = {scores}.masked_fill({forbidden}, -math.inf)")


def weights_line(weights: Weights, scores: str, num_keys: int, empty_rows: bool) -> Line:
    """Return the equation and the code of the weights.

    ``empty_rows`` says that all keys of some query are masked; the code then avoids the NaN that softmax would give.
    """
    general = Line(f"A = {type(weights).__name__}(E)", "weights = weigh.apply({scores}, weigh.statistic({scores}))")
    if isinstance(weights, Hard) and weights.mode == "sample":
        line = Line("A_ij = 1 for a j drawn from softmax(E_i), else 0", general.code)
    else:
        line = WEIGHTS_LINES.get(type(weights), general)
    code = line.code.format(scores=scores, keys=num_keys)
    if empty_rows and isinstance(weights, Hard):
        code += f" * ({scores} > -math.inf)"
    elif empty_rows and not isinstance(weights, Relu):
        code += ".nan_to_num()"
    return Line(line.equation, code)
