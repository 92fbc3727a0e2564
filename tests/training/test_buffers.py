"""What a network keeps beside its parameters, as batch norm does, is saved, averaged and restored with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainer import make_trainer, run
from torch import Tensor, nn

from saccade.models import EncoderDecoder
from saccade.storage import open_folder, read_tensors, write_folder
from saccade.tasks.base.model_folder import load_weights, unshared
from saccade.tasks.base.task import Network
from saccade.tasks.translation.task import Translation
from saccade.training.checkpoint import CheckpointStore
from saccade.training.run_folder import RunFolder
from saccade.training.trainer import Trainer

BUFFERS = ("between.running_mean", "between.running_var", "between.num_batches_tracked")


class Normed(EncoderDecoder):
    """A Transformer with a batch norm before its output, whose running mean, variance and count are buffers."""

    def __init__(self, config: Any, source: int, target: int) -> None:
        super().__init__(config, source, target)
        self.between = nn.BatchNorm1d(config.width)

    def features(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        found: Tensor = self.between(super().features(source, lengths, target).transpose(1, 2))
        return found.transpose(1, 2)


@pytest.fixture(autouse=True)
def normed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Translation.networks["transformer"]

    def build(config: Any, state: Any) -> nn.Module:
        return Normed(config, state.source.vocabulary_size, state.target.vocabulary_size)

    changed = {**Translation.networks, "transformer": Network(plain.config, build)}
    monkeypatch.setattr(Translation, "networks", changed)


def kept(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in unshared(trainer.model).items()}


def test_a_run_that_was_stopped_goes_on_to_the_same_buffers(tmp_path: Path) -> None:
    whole = make_trainer()
    run(whole)
    store = CheckpointStore(tmp_path)
    half = make_trainer()
    groups = half.groups()
    for _ in range(3):
        half.update(next(groups))
    store.save(3, half.tensors(), half.state())
    again = make_trainer()
    again.restore(store.load(3))
    run(again)
    assert set(BUFFERS) <= kept(whole).keys()
    for name, tensor in kept(whole).items():
        assert torch.equal(kept(again)[name], tensor), name
    assert int(kept(whole)["between.num_batches_tracked"]) == 6


def test_the_moving_average_is_of_buffers_too() -> None:
    trainer = make_trainer(final="ema", ema=0.75)
    expected, groups = kept(trainer), trainer.groups()
    for _ in range(3):
        trainer.update(next(groups))
        for name, tensor in kept(trainer).items():
            expected[name] = 0.75 * expected[name] + 0.25 * tensor if tensor.is_floating_point() else tensor
    before = kept(trainer)
    with trainer._validated_weights():
        for name, tensor in kept(trainer).items():
            torch.testing.assert_close(tensor, expected[name], msg=name)
    for name, tensor in kept(trainer).items():
        assert torch.equal(tensor, before[name]), name
    assert not torch.equal(expected[BUFFERS[0]], before[BUFFERS[0]])


def test_weights_of_validations_are_averaged_with_their_buffers(tmp_path: Path) -> None:
    trainer = make_trainer()
    groups, parts = trainer.groups(), []
    folder = RunFolder.__new__(RunFolder)
    folder.averages = CheckpointStore(tmp_path / "averages")
    for step in (1, 2):
        trainer.update(next(groups))
        folder.averages.save(step, unshared(trainer.model), {})
        parts.append(kept(trainer))
    fresh = make_trainer().model
    load_weights(fresh, folder.averaged((1, 2), lambda _: None), "the average")
    for name, tensor in unshared(fresh).items():
        first, last = parts[0][name], parts[1][name]
        torch.testing.assert_close(tensor, (first + last) / 2 if last.is_floating_point() else last, msg=name)


def test_a_model_folder_holds_buffers(tmp_path: Path) -> None:
    trainer = make_trainer()
    trainer.update(next(trainer.groups()))
    write_folder(tmp_path / "model", {"model.safetensors": unshared(trainer.model)})
    fresh = make_trainer().model
    load_weights(fresh, read_tensors(open_folder(tmp_path / "model"), "model.safetensors"), "the model")
    for name, tensor in unshared(fresh).items():
        assert torch.equal(tensor, kept(trainer)[name]), name
