"""Tagging: a label for each word (004's type 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.data.labels import note_unseen
from saccade.data.tagged import TaggedSentence
from saccade.errors import OptionError
from saccade.models import Config
from saccade.models.tagger import TAGGERS, Tagger
from saccade.tasks.base.label_report import confusion_figure, confusion_lines, label_lines
from saccade.tasks.base.label_scores import (
    UNSEEN,
    accuracy,
    are_spans,
    confusion,
    label_scores,
    macro_f1,
    numbered,
    span_f1,
)
from saccade.tasks.base.labelled_data import file_table
from saccade.tasks.base.task import Batch, Evaluation, Loss, Network, Probe, ReadFile, Splits, Task, Tick, device_of
from saccade.tasks.tagging.data import TaggingData, read_given_sentences, read_sentences
from saccade.tasks.tagging.word_ids import TaggingText, WordIds, Words
from saccade.text import Tokenizer, Vocabulary, pad, plan_batches

__all__ = ["BATCH_WORDS", "EncodedSentence", "Tagging", "TaggingBatch"]

#: Padded words that are tagged at once.
BATCH_WORDS = 4096


class EncodedSentence(NamedTuple):
    """A sentence as ids; without labels where it is to be tagged."""

    words: list[WordIds]
    labels: list[int]
    sentence: TaggedSentence


@dataclass(frozen=True)
class TaggingBatch(Batch):
    """Sentences padded to one length, words to one number of pieces and of characters; 0 is padding."""

    words: Int[Tensor, "B N"]
    pieces: Int[Tensor, "B N P"]
    characters: Int[Tensor, "B N C"]
    lengths: Int[Tensor, " B"]
    labels: Int[Tensor, "B N"]
    real: Bool[Tensor, "B N"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.lengths.sum())


def _build(config: Config, task: Tagging) -> nn.Module:
    return Tagger(
        config,
        words=len(task.words.words),
        pieces=task.words.pieces.vocabulary_size,
        characters=len(task.words.characters),
        labels=len(task.labels),
    )


class Tagging(Task):
    """The task with its labels and its vocabularies of words."""

    name = "tagging"
    about = "a label for each word"
    metrics = ("accuracy", "span_f1", "loss")
    settings: ClassVar[Mapping[str, type[Config]]] = {"data": TaggingData, "text": TaggingText}
    read_as = ("word_column", "label_column", "separator", "encoding")
    networks: ClassVar[Mapping[str, Network]] = {kind: Network(config, _build) for kind, config in TAGGERS.items()}
    training_defaults: ClassVar[Mapping[str, Any]] = {"label_smoothing": 0.0}
    begun_defaults: ClassVar[Mapping[str, Any]] = {"unit": "pieces"}  # which a masked language model knows

    def __init__(self, labels: Sequence[str], words: Words, metric: str = "accuracy") -> None:
        self.check_metric(metric)
        self.labels = list(labels)
        self.words = words
        self.metric = metric
        self._label_ids = {label: id for id, label in enumerate(self.labels)}
        self.has_spans = are_spans(self.labels)
        if metric == "span_f1" and not self.has_spans:
            raise OptionError(
                f"span_f1 is for labels such as B-X, I-X and O; these are {', '.join(self.labels[:10])}, ..."
            )

    # --- files ---

    @classmethod
    def data_table(cls, files: Sequence[Path], columns: str | None) -> dict[str, Any]:
        return file_table(files, columns, ("word", "label"))

    @classmethod
    def read(cls, data: TaggingData, seed: int) -> Splits[TaggedSentence]:
        return read_sentences(data, seed)

    @classmethod
    def read_given(cls, data: TaggingData) -> list[TaggedSentence]:
        return read_given_sentences(data)

    @classmethod
    def fitted(cls, splits: Splits[TaggedSentence]) -> dict[str, Any]:
        """A recurrent net that reads both ways: the surest choice from a few hundred sentences on."""
        words = sum(len(sentence.words) for sentence in splits.train)
        steps = min(6000, max(600, words // 60))
        return {
            "model": {"kind": "recurrent", "width": 256 if words > 50_000 else 128, "dropout": 0.4},
            "training": {
                "steps": steps,
                "warmup": steps // 20,
                "batch_tokens": 1024,
                "lr": 2e-3,
                "validate_every": max(100, steps // 15),
            },
        }

    @classmethod
    def identity(cls, example: TaggedSentence) -> bytes:
        pairs = zip(example.words, example.labels, strict=True)
        return ("".join(f"{word}\t{label}\n" for word, label in pairs) + "\n").encode()

    # --- made and kept ---

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[TaggedSentence], metric: str) -> Self:
        return cls._prepared(settings["text"], train, metric, None)

    @classmethod
    def prepare_from(
        cls, other: Task, settings: Mapping[str, Any], train: Sequence[TaggedSentence], metric: str
    ) -> Self:
        """Words are cut into the pieces of a language model."""
        pieces = other.vocabularies().get("tokenizer")
        if not isinstance(pieces, Tokenizer):
            return super().prepare_from(other, settings, train, metric)
        return cls._prepared(settings["text"], train, metric, pieces)

    @classmethod
    def _prepared(
        cls, text: TaggingText, train: Sequence[TaggedSentence], metric: str, pieces: Tokenizer | None
    ) -> Self:
        labels = sorted({label for sentence in train for label in sentence.labels})
        return cls(labels, Words.train([word for one in train for word in one.words], text, pieces), metric)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(description["labels"], Words.load(description, read), description["metric"])

    def description(self) -> dict[str, Any]:
        return {"metric": self.metric, "labels": self.labels, **self.words.description()}

    def files(self) -> dict[str, bytes]:
        return self.words.files()

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        return {"words": self.words.words, "pieces": self.words.pieces}

    def facts(self) -> list[str]:
        more = ", ..." if len(self.labels) > 50 else ""
        return [
            f"{len(self.labels)} labels: {', '.join(self.labels[:50])}{more}",
            f"{len(self.words.words):,} words, {self.words.pieces.vocabulary_size:,} pieces, "
            f"{len(self.words.characters):,} characters",
            "scores are in percent; `unknown` is the accuracy on words that are not in the training sentences",
        ]

    # --- ids ---

    def encode(self, examples: Sequence[TaggedSentence]) -> list[EncodedSentence]:
        note_unseen(examples, self._label_ids)  # refuses a file of other labels
        return [
            EncodedSentence(
                [self.words.ids(word) for word in sentence.words],
                [self._label_ids.get(label, UNSEEN) for label in sentence.labels],
                sentence,
            )
            for sentence in examples
        ]

    def lengths(self, examples: Sequence[EncodedSentence]) -> Int[np.ndarray, "n 1"]:
        return np.array([(len(one.words),) for one in examples])

    def batch(self, examples: Sequence[EncodedSentence]) -> TaggingBatch:
        words, lengths = pad([[word.word for word in one.words] for one in examples])
        real = torch.arange(words.shape[1]) < lengths[:, None]
        flat = [word for one in examples for word in one.words]
        pieces, characters = (
            _by_word(real, [getattr(word, name) for word in flat]) for name in ("pieces", "characters")
        )
        labels, _ = pad([one.labels or [0] * len(one.words) for one in examples])
        lines = [one.sentence.line for one in examples]
        return TaggingBatch(words, pieces, characters, lengths, labels, real, lines)

    # --- training and scores ---

    def loss(self, model: nn.Module, batch: TaggingBatch, label_smoothing: float) -> Loss:
        """Cross-entropy of each word's label."""
        logits, targets = self.logits(model, batch), batch.labels[batch.real]
        total = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=label_smoothing)
        return Loss(total, len(targets))

    def logits(self, model: nn.Module, batch: TaggingBatch) -> Float[Tensor, "W L"]:
        """A score for each label, of all words one after the other."""
        scores: Tensor = model(batch.words, batch.pieces, batch.characters, batch.lengths, at=batch.real)
        return scores.float()

    @torch.inference_mode()
    def probabilities(
        self, model: nn.Module, examples: Sequence[EncodedSentence], batch_tokens: int, tick: Tick
    ) -> list[Float[Tensor, "N L"]]:
        """The log-probability of each label, for each word of each sentence."""
        found: list[Tensor] = [torch.empty(0, len(self.labels))] * len(examples)
        for part in self._batches(examples, batch_tokens):
            tick()
            some = [examples[i] for i in part]
            scores = self.logits(model, self.batch(some).to(device_of(model))).log_softmax(dim=-1).cpu()
            for i, one in zip(part, torch.split(scores, [len(one.words) for one in some]), strict=True):
                found[i] = one
        return found

    def _batches(self, examples: Sequence[EncodedSentence], batch_tokens: int) -> Iterator[list[int]]:
        """Sentences of similar lengths; those without a word are not asked."""
        lengths = self.lengths(examples)
        there = [i for i, one in enumerate(examples) if one.words]
        most = max(batch_tokens, int(lengths.max(initial=1)))
        for part in plan_batches(lengths[there], max_tokens=most, shuffle=False):
            yield [there[i] for i in part]

    def validate(
        self, model: nn.Module, examples: Sequence[EncodedSentence], *, batch_tokens: int, tick: Tick
    ) -> dict[str, float]:
        found = self.probabilities(model, examples, batch_tokens, tick)
        ids = torch.tensor([label for one in examples for label in one.labels])
        loss = float(F.nll_loss(torch.cat(found), ids, ignore_index=UNSEEN))
        if not math.isfinite(loss):
            return dict.fromkeys(("loss", self.metric), math.nan)
        truth, names = self._truth(examples)
        table = confusion(truth, torch.cat(found).argmax(dim=-1).tolist(), len(names))
        return {"loss": loss, "accuracy": 100 * accuracy(table), **self._span_scores(examples, found)}

    def evaluate(
        self, model: nn.Module, examples: Sequence[EncodedSentence], options: Any, *, tick: Tick
    ) -> Evaluation:
        """Accuracy, of known and unknown words apart; F1 of each label, and of spans if labels are theirs."""
        found = self.probabilities(model, examples, BATCH_WORDS, tick)
        truth, names = self._truth(examples)
        best = torch.cat(found).argmax(dim=-1).numpy()
        table = confusion(truth, best.tolist(), len(names))
        each = label_scores(table, names)
        scores = {"accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(each)}
        scores |= self._span_scores(examples, found)
        right = np.array(truth) == best
        known = np.array([word in self.words.known for one in examples for word in one.sentence.words])
        for name, which in (("known", known), ("unknown", ~known)):
            if which.any():
                scores |= {
                    name: 100 * float(right[which].mean()),
                    f"{name}_words": float(which.sum()),
                }
        unseen = note_unseen([one.sentence for one in examples], self.labels)
        lines = [*unseen, *label_lines(each), *confusion_lines(table, names)]
        return Evaluation(scores, {}, lines, {"confusion": partial(confusion_figure, table, names)})

    def _truth(self, examples: Sequence[EncodedSentence]) -> tuple[list[int], list[str]]:
        return numbered([label for one in examples for label in one.sentence.labels], self.labels)

    def _span_scores(self, examples: Sequence[EncodedSentence], found: Sequence[Tensor]) -> dict[str, float]:
        if not self.has_spans:
            return {}
        given = [self.tags(one) for one in found]
        return {"span_f1": 100 * span_f1([one.sentence.labels for one in examples], given)}

    def tags(self, probabilities: Float[Tensor, "N L"]) -> list[str]:
        """The likeliest label of each word."""
        return [self.labels[i] for i in probabilities.argmax(dim=-1).tolist()]

    def probe(self, model: nn.Module, example: EncodedSentence) -> Probe:
        (found,) = self.probabilities(model, [example], BATCH_WORDS, lambda: None)
        tags, words = self.tags(found), list(example.sentence.words)
        text = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
        return Probe(words, tags, text, [])


def _by_word(real: Bool[Tensor, "B N"], parts: Sequence[Sequence[int]]) -> Int[Tensor, "B N P"]:
    """The parts of all words one after the other, each set in the place of its word."""
    rows, _ = pad(parts)
    placed = torch.zeros(*real.shape, max(1, rows.shape[1]), dtype=torch.long)
    placed[real] = rows if rows.shape[1] else rows.new_zeros(len(rows), 1)
    return placed
