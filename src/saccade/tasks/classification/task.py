"""Classification: assign a label to a text (type 2 of lecture 004), or to two texts, or several labels to each."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
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
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Loss,
    Network,
    Probe,
    ReadFile,
    TokenizerState,
    read_count,
    read_tokenizer,
)
from saccade.tasks.base.text_settings import TokenKind, TokenSettings
from saccade.tasks.classification.several import SeveralPredictions, true_labels
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
    "wrong_number",
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
    """A text, or two texts in one sequence, as token ids; ``label`` is the index of the true label, or -1 if it is
    unknown."""

    tokens: list[int]
    label: int
    text: LabelledText
    kept: tuple[int, ...] = ()  # how many tokens of each of the two texts were kept
    second: int = 0  # the position of the first token of type 1; 0 if there is none


@dataclass(frozen=True)
class ClassificationBatch(Batch):
    """Texts padded to one length."""

    tokens: Int[Tensor, "B N"]
    lengths: Int[Tensor, " B"]
    labels: Int[Tensor, " B"] | Float[Tensor, "B L"]  # with several labels, 1 for each that a text has
    lines: Sequence[int]
    types: Int[Tensor, "B N"] | None = None  # 1 for the tokens of a second text

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
    """The labels, the tokenizer, and the maximum number of tokens to read from a text."""

    takes_tokenizer = True

    counts: dict[str, int]  # the number of training texts with each label
    tokenizer: Tokenizer
    longest: int
    texts: tuple[int, ...] = (1,)  # how many texts the model reads together: one, two, or either
    several: bool = False  # whether a text can have any number of labels

    def __post_init__(self) -> None:
        if self.several and not self.counts:
            raise OptionError("No text has a label; check data.label_column and data.label_separator.")
        if len(self.counts) < 2 and not self.several:
            raise OptionError(
                f"All texts have the label {next(iter(self.counts), None)!r}; a classifier needs at least two labels."
            )

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[LabelledText], tokenizer: Tokenizer | None = None
    ) -> Self:
        text: ClassificationText = settings["text"]
        counts = Counter(label for one in train for label in one.labels)
        return cls(
            {label: counts[label] for label in sorted(counts)},
            tokenizer or text.train([text for one in train for text in one.texts]),
            text.longest,
            (max((len(one.texts) for one in train), default=1),),
            any(one.several is not None for one in train),
        )

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        """Return the state for a model that another library trained. The labels come from its config.json, which does
        not say how often each occurred in training."""
        longest = model.config.max_length if model.config.position == "learned" else model.trained_length
        texts = (1, 2) if tokenizer.joins_texts else (1,)  # the folder does not say which
        return cls(dict.fromkeys(model.labels, 0), tokenizer, longest or sys.maxsize, texts, model.has_several_labels)

    def continued(self, settings: Mapping[str, Any], train: Sequence[LabelledText]) -> Self:
        """Return the state for fine-tuning this model. If the new data has labels that the model does not know, the
        state has the labels of the new data alone, and the output layer starts from scratch."""
        again = self.prepare(settings, train, self.tokenizer)
        if again.several == self.several and set(again.counts) <= set(self.counts):
            counts = {label: again.counts.get(label, 0) for label in self.counts}  # in the order of the output layer
            return replace(self, counts=counts, texts=again.texts)
        return again

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        texts, several = tuple(description.get("texts", (1,))), description.get("several_labels", False)
        if texts not in ((1,), (2,), (1, 2)) or type(several) is not bool:
            raise ValueError("texts must be [1], [2] or [1, 2], and several_labels true or false")
        longest = read_count(description, "longest")
        return cls(dict(description["labels"]), read_tokenizer(read, where), longest, texts, several)

    def description(self) -> dict[str, Any]:
        return {
            "labels": [list(item) for item in self.counts.items()],
            "longest": self.longest,
            "texts": list(self.texts),
            "several_labels": self.several,
        }

    @property
    def labels(self) -> list[str]:
        return list(self.counts)


def wrong_number(texts: Sequence[int]) -> str:
    """Return the end of an error message that says how many texts (1, 2 or either) a model reads together."""
    if 2 not in texts:
        return "this model reads one text, not two."
    if 1 in texts:
        return (
            'this model reads one text or two; give two as a list, such as ["one", "other"], or in two columns of a '
            "table, and write a single text without a tab or |||."
        )
    return "this model reads two texts; give both, with a tab or ||| between them."


def _build(config: Config, state: ClassificationState) -> nn.Module:
    if isinstance(config, TransformerConfig) and config.position == "learned" and config.max_length < state.longest:
        raise OptionError(
            f"model.max_length = {config.max_length} is less than text.longest = {state.longest}; raise it, or lower "
            "text.longest."
        )
    return Classifier(config, state.tokenizer.vocabulary_size, len(state.counts))


class Classification(LabelTask):
    """Assigns a label, or several, to a text or to two texts."""

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
        texts = {(1,): "a text", (2,): "two texts", (1, 2): "a text, or to two texts"}[state.texts]
        self.about = f"assigns {'any number of labels' if state.several else 'one label'} to {texts}"
        if self.training.class_weights == "balanced":
            if state.several:
                raise OptionError('training.class_weights = "balanced" needs texts with one label each.')
            counts = torch.tensor([float(count) for count in state.counts.values()])
            found = counts.clamp(min=1)  # a label of the model we start from may not occur in the new data
            self.class_weights = counts.sum() / (
                int((counts > 0).sum()) * found
            )  # on average, the weight of a text is 1

    def encode(self, examples: Sequence[LabelledText]) -> list[EncodedText]:
        note_unseen(examples, self.label_ids)  # raises an error if most labels are unknown
        return self.encode_texts(examples, [self.label_ids.get(one.label, UNSEEN) for one in examples])

    def encode_texts(self, examples: Sequence[LabelledText], labels: Sequence[int]) -> list[EncodedText]:
        tokenizer = self.state.tokenizer
        ids = iter(tokenizer.encode_ids([text for one in examples for text in one.texts]))
        most = max(0, self.state.longest - len(tokenizer.framed([])))
        found = []
        for label, one in zip(labels, examples, strict=True):
            if len(one.texts) not in self.state.texts:
                raise OptionError(f"{one.file}, line {one.line}: {wrong_number(self.state.texts)}")
            if one.second is None:
                found.append(EncodedText(tokenizer.framed(next(ids)[:most]), label, one))
            else:
                found.append(self._joined(next(ids), next(ids), label, one))
        return found

    def _joined(self, first: list[int], second: list[int], label: int, example: LabelledText) -> EncodedText:
        """Return two texts in one sequence; if they are too long, the longer one is shortened first."""
        before, between, after, has_types = self.state.tokenizer.pair_frame
        most = max(0, self.state.longest - len(before) - len(between) - len(after))
        if len(first) + len(second) > most:
            first = first[: max(most - len(second), most - most // 2)]
            second = second[: most - len(first)]
        start = [*before, *first, *between]
        tokens = [*start, *second, *after]
        return EncodedText(tokens, label, example, (len(first), len(second)), len(start) if has_types else 0)

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
        frame = tokenizer.framed([]) if self.state.texts == (1,) else [*itertools.chain(*tokenizer.pair_frame[:3])]
        kept = torch.isin(batch.tokens, torch.tensor([special.pad, *frame]))
        return replace(batch, tokens=batch.tokens.masked_fill(hidden & ~kept, instead))

    def plain_batch(self, examples: Sequence[EncodedText]) -> ClassificationBatch:
        tokens, lengths = pad([one.tokens for one in examples], self.state.tokenizer.special.pad)
        if self.state.several:
            labels, _ = true_labels([one.text.labels for one in examples], self.labels)
            labels = labels[:, : len(self.labels)].float()
        else:
            labels = torch.tensor([one.label for one in examples])
        types = None
        if any(one.second for one in examples):
            seconds = torch.tensor([one.second or tokens.shape[1] for one in examples])
            places = torch.arange(tokens.shape[1])
            types = ((places >= seconds[:, None]) & (places < lengths[:, None])).long()
        return ClassificationBatch(tokens, lengths, labels, [one.text.line for one in examples], types)

    def logits(self, model: nn.Module, batch: ClassificationBatch) -> Float[Tensor, "B L"]:
        typed = () if batch.types is None else (batch.types,)
        scores: Tensor = model(batch.tokens, batch.lengths, *typed)
        return scores.float()

    def log_probabilities(self, logits: Float[Tensor, "n L"]) -> Float[Tensor, "n L"]:
        return F.logsigmoid(logits) if self.state.several else super().log_probabilities(logits)

    def loss(self, model: nn.Module, batch: ClassificationBatch) -> Loss:
        """Return the cross-entropy of the true label or, if a text can have several labels, the binary cross-entropy
        averaged over all labels; both are summed over the texts."""
        if not self.state.several:
            return super().loss(model, batch)
        smoothing = self.smoothing(model)
        targets = batch.labels * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(self.logits(model, batch), targets, reduction="none")
        return Loss(each.mean(dim=1).sum(), len(targets))

    def predict_labels(
        self, model: nn.Module, examples: Sequence[EncodedText], batch_size: int, check_cancelled: CheckCancelled
    ) -> LabelPredictions:
        if not self.state.several:
            return super().predict_labels(model, examples, batch_size, check_cancelled)
        found = torch.cat(self.probabilities(model, examples, batch_size, check_cancelled))
        return SeveralPredictions(found, *true_labels([one.text.labels for one in examples], self.labels))

    def gold(self, example: EncodedText) -> Sequence[str]:
        return example.text.labels

    def notes(self, examples: Sequence[EncodedText]) -> list[str]:
        return note_unseen([one.text for one in examples], self.labels)

    def _bins(self, predictions: LabelPredictions) -> list[Bin]:
        """Group the predictions by confidence, to compare confidence with accuracy."""
        confidence = predictions.found.exp().amax(dim=-1)
        return reliability(confidence.tolist(), (predictions.truth == predictions.best).tolist())

    def more_scores(self, predictions: LabelPredictions, examples: Sequence[EncodedText]) -> dict[str, float]:
        if isinstance(predictions, SeveralPredictions):
            return {"micro_f1": predictions.micro_f1}
        return {"calibration_error": 100 * calibration_error(self._bins(predictions))}

    def by_kind(self, predictions: LabelPredictions, examples: Sequence[EncodedText]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        if isinstance(predictions, SeveralPredictions):
            return found
        right = (predictions.truth == predictions.best).tolist()
        for one, is_right in zip(examples, right, strict=True):
            if one.text.kind:
                before, total = found.get(one.text.kind, (0, 0))
                found[one.text.kind] = (before + is_right, total + 1)
        return found

    def more_figures(self, predictions: LabelPredictions) -> dict[str, Callable[[bool], Figure]]:
        if isinstance(predictions, SeveralPredictions):
            return {}
        return {"reliability": partial(reliability_figure, self._bins(predictions))}

    def probe(self, model: nn.Module, example: EncodedText) -> Probe:
        (found,) = self.probabilities(model, [example])
        label = self.labels[int(found.argmax())]
        tokens = self.state.tokenizer.tokens(example.tokens)
        return Probe(
            tokens, [label], f"{label} ({100 * float(found.max().exp()):.0f}%): {' ||| '.join(example.text.texts)}", []
        )

    def source_and_truth(self, example: EncodedText) -> tuple[str, str]:
        return "", example.text.label

    def facts(self) -> list[str]:
        tokenizer = self.state.tokenizer
        return [
            label_fact(self.labels),
            *([f"the model {self.about}"] if self.state.several or self.state.texts != (1,) else []),
            f"{tokenizer.vocabulary_size:,} tokens ({tokenizer.kind}), at most {self.state.longest:,} per text",
            "scores are in percent; `accuracy` is the share of texts for which all labels are right, and `micro_f1` "
            "counts every decision"
            if self.state.several
            else "scores are in percent; `calibration_error` is the mean difference between confidence and accuracy",
        ]
