"""The walk has SPEC §1's numbers, agrees with ``attend``, and every line of code it shows gives its numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given as example
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

import saccade
from saccade.attention import MLP, Additive, Bilinear, Hard, ScaledDot, Score, Sparsemax
from saccade.errors import OptionError, ShapeError, TooLargeError, UnknownNameError
from saccade.lens import EXAMPLES, Walkthrough, walkthrough

PROJECTION_STEPS = ["inputs", "W_query", "W_key", "W_value", "queries", "keys", "values"]
TAIL = ["weights", "weighted", "sum"]


def agree(values: Tensor, expected: list[Any]) -> bool:
    """Equal to the four decimals that the lectures print."""
    return torch.allclose(values, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=0.5e-4)


# --- the worked examples -------------------------------------------------------------------------------------


def test_projection_has_the_numbers_of_the_lecture() -> None:
    walk = EXAMPLES["projection"].walkthrough()
    assert [step.name for step in walk] == [*PROJECTION_STEPS, "scores", *TAIL]
    assert walk["queries"].values.tolist() == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert walk["keys"].values.tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert walk["values"].values.tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert walk["scores"].values.tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    assert agree(walk["weights"].values[0], [0.0634, 0.4683, 0.4683])
    assert math.isclose(walk["weights"].values[0, 0], 1 / (1 + 2 * math.e**2))
    assert agree(walk["sum"].values, [[1.9366, 6.6831, 1.5951], [2.0000, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]])
    assert walk.output is walk["sum"].values


def test_retrieval_has_the_numbers_of_the_lecture() -> None:
    walk = EXAMPLES["retrieval"].walkthrough()
    assert [step.name for step in walk] == ["queries", "keys", "values", "scores", "scaled", *TAIL]
    # 0.3·0.4 + 1.2·1.4 + 2.2·0, and so on
    assert agree(walk["scores"].values[0], [1.80, -1.26, 10.33])
    assert agree(walk["scaled"].values[0] * math.sqrt(3), [1.80, -1.26, 10.33])
    assert agree(walk["sum"].values, [[-2.1612, 4.0746, 2.5047], [-2.1286, 4.0524, 2.5159], [-2.2000, 4.1000, 2.5000]])


def test_a_fourth_token_takes_half_of_the_thirds_weight() -> None:
    three, four = EXAMPLES["retrieval"].walkthrough(), EXAMPLES["retrieval4"].walkthrough()
    expected = [[-2.1805, 4.0872, 2.5024], [-2.1640, 4.0760, 2.5080], [-2.2000, 4.1000, 2.5000]]
    assert agree(four["sum"].values, [*expected, [-2.1997, 4.0998, 2.5001]])
    assert torch.equal(four["weights"].values[:, 2], four["weights"].values[:, 3])
    assert torch.equal(four["scores"].values[:3, :3], three["scores"].values)


def test_the_dictionary_finds_what_the_lecture_looks_up() -> None:
    walk = EXAMPLES["dictionary"].walkthrough()
    assert (walk.score, walk.weights) == ("equal", "lookup")
    assert walk["weights"].values.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]
    (found,) = walk["sum"].values[0].nonzero().flatten().tolist()
    assert walk["sum"].column_labels[found] == "May 5th 2000"
    given = {name: numbers for name, numbers in EXAMPLES["dictionary"].model_dump().items() if numbers is not None}
    assert_lines_compute_their_steps(walk, {"given": given})
    with pytest.raises(ShapeError, match="value_names has 1 name; expected 2, one for each column"):
        walkthrough(**numbers(1, 2, 3), value_names=["one"])


def plain(name: str) -> dict[str, Any]:
    """What the lines of code of an example call ``given``."""
    return {key: given for key, given in EXAMPLES[name].model_dump().items() if given is not None}


def test_the_additive_score_is_walked_from_the_inputs_on() -> None:
    """Query 1 is (1, 0, 2), key 1 (0, 1, 1): 1·tanh 1 - 0.5·tanh 1 + 0.5·tanh 3."""
    walk = EXAMPLES["additive"].walkthrough()
    assert [step.name for step in walk][6:] == ["values", "W_score", "compared", "scores", *TAIL]
    assert math.isclose(walk["scores"].values[0, 0], 0.5 * math.tanh(1) + 0.5 * math.tanh(3))
    assert walk["compared"].values.shape == (3, 3, 3)
    assert_lines_compute_their_steps(walk, {"given": plain("additive")})
    query, key, value = (walk[name].values for name in ("queries", "keys", "values"))
    score = Additive(3).double()
    with torch.no_grad():
        score.vector.copy_(walk["W_score"].values.T)
        assert torch.allclose(walk["sum"].values, saccade.attend(query, key, value, score=score))


@pytest.mark.parametrize(("name", "heads"), [("heads", 2), ("channels", 3)])
def test_several_heads_are_those_of_attend_side_by_side(name: str, heads: int) -> None:
    """Each head has its columns; as many heads as columns are a softmax for each channel."""
    walk = EXAMPLES[name].walkthrough()
    assert_lines_compute_their_steps(walk, {"given": plain(name)})
    split = [walk[part].values.view(3, heads, -1).transpose(0, 1) for part in ("queries", "keys", "values")]
    joined = saccade.attend(*split, score="scaled_dot" if name == "heads" else "dot").transpose(0, 1).flatten(1)
    assert torch.allclose(walk["concatenated"].values, joined)
    assert [f"Z{head}" in walk for head in range(heads + 1)] == [True] * heads + [False]
    expected = joined @ walk["W_output"].values if name == "heads" else joined
    assert torch.allclose(walk.output, expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"heads": 2}, "2 heads do not divide the 3 columns of the queries"),
        ({"heads": 0}, "at least 1 head, not 0"),
        ({"score": "additive"}, "The additive score needs W_score"),
        ({"W_score": [[1.0]]}, 'W_score only applies to score = "additive"'),
        ({"score": "additive", "W_score": [[1.0]]}, "W_score is 1 by 1; expected 3 by 1"),
    ],
)
def test_heads_and_vectors_that_do_not_fit_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((OptionError, ShapeError), match=said):
        walkthrough(**numbers(1, 2, 3), **arguments)


def test_weighted_values_are_weight_times_value() -> None:
    walk = EXAMPLES["projection"].walkthrough()
    weighted = walk["weighted"]
    assert weighted.values.shape == (3, 3, 3)
    weight = 1 / (1 + 2 * math.e**2)
    assert torch.allclose(weighted.values[0, 0], weight * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert weighted.block_labels == walk.query_labels
    assert torch.equal(weighted.values.sum(dim=1), walk["sum"].values)


# --- one truth -----------------------------------------------------------------------------------------------


def numbers(seed: int, num_queries: int, num_keys: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"queries": (num_queries, 3), "keys": (num_keys, 3), "values": (num_keys, 2)}
    return {name: torch.randn(size, generator=generator, dtype=torch.float64) for name, size in sizes.items()}


def learned_scores() -> dict[str, Score]:
    torch.manual_seed(5)
    return {"bilinear": Bilinear(3), "additive": Additive(3), "mlp": MLP(3, hidden_width=5)}


def masks(num_queries: int, num_keys: int) -> dict[str, Any]:
    """As the walk and as ``attend`` take them; the matrix leaves the last query nothing."""
    matrix = torch.arange(num_queries * num_keys).reshape(num_queries, num_keys) % 3 != 1
    matrix[-1] = False
    rules = {"none": None, "causal": saccade.causal, "window:1": saccade.window(1)}
    return {name: (name, rule) for name, rule in rules.items()} | {
        "matrix": (matrix.tolist(), matrix),
        "rule": (~saccade.causal, ~saccade.causal),
    }


SCORE_NAMES = ["dot", "scaled_dot", "cosine", "bilinear", "additive", "mlp"]
WEIGHTS_NAMES = ["softmax", "relu", "sparsemax", "hard"]
MASK_NAMES = ["none", "causal", "window:1", "matrix", "rule"]


def walk_of(
    seed: int, num_queries: int, num_keys: int, score: str, weights: str, mask: str
) -> tuple[Walkthrough, Tensor, dict[str, Any]]:
    """A walk, what ``attend`` computes from the same, and the names that its lines of code use."""
    given = numbers(seed, num_queries, num_keys)
    learned = learned_scores().get(score)
    for_walk, for_attend = masks(num_queries, num_keys)[mask]
    walk = walkthrough(**given, score=learned or score, weights=weights, mask=for_walk)
    exact = learned.frozen(torch.float64) if learned else score
    query, key, value = given.values()
    output = saccade.attend(query, key, value, score=exact, weights=weights, mask=for_attend)
    lists = {name: tensor.tolist() for name, tensor in given.items()} | {"mask": for_walk}
    return walk, output.detach(), {"given": lists, "score": exact, "rule": for_attend}


@settings(deadline=None, max_examples=150)
@example(
    seed=st.integers(0, 999),
    num_queries=st.integers(1, 5),
    num_keys=st.integers(1, 5),
    score=st.sampled_from(SCORE_NAMES),
    weights=st.sampled_from(WEIGHTS_NAMES),
    mask=st.sampled_from(MASK_NAMES),
)
def test_the_sum_is_what_attend_computes(
    seed: int, num_queries: int, num_keys: int, score: str, weights: str, mask: str
) -> None:
    walk, output, _ = walk_of(seed, num_queries, num_keys, score, weights, mask)
    assert torch.allclose(walk["sum"].values, output, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mask", MASK_NAMES)
@pytest.mark.parametrize("weights", WEIGHTS_NAMES)
@pytest.mark.parametrize("score", SCORE_NAMES)
def test_every_line_of_code_computes_its_step(score: str, weights: str, mask: str) -> None:
    walk, _, names = walk_of(7, 4, 5, score, weights, mask)
    assert_lines_compute_their_steps(walk, names)


def assert_lines_compute_their_steps(walk: Walkthrough, names: dict[str, Any]) -> None:
    """Each line in its turn, from the lines before alone."""
    scope = names | {"torch": torch, "math": math, "F": F, "Sparsemax": Sparsemax}
    with torch.no_grad():
        for step in walk:
            exec(step.code, scope)
            assert torch.allclose(scope[step.name], step.values, rtol=1e-12, atol=1e-12), step.code


def test_lines_of_self_and_cross_attention_with_an_output_matrix() -> None:
    generator = torch.Generator().manual_seed(1)
    sizes = {"inputs": (3, 4), "source": (5, 2), "W_query": (4, 7), "W_key": (2, 7), "W_value": (2, 6)}
    sizes |= {"W_output": (6, 8)}
    given = {name: torch.randn(size, generator=generator, dtype=torch.float64) for name, size in sizes.items()}
    walk = walkthrough(**given)
    assert_lines_compute_their_steps(walk, {"given": {name: tensor.tolist() for name, tensor in given.items()}})
    assert walk.output.shape == (3, 8)
    assert walk["keys"].equation == "K = S W_K"
    assert walk.query_labels == ("input 1", "input 2", "input 3")
    assert walk.key_labels[-1] == "source 5"
    assert [walk["scores"].row_labels, walk["scores"].column_labels] == [walk.query_labels, walk.key_labels]
    plain = walkthrough(inputs=given["inputs"])
    assert_lines_compute_their_steps(plain, {"given": {"inputs": given["inputs"].tolist()}})
    assert torch.equal(plain["queries"].values, plain["values"].values)


# --- editing -------------------------------------------------------------------------------------------------


def changed_cells(before: Walkthrough, after: Walkthrough) -> dict[str, set[tuple[int, ...]]]:
    cells = {
        step.name: {tuple(place) for place in (step.values != after[step.name].values).nonzero().tolist()}
        for step in before
    }
    return {name: places for name, places in cells.items() if places}


def test_an_edited_value_changes_its_column_of_the_sum_only() -> None:
    document = EXAMPLES["retrieval"]
    assert document.values is not None
    edited = document.model_copy(update={"values": ((9.0, *document.values[0][1:]), *document.values[1:])})
    assert changed_cells(document.walkthrough(), edited.walkthrough()) == {
        "values": {(0, 0)},
        "weighted": {(0, 0, 0), (1, 0, 0), (2, 0, 0)},
        "sum": {(0, 0), (1, 0), (2, 0)},
    }


def test_an_edited_query_changes_its_row_only() -> None:
    document = EXAMPLES["retrieval"]
    assert document.queries is not None
    edited = document.model_copy(update={"queries": (*document.queries[:2], (0.5, 2.5, 0.2))})
    cells = changed_cells(document.walkthrough(), edited.walkthrough())
    assert cells.pop("queries") == {(2, 0), (2, 2)}
    assert set(cells) == {"scores", "scaled", "weights", "weighted", "sum"}
    assert all(place[0] == 2 for places in cells.values() for place in places)


def test_an_edited_future_input_leaves_the_masked_past_alone() -> None:
    document = EXAMPLES["projection"].model_copy(update={"mask": "causal"})
    assert document.inputs is not None
    edited = document.model_copy(update={"inputs": (*document.inputs[:2], (5.0, 1.0, 1.0, 1.0))})
    before, after = document.walkthrough(), edited.walkthrough()
    assert torch.equal(before["sum"].values[:2], after["sum"].values[:2])
    assert not torch.equal(before["sum"].values[2], after["sum"].values[2])
    assert not torch.equal(before["scores"].values[:2], after["scores"].values[:2])


# --- options -------------------------------------------------------------------------------------------------


def test_a_mask_is_a_step_of_its_own() -> None:
    walk = EXAMPLES["projection"].model_copy(update={"mask": "causal"}).walkthrough()
    assert walk["masked"].values.tolist()[0] == [2, -math.inf, -math.inf]
    assert walk["weights"].values[0].tolist() == [1, 0, 0]
    assert walk["masked"].to_dict()["values"] == [[2, None, None], [4, 16, None], [4, 12, 10]]


def test_a_query_that_may_attend_to_nothing_gets_zeros() -> None:
    walk = walkthrough(queries=[[1.0]], keys=[[1.0], [2.0]], values=[[3.0], [4.0]], mask=[[False, False]])
    assert walk["weights"].values.tolist() == [[0, 0]]
    assert walk["sum"].values.tolist() == [[0]]


@pytest.mark.parametrize(
    ("score", "scale", "expected"),
    [
        ("dot", None, "dot"),
        ("dot", True, "scaled_dot"),
        ("scaled_dot", False, "dot"),
        ("scaled_dot", None, "scaled_dot"),
    ],
)
def test_the_scale_can_be_switched(score: str, scale: bool | None, expected: str) -> None:
    walk = walkthrough(
        queries=[[1.0, 2.0, 2.0, 4.0]], keys=[[3.0, 0.0, 0.0, 0.0]], values=[[1.0]], score=score, scale=scale
    )
    assert walk.score == expected
    assert walk["scores"].values.item() == 3
    assert ("scaled" in walk) == (expected == "scaled_dot")
    if "scaled" in walk:
        assert walk["scaled"].values.item() == 1.5  # / √4
        assert (walk["scores"].title, walk["scores"].equation) == ("Dot products", "Q Kᵀ")
        assert (walk["scaled"].title, walk["scaled"].equation) == ("Scores", "E = Q Kᵀ / √D, D = 4")


def test_a_scale_of_ones_own_is_written_as_it_is() -> None:
    walk = walkthrough(queries=[[2.0]], keys=[[3.0]], values=[[1.0]], score=ScaledDot(0.25))
    assert walk["scaled"].values.item() == 1.5
    assert walk["scaled"].code == "scaled = scores * 0.25"


def test_a_sampled_choice_is_one_of_the_keys() -> None:
    walk = walkthrough(**numbers(3, 2, 4), weights=Hard("sample"))
    assert walk.weights == "hard"
    assert walk["weights"].values.sum(dim=-1).tolist() == [1, 1]
    assert "drawn" in walk["weights"].equation


def test_tokens_name_rows_and_columns() -> None:
    walk = walkthrough(inputs=[[1.0], [2.0]], tokens=["the", "cat"])
    assert walk["scores"].row_labels == walk["scores"].column_labels == ("the", "cat")
    walk = walkthrough(queries=[[1.0]], keys=[[1.0]], values=[[1.0]], tokens=["le"], source_tokens=["the"])
    assert (walk.query_labels, walk.key_labels) == (("le",), ("the",))


def test_a_walk_is_apart_from_the_callers_graph() -> None:
    inputs = torch.ones(2, 3, requires_grad=True)
    walk = walkthrough(inputs=inputs, score=Additive(3))
    assert all(step.values.dtype == torch.float64 and not step.values.requires_grad for step in walk)


def test_to_dict_is_json() -> None:
    walk = EXAMPLES["retrieval"].model_copy(update={"mask": "window:1"}).walkthrough()
    content = json.loads(json.dumps(walk.to_dict(), allow_nan=False))
    assert set(content) == {"score", "weights", "mask", "query_labels", "key_labels", "steps"}
    assert [step["name"] for step in content["steps"]] == [step.name for step in walk]
    assert content["steps"][-1]["values"] == walk["sum"].values.tolist()
    assert set(content["steps"][0]) == {
        "name", "title", "equation", "code", "values", "row_labels", "column_labels", "block_labels",
        "changed", "row_notes",
    }  # fmt: skip


# --- what is refused -----------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"queries": [[1.0, 2.0]], "keys": [[1.0, 2.0], [3.0, 4.0]], "values": [[1.0], [2.0]]}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"keys": [[1.0, 2.0], [3.0, math.nan]]}, OptionError, "keys[1][1] is nan"),
        ({"keys": torch.tensor([[1.0, math.inf]])}, OptionError, "keys[0][1] is inf"),
        ({"keys": [[1.0, 2.0], [3.0]]}, ShapeError, "keys[1] has length 1, but keys[0] has length 2"),
        ({"keys": [[1.0, 2.0], 3.0]}, ShapeError, "keys[1] is 3.0"),
        ({"keys": [[1.0, 2.0], [3.0, "x"]]}, OptionError, "keys[1][1] is 'x'"),
        ({"keys": [[10**400, 2.0], [3.0, 4.0]]}, OptionError, "keys[0][0] is inf"),
        ({"keys": []}, ShapeError, "keys is empty"),
        ({"keys": torch.ones(2)}, ShapeError, "keys must be a matrix of at least 1 by 1; it has shape (2,)"),
        ({"keys": [[1.0], [2.0]]}, ShapeError, "query has width 2, the key 1"),
        ({"values": [[1.0]]}, ShapeError, "keys has 2 rows but values has 1"),
        ({"values": None}, OptionError, "values is missing"),
        ({"inputs": [[1.0]]}, OptionError, "Both inputs and queries"),
        ({"mask": [[True]]}, ShapeError, "mask is 1 by 1; expected 1 by 2"),
        ({"mask": [[1, 0]]}, OptionError, "mask[0][0] is 1"),
        ({"mask": torch.ones(1, 2)}, ShapeError, "mask must be a boolean matrix; it is torch.float32"),
        ({"mask": "window:-1"}, UnknownNameError, "allowed: causal, none, window:R"),
        ({"mask": 3}, OptionError, "not int"),
        ({"score": "dott"}, UnknownNameError, "Did you mean 'dot'?"),
        ({"weights": "soft"}, UnknownNameError, "softmax"),
        ({"score": "cosine", "scale": True}, OptionError, "not the Cosine score"),
        ({"tokens": ["a", "b"]}, ShapeError, "tokens has 2 names; expected 1, one for each query"),
        ({"source_tokens": ["a"]}, ShapeError, "source_tokens has 1 name; expected 2"),
        ({"W_output": [[1.0], [2.0]]}, ShapeError, "W_output has 2 rows; expected 1"),
        ({"queries": [[1e200, 1.0]], "keys": [[1e200, 1.0], [0.0, 0.0]]}, OptionError, "scores[0][0] is inf"),
        ({"queries": torch.ones(2048, 2), "values": torch.ones(2, 2048)}, TooLargeError, "2048 queries × 2 keys"),
    ],
)
def test_bad_numbers_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        walkthrough(**GOOD | change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "There is nothing to walk through"),
        ({"inputs": [[1.0]], "W_query": [[1.0]], "W_value": [[1.0]]}, "W_key is missing"),
        (
            {"inputs": [[1.0]], "W_query": [[1.0]], "W_key": [[1.0], [2.0]], "W_value": [[1.0]]},
            "W_key has 2 rows; expected 1, one for each column of inputs",
        ),
        ({"inputs": [[1.0]], "source_tokens": ["a"]}, "source_tokens names the rows of source, which is not given"),
    ],
)
def test_bad_sources_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(saccade.SaccadeError) as caught:
        walkthrough(**arguments)
    assert message in str(caught.value)


def test_an_unknown_step_lists_the_steps() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'scores'"):
        EXAMPLES["projection"].walkthrough()["score"]


def test_a_bias_is_added_before_the_mask() -> None:
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in (4, 5, 5))
    bias = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    walk = walkthrough(queries=query, keys=key, values=value, bias=bias, mask="causal")
    assert [step.name for step in walk][3:8] == ["scores", "scaled", "bias", "biased", "masked"]
    expected = saccade.attend(query, key, value, bias=bias, mask=saccade.attention.causal)
    assert torch.allclose(walk.output, expected)
    names = {step.name: step.values for step in walk}
    assert torch.equal(names["biased"], names["scaled"] + bias)
    run: dict[str, Any] = {**names, "torch": torch, "given": {"bias": bias.tolist()}}
    for name in ("bias", "biased"):
        exec(walk[name].code, run)
        assert torch.equal(run[name], names[name])
    with pytest.raises(ShapeError, match="bias is 4 by 5; expected 5 by 5"):
        walkthrough(inputs=torch.eye(5), bias=bias)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_a_temperature_of_one_changes_nothing_whatever_the_number_of_heads(heads: int) -> None:
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).tolist()
    plain, same = (walkthrough(queries=rows, keys=rows, values=rows, heads=heads, temperature=t) for t in (None, 1.0))
    torch.testing.assert_close(same.output, plain.output)


def test_a_temperature_divides_the_scores() -> None:
    given = {"queries": [[2.0, 0.0, 0.0, 0.0]], "keys": [[3.0, 0, 0, 0], [1.0, 0, 0, 0]], "values": [[1.0], [2.0]]}
    walk = walkthrough(**given, temperature=3.0)  # scores 6 and 2; divided by √4 · 3: 1 and 1/3
    assert agree(walk["scaled"].values[0], [1, 1 / 3])
    assert walk["scaled"].equation == "E = Q Kᵀ / (√D · T), D = 4, T = 3"
    plain = walkthrough(**given, score="dot", temperature=0.5)
    assert agree(plain["scaled"].values[0], [12, 4])
    assert plain["scaled"].equation == "E = Q Kᵀ / T, T = 0.5"
    own = walkthrough(**given, score=ScaledDot(0.25), temperature=2.0)
    assert own["scaled"].equation == "E = 0.25 · Q Kᵀ / T, T = 2"
    same = walkthrough(**given, temperature=1.0)["weights"].values
    assert torch.equal(same, walkthrough(**given)["weights"].values)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(OptionError, match="temperature must be a number above 0"):
            walkthrough(**given, temperature=wrong)
    with pytest.raises(OptionError, match="only divides a dot product, not the Cosine score"):
        walkthrough(**given, score="cosine", temperature=2.0)
