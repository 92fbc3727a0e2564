"""The cost of attention grows with the square of the length of a text; the cost of other networks grows in proportion
to the length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from saccade.attention import attend
from saccade.lab.experiment import Experiment, Trial
from saccade.recurrent.cells import cell_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WIDTH, RADIUS = 16, 8
LENGTHS = (128, 256, 512, 1024)


def window(x: Tensor) -> Tensor:
    """Attention to at most RADIUS neighbours on each side; nothing is computed for other positions."""
    near = nn.functional.pad(x, (0, 0, RADIUS, RADIUS)).unfold(1, 2 * RADIUS + 1, 1)  # (1, N, D, 2R + 1)
    return attend(x[:, :, None], near.transpose(2, 3), near.transpose(2, 3), kernel="equation")


def recurrent(x: Tensor) -> Tensor:
    cell = cell_named("gru")(WIDTH, WIDTH)
    state = None
    for place in range(x.shape[1]):
        state = cell(x[:, place], state)
    assert state is not None
    last: Tensor = state[0]
    return last


LAYERS: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: attend(x, x, x, kernel="equation"),
    "window": window,
    "recurrent": recurrent,
    "convolution": lambda x: nn.Conv1d(WIDTH, WIDTH, 2 * RADIUS + 1, padding=RADIUS)(x.transpose(1, 2)),
}


class _Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the size of the largest result of any operation."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.most = max(self.most, result.numel())
        return result


@torch.inference_mode()
def operations_and_memory(layer: Callable[[Tensor], Tensor], length: int) -> tuple[int, int]:
    x = torch.randn(1, length, WIDTH)
    with FlopCounterMode(display=False) as counter:
        layer(x)
    with _Largest() as largest:  # type: ignore[no-untyped-call]
        layer(x)
    return counter.get_total_flops(), largest.most


def slope(values: list[int]) -> float:
    """Return the exponent p with which these values, one for each of LENGTHS, grow: in proportion to length^p."""
    return math.log(values[-1] / values[0]) / math.log(LENGTHS[-1] / LENGTHS[0])


def measure(trial: Trial) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name, layer in LAYERS.items():
        counted = [operations_and_memory(layer, length) for length in LENGTHS]
        found |= {f"{name}, {length}": float(one[0]) for length, one in zip(LENGTHS, counted, strict=True)}
        found[f"{name}, operations"] = slope([one[0] for one in counted])
        found[f"{name}, memory"] = slope([one[1] for one in counted])
    others = max(found[f"{name}, operations"] for name in LAYERS if name != "attention")
    return found | {"exponent of attention minus the largest other": found["attention, operations"] - others}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for name in LAYERS:
        numbers = [found[f"{name}, {length}"].mean for length in LENGTHS]
        label = f"{name}: exponent {found[f'{name}, operations'].mean:.2f}"
        axes.plot(LENGTHS, numbers, marker="o", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("length")
    axes.set_ylabel("operations")
    axes.legend()


EXPERIMENT = Experiment(
    name="cost",
    lecture="002",
    claim="The cost of attention grows with the square of the length; the cost of windowed attention, recurrent "
    "networks and convolutions grows in proportion to the length.",
    method="We count the operations of one layer, and the numbers in its largest intermediate result, for lengths from "
    f"{LENGTHS[0]} to {LENGTHS[-1]}, and compute the exponent with which they grow.",
    measure=measure,
    decisive="exponent of attention minus the largest other",
    direction="at least",
    bound=0.9,
    draw=draw,
)
