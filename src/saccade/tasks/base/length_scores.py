"""Measure how well a model translates the sentences of the built-in corpus, for each sentence length."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from saccade.data.grammar import Example, generate
from saccade.tasks.base.capabilities import TranslatesText
from saccade.tasks.base.predictor import Predictor

__all__ = ["BINS", "by_length", "can_be_measured", "sentences"]

#: The number of sentences to translate, and how many of them to translate at once.
COUNT, AT_ONCE = 400, 50
#: The ranges of sentence lengths, in words: the shortest and the longest length of each.
BINS = ((1, 5), (6, 7), (8, 9), (10, 11), (12, 99))


def can_be_measured(predictor: Predictor) -> bool:
    return isinstance(predictor, TranslatesText) and predictor.bundle.data.get("builtin") == "grammar"


@cache
def sentences() -> tuple[Example, ...]:
    """Return sentences of the built-in corpus's test split, shortest first."""
    return tuple(sorted(generate(COUNT, seed=23, split="test"), key=lambda one: (len(one.source), one.source)))


def by_length(predictor: Predictor) -> Iterator[dict[str, Any]]:
    """Translate the sentences, and yield the progress; the last record has, for each range of lengths, BLEU and how
    many translations are exactly right."""
    assert isinstance(predictor, TranslatesText)
    every, answers = sentences(), []
    for start in range(0, COUNT, AT_ONCE):
        some = [one.source_text for one in every[start : start + AT_ONCE]]
        answers += [answer.text for answer in predictor.predict(some, beam=1)]
        yield {"done": len(answers), "of": COUNT}
    bleu, bins = predictor.metrics()["BLEU"], []
    for low, high in BINS:
        pairs = [
            (answer, one.target_text)
            for one, answer in zip(every, answers, strict=True)
            if low <= len(one.source) <= high
        ]
        if pairs:
            score = bleu.corpus_score([answer for answer, _ in pairs], [[truth for _, truth in pairs]]).score
            right = sum(answer == truth for answer, truth in pairs)
            bins.append({"from": low, "to": high, "bleu": score, "right": right, "of": len(pairs)})
    longest = every[-1]
    told = {"sentence": longest.source_text, "reference": longest.target_text, "answer": answers[-1]}
    yield {"bins": bins, **told}
