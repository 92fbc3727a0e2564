"""A task as the trainer sees it: its prepared state, and its objective.

A ``State`` is what is learned from the training data before there is a network: tokenizers, labels, the mean of the
pixels. It is made once, saved and loaded with the model, and never changes. A ``Task`` is the objective: with a state
and the settings of a recipe it turns examples into batches, computes the loss of a batch, and scores a model.
Reading examples is the job of ``data.py``, and answering that of ``predictor.py``.
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
from saccade.pretrained import Pretrained
from saccade.recurrent import Recurrent
from saccade.text import ForeignTokenizer, Tokenizer, Vocabulary, plan_batches

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
    "TokenizerState",
    "device_of",
    "read_tokenizer",
]

#: Called regularly during long work; it may raise an exception to stop the work.
CheckCancelled = Callable[[], None]
#: Reads a file of a model folder by name and verifies its checksum.
ReadFile = Callable[[str], bytes]


class Batch(ABC):
    """Some examples as tensors; each task defines a dataclass."""

    lines: Sequence[int]  # their lines in the user's file, for error messages
    #: What stays on the CPU because its values are read there: lengths, and ids that decide how much is computed.
    on_cpu: ClassVar[tuple[str, ...]] = ("lengths", "source_lengths")

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of predictions in the batch, which ``Loss.count`` will equal."""

    def to(self, device: str) -> Self:
        """The same batch on another device, except for what stays on the CPU."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        moved = {name: value.to(device) for name, value in tensors.items() if name not in self.on_cpu}
        return replace(cast(Any, self), **moved)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Loss:
    """The sum over all predictions and their number, so that batches can be combined exactly."""

    total: Float[Tensor, ""]
    count: int


class Probe(NamedTuple):
    """One example as the model sees it now, recorded at each validation to show how it learns."""

    inputs: list[str]
    outputs: list[str]
    text: str
    weights: list[list[float]]  # (outputs, inputs), or empty if there is no attention between them


@dataclass(frozen=True)
class Evaluation:
    """How good a trained model is."""

    scores: dict[str, float]
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind of example -> (correct, total)
    lines: list[str] = field(default_factory=list)  # further lines to print: a score for each label, unknown words, ...
    figures: dict[str, Callable[[bool], Figure]] = field(default_factory=dict)  # name -> drawing, dark or not
    signatures: dict[str, str] = field(default_factory=dict)  # score -> how exactly it was computed


class Network(NamedTuple):
    """A network that can do a task: its configuration, and how to build it for the task's state."""

    config: type[Config]
    build: Callable[[Any, Any], nn.Module]  # (configuration, state) -> fresh weights


@dataclass(frozen=True)
class Bundle:
    """A trained model: a task, its network, and the default settings of its predictions."""

    task: Any  # an instance of a class in ``registry.TASKS``
    kind: str  # the kind of network
    config: Config
    model: nn.Module
    decoding: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # the [data] table of its recipe
    family: str | None = None  # what kind of model it is, if another library trained it: BERT, GPT-2, ...
    unused: Sequence[str] = ()  # tensors of its files that the network does not have


class State(ABC):
    """What a task learned from its training data before there was a network; each task defines a frozen dataclass."""

    takes_tokenizer: ClassVar[bool] = False  # whether ``prepare`` can use the tokenizer of another task's model

    @property
    def lowercases_words(self) -> bool:
        """Whether the vocabulary ``words`` is in lower case although the tokenizer keeps capitals."""
        return False

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], tokenizer: Tokenizer | None = None) -> Self:
        """Learn from these examples; ``tokenizer`` is that of the model that training starts from, if any."""

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        """The state of a model that another library trained."""
        raise OptionError(f"{model.family.name} models cannot be used for this task.")

    def continued(self, settings: Mapping[str, Any]) -> Self:
        """The state of a run that starts from this model's weights, with a recipe of its own."""
        return self

    @classmethod
    @abstractmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        """Restore the state from what ``description`` and ``files`` returned."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The plain values that ``config.json`` must contain so that ``load`` can restore the state."""

    def files(self) -> Mapping[str, bytes]:
        """Additional files of the model folder, such as tokenizers."""
        return {}

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        """The vocabularies of the words that the network embeds: ``source`` and ``target`` if it reads and writes,
        ``words`` and ``pieces`` of words, or one ``tokenizer`` for everything."""
        return {}


