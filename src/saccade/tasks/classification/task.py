"""Classification: assign one label to a text (type 2 of lecture 004)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.labelled import LabelledText
from saccade.data.labels import note_unseen
from saccade.errors import OptionError
from saccade.models import Config, TransformerConfig
from saccade.models.classifier import CLASSIFIERS, Classifier
from saccade.pretrained import Pretrained
from saccade.tasks.base.label_report import reliability_figure
from saccade.tasks.base.label_scores import UNSEEN, Bin, calibration_error, reliability
from saccade.tasks.base.label_task import LabelPredictions, LabelTask, label_fact
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.task import Batch, Network, Probe, ReadFile, TokenizerState, read_count, read_tokenizer
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.text import KINDS, ForeignTokenizer, Tokenizer, pad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Classification",
    "ClassificationBatch",
    "ClassificationState",
    "ClassificationText",
    "ClassificationTraining",
    "EncodedText",
]


class ClassificationText(TokenSettings):
    """How text is split into tokens."""

    kind: TokenKind = Field("word", description="What a token is: bpe (a piece of a word), word, character or byte")
    vocabulary: int = Field(20000, description="Maximum size of the vocabulary")
    lowercase: bool = Field(True, description="Lower-case all text")
    min_frequency: int = Field(2, description="Leave out words that occur fewer times than this")
    longest: int = Field(512, ge=1, description="Number of tokens to read; the rest of a longer text is ignored")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Fraction of tokens that are hidden during training")


class EncodedText(NamedTuple):
    """A text as token ids; the label is -1 if it is unknown."""

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


class ClassificationTraining(TextTraining):
    """How the model is trained."""

    class_weights: Literal["none", "balanced"] = Field(
        "none", description="none, or balanced: weight the loss so that rare labels count as much as frequent ones"
    )


@dataclass(frozen=True)
class ClassificationState(TokenizerState):
    """The labels, the tokenizer, and the largest number of tokens that is read of a text."""

    takes_tokenizer = True

    counts: dict[str, int]  # the number of training texts with each label
    tokenizer: Tokenizer
    longest: int

    def __post_init__(self) -> None:
        if len(self.counts) < 2:
            raise OptionError(
                f"All texts have the label {next(iter(self.counts), None)!r}; a classifier needs at least two labels."
            )

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[LabelledText], tokenizer: Tokenizer | None = None
    ) -> Self:
        text: ClassificationText = settings["text"]
        counts = Counter(one.label for one in train)
        return cls(
            {label: counts[label] for label in sorted(counts)},
            tokenizer or text.train([one.text for one in train]),
            text.longest,
        )

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        """The labels are those of its config.json; how often each was seen in training is not known."""
        longest = model.config.max_length if model.config.position == "learned" else model.trained_length
        return cls(dict.fromkeys(model.labels, 0), tokenizer, longest or sys.maxsize)

    def continued(self, settings: Mapping[str, Any], train: Sequence[LabelledText]) -> Self:
        """If the labels differ from those that the model knows, its output layer is trained from scratch."""
        again = self.prepare(settings, train, self.tokenizer)
        return self if set(again.counts) <= set(self.counts) else again

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(dict(description["labels"]), read_tokenizer(read, where), read_count(description, "longest"))

    def description(self) -> dict[str, Any]:
        return {"labels": [list(item) for item in self.counts.items()], "longest": self.longest}

    @property
    def labels(self) -> list[str]:
        return list(self.counts)


def _build(config: Config, state: ClassificationState) -> nn.Module:
    if isinstance(config, TransformerConfig) and config.position == "learned" and config.max_length < state.longest:
        raise OptionError(
            f"model.max_length = {config.max_length} is less than text.longest = {state.longest}; raise it, or lower "
            "text.longest."
        )
    return Classifier(config, state.tokenizer.vocabulary_size, len(state.counts))


class Classification(LabelTask):
    """Assigns one label to a text."""

    name = "classification"
    about = "assigns one label to a text"
    metrics = ("accuracy", "macro_f1", "loss")
    state_class = ClassificationState
    tables: ClassVar[Mapping[str, type[Config]]] = {"text": ClassificationText, "training": ClassificationTraining}
    networks: ClassVar[Mapping[str, Network]] = {kind: Network(config, _build) for kind, config in CLASSIFIERS.items()}
    evaluation_size = 8192
    counted = "texts"
    length_key = "text.longest"

    state: ClassificationState
    training: ClassificationTraining

    def __init__(
        self, state: ClassificationState, settings: Mapping[str, Any] | None = None, metric: str | None = None
    ) -> None:
        super().__init__(state, settings, metric)
        if self.training.class_weights == "balanced":
            counts = torch.tensor([float(count) for count in state.counts.values()])
            self.class_weights = counts.sum() / (len(counts) * counts)  # on average, the weight of a text is 1

    def encode(self, examples: Sequence[LabelledText]) -> list[EncodedText]:
        note_unseen(examples, self.label_ids)  # raises an error if most labels are unknown
        return self.encode_texts(examples, [self.label_ids.get(one.label, UNSEEN) for one in examples])

    def encode_texts(self, examples: Sequence[LabelledText], labels: Sequence[int]) -> list[EncodedText]:
        tokenizer = self.state.tokenizer
        ids = tokenizer.encode_ids([one.text for one in examples])
        most = max(0, self.state.longest - len(tokenizer.framed([])))
        return [
            EncodedText(tokenizer.framed(tokens[:most]), label, one)
            for tokens, label, one in zip(ids, labels, examples, strict=True)
        ]

    def lengths(self, examples: Sequence[EncodedText]) -> Int[np.ndarray, "n 1"]:
        return np.array([(len(one.tokens),) for one in examples])

    def batch(self, examples: Sequence[EncodedText]) -> ClassificationBatch:
        """Return a batch to train on, with some words hidden so that the model does not depend on single words."""
        batch = self.plain_batch(examples)
        text: ClassificationText = self.settings["text"]
        if not text.word_dropout:
            return batch
        hidden = torch.rand(batch.tokens.shape) < text.word_dropout
        tokenizer, special = self.state.tokenizer, self.state.tokenizer.special
        # Hidden words become the unknown token or, if the tokenizer knows everything, the mask token.
        of_bytes = tokenizer.kind in KINDS and KINDS[tokenizer.kind].of_bytes
        instead = special.mask if of_bytes or special.unknown is None else special.unknown
        if instead is None:
            raise OptionError("text.word_dropout needs a token for unknown or hidden words, which the model lacks.")
        kept = torch.isin(batch.tokens, torch.tensor([special.pad, *tokenizer.framed([])]))
        return replace(batch, tokens=batch.tokens.masked_fill(hidden & ~kept, instead))

    def plain_batch(self, examples: Sequence[EncodedText]) -> ClassificationBatch:
        tokens, lengths = pad([one.tokens for one in examples], self.state.tokenizer.special.pad)
        labels = torch.tensor([one.label for one in examples])
        return ClassificationBatch(tokens, lengths, labels, [one.text.line for one in examples])

    def logits(self, model: nn.Module, batch: ClassificationBatch) -> Float[Tensor, "B L"]:
        scores: Tensor = model(batch.tokens, batch.lengths)
        return scores.float()

    def gold(self, example: EncodedText) -> Sequence[str]:
        return (example.text.label,)

    def notes(self, examples: Sequence[EncodedText]) -> list[str]:
        return note_unseen([one.text for one in examples], self.labels)

    def _bins(self, predictions: LabelPredictions) -> list[Bin]:
        """Group the predictions by confidence, to compare it with their accuracy."""
        confidence = predictions.found.exp().amax(dim=-1)
        return reliability(confidence.tolist(), (predictions.truth == predictions.best).tolist())

    def more_scores(self, predictions: LabelPredictions, examples: Sequence[EncodedText]) -> dict[str, float]:
        return {"calibration_error": 100 * calibration_error(self._bins(predictions))}

    def by_kind(self, predictions: LabelPredictions, examples: Sequence[EncodedText]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        right = (predictions.truth == predictions.best).tolist()
        for one, is_right in zip(examples, right, strict=True):
            if one.text.kind:
                before, total = found.get(one.text.kind, (0, 0))
                found[one.text.kind] = (before + is_right, total + 1)
        return found

    def more_figures(self, predictions: LabelPredictions) -> dict[str, Callable[[bool], Figure]]:
        return {"reliability": partial(reliability_figure, self._bins(predictions))}

    def probe(self, model: nn.Module, example: EncodedText) -> Probe:
        (found,) = self.probabilities(model, [example])
        label = self.labels[int(found.argmax())]
        tokens = [self.state.tokenizer.token(i) for i in example.tokens]
        return Probe(tokens, [label], f"{label} ({100 * float(found.max().exp()):.0f}%): {example.text.text}", [])

    def source_and_truth(self, example: EncodedText) -> tuple[str, str]:
        return "", example.text.label

    def facts(self) -> list[str]:
        tokenizer = self.state.tokenizer
        return [
            label_fact(self.labels),
            f"{tokenizer.vocabulary_size:,} tokens ({tokenizer.kind}), at most {self.state.longest:,} per text",
            "scores are in percent; `calibration_error` is the mean difference between confidence and accuracy",
        ]
