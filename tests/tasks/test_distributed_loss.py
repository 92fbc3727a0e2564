"""Losses go through ``model(...)``: so two processes train as one does, and hooks and compilation see everything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from every_network import NETWORKS, Case, drawn, make, write_files
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from saccade.models.agents import Futures
from saccade.tasks.masked.task import MaskedBatch

EACH = 3  # examples of a process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("networks")
    write_files(made)
    return made


def halves(case: Case) -> tuple[Any, Any, Any]:
    """A batch, and its halves, which ask for equally many predictions each."""
    by_length: dict[int, list[Any]] = {}
    for example in case.examples:
        by_length.setdefault(int(case.task.lengths([example]).max()), []).append(example)
    enough = [by_length[length] for length in sorted(by_length) if len(by_length[length]) >= 2 * EACH]
    first, second = ([enough[i % len(enough)][EACH * half + i] for i in range(EACH)] for half in (0, 1))
    whole = drawn(case, first + second)
    if isinstance(whole, MaskedBatch):
        return masked_halves(whole)
    # The draws of the second half go on where those of the first ended, as in the whole.
    return whole, drawn(case, first), case.task.batch(second)


def masked_halves(drawn: MaskedBatch) -> tuple[MaskedBatch, MaskedBatch, MaskedBatch]:
    """Which tokens are hidden is drawn for the whole batch: the last of a half's are not asked for if they are more."""
    count = min(int(drawn.chosen[:EACH].sum()), int(drawn.chosen[EACH:].sum()))
    order = drawn.chosen.view(2, -1).cumsum(dim=1).view(drawn.chosen.shape)
    chosen = drawn.chosen & (order <= count)
    truth = drawn.truth[chosen[drawn.chosen]]

    def rows(start: int, stop: int) -> MaskedBatch:
        cut = {name: getattr(drawn, name)[start:stop] for name in ("tokens", "lengths")}
        asked = truth[count * start // EACH : count * stop // EACH]
        return replace(drawn, **cut, chosen=chosen[start:stop], truth=asked)

    return rows(0, 2 * EACH), rows(0, EACH), rows(EACH, 2 * EACH)


def gradients(case: Case, model: nn.Module, batch: Any) -> dict[str, Tensor]:
    loss = case.task.loss(model, batch)
    (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
    return {name: parameter.grad for name, parameter in case.model.named_parameters() if parameter.grad is not None}


def work(rank: int, folder: Path) -> None:
    """One of two processes: its half of every case; the first writes down the gradients that both then have."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    found: dict[str, dict[str, Tensor]] = {}
    for name in NETWORKS:
        case = make(folder, name)
        found[name] = gradients(case, DistributedDataParallel(case.model), halves(case)[1 + rank])
    if rank == 0:
        torch.save(found, folder / "gradients.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def distributed(folder: Path) -> dict[str, dict[str, Tensor]]:
    mp.spawn(work, (folder,), nprocs=2)  # type: ignore[no-untyped-call]
    return torch.load(folder / "gradients.pt")  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NETWORKS)
def test_two_processes_have_the_gradients_of_one(
    folder: Path, distributed: dict[str, dict[str, Tensor]], name: str
) -> None:
    case = make(folder, name)
    whole, one, two = halves(case)
    assert one.count == two.count == whole.count / 2
    expected = gradients(case, case.model, whole)
    assert expected.keys() == dict(case.model.named_parameters()).keys()
    assert expected.keys() == distributed[name].keys()
    assert max(float(gradient.abs().max()) for gradient in expected.values()) > 1e-3
    for parameter, gradient in expected.items():
        torch.testing.assert_close(distributed[name][parameter], gradient, rtol=1e-5, atol=1e-5, msg=parameter)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_hook_sees_the_loss(folder: Path, name: str) -> None:
    case = make(folder, name)
    batch = halves(case)[1]
    expected = case.task.loss(case.model, batch).total

    def double(_: nn.Module, arguments: Any, answer: Any) -> Any:
        return answer._replace(drawn=2 * answer.drawn) if isinstance(answer, Futures) else 2 * answer

    case.model.register_forward_hook(double)
    found = case.task.loss(case.model, batch).total
    assert not torch.allclose(found, expected)


@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_a_compiled_network_has_the_same_loss(folder: Path) -> None:
    case = make(folder, "images transformer")
    batch = halves(case)[1]
    expected = case.task.loss(case.model, batch).total
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    found = case.task.loss(torch.compile(case.model, backend=backend), batch).total
    assert graphs  # at least a part of the network went through the compiler
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
