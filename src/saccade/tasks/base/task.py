"""What a task is to the trainer: its trained state, and its objective.

A ``State`` is what is learned from the training data before there is a network: tokenizers, labels, the mean of the
pixels. It is made once, saved and loaded with the model, and never changes. A ``Task`` is the objective: with a state
and the settings of a recipe it turns examples into batches, says what the loss of a batch is and how good a model is.
Where examples come from is ``data.py``'s business, and answering is ``predictor.py``'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError
from saccade.models import Config, TransformerConfig
from saccade.text import Tokenizer, Vocabulary, plan_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Batch",
    "Bundle",
    "CheckCancelled",
    "Evaluation",
    "Loss",
    "Network",
    "Probe",
    "ReadFile",
    "State",
    "Task",
    "device_of",
    "read_tokenizer",
]

#: Called between pieces of long work; it may raise to stop it.
CheckCancelled = Callable[[], None]
#: The file of this name in a model folder, its checksum verified.
ReadFile = Callable[[str], bytes]


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
class Evaluation:
    """How good a trained model is."""

    scores: dict[str, float]
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind of example -> right, and how many
    lines: list[str] = field(default_factory=list)  # more for people: a score for each label, words never seen, ...
    figures: dict[str, Callable[[bool], Figure]] = field(default_factory=dict)  # name -> drawing, dark or not
    signatures: dict[str, str] = field(default_factory=dict)  # score -> how exactly it was computed


class Network(NamedTuple):
    """A network that a task can be done with: its configuration, and how it is built for the task's state."""

    config: type[Config]
    build: Callable[[Any, Any], nn.Module]  # (configuration, state) -> fresh weights


@dataclass(frozen=True)
class Bundle:
    """A trained model: a task, its network, and the settings that its predictions begin from."""

    task: Any  # of a class in ``registry.TASKS``
    kind: str  # of network
    config: Config
    model: nn.Module
    decoding: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # the [data] table of the recipe that it was trained by


class State(ABC):
    """What a task learned from its training data before there was a network; each task's is a frozen dataclass."""

    takes_tokenizer: ClassVar[bool] = False  # whether ``prepare`` can use the tokenizer of another task's model

    @property
    def lowercases_words(self) -> bool:
        """Whether the vocabulary ``words`` holds words in lower case, though its tokenizer would keep capitals."""
        return False

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], tokenizer: Tokenizer | None = None) -> Self:
        """Learned from these examples; ``tokenizer`` is that of the model whose weights training begins with."""

    def continued(self, settings: Mapping[str, Any]) -> Self:
        """The same for a run that begins with the weights of this model, under a recipe of its own."""
        return self

    @classmethod
    @abstractmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        """The state again, from what ``description`` and ``files`` gave."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """What ``config.json`` must say so that ``load`` can make the same state again, in plain values."""

    def files(self) -> Mapping[str, bytes]:
        """Further files of the model folder, such as tokenizers."""
        return {}

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        """What the words that the network has vectors of are known by: ``source`` and ``target`` where it reads and
        writes, ``words`` and ``pieces`` of words, or one ``tokenizer`` for all."""
        return {}


class Task(ABC):
    """An objective: a state, and the settings under which it is trained and judged."""

    name: ClassVar[str]
    about: ClassVar[str]  # what the model does, in a few words
    metrics: ClassVar[tuple[str, ...]]  # the scores that can decide which model is best, the usual one first
    losses: ClassVar[tuple[str, ...]] = ("loss",)  # those of them that are better when lower
    state_class: ClassVar[type[State]]
    tables: ClassVar[Mapping[str, type[Config]]]  # of the recipe, beside data and model; "training" is one of them
    networks: ClassVar[Mapping[str, Network]]  # kind in the [model] table -> network; the first is the usual one
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # kind -> what the task wants where nothing is said
    begun_defaults: ClassVar[Mapping[str, Any]] = {}  # of [model], where a run begins from a model of another task

    state: Any
    training: Any
    metric: str  # the score that decides which model is best

    def __init__(self, state: Any, settings: Mapping[str, Any] | None = None, metric: str | None = None) -> None:
        """``settings`` are the tables of a recipe by name; a table that is missing has its default values."""
        self.state = state
        self.settings: dict[str, Any] = {
            name: (settings or {}).get(name) or table() for name, table in self.tables.items()
        }
        self.training = self.settings["training"]
        self.metric = metric or self.metrics[0]
        self.check_metric(self.metric)

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], initial: Task | None = None) -> State:
        """The state for these training examples; ``initial`` is the task of the model that the run begins from."""
        if initial is None:
            return cls.state_class.prepare(settings, train)
        state: State = initial.state
        if isinstance(initial, cls):
            return state.continued(settings)
        tokenizer = state.vocabularies().get("tokenizer")
        if not cls.state_class.takes_tokenizer or not isinstance(tokenizer, Tokenizer):
            raise OptionError(f"Cannot initialise a {cls.name} model from a {initial.name} model.")
        return cls.state_class.prepare(settings, train, tokenizer)

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
        return self.networks[kind].build(config, self.state)

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Examples as ids or numbers: what batches are made of."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n k"]:
        """How much each example takes of a batch, on each of its sides: its tokens, or 1."""

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Batch:
        """Examples to train on, padded to one length; what is drawn comes from torch's generator, so a run that goes
        on draws the same."""

    def plain_batch(self, examples: Sequence[Any]) -> Batch:
        """Examples to be scored: nothing hidden, nothing drawn."""
        return self.batch(examples)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """What training makes smaller; what only helps to learn, such as label smoothing, is left out in eval mode."""

    def smoothing(self, model: nn.Module) -> float:
        """The label smoothing of the loss: only in training."""
        return self.training.label_smoothing if model.training else 0.0

    @abstractmethod
    def validate(
        self, model: nn.Module, examples: Sequence[Any], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        """The scores of a model on held-out examples, ``metric`` among them."""

    @abstractmethod
    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        """The scores of a trained model on all of these examples; ``options`` is the ``decoding`` table, if any."""

    @abstractmethod
    def probe(self, model: nn.Module, example: Any) -> Probe:
        """What the model makes of one example now."""

    def finish(self, model: nn.Module, examples: Sequence[Any]) -> State:
        """The state to save with a trained model: with what is chosen on training data once there is one."""
        return cast(State, self.state)

    def facts(self) -> list[str]:
        """Items for the README of the model folder: vocabularies, labels, what the scores mean."""
        return []

    def mean_loss(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int, check_cancelled: CheckCancelled
    ) -> float:
        """The loss a prediction, over all of these examples."""
        total, count = 0.0, 0
        for part in plan_batches(self.lengths(examples), max_tokens=batch_size, shuffle=False):
            check_cancelled()
            loss = self.loss(model, self.plain_batch([examples[i] for i in part]).to(device_of(model)))
            total, count = total + float(loss.total), count + loss.count
        return total / count


def device_of(model: nn.Module) -> str:
    return str(next(model.parameters()).device)


def read_tokenizer(read: ReadFile, where: str, name: str = "tokenizer.json") -> Tokenizer:
    """A tokenizer from a model folder."""
    return Tokenizer.from_bytes(read(name), f"{where}: {name}")
