"""Searching for many sources at once: limits, order, batches, and what the trained network is asked for after."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from saccade.attention import Hard
from saccade.errors import OptionError
from saccade.lens.alignment import AlignmentChoice
from saccade.models import RecurrentConfig, TransformerConfig
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.translation import task as translation
from saccade.tasks.translation.gold import GoldPair
from saccade.tasks.translation.task import TextSettings, Translation, TranslationState

PAIRS = [GoldPair(f"{a} {b}", f"{b} {a}", 1) for a, b in zip("abcdefgh", "bcdefgha", strict=True)]


def small_task() -> Translation:
    return Translation(TranslationState.prepare({"text": TextSettings(kind="word", vocabulary=30)}, PAIRS))


def transformer(task: Translation, **changed: object) -> torch.nn.Module:
    torch.manual_seed(0)
    config = TransformerConfig(width=8, num_heads=2, encoder_layers=1, decoder_layers=1, feedforward_width=9, **changed)
    return task.build("transformer", config).eval()


def test_an_output_cut_off_at_the_last_learned_position_can_be_looked_at() -> None:
    task = small_task()
    model = transformer(task, position="learned", max_length=12)
    example = task.encode(PAIRS)[0]
    ((best, *_),) = search(model, [example.source], SearchOptions(beam=1), 100, lambda: None)
    assert len(best.tokens) <= 11
    assert task.probe(model, example).outputs


def test_a_source_longer_than_a_batch_has_a_batch_of_its_own() -> None:
    task = small_task()
    found = search(transformer(task), [[5] * 40, [6]], SearchOptions(beam=2), 8, lambda: None)
    assert [len(best) for best in found] == [1, 1]


def test_draws_come_best_first_and_do_not_depend_on_the_neighbours() -> None:
    task = small_task()
    model = transformer(task)
    options = SearchOptions(sample=True, tries=5, max_ratio=0.5)
    found = search(model, [[6] * 60, [5, 6]], options, 1000, lambda: None)
    for draws in found:
        assert [draw.score for draw in draws] == sorted((draw.score for draw in draws), reverse=True)
    assert all(len(draw.tokens) <= 21 for draw in found[1])


def test_the_alignment_is_chosen_on_as_many_pairs_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "ALIGNMENT_WEIGHTS", 30)
    task = small_task()
    state = task.finish(transformer(task), task.encode(PAIRS))
    assert state.alignment is None or isinstance(state.alignment, AlignmentChoice)
    assert (state.source, task.state.alignment) == (task.state.source, None)  # what the run began with stays


def test_hard_attention_is_reinforced_where_it_is_trained_from_a_recipe() -> None:
    task = small_task()
    for attention in ("output", "state"):
        config = RecurrentConfig(width=8, embedding_width=7, attention=attention, weights="hard", attention_width=5)
        model = task.build("recurrent", config).train()
        task.loss(model, task.batch(task.encode(PAIRS))).total.backward()
        cross = model.get_submodule("decoder.cross")
        assert isinstance(cross.weights, Hard)
        for name, parameter in cross.named_parameters():
            assert parameter.grad is not None, name
            assert float(parameter.grad.abs().sum()) > 0, name


@pytest.mark.parametrize("attention", ["output", "state"])
def test_hard_attention_trains_alike_in_a_distributed_network_and_can_be_copied_after(attention: Any) -> None:
    task = small_task()
    config = RecurrentConfig(width=8, embedding_width=7, attention=attention, weights="hard", attention_width=5)
    model, batch = task.build("recurrent", config).train(), task.batch(task.encode(PAIRS))
    torch.manual_seed(3)
    expected = task.loss(model, batch).total
    expected.backward()
    copied = copy.deepcopy(model)
    with pytest.raises(OptionError, match="no log-probabilities yet"):
        _ = copied.get_submodule("decoder.cross").log_probability
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        torch.manual_seed(3)
        found = task.loss(DistributedDataParallel(copied), batch).total
    finally:
        dist.destroy_process_group()
    assert torch.equal(found, expected)


def test_hard_attention_of_a_transformer_is_refused() -> None:
    with pytest.raises(OptionError, match=r'model.weights = "hard" passes no gradient'):
        transformer(small_task(), weights="hard")
