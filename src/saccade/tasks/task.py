"""What a task is to the trainer, the model folder and the command line.

A task knows how to turn a person's examples into batches, what the loss of a batch is, how good a model is, and
how to show one answer. ``Translation`` is the first; each other task is a file beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["Batch", "Loss", "Probe", "Task", "Tick"]

#: Called between pieces of long work; it may raise to stop it.
Tick = Callable[[], None]


class Batch(Protocol):
    """Some examples as tensors."""

    @property
    def lines(self) -> Sequence[int]:
        """Where they stand in the person's file, for error messages."""
        ...

    def to(self, device: str) -> Batch:
        """The same on another device."""
        ...


@dataclass(frozen=True)
class Loss:
    """A sum over what was predicted, and how many predictions that is, so that batches can be joined exactly."""

    total: Float[Tensor, ""]
    count: int


class Probe(NamedTuple):
    """One example as the model sees it now, kept at each validation: a picture of how it learns."""

    inputs: list[str]
    outputs: list[str]
    text: str
    weights: list[list[float]]  # (outputs, inputs), or empty where there is no attention between them


class Task(Protocol):
    """A task with its vocabularies: all that is between a person's examples and a model's tensors."""

    name: ClassVar[str]
    metric: str  # the score that decides which model is best
    metric_is_loss: bool  # lower is better

    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n k"]:
        """How many tokens each example takes, on each of its sides."""
        ...

    def count(self, examples: Sequence[Any]) -> int:
        """How many predictions these examples ask for: what ``Loss.count`` will be."""
        ...

    def batch(self, examples: Sequence[Any]) -> Batch:
        """Examples, padded to one length."""
        ...

    def loss(self, model: nn.Module, batch: Any, label_smoothing: float) -> Loss:
        """What training makes smaller."""
        ...

    def validate(
        self, model: nn.Module, examples: Sequence[Any], *, limit: int, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        """The scores of a model on held-out examples, ``metric`` among them."""
        ...

    def probe(self, model: nn.Module, example: Any) -> Probe:
        """What the model makes of one example now."""
        ...

    def finish(self, model: nn.Module, examples: Sequence[Any]) -> None:
        """Choices that are made on training data once the model is trained, and saved with it."""
        ...

    def description(self) -> dict[str, Any]:
        """What ``config.json`` must say so that ``read_bundle`` can make the same task again."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """Further files of the model folder, such as tokenizers."""
        ...
