"""A tagger that answers: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.text import Text
from torch import Tensor

from saccade.attention import watch
from saccade.attention.watching.watch import Rows
from saccade.data.tagged import CONLLU, TaggedSentence, read_tagged
from saccade.errors import OptionError
from saccade.lens.figures.canvas import label
from saccade.lens.figures.matrix import draw_matrix
from saccade.lens.figures.panel import Scale, places
from saccade.lens.terminal import views as view_terminal
from saccade.lens.view import View, view
from saccade.lens.words import visible
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.tagging.task import BATCH_WORDS, EncodedSentence, Tagging
from saccade.text import split_words

__all__ = ["TaggedWords", "WordTagger"]

#: Sentences that are answered between two signs of progress.
PIECE = 500
#: A label whose probability is below this for every word is left out of the picture.
LEAST_SHOWN = 0.01
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")

#: A text, which is cut into words, or its words.
Given = str | Sequence[str]


@dataclass(frozen=True)
class TaggedWords(Answer):
    """The words of a text with a label each; ``score`` is the log-probability of all labels together."""

    words: list[str]
    tokens: list[str]  # the labels
    probabilities: list[float]  # of each label
    score: float
    labels: list[str] = field(repr=False)  # all that there are
    every: Float[Tensor, "N L"] = field(repr=False)  # the probability of each of them, for each word
    look: Callable[[], View] = field(repr=False)

    @property
    def text(self) -> str:  # type: ignore[override]
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tokens, strict=True))

    @property
    def scored_tokens(self) -> list[str]:
        return [f"{word}/{tag}" for word, tag in zip(self.words, self.tokens, strict=True)]

    def record(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "words": self.words,
            "labels": self.tokens,
            "probabilities": [round(one, 6) for one in self.probabilities],
            "score": self.score,
        }

    @cached_property
    def view(self) -> View:
        return self.look()

    def terminal(self) -> Iterator[RenderableType]:
        shown = Text()
        for word, tag, probability in zip(self.words, self.tokens, self.probabilities, strict=True):
            style = _COLOURS[self.labels.index(tag) % len(_COLOURS)]
            shown.append(visible(word)).append(f"/{tag}", style=style)
            shown.append(" " if probability >= 0.9 else f"({100 * probability:.0f}%) ")
        yield shown
        if not self.words:
            return
        try:
            names = self.view.names
        except OptionError as error:
            yield Text(str(error))
        else:
            yield view_terminal.heatmap(self.view, names[-1], words=True)

    def figure(self, dark: bool) -> Figure:
        """The probability of each label for each word."""
        if not self.words:
            raise OptionError("There are no words, so there is no picture of them.")
        likely = (self.every >= LEAST_SHOWN).any(dim=0).nonzero().flatten().tolist()
        return draw_matrix(
            self.every[:, likely].double().numpy(),
            places([label(word) for word in self.words]),
            places([label(self.labels[number]) for number in likely]),
            Scale(name="probability"),
            title="how likely each label is",
            dark=dark,
        )


class WordTagger(Predictor):
    """An opened model that labels words.

    A text is cut into words as ``saccade.text.words.split_words`` does; who has words already gives a list of them.
    """

    reads = True
    task: Tagging

    def read_file(self, path: Path) -> list[Given]:
        """A text a line; of CoNLL-U its words."""
        if path.suffix.lower() == CONLLU:
            return [list(sentence.words) for sentence in read_tagged(path)[0]]
        return super().read_file(path)

    def predict(
        self, inputs: Sequence[Given], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[TaggedWords]:
        self.chosen(options)
        answers: list[TaggedWords] = []
        for start in range(0, len(inputs), PIECE):
            some = [self._encoded(given) for given in inputs[start : start + PIECE]]
            found = self.task.probabilities(self.model, some, BATCH_WORDS, lambda: None)
            answers += [self._answer(one, scores) for one, scores in zip(some, found, strict=True)]
            if progress is not None:
                progress(len(answers))
        return answers

    def token_scores(self, given: Given, answer: Answer) -> list[float]:
        encoded = self._encoded(given)
        if len(encoded.words) != len(answer.tokens):
            raise OptionError(
                f"There are {len(encoded.words)} words now and {len(answer.tokens)} labels before; change one word for "
                "one word."
            )
        (found,) = self.task.probabilities(self.model, [encoded], BATCH_WORDS, lambda: None)
        return [float(row[self.task.labels.index(tag)]) for row, tag in zip(found, answer.tokens, strict=True)]

    def view_of(self, given: Given, answer: Answer) -> View:
        return self._look(self._encoded(given))

    def reading(self, given: Given, progress: Rows | None = None) -> View:
        return self._look(self._encoded(given), progress)

    def _encoded(self, given: Given) -> EncodedSentence:
        words = split_words(given, self.task.words.known) if isinstance(given, str) else list(given)
        sentence = TaggedSentence(tuple(words), (), (1,) * len(words), "the text")
        return EncodedSentence([self.task.words.ids(word) for word in words], [], sentence)

    def _answer(self, encoded: EncodedSentence, scores: Float[Tensor, "N L"]) -> TaggedWords:
        best = scores.amax(dim=-1).tolist()
        return TaggedWords(
            list(encoded.sentence.words),
            self.task.tags(scores),
            [math.exp(one) for one in best],
            sum(best),
            self.task.labels,
            scores.exp(),
            partial(self._look, encoded),
        )

    @torch.inference_mode()
    def _look(self, encoded: EncodedSentence, progress: Rows | None = None) -> View:
        """Every attention, between words, or between pieces where those attend."""
        if not encoded.words:
            raise OptionError("There are no words, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(f"A {self.bundle.kind} network has no attention, so there is nothing to view.")
        words = encoded.sentence.words
        if not getattr(self.model, "by_pieces", False):
            return view(seen, words)
        pieces = [(self.task.words.pieces.token(i), n) for n, one in enumerate(encoded.words) for i in one.pieces]
        return view(seen, [piece for piece, _ in pieces], words=[word for _, word in pieces])
