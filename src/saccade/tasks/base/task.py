"""A task as the trainer sees it: its state and its objective.

A ``TaskState`` holds what is learned from the training data before there is a network: tokenizers, labels, the mean of
the pixels. It is made once, saved and loaded with the model, and never changes. A ``Task`` is the objective: using a
state and the settings of a recipe, it turns examples into batches, computes the loss of a batch, and scores a model.
Beside each ``task.py``, ``data.py`` reads the task's examples, and ``predictor.py`` applies a trained model to inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError
from saccade.models import Config, TransformerConfig
from saccade.pretrained import Pretrained
from saccade.tasks.base.sharing import for_each
from saccade.text import ForeignTokenizer, Tokenizer, Vocabulary, plan_batches
from saccade.text.foreign import config_name

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
    "Task",
    "TaskState",
    "TokenizerState",
    "device_of",
    "read_count",
    "read_tokenizer",
]

#: Called regularly during long work. It may raise an exception to stop the work.
CheckCancelled = Callable[[], None]
#: Reads a file of a model folder by name and verifies its checksum.
ReadFile = Callable[[str], bytes]


class Batch(ABC):
    """Some examples as tensors. Each task defines its own dataclass."""

    lines: Sequence[int]  # the line numbers of the examples in the user's file, for error messages
    #: The tensors that stay on the CPU, because Python code reads their values.
    on_cpu: ClassVar[tuple[str, ...]] = ("lengths", "source_lengths")

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of predictions in the batch, which is also the ``count`` of its loss."""

    def to(self, device: str) -> Self:
        """Return a copy of the batch with its tensors on ``device``, except for those that ``on_cpu`` names."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        moved = {name: value.to(device) for name, value in tensors.items() if name not in self.on_cpu}
        return replace(cast(Any, self), **moved)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Loss:
    """The loss summed over all predictions, and their number, so that batches can be combined exactly."""

    total: Float[Tensor, ""]
    count: int


class Probe(NamedTuple):
    """What the model currently predicts for one example, recorded at each validation to show how it learns."""

    inputs: list[str]
    outputs: list[str]
    text: str
    weights: list[list[float]]  # (outputs, inputs), or empty if there is no attention between the two


@dataclass(frozen=True)
class Evaluation:
    """The scores of a trained model, and a report on them."""

    scores: dict[str, float]
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind of example -> (correct, total)
    lines: list[str] = field(default_factory=list)  # lines to print as well, such as the scores of each label
    figures: dict[str, Callable[[bool], Figure]] = field(default_factory=dict)  # name -> function that draws it
    signatures: dict[str, str] = field(default_factory=dict)  # score -> how exactly it was computed


class Network(NamedTuple):
    """A kind of network that can do a task: its configuration, and a function that builds it."""

    config: type[Config]
    build: Callable[[Any, Any], nn.Module]  # (configuration, state) -> a network with fresh weights


@dataclass(frozen=True)
class Bundle:
    """A trained model: its task, its network, and its default options for prediction."""

    task: Any  # an instance of a class in ``registry.TASKS``
    kind: str  # the kind of network
    config: Config
    model: nn.Module
    decoding: Config
    data: Mapping[str, Any] = field(default_factory=dict)  # the [data] table of its recipe
    family: str | None = None  # what kind of model it is, if another library trained it: BERT, GPT-2, ...
    unused: Sequence[str] = ()  # tensors of its files, and settings of its original library, that are not used
    engine: str = "torch"  # the library that runs the network; torch stands for Saccade's own networks
    reason: str = ""  # a sentence that says why the engine is not torch


class TaskState(ABC):
    """What a task learned from its training data before there was a network. Each task defines a frozen dataclass."""

    takes_tokenizer: ClassVar[bool] = False  # whether ``prepare`` can use the tokenizer of another task's model

    @property
    def lowercases_words(self) -> bool:
        """Whether a word must be lower-cased before it is looked up in the vocabulary ``words``."""
        return False

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], tokenizer: Tokenizer | None = None) -> Self:
        """Learn the state from these examples. ``tokenizer`` belongs to the model that training starts from, if any."""

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        """Return the state for a model that another library trained."""
        raise OptionError(f"{model.family} models cannot be used for this task.")

    def continued(self, settings: Mapping[str, Any], train: Sequence[Any]) -> Self:
        """Return the state for a new run, with its own recipe and examples, that starts from this model's weights."""
        return self

    @classmethod
    @abstractmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        """Restore the state from what ``description`` and ``files`` returned."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return the JSON values that ``config.json`` must contain so that ``load`` can restore the state."""

    def files(self) -> Mapping[str, bytes]:
        """Return the content of additional files in the model folder, such as tokenizers, by name."""
        return {}

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        """Return the vocabularies of the network's embeddings by name: ``source`` for the text that it reads and
        ``target`` for the text that it writes, ``words`` and ``pieces`` in a tagger, otherwise ``tokenizer``."""
        return {}


