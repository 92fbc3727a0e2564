"""Classify texts with a trained model: ``saccade.open("run/").predict(["The story was sad, but well told."])``."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.attention import watch
from saccade.attention.watching.watch import RowProgress
from saccade.data.inputs import read_pairs, read_texts
from saccade.data.label_checks import LabelledFormat
from saccade.data.labelled import LABEL_FIRST, LabelledText
from saccade.data.lines import suffix
from saccade.data.paths import column
from saccade.data.tables import TABLES, table_format
from saccade.errors import FileError, InputTypeError, OptionError, counted
from saccade.lens.axis import Axis
from saccade.lens.view import View, view
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.task import Evaluation
from saccade.tasks.base.text_input import PAIR_SEPARATORS, TextInputPredictor
from saccade.tasks.classification.answer import POOLING, ClassificationAnswer
from saccade.tasks.classification.several import is_chosen, log_complement
from saccade.tasks.classification.task import Classification, EncodedText, wrong_number
from saccade.tasks.translation.predictor import as_written

__all__ = ["ClassificationPredictor"]

#: Example inputs for models that were trained on the built-in reviews.
REVIEWS = ("The story was sad, but the film was excellent.", "The film was not good.")
#: The maximum number of words in a text whose words are left out one by one.
LONGEST_LEFT_OUT = 200


class ClassificationPredictor(TextInputPredictor):
    """An opened model that assigns labels to texts. If the model reads two texts together, an input is a list of both
    or, if the model cannot read a single text, one string with a tab or ``|||`` between the two."""

    input_types = (str, list, tuple)
    input_name = "a text or two texts"
    reads = True
    takes_onnx = True
    kept_part = "first"
    at_once = 500
    in_order = LABEL_FIRST
    task: Classification

    @property
    def takes_two(self) -> bool:
        """Whether the model can read two texts together."""
        return 2 in self.task.state.texts

    def parts(self, given: Any) -> tuple[str, ...]:
        """Return the one or two texts of an input. Raises an error if the model does not take this number of texts."""
        found, allowed = [given] if isinstance(given, str) else list(given), self.task.state.texts
        separator = next(
            (one for one in PAIR_SEPARATORS if self.takes_two and len(found) == 1 and one in found[0]), None
        )
        if separator is not None and 1 in allowed:  # this could be one text or two
            raise OptionError(wrong_number(allowed).capitalize())
        found = found if separator is None else found[0].split(separator)
        texts = tuple(text.strip() for text in found) if len(found) > 1 else tuple(found)
        if len(texts) not in allowed and any(text.strip() for text in texts):
            raise OptionError(wrong_number(allowed).capitalize())
        return texts

    def check_type(self, given: Any, number: int = 1) -> None:
        super().check_type(given, number)
        if not isinstance(given, str) and not self.takes_two:
            raise InputTypeError(f"Input {number}", "a text", given)
        if not isinstance(given, str) and len(given) not in (1, 2):
            raise InputTypeError(f"Input {number}", "a text or a list of two texts", given)
        for text in given:
            if not isinstance(text, str):
                raise InputTypeError(f"Each text of input {number}", "a text", text)
        try:
            self.parts(given)
        except OptionError:
            raise OptionError(f"Input {number}: {wrong_number(self.task.state.texts)}") from None

    def from_json(self, value: Any) -> Any:
        if isinstance(value, list) and self.takes_two:
            self.check_type(value)
            return value
        return self.parse(super().from_json(value))

    def parse(self, argument: str) -> Any:
        """Convert a command-line argument to an input: a text or, if the model reads either one text or two, also a
        JSON list of two texts."""
        if self.task.state.texts != (1, 2) or not argument.startswith("["):
            return argument
        try:
            found = json.loads(argument)
        except (ValueError, RecursionError):
            return argument
        is_pair = isinstance(found, list) and len(found) == 2 and all(isinstance(text, str) for text in found)
        return found if is_pair else argument

    def input_schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        pair = {"type": "array", "items": text, "minItems": 2, "maxItems": 2}
        return {"anyOf": [text, pair]} if self.takes_two else text

    def count_tokens(self, given: Any) -> int:
        return sum(super(ClassificationPredictor, self).count_tokens(text) for text in self.parts(given))

    def unknown(self, given: Any) -> list[str]:
        return [word for text in self.parts(given) for word in super(ClassificationPredictor, self).unknown(text)]

    def replaced(self, given: Any, old: str, new: str) -> Any:
        if isinstance(given, str) or len(given) == 1:
            return super().replaced(given if isinstance(given, str) else given[0], old, new)
        first, second = given
        changed = super().replaced(f"{first} ||| {second}", old, new)  # the word must occur once in both together
        start, end = f"{first} ||| ", f" ||| {second}"
        return (
            [first, changed.removeprefix(start)] if changed.startswith(start) else [changed.removesuffix(end), second]
        )

    def from_sentences(self, sentences: Sequence[str]) -> list[str]:
        if self.task.state.texts != (2,):
            return list(sentences)
        return [f"{one} ||| {other}" for one, other in itertools.pairwise(sentences)]

    def network_inputs(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        batch = self.task.plain_batch(self._encode(inputs))
        return (batch.tokens, batch.lengths, *([] if batch.types is None else [batch.types]))

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        if self.task.state.texts == (2,):
            return []
        own = super().examples(probe)
        return [*REVIEWS, *own] if self.bundle.data.get("builtin") == "grammar" else own

    def read_otherwise(
        self,
        columns: str | None = None,
        encoding: str | None = None,
        lines: bool = False,
        separator: str | None = None,
    ) -> None:
        """Read files differently from the training files. If the model always reads two texts, ``columns`` may be just
        the two columns of texts, without one of labels."""
        if columns is not None and self.task.state.texts == (2,) and columns.count(",") == 1:
            columns += ",-"
        super().read_otherwise(columns, encoding, lines, separator)

    @property
    def _labelled(self) -> LabelledFormat:
        trained = self.bundle.data.get("file")
        in_lines = trained is not None and suffix(trained) not in TABLES
        return LabelledFormat(self.task.labels, in_lines, self.read_as["label_separator"])

    @property
    def known_labels(self) -> tuple[str | int, Callable[[str], bool]] | None:
        label = self.read_as["label_column"]
        return None if label is None else (column(label), self._labelled.knows)

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        how = self.read_as
        names = "label_column", "text_column", "second_column"
        label, text, second = (None if how[key] is None else column(how[key]) for key in names)
        labelled = self._labelled
        options = {"header": how["header"], "encoding": how["encoding"], "skip_bad": how["skip_bad_rows"]}
        options["separator"] = how["separator"]
        lines = how.get("lines", False)
        if second is not None and table_format(path) in TABLES and not lines:
            assert text is not None
            return read_pairs(path, (label, text, second), labelled=labelled, is_chosen=self.chose_columns, **options)
        columns = [label, text, *([] if second is None else [second])]
        return read_texts(
            path,
            columns,
            1,
            in_order=self.in_order,
            labelled=labelled,
            lines=lines,
            chosen=self.chose_columns,
            **options,
        )

    def evaluate(self, examples: Sequence[LabelledText], **options: Any) -> Evaluation:
        """Score the model on labelled texts. Raises an error if lines start with a word that is none of the model's
        labels, because they may have no label."""
        unseen = [one for one in examples if one.is_first_word and one.label not in self.task.label_ids]
        if unseen:
            first = unseen[0]
            raise FileError(
                f"{first.file}, line {first.line}: the line starts with {first.label!r}, which is not one of the "
                f"model's labels, so the line may be unlabelled (the first of {counted(len(unseen), 'such line')}). If "
                "each line consists of a label followed by a text, add --columns 1,0."
            )
        return super().evaluate(examples, **options)

    def answer(self, inputs: Sequence[str], options: Any, now: Snapshot) -> list[ClassificationAnswer]:
        texts = self._encode(inputs)
        found = torch.cat(self.task.probabilities(self.network_for(now), texts)).tolist()
        return [self._answer(text, scores, now) for text, scores in zip(texts, found, strict=True)]

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        (found,) = self.task.probabilities(self.model, self._encode([given]))
        return [float(found[0, self.task.labels.index(name)]) for name in answer.scored_tokens]

    def view_of(self, given: str, answer: Answer) -> View:
        return self._view(self._encode([given])[0])

    def view_input(self, given: str, progress: RowProgress | None = None) -> View:
        return self._view(self._encode([given])[0], progress)

    def _encode(self, texts: Sequence[Any]) -> list[EncodedText]:
        unlabelled = []
        for number, given in enumerate(texts, start=1):
            first, *others = self.parts(given)
            second = others[0] if others else "" if self.task.state.texts == (2,) else None
            unlabelled.append(LabelledText(first, "", number, "the texts", second=second))
        found = self.task.encode_texts(unlabelled, [-1] * len(unlabelled))
        # An empty text has no tokens, and so gets no label: the model would make one up.
        return [one if all(map(str.strip, one.text.texts)) else one._replace(tokens=[]) for one in found]

    def _answer(self, encoded: EncodedText, scores: Sequence[float], now: Snapshot) -> ClassificationAnswer:
        compute_attention = now.later(self._view, encoded)
        source, several = " ||| ".join(encoded.text.texts), self.task.state.several
        if not encoded.tokens:
            return ClassificationAnswer(source, "", 0.0, {}, compute_attention, list, () if several else None)
        each = {name: math.exp(score) for name, score in zip(self.task.labels, scores, strict=True)}
        ordered = dict(sorted(each.items(), key=lambda item: -item[1]))
        best = next(iter(ordered))
        leave_out = now.later(self._leave_out, encoded.text.texts, best)
        above = dict(zip(self.task.labels, is_chosen(torch.tensor(scores)).tolist(), strict=True))
        chosen = tuple(name for name in ordered if above[name]) if several else None
        between = self.read_as["label_separator"] or ","
        said = best if chosen is None else (", " if between == "," else between).join(chosen)
        return ClassificationAnswer(source, said, ordered[best], ordered, compute_attention, leave_out, chosen)

    def _leave_out(self, given: Sequence[str], label: str) -> list[tuple[str, float]]:
        """Return each word with how much the log-odds of the label fall when the word is left out."""
        both = [text.split() for text in given]
        words = [word for text in both for word in text]
        if len(words) > LONGEST_LEFT_OUT:
            raise OptionError(
                f"The text has {len(words):,} words; to find which words mattered, each word is left out in turn, "
                f"which is only done for up to {LONGEST_LEFT_OUT:,} words."
            )
        shorter = [
            tuple(
                " ".join([*text[:place], *text[place + 1 :]] if which == number else text)
                for which, text in enumerate(both)
            )
            for number, one in enumerate(both)
            for place in range(len(one))
        ]
        found = torch.cat(self.task.probabilities(self.model, self._encode([tuple(given), *shorter]))).double()
        chosen = self.task.labels.index(label)
        if self.task.state.several:  # each label has its own odds; without words, they are even
            odds = (found - log_complement(found)).nan_to_num(nan=0.0)[:, chosen]
        else:
            found = found.nan_to_num(nan=-math.log(found.shape[1]))  # without words, every label is equally likely
            others = torch.arange(found.shape[1]) != chosen
            odds = found[:, chosen] - found[:, others].logsumexp(dim=1)
        return list(zip(words, (odds[0] - odds[1:]).tolist(), strict=True))

    def _shown(self, encoded: EncodedText) -> list[str]:
        """Return the tokens that the model reads, as they are written in the text."""
        tokenizer = self.task.state.tokenizer
        written = [as_written(text, tokenizer.encode(text), tokenizer.special.unknown) for text in encoded.text.texts]
        if encoded.kept:
            before, between, after, _ = tokenizer.pair_frame
            first, second = (shown[:count] for shown, count in zip(written, encoded.kept, strict=True))
            parts: list[Sequence[int | str]] = [before, first, between, second, after]
        else:
            before, after = tokenizer.frame
            parts = [before, written[0][: len(encoded.tokens) - len(before) - len(after)], after]
        return [part if isinstance(part, str) else tokenizer.token(part) for one in parts for part in one]

    @torch.inference_mode()
    def _view(self, encoded: EncodedText, progress: RowProgress | None = None) -> View:
        if not encoded.tokens:
            raise OptionError("The text is empty, so there is nothing to view.")
        with watch(self.model, progress=progress) as seen:
            self.task.logits(self.model, self.task.plain_batch([encoded]).to(self.device))
        if not seen:
            raise OptionError(
                f'A {self.bundle.kind} network only has attention with model.pooling = "attention"; this model was '
                "trained with another value, so there is nothing to view."
            )
        tokenizer = self.task.state.tokenizer
        tokens = self._shown(encoded)
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
