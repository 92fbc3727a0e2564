"""The base class of tasks that predict labels (tagging, classification and images): how a model is scored."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import counted
from saccade.tasks.base.label_report import confusion_figure, confusion_lines, label_lines
from saccade.tasks.base.label_scores import UNSEEN, LabelScore, accuracy, confusion, label_scores, macro_f1, numbered
from saccade.tasks.base.sharing import for_each
from saccade.tasks.base.task import CheckCancelled, Evaluation, Loss, Task, device_of
from saccade.text import plan_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LabelPredictions", "LabelTask", "label_fact"]


@dataclass(frozen=True)
class LabelPredictions:
    """The labels that a model predicted, and the true labels."""

    found: Float[Tensor, "n L"]  # log-probabilities
    truth: Int[Tensor, " n"]  # the true labels, as indices into names
    names: Sequence[str]  # the labels that the model knows, then those that it cannot predict

    @cached_property
    def best(self) -> Int[Tensor, " n"]:
        return self.found.argmax(dim=-1)

    @cached_property
    def table(self) -> Int[np.ndarray, "L L"]:
        return confusion(self.truth.tolist(), self.best.tolist(), len(self.names))

    @cached_property
    def each(self) -> list[LabelScore]:
        return label_scores(self.table, self.names)

    @property
    def accuracy(self) -> float:
        return 100 * accuracy(self.table)

    @property
    def macro_f1(self) -> float:
        return 100 * macro_f1(self.each)

    def mistakes(self) -> list[str]:
        """Return lines that say which labels were confused with which."""
        return confusion_lines(self.table, self.names)

    def figures(self) -> dict[str, Callable[[bool], Figure]]:
        return {"confusion": partial(confusion_figure, self.table, self.names)}

    @property
    def loss(self) -> float:
        """The mean cross-entropy, leaving out items whose true label the model cannot predict."""
        ids = self.truth.masked_fill(self.truth >= self.found.shape[1], UNSEEN)
        return float(F.nll_loss(self.found, ids, ignore_index=UNSEEN))


class LabelTask(Task):
    """A task that predicts a label for each item: a word, a text or an image."""

    #: The weight of each label in the training loss; None if all labels have the same weight.
    class_weights: Float[Tensor, " L"] | None = None

    def __init__(self, state: Any, settings: Mapping[str, Any] | None = None, metric: str | None = None) -> None:
        super().__init__(state, settings, metric)
        self.labels: list[str] = list(state.labels)
        if not all(isinstance(label, str) for label in self.labels):
            raise TypeError("the labels are not all texts")
        self.label_ids = {label: id for id, label in enumerate(self.labels)}

    @abstractmethod
    def logits(self, model: nn.Module, batch: Any) -> Float[Tensor, "n L"]:
        """Return the logits of all labels for each item in a batch, in order."""

    def log_probabilities(self, logits: Float[Tensor, "n L"]) -> Float[Tensor, "n L"]:
        """Return log-probabilities for these logits; by default, each item has exactly one label."""
        return logits.log_softmax(dim=-1)

    def targets(self, batch: Any) -> Int[Tensor, " n"]:
        """Return the true labels of the items in a batch, in the same order as the logits."""
        found: Tensor = batch.labels
        return found

    @abstractmethod
    def gold(self, example: Any) -> Sequence[str]:
        """Return the true labels of one example, including labels that do not occur in training."""

    def notes(self, examples: Sequence[Any]) -> list[str]:
        """Return notes on the examples of an evaluation, for people to read."""
        return []

    def count_items(self, example: Any) -> int:
        """Return the number of labels that an example has."""
        return 1

    @torch.inference_mode()
    def probabilities(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        batch_size: int | None = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> list[Float[Tensor, "k L"]]:
        """Return the log-probabilities of all labels for the items of each example; NaN if an example is empty."""
        found = [torch.full((self.count_items(one), len(self.labels)), math.nan) for one in examples]
        lengths = self.lengths(examples)
        there = [i for i, length in enumerate(lengths) if length.any()]
        most = max(batch_size or self.evaluation_size, int(lengths.max(initial=1)))
        parts = plan_batches(lengths[there], max_tokens=most, shuffle=False)

        def scores_of(part: list[int]) -> Float[Tensor, "n L"]:
            check_cancelled()
            batch = self.plain_batch([examples[there[i]] for i in part]).to(device_of(model))
            return self.log_probabilities(self.logits(model, batch)).cpu()

        for part, scores in zip(parts, for_each(parts, scores_of), strict=True):
            items = [self.count_items(examples[there[i]]) for i in part]
            for i, one in zip(part, torch.split(scores, items), strict=True):
                found[there[i]] = one
        return found

    def predict_labels(
        self, model: nn.Module, examples: Sequence[Any], batch_size: int, check_cancelled: CheckCancelled
    ) -> LabelPredictions:
        """Predict the labels of these examples."""
        found = torch.cat(self.probabilities(model, examples, batch_size, check_cancelled))
        truth, names = numbered([label for one in examples for label in self.gold(one)], self.labels)
        return LabelPredictions(found, torch.tensor(truth), names)

    def percentages(self, predictions: LabelPredictions, examples: Sequence[Any]) -> dict[str, float]:
        """Return the scores that a validation reports, in percent."""
        return {"accuracy": predictions.accuracy, "macro_f1": predictions.macro_f1}

    def more_scores(self, predictions: LabelPredictions, examples: Sequence[Any]) -> dict[str, float]:
        """Return further scores, which an evaluation reports but a validation does not."""
        return {}

    def by_kind(self, predictions: LabelPredictions, examples: Sequence[Any]) -> dict[str, tuple[int, int]]:
        """Return how many labels are right, and how many there are, for each kind of example; empty without kinds."""
        return {}

    def more_figures(self, predictions: LabelPredictions) -> dict[str, Callable[[bool], Figure]]:
        """Return figures to draw besides the confusion matrix, by name."""
        return {}

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """Return the cross-entropy of the labels."""
        logits, targets = self.logits(model, batch), self.targets(batch)
        weights = self.class_weights if model.training else None
        total = F.cross_entropy(
            logits,
            targets,
            weight=None if weights is None else weights.to(targets.device),
            reduction="sum",
            label_smoothing=self.smoothing(model),
        )
        return Loss(total, len(targets))

    def validate(
        self, model: nn.Module, examples: Sequence[Any], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        predictions = self.predict_labels(model, examples, self.training.batch_size, check_cancelled)
        if not math.isfinite(predictions.loss):  # a network of NaNs predicts nothing
            return dict.fromkeys(("loss", self.metric), math.nan)
        return {"loss": predictions.loss, **self.percentages(predictions, examples)}

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Any],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        predictions = self.predict_labels(model, examples, self.evaluation_size, check_cancelled)
        return Evaluation(
            self.percentages(predictions, examples) | self.more_scores(predictions, examples),
            self.by_kind(predictions, examples),
            [
                *self.notes(examples),
                *label_lines(predictions.each),
                *predictions.mistakes(),
            ],
            {**predictions.figures(), **self.more_figures(predictions)},
        )


def label_fact(labels: Sequence[str]) -> str:
    """Return a line that describes the labels, for the README of a model folder."""
    return f"{counted(len(labels), 'label')}: {', '.join(labels[:50])}{', ...' if len(labels) > 50 else ''}"
