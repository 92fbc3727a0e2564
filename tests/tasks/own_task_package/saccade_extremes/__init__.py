"""A task of one's own, numbers in and numbers out: the largest and the smallest of some numbers, by attention.

It is a package that Saccade does not know: its entry point in the group ``saccade.tasks`` is all that joins the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

import saccade
from saccade.data.lines import read_lines
from saccade.data.paths import resolve_path
from saccade.errors import FileError, OptionError
from saccade.lens.figures.matrix import draw_weights
from saccade.models import Config
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.data import DataReader, Say, Size, Splits, hold_out
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.task import Batch, CheckCancelled, Loss, Network, Probe, ReadFile, ScoredTask, TaskState
from saccade.tasks.registry import Entry

__all__ = ["TASK"]

ROWS = ["largest", "smallest"]


@dataclass(frozen=True)
class Example:
    """A line: some numbers, and what is to be found."""

    numbers: tuple[float, ...]
    extremes: tuple[float, float]
    line: int

    @property
    def source(self) -> str:  # equal ones stay in one part
        return repr(self.numbers)


class ExtremesData(Config):
    """Lines of JSON: {"numbers": [...], "extremes": [largest, smallest]}."""

    file: str = Field(description="The file to train on")
    validation: float = Field(0.2, ge=0, lt=1, description="Fraction of the data held out for validation")
    test: float = Field(0.0, ge=0, lt=1, description="Fraction of the data held out for the final test")


class ExtremesFiles(DataReader[Example]):
    """How files are read."""

    settings = ExtremesData

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return {"file": str(files[0])}

    @classmethod
    def read(cls, settings: ExtremesData, seed: int) -> Splits[Example]:
        every = cls.read_for_scoring(settings)
        return Splits(*hold_out(every, {}, settings, seed), [("lines", f"{len(every):,}")])

    @classmethod
    def read_for_scoring(cls, settings: ExtremesData, say: Say = lambda note: None) -> list[Example]:
        found = []
        path = resolve_path(settings.file)
        for line, text in read_lines(path):
            try:
                row = json.loads(text)
                largest, smallest = row["extremes"]
                found.append(Example(tuple(row["numbers"]), (largest, smallest), line))
                if len(found[-1].numbers) != len(found[0].numbers):
                    raise ValueError
            except (ValueError, KeyError, TypeError):
                raise FileError(
                    f"{path}, line {line}: expected numbers and extremes as JSON, with as many numbers in every line."
                ) from None
        return found

    @classmethod
    def recommend(cls, splits: Splits[Example], size: Size) -> dict[str, Any]:
        return {"model": {"width": 8}, "training": {"steps": 300, "lr": 0.05}}

    @classmethod
    def identity(cls, example: Example) -> bytes:
        return f"{example.numbers} {example.extremes}\n".encode()


class ExtremesTraining(TrainingSettings):
    """How the model is trained; a batch is counted in examples."""

    batch_key = "batch_examples"

    batch_examples: int = Field(32, ge=1, description="Examples in a batch")


@dataclass(frozen=True)
class ExtremesState(TaskState):
    """The mean and the standard deviation of all training numbers."""

    mean: float
    deviation: float

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Example], tokenizer: Any = None) -> Self:
        numbers = np.concatenate([example.numbers for example in train])
        return cls(float(numbers.mean()), float(numbers.std()))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(description["mean"], description["deviation"])

    def description(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation}


class ExtremesConfig(Config):
    """One learned query for each of the two answers."""

    width: int = Field(8, ge=1, description="Width of the queries and keys")


class ExtremesNetwork(nn.Module):
    """Each answer is a mean of the numbers, weighted by attention."""

    def __init__(self, config: ExtremesConfig) -> None:
        super().__init__()
        self.config = config
        self.key = nn.Linear(1, config.width)
        self.query = nn.Parameter(torch.randn(2, config.width))
        self.pooling = nn.Identity()

    def forward(self, numbers: Tensor) -> Tensor:
        """(B, N) -> (B, 2)"""
        value = numbers[:, None, :, None]
        query = self.query.expand(len(numbers), 1, -1, -1)
        return saccade.attend(query, self.key(value), value, owner=self.pooling)[:, 0, :, 0]


@dataclass(frozen=True)
class ExtremesBatch(Batch):
    """Lines with equally many numbers, about 0."""

    numbers: Tensor
    extremes: Tensor
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return self.extremes.numel()


class Extremes(ScoredTask):
    """The squared error of both numbers."""

    name = "extremes"
    about = "the largest and the smallest of some numbers"
    metrics = ("error",)
    losses = ("error",)
    state_class = ExtremesState
    tables: ClassVar = {"training": ExtremesTraining}
    networks: ClassVar = {"attention": Network(ExtremesConfig, lambda config, state: ExtremesNetwork(config))}

    state: ExtremesState

    def encode(self, examples: Sequence[Example]) -> Sequence[Example]:
        return examples

    def lengths(self, examples: Sequence[Example]) -> np.ndarray:
        return np.ones((len(examples), 1), dtype=np.int64)

    def batch(self, examples: Sequence[Example]) -> ExtremesBatch:
        numbers, extremes = (
            (torch.tensor(values) - self.state.mean) / self.state.deviation
            for values in ([one.numbers for one in examples], [one.extremes for one in examples])
        )
        return ExtremesBatch(numbers, extremes, [one.line for one in examples])

    def loss(self, model: nn.Module, batch: ExtremesBatch) -> Loss:
        return Loss((model(batch.numbers) - batch.extremes).square().sum(), batch.count)

    def scores(
        self, model: nn.Module, examples: Sequence[Example], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        mean = self.mean_loss(model, examples, batch_size, check_cancelled)
        return {"error": math.sqrt(mean) * self.state.deviation}

    @torch.inference_mode()
    def found(self, model: nn.Module, numbers: Sequence[float]) -> list[float]:
        scaled = (torch.tensor([numbers]) - self.state.mean) / self.state.deviation
        return (model(scaled)[0] * self.state.deviation + self.state.mean).tolist()

    def probe(self, model: nn.Module, example: Example) -> Probe:
        found = [f"{number:.2f}" for number in self.found(model, example.numbers)]
        return Probe([str(number) for number in example.numbers], found, " ".join(found), [])


@dataclass(frozen=True)
class ExtremesAnswer(Answer):
    """Two numbers."""

    numbers: list[float]
    extremes: list[float]
    compute_attention: Callable[[], saccade.View]
    score: float | None = None

    @property
    def text(self) -> str:
        return " ".join(f"{number:.1f}" for number in self.extremes)

    def record(self) -> dict[str, Any]:
        return {"numbers": self.numbers, "extremes": self.extremes}

    def terminal(self) -> list[Any]:
        return [self.text, self.view.terminal("heatmap", name="pooling")]

    def figure(self, dark: bool) -> Any:
        return draw_weights(self.view.matrix("pooling"), ROWS, [str(number) for number in self.numbers], dark=dark)


class ExtremesPredictor(Predictor):
    """An opened model."""

    task: Extremes

    def from_json(self, value: Any) -> list[float]:
        fine = isinstance(value, list) and value and all(type(one) in (int, float) for one in value)
        if not fine or not all(map(math.isfinite, value)):
            raise OptionError("The input is a list of numbers, such as [3, 1.5, 2].")
        return [float(one) for one in value]

    def input_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "number"}, "minItems": 1}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        return [[3, 1.5, 2]]

    def count_tokens(self, given: list[float]) -> int:
        return len(given)

    def answer(self, inputs: Sequence[Any], options: Any, now: Snapshot) -> list[ExtremesAnswer]:
        return [
            ExtremesAnswer(numbers, self.task.found(self.model, numbers), now.later(self._view, numbers))
            for numbers in inputs
        ]

    @torch.inference_mode()
    def _view(self, numbers: Sequence[float]) -> saccade.View:
        with saccade.watch(self.model) as seen:
            self.task.found(self.model, numbers)
        return saccade.view(seen, ROWS, source_tokens=[str(number) for number in numbers])


TASK = Entry(Extremes, ExtremesFiles, ExtremesPredictor)
