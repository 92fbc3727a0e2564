"""Reconstruct texts with a trained autoencoder, and find the training texts that are most similar to each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST, Targets
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.cost import Cost
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.text_autoencoder.answer import TextAutoencoderAnswer
from saccade.tasks.text_autoencoder.data import TextLine
from saccade.tasks.text_autoencoder.task import GREEDY, EncodedLine, TextAutoencoder
from saccade.text import END, SPECIAL_TOKENS, START

__all__ = ["TextAutoencoderPredictor"]


class TextAutoencoderPredictor(TextInputPredictor):
    """An opened text autoencoder."""

    options = NeighbourOptions
    task: TextAutoencoder

    @property
    def plural(self) -> str:
        return "text autoencoders"

    def prepare(self, given: str, number: int = 1) -> TextLine:
        if not given.strip():
            raise OptionError(f"Text {number} is empty, so there is nothing to reconstruct.")
        return TextLine(given, number)

    def cost(self, given: str, options: NeighbourOptions) -> Cost:
        tokens = self.count_tokens(given)
        return Cost.of(tokens, GREEDY.longest(tokens))

    @torch.inference_mode()
    def answer(
        self, inputs: Sequence[TextLine], options: NeighbourOptions, now: Snapshot
    ) -> list[TextAutoencoderAnswer]:
        tokenizer, lines = self.task.state.tokenizer, self.task.encode(inputs)
        reconstructions, codes = self.task.reconstruct(self.model, lines), self.task.codes(self.model, lines)
        answers = []
        for line, ids, code in zip(lines, reconstructions, codes, strict=True):
            scores = self._log_probabilities(line, ids)
            answers.append(
                TextAutoencoderAnswer(
                    tokenizer.decode(ids),
                    sum(scores) / len(scores),
                    code.tolist(),
                    self.task.state.index.nearest(code, options.neighbours),
                    now.later(self._view, line, ids),
                    line.text,
                    tokenizer.tokens(ids),
                    ids,
                )
            )
        return answers

    def _log_probabilities(self, line: EncodedLine, ids: list[int]) -> list[float]:
        """Return the log-probability of each token of a reconstructed text, and of the end token."""
        given = self.task.plain_batch([line]).to(self.device)
        wanted = self.task.plain_batch([EncodedLine(ids, "", 1)]).to(self.device)
        targets = Targets(wanted.predicted[0], summed=False)
        found: list[float] = (-self.model(given.source, given.lengths, wanted.read, targets=targets)).tolist()
        return found

    @torch.inference_mode()
    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, TextAutoencoderAnswer)
        return self._log_probabilities(self.task.encode([TextLine(given, 1)])[0], answer.ids)[:-1]

    def view_of(self, given: str, answer: Answer) -> View:
        assert isinstance(answer, TextAutoencoderAnswer)
        return self._view(self.task.encode([TextLine(given, 1)])[0], answer.ids)

    @torch.inference_mode()
    def _view(self, line: EncodedLine, ids: list[int]) -> View:
        given = self.task.plain_batch([line]).to(self.device)
        wanted = self.task.plain_batch([EncodedLine(ids, "", 1)]).to(self.device)
        with watch(self.model) as seen:
            self.model(given.source, given.lengths, wanted.read, at=LAST)
        token = self.task.state.tokenizer.token
        source = [*(token(i) for i in line.ids), SPECIAL_TOKENS[END]]
        target = [SPECIAL_TOKENS[START], *(token(i) for i in ids)]
        # Leave out attention to the code alone, which has only one column.
        tokens = {name: trace for name, trace in seen.items() if trace.shape[2] > 1 and not name.endswith("cross")}
        if not tokens:
            raise OptionError("This model has no attention, so there is nothing to view.")
        whole = view(tokens, target, source_tokens=source)
        pooled = view({"pooling": seen["pooling"]}, ["code"], source_tokens=source)  # computes the code from all tokens
        return View(
            {**whole.traces, **pooled.traces}, {**whole.rows, **pooled.rows}, {**whole.columns, **pooled.columns}
        )
