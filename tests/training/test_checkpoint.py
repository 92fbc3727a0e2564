"""Checkpoints: killed while saving, damaged, pruned; and a run that goes on bit for bit.

Run as a program, this file is the process that gets killed: `test_checkpoint.py FOLDER`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import Tensor, nn

from saccade.errors import DamagedError, OptionError, ShapeError
from saccade.storage import JSON, write_folder
from saccade.training.checkpoint import (
    Checkpoint,
    CheckpointStore,
    load_optimizer,
    optimizer_tensors,
    rng_state,
    set_rng_state,
)


def content(step: int) -> tuple[dict[str, Tensor], dict[str, JSON]]:
    """Tensors and state that tell their step everywhere."""
    return {"weight": torch.full((50, 7), float(step)), "count": torch.tensor(step)}, {"loss": 1 / (step + 3)}


def is_content_of(checkpoint: Checkpoint) -> bool:
    tensors, state = content(checkpoint.step)
    same = [torch.equal(checkpoint.tensors[name], tensor) for name, tensor in tensors.items()]
    return all(same) and checkpoint.tensors.keys() == tensors.keys() and checkpoint.state == state


def no_damage(sentence: str) -> None:
    pytest.fail(sentence)


# ------------------------------------------------------------------------------------------ the store


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    assert store.latest(no_damage) is None
    assert store.steps() == []
    assert os.listdir(tmp_path) == []


def test_the_last_are_kept_and_come_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=2)
    for step in (0, 5, 12, 100_000_000):
        assert store.save(step, *content(step)) == tmp_path / "checkpoints" / f"step-{step:08d}"
    assert store.steps() == [12, 100_000_000]
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["step-00000012", "step-100000000"]
    for step in store.steps():
        assert is_content_of(store.load(step))
    latest = store.latest(no_damage)
    assert latest is not None
    assert latest.step == 100_000_000
    assert is_content_of(latest)


def test_a_step_saved_again_is_replaced(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(3, {}, {"try": 1})
    store.save(3, {}, {"try": 2})
    assert store.load(3).state == {"try": 2}
    assert store.steps() == [3]


def test_other_folders_are_no_checkpoints(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    store.save(1, *content(1))
    (tmp_path / "step-000000009").mkdir()
    (tmp_path / "step-9").mkdir()
    (tmp_path / "step-00000009").symlink_to(tmp_path / "step-00000001")
    (tmp_path / "step-00000008").write_text("a file")
    assert store.steps() == [1]
    store.save(2, *content(2))
    assert store.steps() == [2]
    assert len(os.listdir(tmp_path)) == 5


def test_an_older_step_than_the_store_holds_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(10, *content(10))
    with pytest.raises(OptionError, match=r"Step 9 cannot be saved in .*it already contains the later step 10"):
        store.save(9, *content(9))
    with pytest.raises(OptionError, match="must be 0 or more"):
        store.save(-1, *content(-1))
    assert store.steps() == [10]
    store.drop_after(9)
    store.save(9, *content(9))
    assert store.steps() == [9]


def test_nothing_can_be_kept_by_keeping_none(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="at least 1, not 0"):
        CheckpointStore(tmp_path, keep=0)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"betas": (0.9, 0.98)}, r"state\['betas'\] is a tuple"),
        ({"seen": {1: "x"}}, r"A key of state\['seen'\] is 1"),
        ({"rows": [[0, torch.ones(1)]]}, r"state\['rows'\]\[0\]\[1\] is a Tensor"),
    ],
)
def test_a_state_that_json_would_change_is_refused(tmp_path: Path, state: dict[str, JSON], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        CheckpointStore(tmp_path).save(1, {}, state)


# ------------------------------------------------------------------------------------------ damage


def test_sixty_damaged_checkpoints_are_named_and_the_previous_used(tmp_path: Path) -> None:
    chance = random.Random(4)
    store = CheckpointStore(tmp_path)
    store.save(1, *content(1))
    store.save(2, *content(2))
    paths = sorted((tmp_path / "step-00000002").iterdir())
    assert len(paths) == 3
    for _ in range(60):
        path = chance.choice(paths)
        good = path.read_bytes()
        bad = bytearray(good)
        at = chance.randrange(len(good))
        if chance.random() < 0.5:
            bad[at] ^= 1 << chance.randrange(8)
        else:
            del bad[at:]
        path.write_bytes(bad)
        reports: list[str] = []
        latest = CheckpointStore(tmp_path).latest(reports.append)
        assert latest is not None
        assert latest.step == 1
        assert is_content_of(latest)
        assert len(reports) == 1
        assert "step 2." in reports[0]
        assert str(path) in reports[0]
        path.write_bytes(good)
    assert is_content_of(store.load(2))


def test_damaged_checkpoints_do_not_push_out_good_ones(tmp_path: Path) -> None:
    first = CheckpointStore(tmp_path, keep=2)
    for step in (10, 20, 30):
        first.save(step, *content(step))
    (tmp_path / "step-00000030" / "manifest.json").unlink()
    reports: list[str] = []
    second = CheckpointStore(tmp_path, keep=2)
    latest = second.latest(reports.append)
    assert latest is not None
    assert latest.step == 20
    assert second.steps() == [20, 30]  # it stays until a good one can take its place
    second.save(25, *content(25))
    assert second.steps() == [20, 25]
    assert len(reports) == 1


def test_a_damaged_step_is_saved_again(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save(10, *content(10))
    (tmp_path / "step-00000010" / "manifest.json").unlink()
    store = CheckpointStore(tmp_path, keep=1)
    reports: list[str] = []
    assert store.latest(reports.append) is None
    assert "manifest.json: it is missing" in reports[0]
    store.save(10, *content(10))
    assert is_content_of(store.load(10))


def test_a_folder_under_the_wrong_name_is_damaged(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, *content(1)).rename(tmp_path / "step-00000002")
    with pytest.raises(DamagedError, match="is not the state of step 2"):
        store.load(2)
    write_folder(tmp_path / "step-00000003", {"config.json": b"{}"})
    with pytest.raises(DamagedError, match=r"not a checkpoint: it contains config\.json"):
        store.load(3)


# ------------------------------------------------------------------------------------------ killed


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Callable[[int], tuple[int, int]]]:
    """Goes on with the run in another process, which gets SIGKILL after its n-th call of the system.

    The answer: the step it went on from, and how many saves it had finished.
    """
    command = [sys.executable, __file__, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def kill(call: int) -> tuple[int, int]:
            stdin.write(f"{call}\n")
            stdin.flush()
            start, saves = stdout.readline().split()
            return int(start), int(saves)

        yield kill


def test_a_kill_at_a_random_moment_loses_no_finished_save(
    tmp_path: Path, killer: Callable[[int], tuple[int, int]]
) -> None:
    chance = random.Random(4)
    step = total = 0
    for _ in range(12):
        start, saves = killer(chance.randrange(1, 400))
        assert start == step  # the other process found what this one did
        latest = CheckpointStore(tmp_path).latest(no_damage)
        step = latest.step if latest else 0
        assert latest is None or is_content_of(latest)
        assert step - start in (saves, saves + 1)  # the save under way may have got through
        total += saves
    assert total > 0
    store = CheckpointStore(tmp_path, keep=3)
    store.save(step + 1, *content(step + 1))
    assert sorted(os.listdir(tmp_path)) == [f"step-{kept:08d}" for kept in store.steps()]
    assert len(store.steps()) == 3


def save_until_killed(folder: Path, pipe: int) -> None:
    """Go on from the latest checkpoint, telling each call of the system ('.') and each finished save ('s')."""

    def tell(frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__module__", "") == "posix":
            os.write(pipe, b".")

    store = CheckpointStore(folder)
    latest = store.latest(print)
    step = latest.step if latest else 0
    os.write(pipe, f"{step}\n".encode())
    while True:
        step += 1
        tensors, state = content(step)
        sys.setprofile(tell)
        store.save(step, tensors, state)
        sys.setprofile(None)
        os.write(pipe, b"s")


def serve_kills(folder: Path) -> None:
    """For each number read, fork a run and kill it after so many calls of the system."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            save_until_killed(folder, writer)
        os.close(writer)
        with open(reader, "rb") as told:
            start = int(told.readline())
            calls, seen = b"", 0
            while seen < int(line):
                calls += told.read(1)
                seen = calls.count(b".")
            os.kill(child, signal.SIGKILL)
            calls += told.read()
        os.waitpid(child, 0)
        print(start, calls.count(b"s"), flush=True)


