"""An opened masked language model: a text with ``[MASK]`` in, the likeliest words for it out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from saccade.attention import watch
from saccade.attention.watching.watch import Rows
from saccade.data.inputs import read_texts
from saccade.data.paths import column
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST, Config
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.masked.answer import Candidate, MaskedLanguageModelAnswer
from saccade.tasks.masked.task import MaskedLanguageModel
from saccade.text import HOLE, MASK, SPECIAL_TOKENS

__all__ = ["FillOptions", "MaskedLanguageModelPredictor"]


class FillOptions(Config):
    """What a masked language model returns."""

    n_best: int = Field(5, ge=1, le=1000, description="Candidates for each mask")


class MaskedLanguageModelPredictor(TextInputPredictor):
    """An opened masked language model. A mask is one token; if tokens are pieces of words, one piece."""

    options = FillOptions
    reads = True
    task: MaskedLanguageModel

    @property
    def plural(self) -> str:
        return "masked language models"

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """The usual examples, with one word hidden in each."""
        found = super().examples([f" {HOLE}" if token == SPECIAL_TOKENS[MASK] else token for token in probe])
        return [text if HOLE in text else text.replace("cat", HOLE, 1) for text in found]

    def read_file(self, path: Path) -> tuple[list[str], str]:
        return read_texts(path, [column(self.read_as["column"])], encoding=self.read_as["encoding"])

    def unknown(self, given: str) -> list[str]:
        return super().unknown(given.replace(HOLE, " "))

    def _predict(
        self, inputs: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[MaskedLanguageModelAnswer]:
        """Each text with its masks filled in. If it has one mask, the other candidates are its ``alternatives``."""
        chosen, now = self.chosen(options), Snapshot(self)
        masked = [self._masked(given, number) for number, given in enumerate(inputs, start=1)]
        answers = []
        for given, (ids, places) in zip(inputs, masked, strict=True):
            answers.append(self._fill(given, ids, places, chosen.n_best, now))
            if progress is not None:
                progress(len(answers))
        return answers

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, MaskedLanguageModelAnswer)
        ids, places = self._masked(given)
        found = self.task.log_probabilities(self.model, ids)
        return [float(found[place, id]) for place, id in zip(places, answer.ids, strict=True)]

    def view_of(self, given: str, answer: Answer) -> View:
        return self._look(self._masked(given)[0])

    def view_input(self, given: str, progress: Rows | None = None) -> View:
        return self._look(self.task.state.tokenizer.encode_masked(given)[0], progress)

    def _masked(self, given: str, number: int = 1) -> tuple[list[int], list[int]]:
        ids, places = self.task.state.tokenizer.encode_masked(given)
        if not places:
            raise OptionError(
                f"There is no {HOLE} in {given[:80]!r} (text {number}); write one in place of each word to fill in."
            )
        return ids, places

    def _fill(
        self, given: str, ids: list[int], places: list[int], n_best: int, now: Snapshot
    ) -> MaskedLanguageModelAnswer:
        found = self.task.log_probabilities(self.model, ids)[places]
        candidates = [self._candidates(row, n_best) for row in found]
        look = now.later(self._look, ids)

        def filled(chosen: Sequence[Candidate], **more: Any) -> MaskedLanguageModelAnswer:
            return MaskedLanguageModelAnswer(
                given,
                self.task.state.tokenizer.fill(given, ids, places, [one.id for one in chosen]),
                sum(math.log(max(one.probability, 1e-45)) for one in chosen) / len(chosen),
                [one.token for one in chosen],
                [one.id for one in chosen],
                candidates,
                look,
                places,
                **more,
            )

        others = [filled([one]) for one in candidates[0][1:]] if len(places) == 1 else []
        return filled([some[0] for some in candidates], alternatives=others)

    def _candidates(self, scores: Float[Tensor, " V"], count: int) -> list[Candidate]:
        """The likeliest tokens, without special ones, which have no text."""
        tokenizer = self.task.state.tokenizer
        real = scores.index_fill(0, torch.tensor(tokenizer.hidden_ids), -math.inf)
        best = real.topk(min(count, len(real) - len(tokenizer.hidden_ids)))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Candidate(id, tokenizer.token(id), math.exp(score)) for id, score in found]

    @torch.inference_mode()
    def _look(self, ids: Sequence[int], progress: Rows | None = None) -> View:
        if not ids:
            raise OptionError("The text is empty, so there is nothing to view.")
        tokenizer = self.task.state.tokenizer
        with watch(self.model, progress=progress) as seen:
            self.model(torch.tensor([list(ids)], device=self.device), at=LAST)
        words = tokenizer.words(ids) if tokenizer.spaced else None
        return view(seen, [tokenizer.token(id) for id in ids], words=words)
