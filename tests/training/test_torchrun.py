"""The real torchrun: kills and restarts, two machines with a link that fails, and every kind of task for longer."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
import tomli_w
from tiny_runs import final_weights, last_step, saccade, write_recipe
from together import Together, kinds, losses

pytestmark = pytest.mark.slow
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
#: The second is what restarts need in torch 2.13: without it, about half of them fail.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
KINDS = ["translation, Transformer", "translation, recurrent", "tagging", "images", "language model"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_curve_is_the_same_for_1_2_and_4_processes(tmp_path: Path, kind: str) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(tomli_w.dumps(kinds(tmp_path, steps=50, validate_every=25, lr=1e-3)[kind]))
    assert saccade(tmp_path / "alone", "train", recipe, "-o", tmp_path / "1")[0] == 0
    expected = losses(tmp_path / "1")
    assert expected.keys() == set(range(1, 51))
    for count in (2, 4):
        for shard in ("false", "true"):
            run = tmp_path / f"{count} {shard}"
            arguments = ["train", recipe, "-o", run, "--set", f"distributed.shard={shard}"]
            together = Together(count, *arguments, log=tmp_path / "together")
            assert together.end() == [0] * count, together.err
            assert list(losses(run).values()) == pytest.approx(list(expected.values()), rel=1e-4), (count, shard)


def test_thirty_kills_change_nothing(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=700, validate_every=10, accumulate=2, batch_tokens=64, keep=2)
    whole = Together(2, "train", recipe, "-o", tmp_path / "whole", log=tmp_path / "whole")
    assert whole.end() == [0, 0], whole.err
    run = tmp_path / "run"
    arguments = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "30", "-m", "saccade", "train"]
    command = [*TORCHRUN, *arguments, str(recipe), "-o", str(run)]
    draw, kills = random.Random(1), 0
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)
        killed: set[int] = set()
        while process.poll() is None and kills < 30:
            workers = [pid for pid in children(process.pid) if pid not in killed]
            reached = last_step(run)
            if len(workers) != 2 or reached <= 20 * kills + draw.randint(1, 15):
                time.sleep(0.02)
                continue
            victim = draw.choice(workers)
            killed.update(workers)
            os.kill(victim, signal.SIGKILL)
            kills += 1
        assert process.wait(600) == 0, (tmp_path / "log").read_text()[-3000:]
    assert kills == 30
    assert final_weights(run) == final_weights(tmp_path / "whole")


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


@pytest.mark.parametrize("sharded_before", [False, True])
def test_every_example_is_seen_once_after_a_kill_whatever_the_number_of_processes(
    tmp_path: Path, sharded_before: bool
) -> None:
    recipe = write_recipe(tmp_path, steps=36, validate_every=6, accumulate=3, batch_tokens=64)
    recipe.write_text(recipe.read_text().replace("dropout = 0.2", "dropout = 0.0"))
    whole = Together(1, "train", recipe, "-o", tmp_path / "whole", log=tmp_path / "whole", seen=tmp_path / "whole")
    assert whole.end() == [0], whole.err
    planned = whole.seen()
    expected = list(losses(tmp_path / "whole").values())
    assert len(expected) == 36
    draw = random.Random(sharded_before)
    shard = ["--set", f"distributed.shard={str(sharded_before).lower()}"]
    killed = Together(2, "train", recipe, "-o", tmp_path / "run", *shard, log=tmp_path / "run", seen=tmp_path / "run")
    last = draw.randint(8, 30)
    while last not in killed.seen():
        assert all(command.process.is_alive() for command in killed.commands), killed.err
        time.sleep(0.005)
    for command in killed.commands:
        command.process.kill()
    assert killed.end() == [-signal.SIGKILL] * 2
    begun = killed.seen()
    for count, sharded in product((1, 2, 3, 4), ("false", "true")):
        run = tmp_path / f"{count} {sharded}"
        shutil.copytree(tmp_path / "run", run)
        arguments = ["train", recipe, "-o", run, "--set", f"distributed.shard={sharded}"]
        rest = Together(count, *arguments, log=run, seen=run)
        assert rest.end() == [0] * count, rest.err
        (start,) = [int(step) for step in re.findall(r"Continuing from step (\d+) of 36", rest.out)]
        assert last - 6 <= start < 36
        continued = rest.seen()
        assert sorted(continued) == list(range(start + 1, 37))
        kept = {step: lines for step, lines in begun.items() if step <= start}
        assert kept | continued == planned  # the same examples in every update, each of them once
        assert list(losses(run).values()) == pytest.approx(expected, rel=1e-4), (count, sharded)
    examples = json.loads((tmp_path / "whole" / "result.json").read_text())["of"]
    epoch = Counter[int]()
    for step in sorted(planned):
        if epoch.keys() & planned[step].keys():
            break  # the next epoch
        epoch += planned[step]
    assert set(epoch.values()) == {1}
    assert len(epoch) == 200 - examples  # of the 200 sentences, the others validate


@pytest.fixture
def machines() -> Iterator[list[list[str]]]:
    """Two network namespaces with a link between them; commands that begin with these words run in one of them."""
    names = [f"saccade-{os.getpid()}-{number}" for number in (1, 2)]
    link = [f"sac{os.getpid() % 100000}{letter}" for letter in "ab"]
    if subprocess.run(["ip", "netns", "add", names[0]], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make network namespaces")
    with ExitStack() as cleanup:
        cleanup.callback(subprocess.run, ["ip", "netns", "del", names[0]], check=False)
        subprocess.run(["ip", "netns", "add", names[1]], check=True)
        cleanup.callback(subprocess.run, ["ip", "netns", "del", names[1]], check=False)
        subprocess.run(["ip", "link", "add", link[0], "type", "veth", "peer", "name", link[1]], check=True)
        for number, (name, device) in enumerate(zip(names, link, strict=True), start=1):
            inside = ["ip", "netns", "exec", name, "ip"]
            subprocess.run(["ip", "link", "set", device, "netns", name], check=True)
            subprocess.run([*inside, "link", "set", device, "name", "eth0"], check=True)
            subprocess.run([*inside, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0"], check=True)
            for up in ("eth0", "lo"):
                subprocess.run([*inside, "link", "set", up, "up"], check=True)
        yield [["ip", "netns", "exec", name] for name in names]


def test_two_machines_and_a_link_that_fails(tmp_path: Path, machines: list[list[str]]) -> None:
    recipe = write_recipe(tmp_path, steps=900, validate_every=50, accumulate=2, batch_tokens=64)
    recipe.write_text(recipe.read_text() + "\n[distributed]\ntimeout = 5\n")
    run = tmp_path / "run"

    def start(running: ExitStack) -> list[subprocess.Popen[str]]:
        started = [
            subprocess.Popen(
                [
                    *machine,
                    *TORCHRUN,
                    *("--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1"),
                    *("--master-addr", "10.77.0.1", "--master-port", "29511"),
                    *("-m", "saccade", "train", str(recipe), "-o", str(run)),
                ],
                env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "eth0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for number, machine in enumerate(machines)
        ]
        for process in started:
            running.callback(process.terminate)
        return started

    with ExitStack() as running:
        both = start(running)
        while last_step(run) < 120:
            assert all(process.poll() is None for process in both), both[0].communicate()[0]
            time.sleep(0.1)
        link = [*machines[1], "ip", "link", "set", "eth0"]
        subprocess.run([*link, "down"], check=True)
        said = [process.communicate(timeout=120)[0] for process in both]
        assert all(process.returncode for process in both)
        for number, text in enumerate(said):
            (sentence,) = [line for line in text.splitlines() if line.startswith("saccade:")]
            assert f"Process {1 - number} did not answer for 5 seconds" in sentence
        subprocess.run([*link, "up"], check=True)
        again = start(running)
        said = [process.communicate(timeout=300)[0] for process in again]
        assert [process.returncode for process in again] == [0, 0], said
        assert "Continuing from step" in said[0]
        assert json.loads((run / "result.json").read_text())["steps"] == 900
