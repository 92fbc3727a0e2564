"""An opened sentence encoder: for one text, the answer is its vector; for two texts, also how similar they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F

from saccade.attention import watch
from saccade.attention.watching.watch import RowProgress
from saccade.errors import InputTypeError, OptionError
from saccade.lens.view import View, view
from saccade.models.sentence_encoder import SentenceConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import PAIR_SEPARATORS, TextInputPredictor
from saccade.tasks.similarity.answer import SimilarityAnswer
from saccade.tasks.similarity.task import Similarity
from saccade.text import pad

__all__ = ["SimilarityPredictor"]


class SimilarityPredictor(TextInputPredictor):
    """An opened sentence encoder. An input is one text, or two texts to compare: a list of both, or one string with a
    tab or ``|||`` between them."""

    input_types = (str, list, tuple)
    input_name = "a text or two texts"
    reads = True
    takes_onnx = True
    task: Similarity

    @property
    def plural(self) -> str:
        return "sentence encoders"

    def check_type(self, given: Any, number: int = 1) -> None:
        super().check_type(given, number)
        for text in given:
            if not isinstance(text, str):
                raise InputTypeError(f"Each text of input {number}", "a text", text)

    def describe(self) -> dict[str, str]:
        config = cast(SentenceConfig, self.bundle.config)
        stated = "" if "pooling" in config.model_fields_set else " (a default, because the folder does not say)"
        return {**super().describe(), "pooling": f"{config.pooling}{stated}"}

    def from_json(self, value: Any) -> Any:
        if isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value):
            return "\t".join(text.replace("\t", " ") for text in value)
        return super().from_json(value)

    def input_schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        return {"anyOf": [text, {"type": "array", "items": text, "minItems": 2, "maxItems": 2}]}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        return ["A cat sleeps on the sofa. ||| A kitten naps on the couch.", "The animal was too tired. ||| It rained."]

    def unknown(self, given: Any) -> list[str]:
        return [word for text in _texts(given) for word in super(SimilarityPredictor, self).unknown(text)]

    def prepare(self, given: Any, number: int = 1) -> tuple[tuple[str, ...], list[list[int]]]:
        texts = _texts(given)
        if len(texts) > 2:
            raise OptionError(f"Input {number} has {len(texts)} texts; give one text, or two with a tab between them.")
        ids = self.task.framed(texts)
        for text, one in zip(texts, ids, strict=True):
            self._check_length(text, one)
        return texts, ids

    def answer(
        self, inputs: Sequence[tuple[tuple[str, ...], list[list[int]]]], options: Any, now: Snapshot
    ) -> list[SimilarityAnswer]:
        vectors = iter(self.task.vectors(self.network_for(now), [ids for _, both in inputs for ids in both]))
        answers = []
        for texts, ids in inputs:
            found = [next(vectors) for _ in texts]
            score = float(F.cosine_similarity(found[0], found[1], dim=0)) if len(found) == 2 else None
            compute_attention = now.later(self._view, ids[0])
            answers.append(SimilarityAnswer(texts, tuple(one.tolist() for one in found), score, compute_attention))
        return answers

    def view_of(self, given: Any, answer: Answer) -> View:
        return self._view(self.prepare(given)[1][0])

    def view_input(self, given: str, progress: RowProgress | None = None) -> View:
        return self._view(self.prepare(given)[1][0], progress)

    def _check_length(self, text: str, ids: list[int]) -> None:
        config = cast(SentenceConfig, self.model.config)
        most = min(config.longest_text or config.max_length, config.max_length)
        if config.position == "learned" and len(ids) > most:
            raise OptionError(f"{text[:40]!r} has {len(ids):,} tokens; this model reads at most {most:,}.")
        if not ids:
            raise OptionError("The text is empty, so it has no vector.")

    @torch.inference_mode()
    def _view(self, ids: list[int], progress: RowProgress | None = None) -> View:
        tokenizer = self.task.state.tokenizer
        tokens, lengths = pad([ids])
        with watch(self.model, progress=progress) as seen:
            self.model(tokens.to(self.device), lengths.to(self.device))
        return view(seen, tokenizer.tokens(ids), words=tokenizer.words(ids))


def _texts(given: Any) -> tuple[str, ...]:
    """Return the one or two texts of an input."""
    parts = given if isinstance(given, list | tuple) else [given]
    for separator in PAIR_SEPARATORS:
        parts = [piece for part in parts for piece in part.split(separator)]
    return tuple(part.strip() for part in parts)