class TokenizerState(TaskState):
    """A state that has one tokenizer for all text."""

    tokenizer: Tokenizer

    def files(self) -> Mapping[str, bytes]:
        return self.tokenizer.files()

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        return {"tokenizer": self.tokenizer}


class Task(ABC):
    """An objective: a state, and the settings for training and scoring."""

    name: ClassVar[str]
    about: str  # what the model does, in a few words
    metrics: ClassVar[tuple[str, ...]]  # the scores that can select the best model; the first is the default
    losses: ClassVar[tuple[str, ...]] = ("loss",)  # the metrics for which lower is better
    state_class: ClassVar[type[TaskState]]
    tables: ClassVar[Mapping[str, type[Config]]]  # recipe tables besides data and model; "training" is one of them
    networks: ClassVar[Mapping[str, Network]]  # kind in the [model] table -> network; the first is the default
    counted: ClassVar[str] = "tokens"  # what the model predicts, in the plural, such as tokens, words or images
    model_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # kind -> defaults that this task changes
    inherited_tables: ClassVar[tuple[str, ...]] = ("text",)  # tables that a run takes from the model it starts from
    init_defaults: ClassVar[Mapping[str, Any]] = {}  # [model] defaults if a run starts from another task's model
    length_key: ClassVar[str | None] = None  # the setting that limits the size of training examples, if there is one
    searches: ClassVar[bool] = False  # whether it scores texts found by greedy search in training, by a beam at the end
    evaluation_size: ClassVar[int] = 4096  # the size of the batches in which ``evaluate`` scores a model

    state: Any
    training: Any
    metric: str  # the score that selects the best model

    def __init__(self, state: Any, settings: Mapping[str, Any] | None = None, metric: str | None = None) -> None:
        """``settings`` are the tables of a recipe by name. A missing table has its default values."""
        self.state = state
        self.settings: dict[str, Any] = {
            name: (settings or {}).get(name) or table() for name, table in self.tables.items()
        }
        self.training = self.settings["training"]
        self.metric = metric or self.metrics[0]
        self.check_metric(self.metric)

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Any], initial: Task | None = None) -> TaskState:
        """Return the state for a run with these training examples. ``initial`` is the task of the model that the run
        starts from, if any."""
        if initial is None:
            return cls.state_class.prepare(settings, train)
        state: TaskState = initial.state
        if isinstance(initial, cls):
            return state.continued(settings, train)
        tokenizer = state.vocabularies().get("tokenizer")
        if not cls.state_class.takes_tokenizer or not isinstance(tokenizer, Tokenizer):
            raise OptionError(f"Cannot initialise a {cls.name} model from a {initial.name} model.")
        return cls.state_class.prepare(settings, train, tokenizer)

    @classmethod
    def check_metric(cls, metric: str) -> None:
        if metric not in cls.metrics:
            raise UnknownNameError("metric", metric, cls.metrics, f"The task {cls.name} has")

    @property
    def metric_is_loss(self) -> bool:
        return self.metric in self.losses

    def build(self, kind: str, config: Config) -> nn.Module:
        """Return a network of this kind with fresh weights."""
        if getattr(config, "weights", None) == "lookup":
            raise OptionError(
                'model.weights = "lookup" passes no gradient to queries and keys, and a learned query never equals '
                "a key; use another value (saccade explain shows how lookup works)."
            )
        if isinstance(config, TransformerConfig) and config.weights == "hard":
            raise OptionError(
                'model.weights = "hard" passes no gradient to the scores of a Transformer; use another value.'
            )
        return self.networks[kind].build(config, self.state)

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the examples as token ids or other numbers, from which ``batch`` makes batches."""

    @abstractmethod
    def lengths(self, examples: Sequence[Any]) -> Int[np.ndarray, "n k"]:
        """Return each example's size for filling batches, such as the number of tokens in each of its k sequences."""

    def check_lengths(self, lengths: Int[np.ndarray, "n k"]) -> None:
        """Raise an error if one of the examples alone is larger than a whole batch may be."""
        key, most, largest = self.training.batch_key, self.training.batch_size, int(lengths.max(initial=0))
        if largest > most:
            lower = f", or lower {self.length_key}" if self.length_key else ""
            raise OptionError(
                f"training.{key} = {most} is too small: the largest example has {largest} "
                f"{key.removeprefix('batch_')}; raise it to at least {largest}{lower}."
            )

    def plan(self, lengths: Int[np.ndarray, "n k"], epoch: int) -> list[list[int]]:
        """Return the batches of one training epoch as lists of indices, always the same for the same seed and epoch."""
        training = self.training
        return plan_batches(lengths, max_tokens=training.batch_size, seed=training.seed, epoch=epoch)

    @abstractmethod
    def batch(self, examples: Sequence[Any]) -> Batch:
        """Return a padded batch to train on. Random choices use torch's generator, so a resumed run repeats them."""

    def plain_batch(self, examples: Sequence[Any]) -> Batch:
        """Return a batch to score, in which nothing is changed at random."""
        return self.batch(examples)

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """Return the loss that training minimises. In eval mode it has no training aids, such as label smoothing."""

    @property
    def carries(self) -> bool:
        """Whether each batch depends on the one before it; such batches cannot be divided among processes."""
        return False

    def carried(self) -> dict[str, Tensor]:
        """Return the state that training carries from batch to batch, such as hidden states; checkpoints save it
        too."""
        return {}

    def carry_on(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that ``carried`` returned when a checkpoint was saved."""
        assert not tensors, "a task that carries state between batches must also restore it"

    def smoothing(self, model: nn.Module) -> float:
        """Return the label smoothing of the loss, which is 0 in eval mode."""
        return self.training.label_smoothing if model.training else 0.0

    @abstractmethod
    def validate(
        self, model: nn.Module, examples: Sequence[Any], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        """Return the scores of a model on held-out examples, by name; ``self.metric`` is one of the names."""

    @abstractmethod
    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        """Score a trained model on all of these examples. ``options`` is the recipe's ``[decoding]`` table, if any."""

    def evaluation_effort(self, options: Any) -> float:
        """Return the work of ``evaluate`` for each example, as a multiple of the work of ``validate``."""
        return 1.0

    @abstractmethod
    def probe(self, model: nn.Module, example: Any) -> Probe:
        """Return what the model currently predicts for one example."""

    def source_and_truth(self, example: Any) -> tuple[str, str]:
        """Return the input and the true answer of an example as texts, to show next to the model's answer; each is
        an empty string if it is not a text."""
        return "", ""

    def finish(self, model: nn.Module, examples: Sequence[Any]) -> TaskState:
        """Return the state to save with a trained model; it may include results that need a trained model."""
        return cast(TaskState, self.state)

    def facts(self) -> list[str]:
        """Return list items for the README of the model folder: vocabularies, labels, what the scores mean."""
        return []

    def mean_loss(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int, check_cancelled: CheckCancelled
    ) -> float:
        """Return the mean loss per prediction over all of these examples."""

        def loss_of(part: list[int]) -> tuple[float, int]:
            check_cancelled()
            loss = self.loss(model, self.plain_batch([examples[i] for i in part]).to(device_of(model)))
            return float(loss.total), loss.count

        parts = plan_batches(self.lengths(examples), max_tokens=batch_size, shuffle=False)
        totals, counts = zip(*for_each(parts, loss_of), strict=True)
        return float(sum(totals) / sum(counts))


class ScoredTask(Task):
    """A task whose validations and evaluations compute the same scores."""

    @abstractmethod
    def scores(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        """Return the scores of a model on these examples, by name."""

    @torch.inference_mode()
    def validate(
        self, model: nn.Module, examples: Sequence[Any], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        return self.scores(model, examples, self.training.batch_size, check_cancelled)

    @torch.inference_mode()
    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        batch_size = max(self.evaluation_size, int(self.lengths(examples).max(initial=1)))
        return Evaluation(self.scores(model, examples, batch_size, check_cancelled))


def device_of(model: nn.Module) -> str:
    return str(next(model.parameters()).device)


def read_count(description: Mapping[str, Any], key: str) -> int:
    """Return the number under ``key`` in config.json; raise TypeError if it is not a whole number of at least 1."""
    value = description[key]
    if type(value) is not int or not 1 <= value < 2**31:
        raise TypeError(f"{key} is {str(value)[:40]!r}, not a whole number of at least 1")
    return value


def read_tokenizer(read: ReadFile, where: str, name: str = "tokenizer.json") -> Tokenizer:
    """Read a tokenizer from a model folder.

    The tokenizer of a pretrained model has a second file, which says which tokens are special, such as start and end.
    """
    try:
        about = read(config_name(name))
    except KeyError:  # there is no such file
        return Tokenizer.from_bytes(read(name), f"{where}: {name}")
    return ForeignTokenizer.restore(read(name), about, f"{where}: {name}")
