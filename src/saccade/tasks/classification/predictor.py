"""A classifier that answers: ``saccade.open("run/").predict(["The story was sad, but the film was excellent."])``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from saccade.attention import Trace, watch
from saccade.attention.watching.watch import Rows
from saccade.data.inputs import read_texts
from saccade.data.labelled import LabelledText
from saccade.data.paths import column
from saccade.errors import OptionError
from saccade.lens.axis import Axis
from saccade.lens.view import View, view
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.classification.answer import POOLING, ClassificationAnswer
from saccade.tasks.classification.task import Classification, EncodedText
from saccade.tasks.translation.predictor import as_written

__all__ = ["ClassificationPredictor"]

#: Example inputs for models trained on the built-in corpus, whose labels are those of reviews.
REVIEWS = ("The story was sad, but the film was excellent.", "The film was not good.")
#: How many texts are answered between two progress reports.
PIECE = 500
#: The most words of a text that are left out one by one.
LONGEST_LEFT_OUT = 200


class ClassificationPredictor(TextInputPredictor):
    """An opened model that labels texts."""

    reads = True
    task: Classification

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        own = super().examples(probe)
        return [*REVIEWS, *own] if self.bundle.data.get("builtin") == "grammar" else own

    def read_file(self, path: Path) -> tuple[list[str], str]:
        how = self.read_as
        columns = column(how["label_column"]), column(how["text_column"])
        return read_texts(path, columns, 1, labels=self.task.labels, encoding=how["encoding"])

    def unknown(self, given: str) -> list[str]:
        """Only if at least half of the words are unknown: training has unknown words too, the rare ones."""
        found = super().unknown(given)
        return found if 2 * len(found) >= self.count_tokens(given) else []

    def _predict(
        self, inputs: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[ClassificationAnswer]:
        self.chosen(options)
        now = Snapshot(self)
        answers: list[ClassificationAnswer] = []
        for start in range(0, len(inputs), PIECE):
            some = self._encoded(inputs[start : start + PIECE])
            found = torch.cat(self.task.probabilities(self.model, some)).tolist()
            answers += [self._answer(one, scores, now) for one, scores in zip(some, found, strict=True)]
            if progress is not None:
                progress(len(answers))
        return answers

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        (found,) = self.task.probabilities(self.model, self._encoded([given]))
        return [float(found[0, self.task.labels.index(name)]) for name in answer.scored_tokens]

    def view_of(self, given: str, answer: Answer) -> View:
        return self._look(self._encoded([given])[0])

    def view_input(self, given: str, progress: Rows | None = None) -> View:
        return self._look(self._encoded([given])[0], progress)

    def _encoded(self, texts: Sequence[str]) -> list[EncodedText]:
        unlabelled = [LabelledText(text, "", number, "the texts") for number, text in enumerate(texts, start=1)]
        found = self.task.encoded(unlabelled, [-1] * len(unlabelled))
        # A label for an empty text would be made up.
        return [one if one.text.text.strip() else one._replace(tokens=[]) for one in found]

    def _answer(self, encoded: EncodedText, scores: Sequence[float], now: Snapshot) -> ClassificationAnswer:
        look = now.later(self._look, encoded)
        if not encoded.tokens:
            return ClassificationAnswer(encoded.text.text, "", 0.0, {}, look, list)
        each = {name: math.exp(score) for name, score in zip(self.task.labels, scores, strict=True)}
        ordered = dict(sorted(each.items(), key=lambda item: -item[1]))
        best = next(iter(ordered))
        leave_out = now.later(self._leave_out, encoded.text.text, best)
        return ClassificationAnswer(encoded.text.text, best, ordered[best], ordered, look, leave_out)

    def _leave_out(self, text: str, label: str) -> list[tuple[str, float]]:
        """Each word with how much the log-odds of the label fall if it is left out."""
        words = text.split()
        if len(words) > LONGEST_LEFT_OUT:
            raise OptionError(
                f"The text has {len(words):,} words; to find which mattered, each is left out in turn, for at "
                f"most {LONGEST_LEFT_OUT:,} words."
            )
        texts = [text, *(" ".join(words[:place] + words[place + 1 :]) for place in range(len(words)))]
        found = torch.cat(self.task.probabilities(self.model, self._encoded(texts))).double()
        found = found.nan_to_num(nan=-math.log(found.shape[1]))  # without words, every label is equally likely
        every = self.task.labels.index(label)
        others = torch.arange(found.shape[1]) != every
        odds = found[:, every] - found[:, others].logsumexp(dim=1)
        return list(zip(words, (odds[0] - odds[1:]).tolist(), strict=True))

    @torch.inference_mode()
    def _look(self, encoded: EncodedText, progress: Rows | None = None) -> View:
        if not encoded.tokens:
            raise OptionError("The text is empty, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.plain_batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(
                f'A {self.bundle.kind} network only has attention with model.pooling = "attention"; this one has none.'
            )
        text, tokenizer = encoded.text.text, self.task.state.tokenizer
        tokens = as_written(text, tokenizer.encode(text))[: len(encoded.tokens)]
        words = tokenizer.words(encoded.tokens) if tokenizer.spaced else None
        return _view(dict(seen), tokens, words)


def _view(seen: dict[str, Trace], tokens: list[str], words: list[int] | None) -> View:
    """The single row of attention pooling is not a token: it is the whole text."""
    pooling = {name: trace for name, trace in seen.items() if name == POOLING}
    others = {name: trace for name, trace in seen.items() if name != POOLING}
    axis = Axis.of(tokens, words)
    shown = view(others, tokens, words=words) if others else View({}, {}, {})
    return View(
        {**shown.traces, **pooling},
        {**shown.rows, **{name: Axis.of(["the text"]) for name in pooling}},
        {**shown.columns, **dict.fromkeys(pooling, axis)},
    )
