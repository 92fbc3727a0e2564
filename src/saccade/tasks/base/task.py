"""What a task is to the trainer, the model folder and the command line.

A task knows how to turn a person's files into examples and these into batches, what the loss of a batch is, how good
a model is, and how to show one answer. Each is a class in a file of its own; ``registry.TASKS`` lists them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError
from saccade.models import Config, TransformerConfig
from saccade.text import Tokenizer, Vocabulary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Batch",
    "Bundle",
    "Evaluation",
    "Loss",
    "Network",
    "Probe",
    "ReadFile",
    "Splits",
    "Task",
    "Tick",
    "device_of",
]

#: Called between pieces of long work; it may raise to stop it.
Tick = Callable[[], None]
#: The file of this name in a model folder, its checksum verified.
ReadFile = Callable[[str], bytes]

Raw = TypeVar("Raw")  # an example as it was read from a file


class Batch(ABC):
    """Some examples as tensors; each task's is a dataclass."""

    lines: Sequence[int]  # where they stand in the person's file, for error messages

    @property
    @abstractmethod
    def count(self) -> int:
        """How many predictions it asks for: what ``Loss.count`` will be."""

    def to(self, device: str) -> Self:
        """The same on another device."""
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(cast(Any, self), **moved)  # type: ignore[no-any-return]


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


@dataclass(frozen=True)
class Splits(Generic[Raw]):
    """What is trained on, what decides which model is best, and what is only scored; and what was found."""

    train: list[Raw]
    validation: list[Raw]
    test: list[Raw]
    rows: list[tuple[str, str]] = field(default_factory=list)  # the report of the files: (what, value)
    notes: list[str] = field(default_factory=list)

    def require_some(self) -> Self:
        """Neither training nor validation may be empty."""
        for part, examples in (("training", self.train), ("validation", self.validation)):
            if not examples:
                raise OptionError(f"There are no {part} examples; give more data, or another share in data.validation.")
        return self


@dataclass(frozen=True)
class Evaluation:
    """How good a trained model is."""

    scores: dict[str, float]
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind of example -> right, and how many
    lines: list[str] = field(default_factory=list)  # more for people: a score for each label, words never seen, ...
    figures: dict[str, Callable[[bool], Figure]] = field(default_factory=dict)  # name -> drawing, dark or not


class Network(NamedTuple):
    """A network that a task can be done with: its configuration, and how it is built for the task."""

    config: type[Config]
    build: Callable[[Any, Any], nn.Module]  # (configuration, task) -> fresh weights


@dataclass(frozen=True)
class Bundle:
    """A trained model: a task, its network, and the settings that its predictions begin from."""

    task: Any  # of a class in ``registry.TASKS``
    kind: str  # of network
    config: Config
    model: nn.Module
    decoding: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # the [data] table of the recipe that it was trained by