# ------------------------------------------------------------------------------------------ going on


class Small(nn.Module):
    """Two layers with dropout between them, and a parameter that never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.second = nn.Linear(5, 2)
        self.idle = nn.Parameter(torch.ones(4))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = nn.functional.dropout(self.first(inputs), 0.3)
        outputs: Tensor = self.second(hidden)
        return outputs


def small(fused: bool = False) -> tuple[Small, torch.optim.AdamW, dict[str, nn.Parameter]]:
    model = Small()
    biases = [model.first.bias, model.second.bias, model.idle]
    groups = [
        {"params": [model.second.weight, model.first.weight], "weight_decay": 0.1},
        {"params": biases, "weight_decay": 0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01, fused=fused)
    return model, optimizer, dict(model.named_parameters())


def train(model: Small, optimizer: torch.optim.AdamW, steps: int) -> None:
    for _ in range(steps):
        loss = model(torch.randn(7, 3)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [False, True])
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, fused: bool) -> None:
    torch.manual_seed(4)
    model, optimizer, parameters = small(fused)
    train(model, optimizer, 3)
    saved = {**model.state_dict(), **optimizer_tensors(optimizer, parameters), **rng_state()}
    CheckpointStore(tmp_path).save(3, saved, {})
    train(model, optimizer, 4)

    torch.manual_seed(5)
    again, other_optimizer, other_parameters = small(fused)
    checkpoint = CheckpointStore(tmp_path).latest(no_damage)
    assert checkpoint is not None
    again.load_state_dict({name: checkpoint.tensors[name] for name in again.state_dict()})
    load_optimizer(other_optimizer, other_parameters, checkpoint.tensors)
    set_rng_state(checkpoint.tensors)
    train(again, other_optimizer, 4)
    for name, parameter in parameters.items():
        assert torch.equal(other_parameters[name], parameter)
    before, after = optimizer_tensors(optimizer, parameters), optimizer_tensors(other_optimizer, other_parameters)
    assert before.keys() == after.keys()
    assert len(before) == 4 * 3  # nothing for the idle parameter
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert before["optimizer.first.weight.step"] == 7


def test_loading_leaves_the_checkpoint_alone() -> None:
    model, optimizer, parameters = small()
    train(model, optimizer, 1)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, parameters).items()}
    load_optimizer(optimizer, parameters, tensors)
    train(model, optimizer, 1)
    assert tensors["optimizer.first.weight.step"] == 1
    assert optimizer_tensors(optimizer, parameters)["optimizer.first.weight.step"] == 2


def test_state_of_another_optimizer_is_refused() -> None:
    model = Small()
    parameters = dict(model.named_parameters())
    momentum = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    amsgrad = torch.optim.AdamW(model.parameters(), amsgrad=True)
    model(torch.randn(7, 3)).sum().backward()
    for optimizer, odd in [(momentum, "momentum_buffer"), (amsgrad, "max_exp_avg_sq")]:
        optimizer.step()
        with pytest.raises(OptionError, match=odd):
            optimizer_tensors(optimizer, parameters)
    plain = torch.optim.AdamW(model.parameters())
    plain.step()
    plain.state[model.first.weight]["step"] = 1
    with pytest.raises(OptionError, match=r"'step' of 'first\.weight' is a int, not a tensor"):
        optimizer_tensors(plain, parameters)


def test_state_that_does_not_fit_the_model_is_refused() -> None:
    model, optimizer, parameters = small()
    train(model, optimizer, 1)
    tensors = optimizer_tensors(optimizer, parameters)
    first = "optimizer.first.weight.exp_avg"
    cases = [
        (OptionError, "contains 'optimizer.third.step'", {**tensors, "optimizer.third.step": torch.tensor(1.0)}),
        (OptionError, f"lacks '{first}'", {name: value for name, value in tensors.items() if name != first}),
        (
            ShapeError,
            r"exp_avg of 'first.weight' has shape \(3, 5\), expected \(5, 3\)",
            {**tensors, first: torch.ones(3, 5)},
        ),
    ]
    for error, sentence, bad in cases:
        with pytest.raises(error, match=sentence):
            load_optimizer(optimizer, parameters, bad)
    with pytest.raises(OptionError, match=r"a parameter of shape \(4,\) that has no name"):
        optimizer_tensors(optimizer, {name: value for name, value in parameters.items() if name != "idle"})
    with pytest.raises(OptionError, match=r"rng\.cpu"):
        set_rng_state(tensors)


if __name__ == "__main__":
    serve_kills(Path(sys.argv[1]))
