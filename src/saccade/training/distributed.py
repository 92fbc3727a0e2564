"""The processes that work on one run: a single process, or several that torchrun started.

``Processes`` stands for a single process, and ``Torchrun`` for one of several; both have the same methods, so the
trainer need not know which of them it uses. docs/decisions/distributed.md says what is shared between processes, and
how.
"""

from __future__ import annotations

import copy
import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from saccade.errors import WorkerError
from saccade.models import Config
from saccade.models.transformer_layers import Block
from saccade.storage import Content, write_tensors
from saccade.training.interrupt import Interrupt, Stopped

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor

__all__ = ["DistributedSettings", "Processes", "Torchrun", "part_like", "tensor_files", "this_process", "whole"]

Result = TypeVar("Result")
Part = TypeVar("Part")

#: Seconds between two checks of the store while waiting, and between two signs of life of a working process.
LOOK, BEAT = 0.02, 1.0
#: Seconds that a process waits, after losing its connection, for the others to report that they are still running.
ROLL_CALL = 1.5
#: Seconds that a process waits, after a request to stop, for the first process to decide what all of them do.
STOP_GRACE = 5.0
#: Seconds after which a question to the store counts as unanswered, because the connection may be gone.
NO_ANSWER = 3.0


class DistributedSettings(Config):
    """How several processes work together (torchrun)."""

    shard: bool = Field(
        False, description="Give each process a part of the weights, gradients and optimizer state, to save memory"
    )
    timeout: float = Field(
        600.0,
        gt=0,
        description="Stop all processes if one of them does not respond for this many seconds",
    )


