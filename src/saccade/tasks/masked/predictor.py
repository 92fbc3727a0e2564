"""Fill in masked words with a trained model: ``saccade.open("run/").predict(["The cat ate the [MASK]."])``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from saccade.attention import watch
from saccade.attention.watching.watch import RowProgress
from saccade.data.inputs import read_prompts
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST, Config
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.cost import MOST_OUTPUTS
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.masked.answer import Candidate, MaskedLanguageModelAnswer
from saccade.tasks.masked.task import MaskedLanguageModel
from saccade.text import MASK, MASK_TEXT, SPECIAL_TOKENS

__all__ = ["FillOptions", "MaskedLanguageModelPredictor"]


class FillOptions(Config):
    """The prediction options of a masked language model."""

    n_best: int = Field(5, ge=1, le=1000, description="Number of candidates for each mask")


class MaskedLanguageModelPredictor(TextInputPredictor):
    """An opened masked language model. A mask stands for one token, which may be only a piece of a word."""

    options = FillOptions
    ceilings: ClassVar = {"n_best": MOST_OUTPUTS}
    reads = True
    at_once = 1
    task: MaskedLanguageModel

    @property
    def plural(self) -> str:
        return "masked language models"

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return the example inputs of ``TextInputPredictor`` with one word masked in each or, for a model that another
        library trained and that knows its words, a sentence with a mask."""
        found = super().examples([f" {MASK_TEXT}" if token == SPECIAL_TOKENS[MASK] else token for token in probe])
        if not found and self.bundle.family is not None:  # another library trained it: on a lot of text
            example = f"The animal didn't cross the street because it was too {MASK_TEXT}."
            with suppress(OptionError):  # which some tokenizers raise instead
                return [] if self.unknown(example) else [example]
            return []
        return [_masked(text) for text in found]

    def read_file(self, path: Path) -> tuple[list[str], str]:
        return read_prompts(path, **self.read_as, chosen=self.chose_columns)

    def unknown(self, given: str) -> list[str]:
        return super().unknown(given.replace(MASK_TEXT, " "))

    def answer(
        self, inputs: Sequence[tuple[str, list[int], list[int]]], options: FillOptions, now: Snapshot
    ) -> list[MaskedLanguageModelAnswer]:
        """Fill in the masks of each text. If a text has only one mask, the answer's ``alternatives`` are the text with
        each of the other candidates."""
        return [self._fill(*masked, options.n_best, now) for masked in inputs]

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, MaskedLanguageModelAnswer)
        _, ids, places = self.prepare(given)
        found = self.task.log_probabilities(self.model, ids)
        return [float(found[place, id]) for place, id in zip(places, answer.ids, strict=True)]

    def count_tokens(self, given: str) -> int:
        return len(self.task.state.tokenizer.encode_masked(given)[0])

    def view_of(self, given: str, answer: Answer) -> View:
        return self._view(self.prepare(given)[1])

    def view_input(self, given: str, progress: RowProgress | None = None) -> View:
        return self._view(self.task.state.tokenizer.encode_masked(given)[0], progress)

    def prepare(self, given: str, number: int = 1) -> tuple[str, list[int], list[int]]:
        ids, places = self.task.state.tokenizer.encode_masked(given)
        if not places:
            raise OptionError(
                f"There is no {MASK_TEXT} in {given[:80]!r} (text {number}); write {MASK_TEXT} in place of each word "
                "to fill in."
            )
        return given, ids, places

    def _fill(
        self, given: str, ids: list[int], places: list[int], n_best: int, now: Snapshot
    ) -> MaskedLanguageModelAnswer:
        found = self.task.log_probabilities(self.model, ids)[places]
        candidates = [self._candidates(row, n_best) for row in found]
        compute_attention = now.later(self._view, ids)

        def fill(chosen: Sequence[Candidate], **more: Any) -> MaskedLanguageModelAnswer:
            return MaskedLanguageModelAnswer(
                given,
                self.task.state.tokenizer.fill(given, ids, places, [one.id for one in chosen]),
                sum(math.log(max(one.probability, 1e-45)) for one in chosen) / len(chosen),
                [one.token for one in chosen],
                [one.id for one in chosen],
                candidates,
                compute_attention,
                places,
                **more,
            )

        others = [fill([one]) for one in candidates[0][1:]] if len(places) == 1 else []
        return fill([some[0] for some in candidates], alternatives=others)

    def _candidates(self, scores: Float[Tensor, " V"], count: int) -> list[Candidate]:
        """Return the most probable tokens, without special tokens, which have no text."""
        tokenizer = self.task.state.tokenizer
        real = scores.index_fill(0, torch.tensor(tokenizer.hidden_ids), -math.inf)
        best = real.topk(min(count, len(real) - len(tokenizer.hidden_ids)))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Candidate(id, tokenizer.token(id), math.exp(score)) for id, score in found]

    @torch.inference_mode()
    def _view(self, ids: Sequence[int], progress: RowProgress | None = None) -> View:
        if not ids:
            raise OptionError("The text is empty, so there is nothing to view.")
        tokenizer = self.task.state.tokenizer
        with watch(self.model, progress=progress) as seen:
            self.model(torch.tensor([list(ids)], device=self.device), at=LAST)
        words = tokenizer.words(ids) if tokenizer.spaced else None
        return view(seen, tokenizer.tokens(ids), words=words)


def _masked(text: str) -> str:
    """Mask one word of an example: "cat", or else the last word."""
    if MASK_TEXT in text:
        return text
    return text.replace("cat", MASK_TEXT, 1) if "cat" in text else re.sub(r"\w+(?=\W*$)", MASK_TEXT, text)
