"""Classification: one label for a text (004's type 2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.labelled import LabelledText
from saccade.data.labels import note_unseen
from saccade.errors import OptionError
from saccade.models import Config
from saccade.models.classifier import CLASSIFIERS, Classifier
from saccade.tasks.base.label_report import confusion_figure, confusion_lines, label_lines, reliability_figure
from saccade.tasks.base.label_scores import (
    UNSEEN,
    accuracy,
    calibration_error,
    confusion,
    label_scores,
    macro_f1,
    numbered,
    reliability,
)
from saccade.tasks.base.labelled_data import file_table
from saccade.tasks.base.task import Batch, Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.tasks.classification.data import ClassificationData, read_given_texts, read_texts
from saccade.text import KINDS, MASK, PAD, UNKNOWN, Tokenizer, pad, plan_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BATCH_TOKENS", "Classification", "ClassificationBatch", "ClassificationText", "EncodedText"]

#: Padded tokens that are read at once.
BATCH_TOKENS = 8192


class ClassificationText(TokenSettings):
    """How text becomes tokens."""

    kind: TokenKind = Field("word", description="What a token is: bpe (a piece of a word), word, character or byte")
    vocabulary: int = Field(20000, description="Largest number of tokens")
    lowercase: bool = Field(True, description="Lower-case all text")
    min_frequency: int = Field(2, description="A rarer word gets no token of its own")
    longest: int = Field(512, ge=1, description="Longest text in tokens; the rest of a longer one is not read")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of tokens hidden during training")


class EncodedText(NamedTuple):
    """A text as token ids; without a label (-1) where it is to be found."""

    tokens: list[int]
    label: int
    text: LabelledText


@dataclass(frozen=True)
class ClassificationBatch(Batch):
    """Texts padded to one length."""

    tokens: Int[Tensor, "B N"]
    lengths: Int[Tensor, " B"]
    labels: Int[Tensor, " B"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.lines)


def _build(config: Config, task: Classification) -> nn.Module:
    return Classifier(config, task.tokenizer.vocabulary_size, len(task.labels))


class Classification(Task):
    """The task with its labels and its tokenizer."""

    name = "classification"
    about = "one label for a text"
    metrics = ("accuracy", "macro_f1", "loss")
    settings: ClassVar[Mapping[str, type[Config]]] = {"data": ClassificationData, "text": ClassificationText}
    read_as = ("text_column", "label_column", "encoding")
    networks: ClassVar[Mapping[str, Network]] = {kind: Network(config, _build) for kind, config in CLASSIFIERS.items()}
    training_defaults: ClassVar[Mapping[str, Any]] = {"label_smoothing": 0.0}

    def __init__(self, labels: Mapping[str, int], tokenizer: Tokenizer, longest: int, metric: str = "accuracy") -> None:
        self.check_metric(metric)
        if len(labels) < 2:
            raise OptionError(f"All texts have the label {next(iter(labels), None)!r}; a classifier needs two or more.")
        self.labels = list(labels)
        self.counts = dict(labels)  # how often each is in the training texts
        self.tokenizer = tokenizer
        self.longest = longest
        self.metric = metric
        self.word_dropout = 0.0
        self.class_weights: Tensor | None = None
        self._label_ids = {label: id for id, label in enumerate(self.labels)}

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return file_table(files, columns, ("text", "label"))

    @classmethod
    def read(cls, data: ClassificationData, seed: int) -> Splits[LabelledText]:
        return read_texts(data, seed)

    @classmethod
    def read_given(cls, data: ClassificationData) -> list[LabelledText]:
        return read_given_texts(data)

    @classmethod
    def fitted(cls, splits: Splits[LabelledText]) -> dict[str, Any]:
        """Attention over words in the light of their neighbours: it learns from few texts, and shows what decided."""
        words = sum(text.length for text in splits.train)
        steps = min(5000, max(400, words // 100))
        return {
            "text": {"word_dropout": 0.2},
            "model": {"kind": "recurrent", "width": 128, "encoder_layers": 1, "dropout": 0.5, "pooling": "attention"},
            "training": {
                "steps": steps,
                "warmup": steps // 20,
                "batch_tokens": 2048,
                "lr": 1e-3,
                "validate_every": max(50, steps // 20),
            },
        }

    @classmethod
    def identity(cls, example: LabelledText) -> bytes:
        return f"{example.label}\t{example.text}\n".encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[LabelledText], metric: str) -> Self:
        text: ClassificationText = settings["text"]
        return cls(_counted(train), text.train([one.text for one in train]), text.longest, metric)

    @classmethod
    def prepare_from(cls, other: Task, settings: Mapping[str, Any], train: Sequence[LabelledText], metric: str) -> Self:
        """The tokens are those of a language model."""
        tokenizer = other.vocabularies().get("tokenizer")
        if not isinstance(tokenizer, Tokenizer):
            return super().prepare_from(other, settings, train, metric)
        return cls(_counted(train), tokenizer, settings["text"].longest, metric)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        tokenizer = Tokenizer.from_bytes(read("tokenizer.json"), "tokenizer.json")
        return cls(dict(description["labels"]), tokenizer, description["longest"], description["metric"])

    def description(self) -> dict[str, Any]:
        return {"metric": self.metric, "labels": [list(item) for item in self.counts.items()], "longest": self.longest}

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": self.tokenizer.to_bytes()}

    def vocabularies(self) -> Mapping[str, Tokenizer]:
        return {"tokenizer": self.tokenizer}

    def with_settings(self, settings: Mapping[str, Any], training: Any) -> Self:
        chosen = copy(self)
        chosen.word_dropout = settings["text"].word_dropout
        if settings["data"].class_weights == "balanced":
            counts = torch.tensor([float(count) for count in self.counts.values()])
            chosen.class_weights = counts.sum() / (len(counts) * counts)  # 1 on average over the texts
        return chosen

    def facts(self) -> list[str]:
        return [
            f"{len(self.labels)} labels: {', '.join(self.labels[:50])}{', ...' if len(self.labels) > 50 else ''}",
            f"{self.tokenizer.vocabulary_size:,} tokens ({self.tokenizer.kind}), {self.longest:,} of a text at most",
            "scores are in percent; `calibration_error` is how far sureness is from truth",
        ]

    # --- ids ---

    def encode(self, examples: Sequence[LabelledText]) -> list[EncodedText]:
        note_unseen(examples, self._label_ids)  # refuses a file of other labels
        return self.encoded(examples, [self._label_ids.get(one.label, UNSEEN) for one in examples])

    def encoded(self, examples: Sequence[LabelledText], labels: Sequence[int]) -> list[EncodedText]:
        ids = self.tokenizer.encode_ids([one.text for one in examples])
        return [
            EncodedText(tokens[: self.longest], label, one)
            for tokens, label, one in zip(ids, labels, examples, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedText]) -> Int[np.ndarray, "n 1"]:
        return np.array([(len(one.tokens),) for one in examples])

    def batch(self, examples: Sequence[EncodedText]) -> ClassificationBatch:
        """Texts to train on, with some words hidden: a text must not hang on one of them."""
        batch = self.whole(examples)
        if not self.word_dropout:
            return batch
        hidden = torch.rand(batch.tokens.shape) < self.word_dropout
        # So the unknown word is learned; where no token is unknown, the one that a masked language model knows.
        instead = MASK if KINDS[self.tokenizer.kind].of_bytes else UNKNOWN
        return replace(batch, tokens=batch.tokens.masked_fill(hidden & (batch.tokens != PAD), instead))

    def whole(self, examples: Sequence[EncodedText]) -> ClassificationBatch:
        """Texts as they are."""
        tokens, lengths = pad([one.tokens for one in examples])
        labels = torch.tensor([one.label for one in examples])
        return ClassificationBatch(tokens, lengths, labels, [one.text.line for one in examples])

    # --- training and scores ---

    def loss(self, model: nn.Module, batch: ClassificationBatch, label_smoothing: float) -> Loss:
        """Cross-entropy of the label; in training weighted by class, if the recipe wants so."""
        weights = self.class_weights if model.training else None
        total = F.cross_entropy(
            self.logits(model, batch),
            batch.labels,
            weight=None if weights is None else weights.to(batch.labels.device),
            reduction="sum",
            label_smoothing=label_smoothing,
        )
        return Loss(total, batch.count)

    def logits(self, model: nn.Module, batch: ClassificationBatch) -> Float[Tensor, "B L"]:
        scores: Tensor = model(batch.tokens, batch.lengths)
        return scores.float()

    @torch.inference_mode()
    def probabilities(
        self, model: nn.Module, examples: Sequence[EncodedText], batch_tokens: int, tick: Tick
    ) -> Float[Tensor, "n L"]:
        """The log-probability of each label, for each text; a text without tokens has none, and NaN."""
        found = torch.full((len(examples), len(self.labels)), math.nan)
        there = [i for i, one in enumerate(examples) if one.tokens]
        lengths = self.lengths([examples[i] for i in there])
        most = max(batch_tokens, int(lengths.max(initial=1)))
        for part in plan_batches(lengths, max_tokens=most, shuffle=False):
            tick()
            batch = self.whole([examples[there[i]] for i in part]).to(device_of(model))
            found[[there[i] for i in part]] = self.logits(model, batch).log_softmax(dim=-1).cpu()
        return found

    def validate(
        self, model: nn.Module, examples: Sequence[EncodedText], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        found = self.probabilities(model, examples, batch_tokens, tick)
        loss = float(F.nll_loss(found, torch.tensor([one.label for one in examples]), ignore_index=UNSEEN))
        if not math.isfinite(loss):
            return dict.fromkeys(("loss", self.metric), math.nan)
        truth, names = numbered([one.text.label for one in examples], self.labels)
        table = confusion(truth, found.argmax(dim=-1).tolist(), len(names))
        f1 = macro_f1(label_scores(table, names))
        return {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * f1}

    def evaluate(self, model: nn.Module, examples: Sequence[EncodedText], options: Any, *, tick: Tick) -> Evaluation:
        """Accuracy, F1 of each label, and whether the model is as sure as it is right."""
        found = self.probabilities(model, examples, BATCH_TOKENS, tick)
        truth, names = numbered([one.text.label for one in examples], self.labels)
        confidence, best = found.exp().max(dim=-1)
        table = confusion(truth, best.tolist(), len(names))
        each = label_scores(table, names)
        parts = reliability(confidence.tolist(), (torch.tensor(truth) == best).tolist())
        scores = {
            "accuracy": 100 * accuracy(table),
            "macro_f1": 100 * macro_f1(each),
            "calibration_error": 100 * calibration_error(parts),
        }
        figures: dict[str, Callable[[bool], Figure]] = {
            "confusion": partial(confusion_figure, table, names),
            "reliability": partial(reliability_figure, parts),
        }
        unseen = note_unseen([one.text for one in examples], self.labels)
        return Evaluation(scores, {}, [*unseen, *label_lines(each), *confusion_lines(table, names)], figures)

    def probe(self, model: nn.Module, example: EncodedText) -> Probe:
        (found,) = self.probabilities(model, [example], BATCH_TOKENS, lambda: None)
        label = self.labels[int(found.argmax())]
        tokens = [self.tokenizer.token(i) for i in example.tokens]
        return Probe(tokens, [label], f"{label} ({100 * float(found.max().exp()):.0f}%): {example.text.text}", [])


def _counted(texts: Sequence[LabelledText]) -> dict[str, int]:
    counts = Counter(one.label for one in texts)
    return {label: counts[label] for label in sorted(counts)}
