"""Tagging: assign a label to each word (type 1 of lecture 004)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from saccade.pretrained import Pretrained
from saccade.tasks.base.label_scores import UNSEEN, are_spans, span_f1
from saccade.tasks.base.label_task import LabelPredictions, LabelTask, label_fact
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.task import Batch, Network, Probe, ReadFile, TaskState
from saccade.tasks.tagging.word_ids import TaggingText, WordIds, Words
from saccade.text import ForeignTokenizer, Tokenizer, Vocabulary, pad

__all__ = ["EncodedSentence", "Tagging", "TaggingBatch", "TaggingState"]


class EncodedSentence(NamedTuple):
    """A sentence as ids; ``labels`` is empty if they are unknown."""

    words: list[WordIds]
    labels: list[int]
    sentence: TaggedSentence
    features: list[list[int]]  # the feature ids of each word


@dataclass(frozen=True)
class TaggingBatch(Batch):
    """Sentences padded with 0 to the same number of words, and words to the same number of pieces and characters."""

    on_cpu = ("lengths", "pieces", "characters")
    words: Int[Tensor, "B N"]
    pieces: Int[Tensor, "B N P"]
    characters: Int[Tensor, "B N C"]
    features: Int[Tensor, "B N F"]
    lengths: Int[Tensor, " B"]
    labels: Int[Tensor, "B N"]
    real: Bool[Tensor, "B N"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return int(self.lengths.sum())


@dataclass(frozen=True)
class TaggingState(TaskState):
    """The labels, and the vocabularies of words, pieces and characters, and of each column of features."""

    takes_tokenizer = True

    labels: list[str]
    words: Words
    features: tuple[Vocabulary, ...] = ()

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[TaggedSentence], tokenizer: Tokenizer | None = None
    ) -> Self:
        """Learn the labels and vocabularies. If ``tokenizer`` is given, it splits words into pieces; otherwise one is
        learned too."""
        labels = sorted({label for sentence in train for label in sentence.labels})
        if len(labels) == 1:
            raise OptionError(
                f"All words have the label {labels[0]!r}; a tagger needs at least two labels. Check the columns."
            )
        if tokenizer is not None and 0 not in tokenizer.hidden_ids:
            raise OptionError(
                "A tagger cannot start from this model: its tokenizer has a word or piece with id 0, which a tagger "
                "uses for padding."
            )
        words = Words.train([word for one in train for word in one.words], settings["text"], tokenizer)
        columns = zip(*(values for one in train for values in one.features), strict=True)
        return cls(labels, words, tuple(Vocabulary.train(column, size=1 << 20) for column in columns))

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        """Return the state for a model that another library trained. The labels come from its config.json, which does
        not say which words occurred in training."""
        return cls(model.labels, Words.train([], TaggingText(), tokenizer))

    def continued(self, settings: Mapping[str, Any], train: Sequence[TaggedSentence]) -> Self:
        """Return the state for fine-tuning this model. If the new data has labels that the model does not know, the
        state has the labels of the new data alone, and the output layer starts from scratch."""
        labels = sorted({label for sentence in train for label in sentence.labels})
        return self if set(labels) <= set(self.labels) else replace(self, labels=labels)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        features = tuple(Vocabulary(entries) for entries in description.get("features", ()))
        return cls(description["labels"], Words.load(description, read), features)

    def description(self) -> dict[str, Any]:
        features = {"features": [vocabulary.entries for vocabulary in self.features]} if self.features else {}
        return {"labels": self.labels, **self.words.description(), **features}

    def encode(self, sentence: TaggedSentence, labels: list[int]) -> EncodedSentence:
        """Return a sentence with its words and features as ids; ``labels`` are the ids of its labels, if known."""
        features = [
            [vocabulary.id(value) for vocabulary, value in zip(self.features, values, strict=True)]
            for values in sentence.features or [()] * len(sentence.words)
        ]
        return EncodedSentence([self.words.ids(word) for word in sentence.words], labels, sentence, features)

    def files(self) -> dict[str, bytes]:
        return self.words.files()

    @property
    def lowercases_words(self) -> bool:
        return self.words.lowercase

    def vocabularies(self) -> Mapping[str, Tokenizer | Vocabulary]:
        return {"words": self.words.words, "pieces": self.words.pieces}


def _build(config: Config, state: TaggingState) -> nn.Module:
    return Tagger(
        config,
        words=len(state.words.words),
        pieces=state.words.pieces.vocabulary_size,
        characters=len(state.words.characters),
        labels=len(state.labels),
        features=[len(vocabulary) for vocabulary in state.features],
    )


class Tagging(LabelTask):
    """Assigns a label to each word. If the labels mark spans, such as names, the spans are scored too."""

    name = "tagging"
    about = "assigns a label to each word"
    metrics = ("accuracy", "macro_f1", "span_f1", "loss")
    state_class = TaggingState
    tables: ClassVar[Mapping[str, type[Config]]] = {"text": TaggingText, "training": TextTraining}
    networks: ClassVar[Mapping[str, Network]] = {kind: Network(config, _build) for kind, config in TAGGERS.items()}
    init_defaults: ClassVar[Mapping[str, Any]] = {"unit": "pieces"}  # because a masked language model reads pieces
    evaluation_size = 4096
    counted = "words"
    length_key = "data.max_length"

    state: TaggingState
    training: TextTraining

    def __init__(
        self, state: TaggingState, settings: Mapping[str, Any] | None = None, metric: str | None = None
    ) -> None:
        super().__init__(state, settings, metric)
        self.has_spans = are_spans(self.labels)
        if metric == "span_f1" and not self.has_spans:
            raise OptionError(f"span_f1 needs labels such as B-X, I-X and O, not {', '.join(self.labels[:10])}, ...")

    def encode(self, examples: Sequence[TaggedSentence]) -> list[EncodedSentence]:
        note_unseen(examples, self.label_ids)  # raises an error if most labels are unknown
        return [
            self.state.encode(sentence, [self.label_ids.get(label, UNSEEN) for label in sentence.labels])
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
        if any(self.state.words.pieces.frame):
            pieces = _framed(pieces, lengths, *self.state.words.pieces.frame)
        labels, _ = pad([one.labels or [0] * len(one.words) for one in examples])
        features = torch.zeros(*real.shape, len(self.state.features), dtype=torch.long)
        values = [some for one in examples for some in one.features]
        features[real] = torch.tensor(values, dtype=torch.long).reshape(len(values), features.shape[2])
        lines = [one.sentence.line for one in examples]
        return TaggingBatch(words, pieces, characters, features, lengths, labels, real, lines)

    def logits(self, model: nn.Module, batch: TaggingBatch) -> Float[Tensor, "W L"]:
        more = {"features": batch.features} if self.state.features else {}
        scores: Tensor = model(batch.words, batch.pieces, batch.characters, batch.lengths, at=batch.real, **more)
        return scores.float()

    def targets(self, batch: TaggingBatch) -> Int[Tensor, " W"]:
        return batch.labels[batch.real]

    def gold(self, example: EncodedSentence) -> Sequence[str]:
        return example.sentence.labels

    def notes(self, examples: Sequence[EncodedSentence]) -> list[str]:
        return note_unseen([one.sentence for one in examples], self.labels)

    def count_items(self, example: EncodedSentence) -> int:
        return len(example.words)

    def percentages(self, predictions: LabelPredictions, examples: Sequence[EncodedSentence]) -> dict[str, float]:
        scores = super().percentages(predictions, examples)
        if self.has_spans:
            given = [self.tags(one) for one in torch.split(predictions.found, [len(one.words) for one in examples])]
            scores["span_f1"] = 100 * span_f1([one.sentence.labels for one in examples], given)
        return scores

    def more_scores(self, predictions: LabelPredictions, examples: Sequence[EncodedSentence]) -> dict[str, float]:
        """Return the accuracy on words that occur in the training data (known) and on the others (unknown), and how
        many there are of each."""
        scores: dict[str, float] = {}
        right = (predictions.truth == predictions.best).numpy()
        known = np.array([word in self.state.words.known for one in examples for word in one.sentence.words])
        for name, which in (("known", known), ("unknown", ~known)):
            if which.any():
                scores |= {name: 100 * float(right[which].mean()), f"{name}_words": int(which.sum())}
        return scores

    def tags(self, probabilities: Float[Tensor, "N L"]) -> list[str]:
        """Return the most probable label of each word."""
        return [self.labels[i] for i in probabilities.argmax(dim=-1).tolist()]

    def probe(self, model: nn.Module, example: EncodedSentence) -> Probe:
        (found,) = self.probabilities(model, [example])
        tags, words = self.tags(found), list(example.sentence.words)
        return Probe(words, tags, _tagged(words, tags), [])

    def source_and_truth(self, example: EncodedSentence) -> tuple[str, str]:
        words = example.sentence.words
        return " ".join(words), _tagged(words, example.sentence.labels)

    def facts(self) -> list[str]:
        words = self.state.words
        return [
            label_fact(self.labels),
            f"{len(words.words):,} words, {words.pieces.vocabulary_size:,} pieces, "
            f"{len(words.characters):,} characters",
            "scores are in percent; `unknown` is the accuracy on words that do not occur in training",
        ]


def _tagged(words: Sequence[str], tags: Sequence[str]) -> str:
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


def _framed(
    pieces: Int[Tensor, "B N P"], lengths: Int[Tensor, " B"], before: Sequence[int], after: Sequence[int]
) -> Int[Tensor, "B N+2 P"]:
    """Add the tokens that the model expects before and after every text, as if they were the first and last word."""
    room = max(pieces.shape[2], len(before), len(after)) - pieces.shape[2]
    framed = F.pad(pieces, (0, room, 1, 1))
    framed[:, 0, : len(before)] = torch.tensor(before, dtype=torch.long)
    framed[torch.arange(len(pieces)), lengths + 1, : len(after)] = torch.tensor(after, dtype=torch.long)
    return framed


def _by_word(real: Bool[Tensor, "B N"], parts: Sequence[Sequence[int]]) -> Int[Tensor, "B N P"]:
    """Arrange the parts of all words, given in order, by sentence and word."""
    rows, _ = pad(parts)
    placed = torch.zeros(*real.shape, max(1, rows.shape[1]), dtype=torch.long)
    placed[real] = rows if rows.shape[1] else rows.new_zeros(len(rows), 1)
    return placed
