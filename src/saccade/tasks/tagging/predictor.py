"""A tagger that answers: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import watch
from saccade.attention.watching.watch import Rows
from saccade.data.inputs import read_words
from saccade.data.tagged import TaggedSentence
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.tagging.answer import TaggingAnswer
from saccade.tasks.tagging.task import EncodedSentence, Tagging
from saccade.text import split_words

__all__ = ["TaggingPredictor"]

#: How many sentences are answered between two progress reports.
PIECE = 500

#: A text, which is split into words, or a list of words.
Given = str | Sequence[str]


class TaggingPredictor(TextInputPredictor):
    """An opened model that labels words.

    A text is split into words by ``saccade.text.words.split_words``; to give words directly, pass a list of them.
    """

    reads = True
    task: Tagging

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        return read_words(path, **self.read_as, labels=self.task.labels)

    def _predict(
        self, inputs: Sequence[Given], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[TaggingAnswer]:
        self.chosen(options)
        now = Snapshot(self)
        answers: list[TaggingAnswer] = []
        for start in range(0, len(inputs), PIECE):
            some = [self._encoded(given) for given in inputs[start : start + PIECE]]
            found = self.task.probabilities(self.model, some)
            answers += [self._answer(one, scores, now) for one, scores in zip(some, found, strict=True)]
            if progress is not None:
                progress(len(answers))
        return answers

    def token_scores(self, given: Given, answer: Answer) -> list[float]:
        assert isinstance(answer, TaggingAnswer)
        encoded = self._encoded(given)
        if len(encoded.words) != len(answer.tokens):
            raise OptionError(
                f"There are {len(encoded.words)} words now, but the answer has {len(answer.tokens)} labels; replace "
                "one word with one word."
            )
        (found,) = self.task.probabilities(self.model, [encoded])
        return [float(row[self.task.labels.index(tag)]) for row, tag in zip(found, answer.tokens, strict=True)]

    def view_of(self, given: Given, answer: Answer) -> View:
        return self._look(self._encoded(given))

    def view_input(self, given: Given, progress: Rows | None = None) -> View:
        return self._look(self._encoded(given), progress)

    def _encoded(self, given: Given) -> EncodedSentence:
        words = split_words(given, self.task.state.words.known) if isinstance(given, str) else list(given)
        sentence = TaggedSentence(tuple(words), (), (1,) * len(words), "the text")
        return EncodedSentence([self.task.state.words.ids(word) for word in words], [], sentence)

    def _answer(self, encoded: EncodedSentence, scores: Float[Tensor, "N L"], now: Snapshot) -> TaggingAnswer:
        best = scores.amax(dim=-1).tolist()
        return TaggingAnswer(
            list(encoded.sentence.words),
            self.task.tags(scores),
            [math.exp(one) for one in best],
            sum(best),
            self.task.labels,
            scores.exp(),
            now.later(self._look, encoded),
        )

    @torch.inference_mode()
    def _look(self, encoded: EncodedSentence, progress: Rows | None = None) -> View:
        """Every attention, between words, or between pieces if the model attends to those."""
        if not encoded.words:
            raise OptionError("There are no words, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(f"A {self.bundle.kind} network has no attention, so there is nothing to view.")
        words = encoded.sentence.words
        if not getattr(self.model, "by_pieces", False):
            return view(seen, words)
        pieces = [(self.task.state.words.pieces.token(i), n) for n, one in enumerate(encoded.words) for i in one.pieces]
        return view(seen, [piece for piece, _ in pieces], words=[word for _, word in pieces])
