"""Tag words with a trained model: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from saccade.attention import watch
from saccade.attention.watching.watch import RowProgress
from saccade.data.lines import suffix
from saccade.data.tagged import TaggedSentence
from saccade.data.word_inputs import read_words, suffix_of_words
from saccade.errors import InputTypeError, OptionError, counted, shortened
from saccade.lens.causal import replace_word
from saccade.lens.view import View, view
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.tagging.answer import TaggingAnswer
from saccade.tasks.tagging.task import EncodedSentence, Tagging
from saccade.text import split_words

__all__ = ["TaggingPredictor"]

#: A text, which is split into words, a list of words, or a list of words with their features.
TaggerInput = str | Sequence[Any]


class TaggingPredictor(TextInputPredictor):
    """An opened model that assigns labels to words.

    If an input is a text, ``saccade.text.words.split_words`` splits it into words. To split it yourself, pass a list of
    words.
    """

    input_types = (str, list, tuple)
    input_name = "a text or a list of words"
    reads = True
    takes_onnx = True
    at_once = 500
    task: Tagging

    @property
    def known_labels(self) -> tuple[str | int, Callable[[str], bool]] | None:
        label = self.read_as["label_column"] or "-1"
        return int(label) if label.removeprefix("-").isdecimal() else label, set(self.task.labels).__contains__

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        return read_words(path, **self.read_as, labels=self.task.labels)

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        how = self.read_as
        columns = how["word_column"], how["label_column"], *how["feature_columns"]
        kind = suffix_of_words(path, columns, suffix(str(self.bundle.data.get("file") or "")), how["encoding"])
        if kind is None or how.get("lines"):
            return super().read_unnamed(path)
        return self.read_file(path.rename(path.with_suffix(kind)))

    def check_type(self, given: Any, number: int = 1) -> None:
        super().check_type(given, number)
        for word in () if isinstance(given, str) or self.task.state.features else given:
            if not isinstance(word, str):
                raise InputTypeError(f"Each word of input {number}", "a text", word)

    def from_json(self, value: Any) -> Any:
        columns = 1 + len(self.task.state.features)
        rows = [[word] if columns == 1 else word for word in value] if isinstance(value, list) else []
        if isinstance(value, list) and all(
            isinstance(row, list)
            and len(row) == columns
            and all(isinstance(cell, str) and cell.strip() for cell in row)
            for row in rows
        ):
            return value
        if columns > 1:
            raise OptionError(f"{self._needs_features}, not {shortened(value, 40)}.")
        if not isinstance(value, str):
            raise OptionError(f"This model takes a text or a list of words, not {shortened(value, 40)}.")
        return value

    @property
    def _needs_features(self) -> str:
        names = ", ".join(map(str, self.read_as["feature_columns"]))
        return f"This model takes words with their features ({names}): columns, or a list of [word, feature, ...]"

    def input_schema(self) -> dict[str, Any]:
        words: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        if self.task.state.features:
            return {"type": "array", "items": words}
        return {"anyOf": [{"type": "string"}, words]}

    def unknown(self, given: TaggerInput) -> list[str]:
        """Return the words that do not occur in the training data; the model must label them by their spelling and
        their context."""
        words = [row[0] for row in self.from_json(given)] if self.task.state.features else self._words(given)
        return [word for word in words if word not in self.task.state.words]

    def _words(self, given: TaggerInput) -> list[str]:
        return split_words(given, self.task.state.words.known) if isinstance(given, str) else list(given)

    def prepare(self, given: TaggerInput, number: int = 1) -> EncodedSentence:
        features: tuple[tuple[str, ...], ...] = ()
        if self.task.state.features:
            rows = [tuple(row) for row in self.from_json(given)]
            words, features = [row[0] for row in rows], tuple(row[1:] for row in rows)
        else:
            words = self._words(given)
        return self.task.state.encode(TaggedSentence(tuple(words), (), (1,) * len(words), "the text", features), [])

    def answer(self, inputs: Sequence[EncodedSentence], options: Any, now: Snapshot) -> list[TaggingAnswer]:
        answers = []
        for encoded, scores in zip(inputs, self.task.probabilities(self.network_for(now), inputs), strict=True):
            best = scores.amax(dim=-1).tolist()
            answers.append(
                TaggingAnswer(
                    list(encoded.sentence.words),
                    self.task.tags(scores),
                    [math.exp(one) for one in best],
                    sum(best),
                    self.task.labels,
                    scores.exp(),
                    now.later(self._view, encoded),
                )
            )
        return answers

    def replaced(self, given: TaggerInput, old: str, new: str) -> TaggerInput:
        if isinstance(given, str):
            return replace_word(given, old, new)
        words = [word if isinstance(word, str) else word[0] for word in given]
        if words.count(old) != 1:
            text = shortened(" ".join(words), 200)
            raise OptionError(
                f"The word to replace, {shortened(old)}, occurs {words.count(old)} times in {text}; "
                "it must occur exactly once."
            )
        place = words.index(old)
        changed = new if isinstance(given[place], str) else [new, *given[place][1:]]
        return [*given[:place], changed, *given[place + 1 :]]

    def token_scores(self, given: TaggerInput, answer: Answer) -> list[float]:
        assert isinstance(answer, TaggingAnswer)
        encoded = self.prepare(given)
        if len(encoded.words) != len(answer.tokens):
            raise OptionError(
                f"The text now has {counted(len(encoded.words), 'word')}, but the answer has "
                f"{counted(len(answer.tokens), 'label')}; replace "
                "each word by exactly one word."
            )
        (found,) = self.task.probabilities(self.model, [encoded])
        return [float(row[self.task.labels.index(tag)]) for row, tag in zip(found, answer.tokens, strict=True)]

    def view_of(self, given: TaggerInput, answer: Answer) -> View:
        return self._view(self.prepare(given))

    def view_input(self, given: TaggerInput, progress: RowProgress | None = None) -> View:
        return self._view(self.prepare(given), progress)

    @torch.inference_mode()
    def _view(self, encoded: EncodedSentence, progress: RowProgress | None = None) -> View:
        """Return every attention, between words, or between pieces if the model attends to pieces."""
        if not encoded.words:
            raise OptionError("There are no words, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(f"A {self.bundle.kind} network has no attention, so there is nothing to view.")
        words = encoded.sentence.words
        if not getattr(self.model, "by_pieces", False):
            return view(seen, words)
        tokenizer = self.task.state.words.pieces
        before, after = ([[id] for id in part] for part in tokenizer.frame)  # each counts as a word
        every = [*before, *(one.pieces for one in encoded.words), *after]
        tokens = [tokenizer.token(id) for word in every for id in word]
        return view(seen, tokens, words=[number for number, word in enumerate(every) for _ in word])
