"""Small labelled sentences and texts whose rule is known, and models that learned it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from saccade.data.labelled import LabelledText
from saccade.data.tagged import TaggedSentence
from saccade.tasks.base.predictor import NoOptions
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.classification.task import (
    Classification,
    ClassificationState,
    ClassificationText,
    ClassificationTraining,
)
from saccade.tasks.tagging.task import Tagging, TaggingState
from saccade.tasks.tagging.word_ids import TaggingText

SYLLABLES = ("ba", "do", "fi", "ku", "me", "no", "ri", "sa")


def sentence(words: str, labels: str = "", line: int = 1) -> TaggedSentence:
    parts = tuple(words.split())
    return TaggedSentence(parts, tuple(labels.split()), tuple(range(line, line + len(parts))), "toy.txt")


def toy_sentences(count: int, seed: int) -> list[TaggedSentence]:
    """Made-up words in any order: those that end in "ing" are verbs, those with a capital names, others nouns."""
    draw = random.Random(seed)
    made = []
    for line in range(1, count + 1):
        stems = ["".join(draw.choices(SYLLABLES, k=3)) for _ in range(3)]
        middle = [(stems[0], "NOUN"), (f"{stems[1]}ing", "VERB"), (stems[2].capitalize(), "NAME")]
        draw.shuffle(middle)
        words, labels = zip(("the", "DET"), *middle, (".", "PUNCT"), strict=True)
        made.append(sentence(" ".join(words), " ".join(labels), line * 10))
    return made


def toy_texts(count: int, seed: int) -> list[LabelledText]:
    """Texts of five words of which one decides; three in four are good."""
    draw = random.Random(seed)
    made = []
    for line in range(1, count + 1):
        label = "good" if draw.random() < 0.75 else "bad"
        words = draw.choices(["film", "plot", "it", "was", "the"], k=4)
        words.insert(draw.randrange(5), {"good": "great", "bad": "awful"}[label])
        made.append(LabelledText(" ".join(words), label, line, "toy.txt"))
    return made


def tagging(train: Sequence[TaggedSentence], metric: str = "accuracy", **text: Any) -> Tagging:
    settings = {"text": TaggingText(**{"pieces": 300, **text})}
    return Tagging(TaggingState.prepare(settings, train), settings, metric)


def classification(train: Sequence[LabelledText], weights: str = "none", **text: Any) -> Classification:
    settings = {
        "text": ClassificationText(**{"min_frequency": 1, **text}),
        "training": ClassificationTraining.read({"class_weights": weights}, "here"),
    }
    return Classification(ClassificationState.prepare(settings, train), settings)


def trained(task: Task, kind: str, fields: dict[str, Any], train: Sequence[Any], steps: int = 60) -> Bundle:
    """A network of this kind after so many updates."""
    torch.manual_seed(1)
    config = task.networks[kind].config.read(fields, "the model")
    model = task.build(kind, config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    examples = task.encode(train)
    for step in range(steps):
        start = step * 16 % len(examples)
        loss = task.loss(model.train(), task.batch(examples[start : start + 16]))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return Bundle(task, kind, config, model.eval(), NoOptions())
