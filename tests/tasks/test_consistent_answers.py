"""What is seen of an answer is of the model that gave it: its edits and its weights, or an error."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import saccade
import untrained
from saccade.attention import editable
from saccade.attention.weights import Sparsemax
from saccade.errors import StaleTraceError
from saccade.models import lower_precision
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.predictor import Predictor

SENTENCE = "the black cat sees the dog."
MODELS = {task: made for task, made in untrained.EVERY_TASK.items() if task not in ("trajectories", "base-pairs")}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Predictor, Any]:
    make, given = MODELS[request.param]
    return saccade.open(make(tmp_path / "model")), given


def answer_to(predictor: Predictor, given: Any) -> Answer:
    few = {"max_tokens": 5} if "max_tokens" in predictor.options.model_fields else {}
    return predictor.predict([given], **few)[0]


def weights(answer: Answer) -> dict[str, torch.Tensor]:
    """Of every head."""
    seen = answer.view
    return {f"{name}:{head}": seen.matrix(name, head) for name in seen.names for head in range(seen.heads(name))}


def first_link(predictor: Predictor) -> tuple[str, int, int]:
    return next(iter(editable(predictor.model))), 1, 0


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_an_answer_made_under_edits_is_seen_with_them(model: tuple[Predictor, Any]) -> None:
    predictor, given = model
    name, row, column = first_link(predictor)
    with saccade.edit(predictor.model, without_links=[(name, row, column)]):
        seen_later = answer_to(predictor, given)
        seen_at_once = weights(answer_to(predictor, given))
    found = weights(seen_later)
    assert float(found[f"{name}:0"][row, column]) == 0.0
    assert_same(found, seen_at_once)


def test_an_answer_made_without_edits_is_seen_without_them(model: tuple[Predictor, Any]) -> None:
    predictor, given = model
    name, row, column = first_link(predictor)
    expected = weights(answer_to(predictor, given))
    seen_later = answer_to(predictor, given)
    with saccade.edit(predictor.model, without_links=[(name, row, column)]):
        found = weights(seen_later)
    assert float(found[f"{name}:0"][row, column]) > 0.0
    assert_same(found, expected)


def shifted(network: nn.Module) -> None:
    with torch.no_grad():
        next(network.parameters()).add_(1)


def shifted_unseen(network: nn.Module) -> None:
    next(network.parameters()).data.add_(1)  # torch counts no change of the tensor


def swapped_unseen(network: nn.Module) -> None:
    """Swap two rows, which leaves the plain sum as it is."""
    weight = next(one for one in network.parameters() if one.ndim > 1 and len(one) > 1).data
    weight[[0, 1]] = weight[[1, 0]]


def hooked(network: nn.Module) -> None:
    list(network.modules())[-1].register_forward_hook(lambda module, given, found: found * 2)


def partly_trained(network: nn.Module) -> None:
    list(network.modules())[-1].train()


def loaded(network: nn.Module) -> None:
    network.load_state_dict({name: tensor + 1 for name, tensor in network.state_dict().items()})


def lowered(network: nn.Module) -> None:
    lower_precision(network, "bf16")


@pytest.mark.parametrize(
    "change", [shifted, shifted_unseen, swapped_unseen, loaded, lowered, nn.Module.train, partly_trained, hooked]
)
def test_an_answer_of_a_model_that_has_changed_is_not_seen(
    model: tuple[Predictor, Any], change: Callable[[nn.Module], Any]
) -> None:
    predictor, given = model
    answer = answer_to(predictor, given)
    change(predictor.model)
    with pytest.raises(StaleTraceError, match="has changed since it gave this answer"):
        answer.view  # noqa: B018
    assert weights(answer_to(predictor, given))  # a new answer is of the model as it is now


@pytest.mark.parametrize("change", [shifted, loaded, lowered, nn.Module.train])
def test_counted_changes_are_noticed_without_a_checksum(tmp_path: Path, change: Callable[[nn.Module], Any]) -> None:
    predictor = saccade.open(untrained.tagger(tmp_path / "model"))
    predictor.is_exclusive = True
    answer = predictor.predict([SENTENCE])[0]
    assert answer.view.names
    answer = predictor.predict([SENTENCE])[0]
    change(predictor.model)
    with pytest.raises(StaleTraceError):
        answer.view  # noqa: B018


def test_an_answer_of_a_layer_with_other_weights_is_not_seen(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.tagger(tmp_path / "model"))
    answer = predictor.predict([SENTENCE])[0]
    layer = next(iter(editable(predictor.model).values()))
    layer.weights = Sparsemax()
    with pytest.raises(StaleTraceError):
        answer.view  # noqa: B018


def test_an_edit_keeps_the_output_that_it_was_given(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.translator(tmp_path / "model"))
    layer = editable(predictor.model)["encoder.0.self"]
    value = torch.ones(layer.head_width)
    with saccade.edit(predictor.model, set_heads={"encoder.0.self:0": value}):
        answer, expected = (predictor.predict([SENTENCE])[0] for _ in range(2))
        found = weights(expected)
    value.zero_()
    assert_same(weights(answer), found)


def test_an_answer_in_lower_precision_is_seen_in_it(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.tagger(tmp_path / "model"))
    with torch.autocast("cpu", torch.bfloat16):
        answer, expected = (predictor.predict([SENTENCE])[0] for _ in range(2))
        found = weights(expected)
    assert_same(weights(answer), found)


def test_an_answer_between_two_hidden_changes_is_not_seen(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.tagger(tmp_path / "model"))
    weight = next(predictor.model.parameters())
    predictor.predict([SENTENCE])
    kept = weight.data.clone()
    weight.data.zero_()
    answer = predictor.predict([SENTENCE])[0]
    weight.data.copy_(kept)
    with pytest.raises(StaleTraceError):
        answer.view  # noqa: B018


def test_pictures_and_alternatives_are_of_the_same_model(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.translator(tmp_path / "model"))
    head = f"{next(name for name in editable(predictor.model) if name.endswith('cross'))}:0"
    plain = predictor.predict(["le chat."])[0]
    with saccade.edit(predictor.model, without_heads=[head]):
        one, another = (predictor.predict(["le chat."], n_best=2)[0] for _ in range(2))
        for answer in (one, *one.alternatives):
            answer.view  # noqa: B018
    assert len(another.alternatives) == 1
    for now, later in zip((one, *one.alternatives), (another, *another.alternatives), strict=True):
        assert_same(weights(later), weights(now))
    shifted(predictor.model)
    for show in (lambda: list(plain.terminal()), lambda: plain.figure(False), plain.extras):
        with pytest.raises(StaleTraceError):
            show()


def test_the_words_that_decided_are_those_of_the_edited_model(tmp_path: Path) -> None:
    predictor = saccade.open(untrained.sorter(tmp_path / "model", pooling="mean"))
    plain = predictor.predict([SENTENCE])[0].extras()
    with saccade.edit(predictor.model, without_heads=["encoder.0.self:0", "encoder.0.self:1"]):
        answer = predictor.predict([SENTENCE])[0]
        expected = predictor.predict([SENTENCE])[0].extras()
    assert answer.extras() == expected != plain
    console = Console(file=io.StringIO(), width=200)
    for part in answer.terminal():
        console.print(part)
