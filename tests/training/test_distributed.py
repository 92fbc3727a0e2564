"""Several processes train as one does: the same updates, whatever their number, and one voice when something fails."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest
import tomli_w
from safetensors.torch import load_file as saved
from tiny_runs import final_weights, last_step, saccade, write_recipe
from together import LAG, Together, divide_by_zero, kill, kinds, lag, losses, run_out, send_term

from saccade.cli.main import _restarts_may_fail
from saccade.errors import DamagedError
from saccade.storage.run_log import METRICS, read_metrics
from saccade.training.checkpoint import CheckpointStore
from saccade.training.distributed import Torchrun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("together")


def one_of(rank: int, count: int) -> Torchrun:
    """One of several processes that need not meet."""
    process = Torchrun.__new__(Torchrun)
    process.rank, process.count, process._device, process._shard, process._since = rank, count, "cpu", False, 0.0
    return process


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("sizes", [[5, 5, 5, 5], [5, 3, 1], [2], [1, 1]])
def test_an_update_is_the_same_examples_for_any_number_of_processes(count: int, sizes: list[int]) -> None:
    group = [[10 * batch + place for place in range(size)] for batch, size in enumerate(sizes)]
    seen: list[int] = []
    turns = set()
    for rank in range(count):
        process = one_of(rank, count)
        parts = process.divide(group)
        assert [i for part in parts for i in part] == [i for batch in group for i in batch]
        mine = list(process.turns(parts, process_network(), (1, 1)))  # type: ignore[arg-type]
        turns.add(len(mine))
        seen += [i for part, factor in mine for i in part if factor]
    assert sorted(seen) == [i for batch in group for i in batch]
    assert len(turns) == 1  # a process with fewer turns would leave the others waiting


def process_network() -> object:
    return type("Network", (), {})()


@pytest.mark.parametrize(
    ("kind", "shard"),
    [
        ("translation, Transformer", False),
        pytest.param("translation, Transformer", True, marks=pytest.mark.slow),
        ("translation, recurrent", False),
        ("tagging", True),
        ("images", False),
        ("language model", True),
    ],
)
def test_two_processes_have_the_loss_curve_of_one(folder: Path, kind: str, shard: bool) -> None:
    recipe = folder / "recipe.toml"
    tables = kinds(folder, steps=8, validate_every=4, final="ema", ema=0.5)[kind]
    recipe.write_text(tomli_w.dumps(tables | {"distributed": {"shard": shard}}))
    runs = [folder / f"{kind} 1", folder / f"{kind} 2 {shard}"]
    if not runs[0].exists():
        alone = saccade(folder / "alone", "train", recipe, "-o", runs[0])
        assert alone[0] == 0, alone[2]
    both = Together(2, "train", recipe, "-o", runs[1], log=folder / "both")
    assert both.end() == [0, 0], both.err
    found = [losses(run) for run in runs]
    assert found[0].keys() == found[1].keys() == set(range(1, 9))
    assert list(found[1].values()) == pytest.approx(list(found[0].values()), rel=1e-4)
    results = [json.loads((run / "result.json").read_text()) for run in runs]
    assert results[0]["scores"] == pytest.approx(results[1]["scores"], rel=1e-3)
    assert (both.commands[1].out, both.err) == ("", "")  # only the first process prints
    weights = [saved(run / "model" / "model.safetensors") for run in runs]
    assert weights[0].keys() == weights[1].keys()
    files = sorted(os.listdir(runs[1] / "checkpoints" / "step-00000008"))
    parts = ["tensors-00000-of-00002.safetensors", "tensors-00001-of-00002.safetensors"]
    assert files == ["manifest.json", "state.json", *(parts if shard else ["tensors.safetensors"])]


def test_batches_whose_examples_are_compared_are_not_divided(tmp_path: Path) -> None:
    """Hard attention learns from how much better an example does than the others of its batch."""
    recipe = write_recipe(tmp_path, "recurrent", steps=6, validate_every=6, batch_tokens=64)
    recipe.write_text(recipe.read_text().replace("dropout = 0.2", 'dropout = 0.0\nweights = "hard"'))
    for count in (2, 3):
        run = tmp_path / str(count)
        together = Together(count, "train", recipe, "-o", run, log=tmp_path / "log")
        assert together.end() == [0] * count, together.err
    found = [list(losses(tmp_path / str(count)).values()) for count in (2, 3)]
    assert len(found[0]) == 6
    assert found[1] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.slow
def test_a_stop_saves_once_and_any_number_of_processes_goes_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=12, validate_every=4, accumulate=3, batch_tokens=64)
    recipe.write_text(recipe.read_text().replace("dropout = 0.2", "dropout = 0.0"))
    assert saccade(tmp_path / "whole", "train", recipe, "-o", tmp_path / "whole")[0] == 0
    run, sharded = tmp_path / "run", ("--set", "distributed.shard=true")
    # The signal reaches one process only, in the middle of an update.
    stop = {1: (send_term, "Trainer.update", 6)}
    both = Together(2, "train", recipe, "-o", run, *sharded, log=tmp_path / "stopped", do_at=stop)
    assert both.end() == [130, 130], both.err
    assert both.out.count("Stopped and saved.") == 1
    assert sorted(os.listdir(run / "checkpoints")) == ["step-00000004", "step-00000006"]
    three = Together(3, "train", recipe, "-o", run, log=tmp_path / "3", do_at={0: (send_term, "Trainer.update", 3)})
    assert three.end() == [130] * 3, three.err
    assert last_step(run) == 9
    assert saccade(tmp_path / "rest", "train", recipe, "-o", run)[0] == 0
    whole, parts = losses(tmp_path / "whole"), losses(run)
    assert list(parts.values()) == pytest.approx(list(whole.values()), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True])
def test_the_log_shows_which_process_the_others_wait_for(tmp_path: Path, shard: bool) -> None:
    recipe = write_recipe(tmp_path, steps=9, validate_every=9, log_every=9, accumulate=3, batch_tokens=64)
    recipe.write_text(recipe.read_text() + f"\n[distributed]\nshard = {str(shard).lower()}\n")
    three = Together(
        3, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "run", do_at={1: (lag, "Trainer.run", 1)}
    )
    assert three.end() == [0] * 3, three.err
    (line,) = [line for line in read_metrics(tmp_path / "run" / METRICS)[0] if "loss" in line]
    assert sorted(line["processes"]) == ["0", "1", "2"]
    assert max(line["processes"], key=line["processes"].get) == "1"
    assert line["processes"]["1"] > LAG
    assert 0 < line["speed"]["tokens"] < 3 * 64 / LAG


def test_every_damage_to_a_sharded_checkpoint_is_found(folder: Path) -> None:
    recipe = folder / "damaged.toml"
    tables = kinds(folder, steps=3, validate_every=3)["images"] | {"distributed": {"shard": True}}
    recipe.write_text(tomli_w.dumps(tables))
    both = Together(2, "train", recipe, "-o", folder / "damaged", log=folder / "both")
    assert both.end() == [0, 0], both.err
    store = CheckpointStore(folder / "damaged" / "checkpoints")
    assert store.load(3).step == 3
    files = sorted((store.folder / "step-00000003").iterdir())
    assert len(files) == 4
    draw = random.Random(5)
    for number in range(200):
        file = draw.choice(files)
        good = file.read_bytes()
        place = draw.randrange(len(good))
        bit = good[place] ^ (1 << draw.randrange(8))
        file.write_bytes(good[:place] if number % 4 == 0 else good[:place] + bytes([bit]) + good[place + 1 :])
        with pytest.raises(DamagedError):
            store.load(3)
        file.write_bytes(good)
    assert store.load(3).step == 3


def test_a_killed_process_ends_all_and_the_next_attempt_has_the_same_bits(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=12, validate_every=4, accumulate=2, batch_tokens=64)
    whole = Together(2, "train", recipe, "-o", tmp_path / "whole", log=tmp_path / "whole")
    assert whole.end() == [0, 0], whole.err
    killed = Together(
        2, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "run", do_at={0: (kill, "Trainer.update", 6)}
    )
    assert killed.end() == [-signal.SIGKILL, 2]
    assert killed.err == (
        "saccade: Process 0 ended, or the connection was lost, so all processes stop. Run the same command again to "
        "continue from the last checkpoint.\n"
    )
    again = Together(2, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "again")
    assert again.end() == [0, 0], again.err
    assert "Continuing from step 4 of 12." in again.out
    assert final_weights(tmp_path / "run") == final_weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("memory", "There is not enough memory; use a smaller model, smaller batches or a shorter text."),
        ("hook", "Process 1 failed: ZeroDivisionError: division by zero ("),
    ],
)
def test_the_failure_of_one_process_ends_all_with_one_sentence(tmp_path: Path, failure: str, sentence: str) -> None:
    recipe = write_recipe(tmp_path, steps=12, validate_every=4)
    action = {"memory": run_out, "hook": divide_by_zero}[failure]
    failed = Together(
        2, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "run", do_at={1: (action, "Trainer.update", 6)}
    )
    assert failed.end() == [2, 2]
    assert failed.err.startswith(f"saccade: {sentence}")
    assert failed.err.count("\n") == 1


def test_an_error_that_all_processes_meet_is_said_once(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    table = tmp_path / "pairs.tsv"
    table.write_text(table.read_text() + "one\tun\ttoo many\n")
    failed = Together(2, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "run")
    assert failed.end() == [2, 2]
    assert failed.err.startswith(f"saccade: {table}, line 202")
    assert failed.err.count("\n") == 1
    assert not (tmp_path / "run").exists()  # so a corrected file can use the folder


def test_a_process_that_hangs_is_named(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=12, validate_every=4)
    recipe.write_text(recipe.read_text() + "\n[distributed]\ntimeout = 2\n")
    hung = Together(
        3, "train", recipe, "-o", tmp_path / "run", log=tmp_path / "run", do_at={1: (signal.pause, "Trainer.update", 6)}
    )
    assert [hung.commands[rank].exit_code() for rank in (0, 2)] == [2, 2]
    hung.commands[1].process.kill()  # as torchrun does
    assert hung.err.startswith("saccade: Process 1 did not answer for 2 seconds, so all processes stop.")
    assert hung.err.count("\n") == 1


def test_a_command_that_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    refused = Together(2, "explain", log=tmp_path / "refused")
    assert refused.end() == [2, 2]
    assert refused.err == "saccade: Only these commands can be started by torchrun: train, predict, evaluate.\n"


@pytest.mark.parametrize(
    ("restarts", "attempt", "shared", "noted"),
    [("3", "0", "True", True), ("0", "0", "True", False), ("3", "1", "True", False), ("3", "0", "False", False)],
)
def test_torchrun_is_told_once_what_restarts_need(restarts: str, attempt: str, shared: str, noted: bool) -> None:
    environment = {
        "TORCHELASTIC_MAX_RESTARTS": restarts,
        "TORCHELASTIC_RESTART_COUNT": attempt,
        "TORCHELASTIC_USE_AGENT_STORE": shared,  # "False" if TORCH_DISABLE_SHARE_RDZV_TCP_STORE is 1
    }
    assert _restarts_may_fail(environment) == noted
