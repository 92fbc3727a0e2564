"""Continue prompts with a trained language model: ``saccade.open("run/").predict(["Once upon a time"])``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from saccade.attention import watch
from saccade.attention.watching.watch import RowProgress
from saccade.data.inputs import read_prompts
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.capabilities import ContinuesText, Piece
from saccade.tasks.base.cost import MOST_OUTPUTS, MOST_TOKENS, Cost
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.language_model.answer import LanguageModelAnswer
from saccade.tasks.language_model.generation import (
    GenerationOptions,
    Written,
    generate,
    known_positions,
    likeliest,
    log_probabilities,
    mean_log_probability,
    write,
)
from saccade.tasks.language_model.task import LanguageModel

__all__ = ["LanguageModelPredictor"]


class LanguageModelPredictor(TextInputPredictor, ContinuesText):
    """An opened language model.

    A model with learned position vectors has only ``max_length`` of them. In a longer text, it predicts each further
    token from the last ``max_length`` tokens before it. Rotary, ALiBi and sinusoidal positions have no such limit.
    """

    options = GenerationOptions
    ceilings: ClassVar = {
        **dict.fromkeys(("beam", "n_best", "tries"), MOST_OUTPUTS),
        "max_tokens": MOST_TOKENS,
        "stop": 16,
    }
    reads = True
    kept_part = "last"
    streams = True
    at_once = 1
    task: LanguageModel

    @property
    def plural(self) -> str:
        return "language models"

    def read_file(self, path: Path) -> tuple[list[str], str]:
        return read_prompts(path, **self.read_as, chosen=self.chose_columns)

    def cost(self, given: str, options: GenerationOptions) -> Cost:
        return Cost.of(self.count_tokens(given), options.max_tokens, options.tries if options.sample else options.beam)

    def is_drawn(self, options: GenerationOptions) -> bool:
        return options.sample

    def prepare(self, given: str, number: int = 1) -> tuple[str, int]:
        return given, number

    def answer(
        self, inputs: Sequence[tuple[str, int]], options: GenerationOptions, now: Snapshot
    ) -> list[LanguageModelAnswer]:
        """Return the best text for each prompt; the other texts are its ``alternatives``, the most probable first."""
        answers = []
        for prompt, number in inputs:
            own = options.model_copy(update={"seed": (options.seed + number - 1) % 2**32})
            found = generate(self.model, self.task.state.tokenizer, self.task.prompt(prompt), own)
            best, *others = (self._answer(prompt, written, now) for written in found)
            best.alternatives.extend(others)
            answers.append(best)
        return answers

    def stream(self, given: str, **options: Any) -> Iterator[str]:
        """Yield the text of the answer that ``predict`` gives with the same options, piece by piece as it is generated.
        With several tries or a beam, it comes in one piece at the end."""
        chosen = self.chosen(options)
        if chosen.tries > 1 or (chosen.beam > 1 and not chosen.sample):
            yield self.predict([given], **options)[0].text
        else:
            pieces = self.pieces(given, **options)
            yield from (piece.text for piece in pieces if piece.text or piece.finished is not None)

    def pieces(self, given: str, **options: Any) -> Iterator[Piece]:
        self.check_type(given)
        last: list[Written] = []
        for last in write(self.model, self.task.state.tokenizer, self.task.prompt(given), self.chosen(options)):
            yield Piece(last[0].fresh(), len(last[0].ids))
        yield Piece(last[0].fresh(last=True), len(last[0].ids), last[0].finished)

    def best_answer(self, given: str, **options: Any) -> LanguageModelAnswer:
        answer = self.predict([given], **(options | {"sample": False}))[0]
        assert isinstance(answer, LanguageModelAnswer)
        return answer

    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, LanguageModelAnswer)
        return log_probabilities(self.model, [*self.task.prompt(given).ids, *answer.ids], len(answer.ids))

    @torch.inference_mode()
    def likeliest(self, given: str, answer: Answer, number: int) -> list[list[tuple[str, float]]]:
        assert isinstance(answer, LanguageModelAnswer)
        ids = [*self.task.prompt(given).ids, *answer.ids]
        token = self.task.state.tokenizer.token
        found = likeliest(self.model, ids, len(answer.ids), number)
        return [[(token(id), value) for id, value in place] for place in found]

    def view_of(self, given: str, answer: Answer) -> View:
        assert isinstance(answer, LanguageModelAnswer)
        return self._view(given, answer.ids)

    def view_input(self, given: str, progress: RowProgress | None = None) -> View:
        return self._view(given, [], progress)

    def _answer(self, prompt: str, written: Written, now: Snapshot) -> LanguageModelAnswer:
        return LanguageModelAnswer(
            prompt,
            written.text,
            mean_log_probability(written),
            self.task.state.tokenizer.tokens(written.ids),
            written.log_probabilities,
            written.finished,
            written.ids,
            now.later(self._view, prompt, written.ids),
            written.ended,
        )

    @torch.inference_mode()
    def _view(self, prompt: str, written: list[int], progress: RowProgress | None = None) -> View:
        """View the attention in one pass over prompt and text. Each row is a token that the model reads before it
        chooses the next one. A model with learned positions only reads the last tokens that it has positions for."""
        tokenizer = self.task.state.tokenizer
        ids = [*self.task.prompt(prompt).ids, *written]
        ids = ids[-(known_positions(self.model) or len(ids)) :]
        with watch(self.model, progress=progress) as seen:
            self.model(torch.tensor([ids], device=self.device), at=LAST)
        if not seen:
            raise OptionError("This model has no attention, so there is nothing to view.")
        words = tokenizer.words(ids) if tokenizer.spaced else None
        return view(seen, tokenizer.tokens(ids), words=words)