class Task(ABC):
    """A task with its vocabularies: all that is between a person's examples and a model's tensors.

    What is learned of the training data before the network (tokenizers, labels) is made by ``prepare``, kept with the
    run and the model by ``description`` and ``files``, and made again from these by ``load``.
    """

    name: ClassVar[str]
    about: ClassVar[str]  # what the model does, in a few words
    metrics: ClassVar[tuple[str, ...]]  # the scores that can decide which model is best, the usual one first
    losses: ClassVar[tuple[str, ...]] = ("loss",)  # those of them that are better when lower
    settings: ClassVar[Mapping[str, type[Config]]]  # tables of the recipe beside model and training; "data" is one
    networks: ClassVar[Mapping[str, Network]]  # kind in the [model] table -> network; the first is the usual one
    read_as: ClassVar[tuple[str, ...]] = ()  # keys of [data] that say how a file is read, whichever it is
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # kind -> what the task wants where nothing is said
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # likewise, of the [training] table
    begun_defaults: ClassVar[Mapping[str, Any]] = {}  # of [model], where a run begins from a model of another task

    metric: str  # the score that decides which model is best
    searches: bool = False  # whether answers take a search, so that validations while training score a sample

    # --- before there is a task: files ---

    @classmethod
    @abstractmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        """The ``[data]`` table that files on the command line stand for."""

    @classmethod
    @abstractmethod
    def read(cls, data: Any, seed: int) -> Splits[Any]:
        """Read, clean and part the examples; what was found is in the splits."""

    @classmethod
    @abstractmethod
    def read_given(cls, data: Any) -> list[Any]:
        """The examples of the first file as they are, nothing dropped: to score them, not to train on them."""

    @classmethod
    @abstractmethod
    def fitted(cls, splits: Splits[Any]) -> dict[str, Any]:
        """The tables of a recipe, but for ``data``, that usually work for such examples."""

    @classmethod
    @abstractmethod
    def identity(cls, example: Any) -> bytes:
        """What must be the same for a run to go on: all that training sees of an example."""

    # --- made and kept ---

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], metric: str) -> Self:
        """The task for these training examples."""

    @classmethod
    def prepare_from(cls, other: Task, settings: Mapping[str, Any], train: Sequence[Any], metric: str) -> Self:
        """The task for these training examples, with the vocabulary of a model of another task that it begins from."""
        raise OptionError(f"A model for {cls.name} cannot begin from one for {other.name}.")

    @classmethod
    @abstractmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        """The task again, from what ``description`` and ``files`` gave."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """What ``config.json`` must say so that ``load`` can make the same task again, in plain values."""

    @abstractmethod
    def files(self) -> Mapping[str, bytes]:
        """Further files of the model folder, such as tokenizers."""

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        """What the words that the network has vectors of are known by: ``source`` and ``target`` where it reads and
        writes, ``words`` and ``pieces`` of words, or one ``tokenizer`` for all."""
        return {}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        """The task as a recipe wants it trained; what is learned of the data stays."""
        return self

    @classmethod
    def check_metric(cls, metric: str) -> None:
        if metric not in cls.metrics:
            raise UnknownNameError(f"score for {cls.name}", metric, cls.metrics)

    @property
    def metric_is_loss(self) -> bool:
        return self.metric in self.losses

    def build(self, kind: str, config: Config) -> nn.Module:
        """A network of this kind with fresh weights."""
        if isinstance(config, TransformerConfig) and config.weights == "hard":
            raise OptionError(
                'model.weights = "hard" passes no gradient to the scores of a Transformer; use another (a translation '
                'by a network of kind = "recurrent" learns it, by reinforcement).'
            )
        return self.networks[kind].build(config, self)

    # --- training ---

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Examples as ids or numbers: what batches are made of."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n k"]:
        """How many tokens each example takes, on each of its sides."""

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Batch:
        """Examples to train on, padded to one length; what is drawn comes from torch's generator, so a run that goes
        on draws the same."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, label_smoothing: float) -> Loss:
        """What training makes smaller."""

    @abstractmethod
    def validate(self, model: nn.Module, examples: Sequence[Any], *, batch_tokens: int, tick: Tick) -> dict[str, float]:
        """The scores of a model on these held-out examples, ``metric`` among them."""

    @abstractmethod
    def evaluate(self, model: nn.Module, examples: Sequence[Any], options: Any, *, tick: Tick) -> Evaluation:
        """The scores of a trained model on all of these examples; ``options`` is the ``decoding`` table, if any."""

    @abstractmethod
    def probe(self, model: nn.Module, example: Any) -> Probe:
        """What the model makes of one example now."""

    def finish(self, model: nn.Module, examples: Sequence[Any]) -> None:  # noqa: B027 - most tasks choose nothing
        """Choices that are made on training data once the model is trained, and saved with it."""

    def facts(self) -> list[str]:
        """Items for the README of the model folder: vocabularies, labels, what the scores mean."""
        return []


def device_of(model: nn.Module) -> str:
    return str(next(model.parameters()).device)
