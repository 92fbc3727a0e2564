"""Scores for texts with any number of labels. Each label is chosen if its probability is at least one half."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.tasks.base.label_scores import LabelScore
from saccade.tasks.base.label_task import LabelPredictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SeveralPredictions", "is_chosen", "log_complement", "true_labels"]


def is_chosen(found: Float[Tensor, "*n"]) -> Bool[Tensor, "*n"]:
    """Return which labels are chosen, from their log-probabilities: those with a probability of at least one half."""
    return found.float() >= math.log(0.5)


def true_labels(given: Sequence[Sequence[str]], labels: Sequence[str]) -> tuple[Bool[Tensor, "n L"], list[str]]:
    """Return which labels each text has, and the names of all labels: first ``labels``, which the model knows, then
    the others that occur in ``given``."""
    names = [*labels, *sorted({label for one in given for label in one} - set(labels))]
    return torch.tensor([[name in one for name in names] for one in given]).reshape(len(given), len(names)), names


def log_complement(found: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return log(1 - p) for log(p), accurately even if p is almost 1."""
    return (-torch.expm1(found.clamp(max=-1e-30))).log()


@dataclass(frozen=True)
class SeveralPredictions(LabelPredictions):
    """Which labels a model chose for each text, and which are true: ``truth`` has a row for each text, and a column for
    each label."""

    @cached_property
    def best(self) -> Bool[Tensor, "n L"]:
        """Whether each label was chosen for each text. Labels that the model does not know are never chosen."""
        unknown = len(self.names) - self.found.shape[1]
        return torch.nn.functional.pad(is_chosen(self.found), (0, unknown))

    @cached_property
    def _counts(self) -> tuple[list[int], list[int], list[int]]:
        """How often each label was chosen correctly, was chosen at all, and is true."""
        right, chosen, true = (self.best & self.truth, self.best, self.truth)
        return right.sum(dim=0).tolist(), chosen.sum(dim=0).tolist(), true.sum(dim=0).tolist()

    @cached_property
    def each(self) -> list[LabelScore]:
        return [
            LabelScore(name, right / max(chosen, 1), right / max(true, 1), 2 * right / max(chosen + true, 1), true)
            for name, right, chosen, true in zip(self.names, *self._counts, strict=True)
        ]

    @property
    def accuracy(self) -> float:
        """The percentage of texts for which the chosen labels are exactly the true labels."""
        return 100 * float((self.best == self.truth).all(dim=1).float().mean())

    @property
    def micro_f1(self) -> float:
        """The F1 over all decisions, each about one label of one text, so that frequent labels count more."""
        right, chosen, true = map(sum, self._counts)
        return 100 * 2 * right / max(chosen + true, 1)

    @property
    def loss(self) -> float:
        """The binary cross-entropy, averaged over the texts and over the labels that the model knows."""
        truth = self.truth[:, : self.found.shape[1]]
        return -float(torch.where(truth, self.found, log_complement(self.found)).mean())

    def mistakes(self) -> list[str]:
        return []

    def figures(self) -> dict[str, Callable[[bool], Figure]]:
        return {}
