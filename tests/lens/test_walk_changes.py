"""A number of a computed step, changed by hand: every step below uses it, and nothing above or beside it moves."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import saccade
from saccade.lens import EXAMPLES, walkthrough

# Scores [[1, 2, 3], [0, 1, 1]]; with relu they are the weights too, so that the sums are 1 + 20 + 300 and 10 + 100.
GIVEN: dict[str, Any] = {
    "queries": [[1, 2], [0, 1]],
    "keys": [[1, 0], [0, 1], [1, 1]],
    "values": [[1], [10], [100]],
    "W_output": [[2, 3]],
    "score": "dot",
    "weights": "relu",
}


@pytest.mark.parametrize(
    ("step", "place", "value", "sums"),
    [
        ("scores", (0, 1), 5, [351, 110]),
        ("scores", (1, 0), -4, [321, 110]),  # relu makes it 0
        ("weights", (0, 1), -5, [251, 110]),
        ("weights", (1, 0), 2, [321, 112]),
        ("weighted", (0, 2, 0), 7, [28, 110]),
        ("sum", (1, 0), 9, [321, 9]),
    ],
)
def test_everything_below_follows(step: str, place: tuple[int, ...], value: float, sums: list[float]) -> None:
    plain, walk = walkthrough(**GIVEN), walkthrough(**GIVEN, changed={step: {place: value}})
    assert plain["sum"].values.tolist() == [[321], [110]]
    assert walk[step].values[place] == value
    assert walk["sum"].values.tolist() == [[one] for one in sums]
    assert walk.output.tolist() == [[2 * one, 3 * one] for one in sums]
    assert {one.name: one.changed for one in walk if one.changed} == {step: (place,)}
    names = [one.name for one in walk]
    for name in names[: names.index(step)]:
        assert torch.equal(walk[name].values, plain[name].values)


def test_a_changed_query_leaves_the_inputs_and_the_keys() -> None:
    walk = walkthrough(inputs=[[1, 2], [0, 1]], score="dot", changed={"queries": {(0, 0): 3}})
    assert walk["inputs"].values.tolist() == walk["keys"].values.tolist() == [[1, 2], [0, 1]]
    assert walk["scores"].values.tolist() == [[3 * 1 + 2 * 2, 2], [2, 1]]


def test_scaled_biased_and_masked_scores() -> None:
    given = {"queries": [[1, 0, 0, 0]], "keys": [[2, 0, 0, 0], [4, 0, 0, 0], [6, 0, 0, 0]], "values": [[1], [1], [1]]}
    options: dict[str, Any] = {"bias": [[10, 20, 30]], "mask": [[True, False, True]], "weights": "relu"}
    walk = walkthrough(**given, **options, changed={"scores": {(0, 0): 8}})  # √D = 2
    assert walk["scaled"].values.tolist() == [[4, 2, 3]]
    assert walk["masked"].values.tolist() == [[14, -math.inf, 33]]
    walk = walkthrough(**given, **options, changed={"scaled": {(0, 0): 8}, "biased": {(0, 2): 5}})
    assert walk["masked"].values.tolist() == [[18, -math.inf, 5]]
    assert walk["weights"].values.tolist() == [[18, 0, 5]]


def test_changed_weights_say_what_they_sum_to() -> None:
    changed = {"weights": {(0, 0): 0.5, (0, 1): 0.25, (0, 2): 0.25, (2, 1): 3.0, (2, 0): 0.0, (2, 2): 0.0}}
    walk = walkthrough(inputs=torch.eye(3), changed=changed)
    assert walk["weights"].row_notes == {0: "changed: they sum to 1", 2: "changed: they sum to 3, not to 1"}
    assert not any(step.row_notes for step in walk if step.name != "weights")


def test_the_lines_of_code_hold_the_changes() -> None:
    changed = {
        "queries": {(0, 1): 0.1}, "values": {(2, 0): -3}, "scores": {(1, 2): 1e-7}, "scaled": {(0, 0): 2},
        "masked": {(2, 0): 1.5}, "weights": {(1, 1): 0.7}, "weighted": {(1, 0, 1): 4, (2, 2, 0): 5}, "sum": {(0, 0): 6},
    }  # fmt: skip
    inputs = [[1.0, 2.0], [3.0, 5.0], [8.0, 1.0]]
    walk = walkthrough(inputs=inputs, mask="causal", changed=changed)
    scope: dict[str, Any] = {"torch": torch, "math": math, "given": {"inputs": inputs}}
    for step in walk:
        exec(step.code, scope)
    for step in walk:  # after the last line: no line changed a step before its own
        assert torch.allclose(scope[step.name], step.values, rtol=1e-12, atol=1e-12), step.code


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"score": {(0, 0): 1.0}}, "Did you mean 'scores'?"),
        ({"scaled": {(0, 0): 1.0}}, "'scaled'"),  # the plain dot product has no such step
        ({"W_output": {(0, 0): 1.0}}, "W_output is an input and not computed"),
        ({"queries": {(0, 0): 1.0}}, "queries is an input and not computed"),
        ({"scores": {(2, 0): 1.0}}, "There is no scores[2][0] to change; scores is 2 by 3, and indices start at 0."),
        ({"scores": {(0, -1): 1.0}}, "There is no scores[0][-1]"),
        ({"scores": {(0,): 1.0}}, "There is no scores[0] to change"),
        ({"weighted": {(0, 0): 1.0}}, "weighted is 2 by 3 by 1"),
        ({"scores": {(0, 0): math.nan}}, "The new value of scores[0][0] must be a finite number, not nan."),
        ({"scores": {(0, 0): 10**400}}, "must be a finite number, not 1000"),
        ({"scores": {(0, 0): True}}, "must be a finite number, not True"),
        ({"weights": {(0, 0): 1e308}}, "too large"),
    ],
)
def test_a_change_that_does_not_fit_is_one_sentence(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(saccade.SaccadeError) as caught:
        walkthrough(**GIVEN, changed=changed)
    assert message in str(caught.value)


def test_no_change_is_the_plain_walk() -> None:
    document = EXAMPLES["retrieval"]
    assert document.model_copy(update={"changed": ()}).walkthrough().to_dict() == document.walkthrough().to_dict()
