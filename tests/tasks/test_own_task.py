"""A whole task in one file, as docs/tasks.md describes it: which symbol of a sequence is its largest?

It is registered, trained by a recipe, saved, opened, asked and looked at through the commands that every task has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from rich.console import RenderableType
from torch import Tensor, nn

import saccade
from saccade.cli import main
from saccade.data.lines import read_lines
from saccade.data.paths import resolve_path
from saccade.lens.figures.matrix import heatmap
from saccade.models import Config
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.data import DataReader, Splits
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.task import CheckCancelled, Evaluation, Loss, Network, Probe, ReadFile, State, Task
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.registry import TASKS, Entry

Capture = pytest.CaptureFixture[str]


class Files(Config):
    """The [data] table."""

    path: str  # digits, one sequence a line


class Shape(Config):
    """The [model] table."""

    width: int = 16  # of the vector of a digit


class Network_(nn.Module):
    """Each digit asks for nothing; one learned query asks all of them."""

    def __init__(self, config: Shape) -> None:
        super().__init__()
        self.digits = nn.Embedding(10, config.width)
        self.query = nn.Parameter(torch.zeros(config.width))
        self.pooling = nn.Identity()
        self.output = nn.Linear(config.width, 10)

    def forward(self, digits: Tensor) -> Tensor:
        found = self.digits(digits).unsqueeze(1)  # (B, 1, N, D)
        query = self.query.expand(len(digits), 1, 1, -1)
        answer: Tensor = self.output(saccade.attend(query, found, found, owner=self.pooling)[:, 0, 0])
        return answer


@dataclass(frozen=True)
class Digits:
    """One line."""

    line: int
    digits: tuple[int, ...]


@dataclass(frozen=True)
class DigitsBatch:
    digits: Tensor
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.digits)

    def to(self, device: str) -> DigitsBatch:
        return DigitsBatch(self.digits.to(device), self.lines)


class DigitFiles(DataReader[Digits]):
    """How the data is read."""

    settings = Files

    @classmethod
    def table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return {"path": str(files[0])}

    @classmethod
    def read(cls, settings: Files, seed: int) -> Splits[Digits]:
        every = cls.read_for_scoring(settings)
        held = len(every) // 5
        return Splits(every[held:], every[:held], [], [("lines", str(len(every)))])

    @classmethod
    def read_for_scoring(cls, settings: Files) -> list[Digits]:
        lines = read_lines(resolve_path(settings.path))
        return [Digits(number, tuple(map(int, text.strip()))) for number, text in lines]

    @classmethod
    def recommend(cls, splits: Splits[Digits]) -> dict[str, Any]:
        return {"model": {"width": 16}, "training": {"steps": 200, "warmup": 10}}

    @classmethod
    def identity(cls, example: Digits) -> bytes:
        return bytes(example.digits) + b"\n"


class Nothing(State):
    """Nothing is learned before the network."""

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Digits], tokenizer: Any = None) -> Self:
        return cls()

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls()

    def description(self) -> dict[str, Any]:
        return {}


class Largest(Task):
    """The task."""

    name = "largest"
    about = "the largest digit of a line"
    metrics = ("accuracy", "loss")
    state_class = Nothing
    tables: ClassVar = {"training": TextTraining}
    networks: ClassVar = {"asking": Network(Shape, lambda config, state: Network_(config))}

    def encode(self, examples: Sequence[Digits]) -> Sequence[Digits]:
        return examples

    def lengths(self, examples: Sequence[Digits]) -> np.ndarray:
        return np.array([[len(example.digits)] for example in examples])

    def batch(self, examples: Sequence[Digits]) -> DigitsBatch:
        return DigitsBatch(torch.tensor([e.digits for e in examples]), [e.line for e in examples])

    def loss(self, model: nn.Module, batch: DigitsBatch) -> Loss:
        return Loss(F.cross_entropy(model(batch.digits), batch.digits.amax(dim=1), reduction="sum"), len(batch.digits))

    def validate(
        self, model: nn.Module, examples: Sequence[Digits], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        with torch.inference_mode():
            batch = self.batch(examples)
            right = model(batch.digits).argmax(dim=1) == batch.digits.amax(dim=1)
            return {
                "accuracy": 100 * float(right.float().mean()),
                "loss": float(self.loss(model, batch).total) / batch.count,
            }

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Digits],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        return Evaluation(self.validate(model, examples))

    def probe(self, model: nn.Module, example: Digits) -> Probe:
        with torch.inference_mode():
            found = int(model(torch.tensor([example.digits])).argmax())
        return Probe([str(digit) for digit in example.digits], [str(found)], str(found), [])


class LargestAnswer(Answer):
    def __init__(self, digits: str, model: nn.Module) -> None:
        self.digits, self._model = digits, model
        with torch.inference_mode():
            self.probabilities = model(self._ids).softmax(dim=1)[0]
        self.score = float(self.probabilities.max())
        self.text = str(int(self.probabilities.argmax()))

    @property
    def _ids(self) -> Tensor:
        return torch.tensor([[int(digit) for digit in self.digits]])

    @property
    def scored_tokens(self) -> list[str]:
        return [self.text]

    def record(self) -> dict[str, Any]:
        return {"text": self.text, "probability": self.score}

    @cached_property
    def view(self) -> saccade.View:
        with torch.inference_mode(), saccade.watch(self._model) as seen:
            self._model(self._ids)
        return saccade.view(seen, ["largest"], source_tokens=list(self.digits))

    def terminal(self) -> list[RenderableType]:
        return [self.text, self.view.terminal("heatmap", name="pooling")]

    def figure(self, dark: bool) -> Figure:
        return heatmap(self.view.matrix("pooling"), ["largest"], list(self.digits), dark=dark)


class LargestPredictor(TextInputPredictor):
    def _predict(
        self, inputs: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[Answer]:
        self.chosen(options)
        return [LargestAnswer(text, self.model) for text in inputs]

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        found = LargestAnswer(given, self.model).probabilities[int(answer.text)]
        return [math.log(float(found))]


def command(capsys: Capture, *arguments: object) -> str:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert left.value.code == 0, said.err
    return said.out


def test_a_task_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(TASKS, "largest", Entry(Largest, DigitFiles, LargestPredictor))
    torch.manual_seed(0)
    lines = torch.randint(0, 10, (400, 4)).tolist()
    data = tmp_path / "digits.txt"
    data.write_text("".join("".join(map(str, line)) + "\n" for line in lines))
    recipe, run = tmp_path / "recipe.toml", tmp_path / "run"
    command(capsys, "new", data, "--task", "largest", "-o", recipe)
    assert 'task = "largest"' in recipe.read_text()
    settings = ["training.batch_tokens=128", "training.lr=0.05", "training.validate_every=100"]
    trained = command(capsys, "train", recipe, "-o", run, *(word for one in settings for word in ("--set", one)))
    assert "training examples" in trained
    assert command(capsys, "predict", run, "1937").strip() == "9"
    assert float(command(capsys, "evaluate", run, "--data", data).split()[1]) > 90
    assert "largest" in command(capsys, "look", run, "1937", "--png", tmp_path / "look.png")
    assert (tmp_path / "look.png").exists()
    assert "after" in command(capsys, "look", run, "1937", "--replace", "1937=1237")
