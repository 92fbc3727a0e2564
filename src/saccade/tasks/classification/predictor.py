"""Classify texts with a trained model: ``saccade.open("run/").predict(["The story was sad, but well told."])``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from saccade.attention import watch
from saccade.attention.watching.watch import Rows
from saccade.data.inputs import LabelledFormat, read_texts
from saccade.data.labelled import LABEL_FIRST, LabelledText
from saccade.data.lines import suffix
from saccade.data.paths import column
from saccade.data.tables import TABLES
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

#: Example inputs for models that were trained on the built-in reviews.
REVIEWS = ("The story was sad, but the film was excellent.", "The film was not good.")
#: The maximum number of words in a text whose words are left out one by one.
LONGEST_LEFT_OUT = 200


class ClassificationPredictor(TextInputPredictor):
    """An opened model that assigns labels to texts."""

    reads = True
    kept_part = "first"
    at_once = 500
    task: Classification

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        own = super().examples(probe)
        return [*REVIEWS, *own] if self.bundle.data.get("builtin") == "grammar" else own

    def read_file(self, path: Path) -> tuple[list[str], str]:
        how = self.read_as
        columns = [None if how[key] is None else column(how[key]) for key in ("label_column", "text_column")]
        trained = self.bundle.data.get("file")
        in_lines = trained is not None and suffix(trained) not in TABLES
        return read_texts(
            path,
            columns,
            1,
            in_order=LABEL_FIRST,
            labelled=LabelledFormat(self.task.labels, in_lines),
            header=how["header"],
            encoding=how["encoding"],
            skip_bad=how["skip_bad_rows"],
            lines=how.get("lines", False),
        )

    def answer(self, inputs: Sequence[str], options: Any, now: Snapshot) -> list[ClassificationAnswer]:
        texts = self._encode(inputs)
        found = torch.cat(self.task.probabilities(self.model, texts)).tolist()
        return [self._answer(text, scores, now) for text, scores in zip(texts, found, strict=True)]

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        (found,) = self.task.probabilities(self.model, self._encode([given]))
        return [float(found[0, self.task.labels.index(name)]) for name in answer.scored_tokens]

    def view_of(self, given: str, answer: Answer) -> View:
        return self._view(self._encode([given])[0])

    def view_input(self, given: str, progress: Rows | None = None) -> View:
        return self._view(self._encode([given])[0], progress)

    def _encode(self, texts: Sequence[str]) -> list[EncodedText]:
        unlabelled = [LabelledText(text, "", number, "the texts") for number, text in enumerate(texts, start=1)]
        found = self.task.encode_texts(unlabelled, [-1] * len(unlabelled))
        # An empty text has no tokens, and so gets no label: the model would make one up.
        return [one if one.text.text.strip() else one._replace(tokens=[]) for one in found]

    def _answer(self, encoded: EncodedText, scores: Sequence[float], now: Snapshot) -> ClassificationAnswer:
        compute_attention = now.later(self._view, encoded)
        if not encoded.tokens:
            return ClassificationAnswer(encoded.text.text, "", 0.0, {}, compute_attention, list)
        each = {name: math.exp(score) for name, score in zip(self.task.labels, scores, strict=True)}
        ordered = dict(sorted(each.items(), key=lambda item: -item[1]))
        best = next(iter(ordered))
        leave_out = now.later(self._leave_out, encoded.text.text, best)
        return ClassificationAnswer(encoded.text.text, best, ordered[best], ordered, compute_attention, leave_out)

    def _leave_out(self, text: str, label: str) -> list[tuple[str, float]]:
        """Return each word with how much the log-odds of the label fall when the word is left out."""
        words = text.split()
        if len(words) > LONGEST_LEFT_OUT:
            raise OptionError(
                f"The text has {len(words):,} words; which words mattered is found by leaving out each in turn, which "
                f"is only done for up to {LONGEST_LEFT_OUT:,} words."
            )
        texts = [text, *(" ".join(words[:place] + words[place + 1 :]) for place in range(len(words)))]
        found = torch.cat(self.task.probabilities(self.model, self._encode(texts))).double()
        found = found.nan_to_num(nan=-math.log(found.shape[1]))  # without words, every label is equally likely
        chosen = self.task.labels.index(label)
        others = torch.arange(found.shape[1]) != chosen
        odds = found[:, chosen] - found[:, others].logsumexp(dim=1)
        return list(zip(words, (odds[0] - odds[1:]).tolist(), strict=True))

    @torch.inference_mode()
    def _view(self, encoded: EncodedText, progress: Rows | None = None) -> View:
        if not encoded.tokens:
            raise OptionError("The text is empty, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.plain_batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(
                f'A {self.bundle.kind} network only has attention with model.pooling = "attention"; this model does '
                "not use it."
            )
        text, tokenizer = encoded.text.text, self.task.state.tokenizer
        before, after = tokenizer.frame
        written = as_written(text, tokenizer.encode(text), tokenizer.special.unknown)
        shown = written[: len(encoded.tokens) - len(before) - len(after)]
        tokens = [*map(tokenizer.token, before), *shown, *map(tokenizer.token, after)]
        words = tokenizer.words(encoded.tokens) if tokenizer.spaced else None
        # The single row of attention pooling stands for the whole text, not for a token.
        pooling = {name: trace for name, trace in seen.items() if name == POOLING}
        others = {name: trace for name, trace in seen.items() if name != POOLING}
        found = view(others, tokens, words=words) if others else View({}, {}, {})
        return View(
            {**found.traces, **pooling},
            {**found.rows, **{name: Axis.of(["the text"]) for name in pooling}},
            {**found.columns, **dict.fromkeys(pooling, Axis.of(tokens, words))},
        )