class Processes:
    """A process that trains alone."""

    rank = 0
    count = 1

    def begin(self, settings: DistributedSettings, device: str) -> str:
        """Connect the processes, and return the device of this one."""
        return device

    def checking(self, interrupt: Interrupt) -> Callable[[], None]:
        """Return a function that raises ``Stopped`` if the user asked to stop, in all processes at the same step."""
        return interrupt.check

    def wrap(self, network: nn.Module) -> tuple[nn.Module, nn.Module]:
        """Return the network to compute losses with, and the network whose weights are trained.

        The second is ``network`` itself, unless its weights are divided among the processes.
        """
        return network, network

    def divide(self, group: list[list[int]]) -> list[list[int]]:
        """Return the batches of an update, cut into smaller ones if there are fewer than processes."""
        return group

    def turns(self, batches: Sequence[Part], network: nn.Module, seed: tuple[int, int]) -> Iterator[tuple[Part, int]]:
        """Yield the batches of this process, each with the factor by which to multiply its loss.

        ``seed`` contains the seed of the run and the step; together with the number of the batch, it seeds dropout.
        """
        return ((batch, 1) for batch in batches)

    def ready(self) -> None:
        """Stop measuring this process's own time: its loss is computed, and it now exchanges gradients with others."""

    def total(self, value: float) -> float:
        """Return the sum of this value over all processes."""
        return value

    @property
    def own_seconds(self) -> list[float]:
        """The seconds that each process worked on the last update before it had to wait; empty for a single process."""
        return []

    def agreed(self, value: float) -> float:
        """Return, in every process, the value that the first process passed."""
        return value

    def lead(self, work: Callable[[], Result]) -> Result:
        """Let the first process do some work while the others wait; all return its result, a JSON value."""
        return work()

    def in_turn(self, work: Callable[[], Result]) -> Result:
        """Let the first process do some work, and then the others; each returns its own result."""
        return work()

    def gather(self, mine: list[Any]) -> list[list[Any]]:
        """Return the lists ``mine`` of all processes, by rank. They are sent as pickles, which is safe, because all
        processes run the same code."""
        return [mine]

    def files(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Content]:
        """Return the contents of a checkpoint's files that store these tensors, by file name."""
        return {tensor_files(1)[0]: tensors}

    def contribute(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the part of a checkpoint that only this process has. The first process calls ``files`` instead."""

    def show_life(self) -> None:
        """Tell processes that wait for this one that it is still working."""

    def may_speak(self) -> bool:
        """Return whether this process should report a failure that all processes share."""
        return True


class Torchrun(Processes):
    """One of several processes that torchrun started. They exchange data in torchrun's store, which outlives them."""

    unreachable = False  # whether connecting to the other processes failed

    def __init__(self) -> None:
        from torch.distributed.rendezvous import rendezvous

        self.rank, self.count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._interrupt: Interrupt | None = None
        self._stopping = self._leading = self._is_cut_off = False
        # How often the first process worked for all, how often all met, and how many checkpoints were saved.
        self._number = self._meetings = self._saves = 0
        self._beaten = 0.0
        self._since, self._own, self._every_own = time.monotonic(), 0.0, [0.0] * self.count
        self._timeout, self._shard = DistributedSettings().timeout, False
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=self._timeout)))
        # The store may outlive a restart, so each attempt uses its own prefix for keys.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = dist.PrefixStore(f"saccade/{attempt}", store)  # type: ignore[attr-defined]

    def begin(self, settings: DistributedSettings, device: str) -> str:
        self._timeout, self._shard = settings.timeout, settings.shard
        is_gpu = device.startswith("cuda")
        if is_gpu:
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            limit = timedelta(seconds=self._timeout)
            backend = "nccl" if is_gpu else "gloo"
            dist.init_process_group(backend, store=self._store, rank=self.rank, world_size=self.count, timeout=limit)
        self._device = device
        return device

    # --- one update ---

    def wrap(self, network: nn.Module) -> tuple[nn.Module, nn.Module]:
        if not self._shard:
            # PyTorch warns about matrices with one row, whose strides have no effect.
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
            # Buffers that are not saved are constants, so they need not be sent to the others before each batch.
            changing = dict(network.named_buffers()).keys() & network.state_dict().keys()
            exchanging = DistributedDataParallel(network)
            exchanging.broadcast_buffers = bool(changing)
            return exchanging, network
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        sharded = copy.deepcopy(network)
        if self.rank > 0:
            network.to("meta")  # only the first process validates and saves
        mesh = init_device_mesh(self._device.partition(":")[0], (self.count,))
        for part in list(sharded.modules()):
            if isinstance(part, Block) and not part.config.shared_layers:
                fully_shard(part, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        return sharded, sharded

    def divide(self, group: list[list[int]]) -> list[list[int]]:
        shares = math.ceil(self.count / len(group))
        cuts = ((batch, [len(batch) * n // shares for n in range(shares + 1)]) for batch in group)
        parts = (batch[start:stop] for batch, cut in cuts for start, stop in pairwise(cut))
        return [part for part in parts if part]

    def turns(self, batches: Sequence[Part], network: nn.Module, seed: tuple[int, int]) -> Iterator[tuple[Part, int]]:
        """Yield this process's share of the batches. If none is left for it in the last round, yield the first batch
        again with the factor 0, because all processes must take part in each round.

        DistributedDataParallel averages gradients, so the factor of all other batches is the number of processes.
        """
        rounds = math.ceil(len(batches) / self.count)
        self._own = time.monotonic() - self._since  # a sharded network waits for others in its first layer
        with torch.random.fork_rng([self._device] if self._device.startswith("cuda") else []):
            for turn in range(rounds):
                number = turn * self.count + self.rank
                is_last = turn == rounds - 1
                if self._shard:
                    cast("FSDPModule", network).set_requires_gradient_sync(is_last)
                else:
                    network.require_backward_grad_sync = is_last  # type: ignore[assignment]
                torch.manual_seed(int(np.random.SeedSequence([*seed, number]).generate_state(1, np.uint64)[0]) >> 1)
                yield (batches[number], self.count) if number < len(batches) else (batches[0], 0)

    def ready(self) -> None:
        if self._shard:
            return
        if self._device.startswith("cuda"):
            torch.cuda.current_stream().synchronize()
        self._own = time.monotonic() - self._since

    def total(self, value: float) -> float:
        asked = self._interrupt is not None and self._interrupt.heard()
        own = [self._own if rank == self.rank else 0.0 for rank in range(self.count)]
        values = torch.tensor([value, float(asked), *own], dtype=torch.float64, device=self._device)
        dist.all_reduce(values)
        total, stopping, *self._every_own = values.tolist()
        self._stopping = self._stopping or stopping > 0
        self._since = time.monotonic()
        return float(total)

    @property
    def own_seconds(self) -> list[float]:
        return self._every_own

    def agreed(self, value: float) -> float:
        values = torch.tensor([value], dtype=torch.float64, device=self._device)
        dist.broadcast(values, 0)
        return float(values[0])

    def gather(self, mine: list[Any]) -> list[list[Any]]:
        self._meet()  # which, unlike a collective operation, waits as long as the others are working
        every: list[list[Any]] = [[] for _ in range(self.count)]
        dist.all_gather_object(every, mine)
        return every

    # --- work of the first process ---

    def lead(self, work: Callable[[], Result]) -> Result:
        self._number += 1
        key = f"lead/{self._number}"
        if self.rank > 0:
            found: Result = json.loads(self._await(key))
            self._since = time.monotonic()
            return found
        self._leading = True
        try:
            result = work()
        except Stopped:
            self._store.set(key, "stopped")
            raise
        finally:
            self._leading = False
        self._store.set(key, json.dumps(result))
        self._since = time.monotonic()
        return result

    def in_turn(self, work: Callable[[], Result]) -> Result:
        mine: list[Result] = []
        self.lead(lambda: mine.append(work()))
        if self.rank > 0:
            mine.append(work())
        self._meet()
        return mine[0]

    def _meet(self) -> None:
        """Wait until all processes have reached this point."""
        self._meetings += 1
        key = f"all/{self._meetings}"
        if self._store.add(f"{key}/arrived", 1) == self.count:
            self._store.set(key, "null")
        self._await(key)

    def files(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Content]:
        """Return the files; the first process makes the folder, and each writes its own parts of tensors into it."""
        if not self._shard:
            return super().files(tensors)
        self._saves += 1

        def begin(path: Path) -> None:
            self._store.set(f"save/{self._saves}", str(path.parent))
            write_tensors(path, {name: _local(tensor) for name, tensor in tensors.items()})

        def wait(rank: int, path: Path) -> None:
            self._await(f"saved/{self._saves}/{rank}", rank)

        writers: list[Content] = [begin, *(partial(wait, rank) for rank in range(1, self.count))]
        return dict(zip(tensor_files(self.count), writers, strict=True))

    def contribute(self, tensors: Mapping[str, Tensor]) -> None:
        if not self._shard:
            return
        self._saves += 1
        path = Path(self._await(f"save/{self._saves}")) / tensor_files(self.count)[self.rank]
        write_tensors(path, {name: _local(tensor) for name, tensor in tensors.items() if _is_part(tensor)})
        self._store.set(f"saved/{self._saves}/{self.rank}", "null")

    def checking(self, interrupt: Interrupt) -> Callable[[], None]:
        self._interrupt = interrupt
        return self._check

    def _check(self) -> None:
        assert self._interrupt is not None
        self.show_life()
        if self._stopping or (self._interrupt.heard() and self._leading):
            raise Stopped

    def show_life(self) -> None:
        if time.monotonic() - self._beaten > BEAT:
            self._store.add("beats", 1)
            self._beaten = time.monotonic()

    def _await(self, key: str, rank: int = 0) -> str:
        """Wait for a value that a process puts in the store, as long as any process shows signs of life."""
        seen, since, asked = -1, time.monotonic(), 0.0
        while not self._store.check([key]):
            time.sleep(LOOK)
            now = time.monotonic()
            if self._store.check(["failed"]):
                raise WorkerError("Another process failed.")  # which reports it
            beats = self._store.add("beats", 0)
            if beats != seen:
                seen, since = beats, now
            if now - since > self._timeout:
                raise WorkerError(self._silent_sentence([rank]))
            if self._interrupt is not None and self._interrupt.heard():
                asked = asked or now
                if now - asked > STOP_GRACE:
                    raise Stopped
        value: str = self._store.get(key).decode()
        if value == "stopped":
            raise Stopped
        return value

    # --- failure ---

    def may_speak(self) -> bool:
        """Return whether this process should report a failure; only one does, as all may fail for the same reason."""
        end = time.monotonic() + (1.0 if self.rank > 0 else 0.0)
        while time.monotonic() < end and not self._ask(lambda: self._store.check(["failed"])):
            time.sleep(LOOK)
        first = self._ask(lambda: self._store.add("failed/claimed", 1))
        self._ask(lambda: self._store.set("failed", "yes"))
        # If the store cannot be reached, one process of each machine speaks: the first or, on the first machine, the
        # second, because the first may have kept the store and is gone.
        speaker = "1" if os.environ.get("GROUP_RANK", "0") == "0" else "0"
        return first == 1 or (first is None and os.environ.get("LOCAL_RANK") == speaker)

    def explain(self, error: BaseException) -> WorkerError | None:
        """If ``error`` is a lost connection, return an error that names the processes that ended or hang; otherwise
        None."""
        is_lost = isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))
        if not is_lost:
            return None
        self._ask(lambda: self._store.set(f"present/{self.rank}", "yes"))
        end = time.monotonic() + ROLL_CALL
        silent = [rank for rank in range(self.count) if rank != self.rank]
        while silent and time.monotonic() < end:
            silent = [rank for rank in silent if not self._ask(partial(self._store.check, [f"present/{rank}"]))]
            time.sleep(LOOK)
        if "timed out" in str(error).lower():
            return WorkerError(self._silent_sentence(silent))
        return WorkerError(
            f"{_named(silent)} ended, or the connection was lost, so all processes stop. Run the same command again "
            f"to continue from the last checkpoint."
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask the store, but wait at most ``NO_ANSWER`` seconds.

        Return None if it does not answer, or did not answer an earlier question.
        """
        found: list[Any] = []

        def ask() -> None:
            with suppress(RuntimeError):  # the connection is gone
                found.append(question())

        if not self._is_cut_off:
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            thread.join(NO_ANSWER)
        self._is_cut_off = not found
        return found[0] if found else None

    def _silent_sentence(self, ranks: Sequence[int]) -> str:
        return (
            f"{_named(ranks)} did not answer for {self._timeout:g} seconds, so all processes stop. Run the same "
            f"command again to continue from the last checkpoint; if the process was only busy, raise "
            f"distributed.timeout."
        )


def tensor_files(count: int) -> list[str]:
    """The names of the files in a checkpoint whose tensors are divided among this many processes."""
    if count == 1:
        return ["tensors.safetensors"]
    return [f"tensors-{rank:05d}-of-{count:05d}.safetensors" for rank in range(count)]


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that is divided among the processes; all of them must call this."""
    return cast("DTensor", tensor).full_tensor() if _is_part(tensor) else tensor


def part_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of a whole tensor, divided in the same way as ``like``."""
    if not _is_part(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    held = cast("DTensor", like)
    return distribute_tensor(tensor, held.device_mesh, held.placements, src_data_rank=None)


def _is_part(tensor: Tensor) -> bool:
    """Whether this is one process's part of a tensor. The class is not imported, because that takes long."""
    return hasattr(tensor, "to_local")


def _local(tensor: Tensor) -> Tensor:
    return cast("DTensor", tensor).to_local() if _is_part(tensor) else tensor


def _named(ranks: Sequence[int]) -> str:
    if not ranks:
        return "One of the processes"
    return f"Process {ranks[0]}" if len(ranks) == 1 else f"Processes {', '.join(map(str, ranks))}"


@cache
def this_process() -> Processes:
    """This process: one of several if torchrun started it, otherwise alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or Torchrun.unreachable:
        return Processes()
    try:
        return Torchrun()
    except dist.DistError as error:
        Torchrun.unreachable = True  # so that reporting this error does not try to connect again
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise WorkerError(f"Cannot reach the other processes at {where}: {str(error).splitlines()[0]}") from None