class TokenizerState(State):
    """A state with one tokenizer for all text."""

    tokenizer: Tokenizer

    def files(self) -> Mapping[str, bytes]:
        return {"tokenizer.json": self.tokenizer.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        return {"tokenizer": self.tokenizer}


class Task(ABC):
    """An objective: a state, and the settings for training and scoring."""

    name: ClassVar[str]
    about: ClassVar[str]  # what the model does, in a few words
    metrics: ClassVar[tuple[str, ...]]  # the scores that can select the best model, the default first
    losses: ClassVar[tuple[str, ...]] = ("loss",)  # the metrics for which lower is better
    state_class: ClassVar[type[State]]
    tables: ClassVar[Mapping[str, type[Config]]]  # recipe tables besides data and model; "training" is one of them
    networks: ClassVar[Mapping[str, Network]]  # kind in the [model] table -> network; the first is the default
    counted: ClassVar[str] = "tokens"  # what the predictions of a batch are for
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # kind -> the task's own defaults
    init_defaults: ClassVar[Mapping[str, Any]] = {}  # defaults of [model] if a run starts from another task's model

    state: Any
    training: Any
    metric: str  # the score that selects the best model

    def __init__(self, state: Any, settings: Mapping[str, Any] | None = None, metric: str | None = None) -> None:
        """``settings`` are the tables of a recipe by name; a missing table has its default values."""
        self.state = state
        self.settings: dict[str, Any] = {
            name: (settings or {}).get(name) or table() for name, table in self.tables.items()
        }
        self.training = self.settings["training"]
        self.metric = metric or self.metrics[0]
        self.check_metric(self.metric)

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], initial: Task | None = None) -> State:
        """The state for these training examples; ``initial`` is the task of the model that the run starts from."""
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
        if getattr(config, "weights", None) == "lookup":
            raise OptionError(
                'model.weights = "lookup" passes no gradient to queries and keys, and learned ones are never equal; '
                "use another value (saccade explain shows it)."
            )
        if isinstance(config, TransformerConfig) and config.weights == "hard":
            raise OptionError(
                'model.weights = "hard" passes no gradient to the scores of a Transformer; use another value (a '
                'translation network with kind = "recurrent" can learn it, by reinforcement).'
            )
        model = self.networks[kind].build(config, self.state)
        truncate = getattr(self.training, "truncate", None)
        if truncate is not None:
            recurrences = [part for part in model.modules() if isinstance(part, Recurrent)]
            if not recurrences:
                raise OptionError(f"training.truncate only applies to recurrent networks, not to those of kind {kind}.")
            for part in recurrences:
                part.truncate = truncate
        return model

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Turn examples into ids or numbers, from which batches are made."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n k"]:
        """The size of each example in a batch, on each of its sides: its number of tokens, or 1."""

    def plan(self, lengths: Int[np.ndarray, "n k"], epoch: int) -> list[list[int]]:
        """The batches of one epoch of training, as indices of examples; the same for the same seed and epoch."""
        training = self.training
        return plan_batches(lengths, max_tokens=training.batch_size, seed=training.seed, epoch=epoch)

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Batch:
        """A padded batch to train on; random choices use torch's generator, so that a continued run makes the same
        ones."""

    def plain_batch(self, examples: Sequence[Any]) -> Batch:
        """A batch to score: nothing is masked or drawn at random."""
        return self.batch(examples)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """What training minimises; in eval mode without training aids such as label smoothing."""

    def carried(self) -> dict[str, Tensor]:
        """What training carries from batch to batch besides the weights; a checkpoint saves it."""
        return {}

    def carry_on(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue with what ``carried`` returned when a checkpoint was saved."""
        assert not tensors, "a task that carries something takes it back"

    def smoothing(self, model: nn.Module) -> float:
        """The label smoothing of the loss, which is 0 outside training."""
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
        """One example as the model sees it now."""

    def source_and_truth(self, example: Any) -> tuple[str, str]:
        """An example's input and true answer as texts, to show beside what the model answers; empty if they are not
        texts."""
        return "", ""

    def finish(self, model: nn.Module, examples: Sequence[Any]) -> State:
        """The state to save with a trained model, completed with what only a trained model can provide."""
        return cast(State, self.state)

    def facts(self) -> list[str]:
        """List items for the README of the model folder: vocabularies, labels, what the scores mean."""
        return []

    def mean_loss(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int, check_cancelled: CheckCancelled
    ) -> float:
        """The mean loss per prediction, over all of these examples."""
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
