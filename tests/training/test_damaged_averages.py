"""A damaged part of the average: its checkpoint has the same weights; without that the average is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from saccade.errors import DamagedError
from saccade.training.checkpoint import CheckpointStore
from saccade.training.run_folder import RunFolder


def test_damaged_weights_come_from_the_checkpoint_or_nothing_does(tmp_path: Path) -> None:
    averages, checkpoints = CheckpointStore(tmp_path / "averages", 3), CheckpointStore(tmp_path / "checkpoints", 2)
    for step in (1, 2, 3):
        weights = {"weight": torch.full((2, 3), float(step))}
        averages.save(step, weights, {})
        checkpoints.save(step, {f"model.{name}": one for name, one in weights.items()} | {"other": torch.ones(1)}, {})
    run = cast(Any, SimpleNamespace(averages=averages, checkpoints=checkpoints))
    steps = (1, 2, 3)
    run._checkpoint_weights = lambda *given: RunFolder._checkpoint_weights(run, *given)
    told: list[str] = []
    assert RunFolder.averaged(run, steps, told.append)["weight"].tolist() == [[2.0] * 3] * 2
    assert not told
    for step, is_kept in ((3, True), (1, False)):  # two checkpoints are kept
        (file,) = (tmp_path / "averages" / f"step-{step:08d}").glob("*.safetensors")
        file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
        if is_kept:
            assert RunFolder.averaged(run, steps, told.append)["weight"].tolist() == [[2.0] * 3] * 2
            assert "The weights of step 3 are taken from its checkpoint." in told[0]
        else:
            with pytest.raises(DamagedError, match="There is no undamaged checkpoint of step 1 either"):
                RunFolder.averaged(run, steps, told.append)


@pytest.mark.parametrize(("gone", "is_kept"), [(3, True), (2, True), (1, False)])
def test_a_missing_part_of_the_average_is_noticed(gone: int, is_kept: bool, tmp_path: Path) -> None:
    averages, checkpoints = CheckpointStore(tmp_path / "averages", 3), CheckpointStore(tmp_path / "checkpoints", 2)
    for step in (1, 2, 3):
        averages.save(step, {"weight": torch.full((2, 3), float(step))}, {})
        checkpoints.save(step, {"model.weight": torch.full((2, 3), float(step))}, {})
    shutil.rmtree(tmp_path / "averages" / f"step-{gone:08d}")
    run = cast(Any, SimpleNamespace(averages=averages, checkpoints=checkpoints))
    run._checkpoint_weights = lambda *given: RunFolder._checkpoint_weights(run, *given)
    told: list[str] = []
    if is_kept:
        assert RunFolder.averaged(run, (1, 2, 3), told.append)["weight"].tolist() == [[2.0] * 3] * 2
        assert f"The weights of step {gone} are taken from its checkpoint." in told[0]
    else:
        with pytest.raises(DamagedError, match="There is no undamaged checkpoint of step 1 either"):
            RunFolder.averaged(run, (1, 2, 3), told.append)
