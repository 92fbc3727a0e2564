"""An autoencoder that answers: a reconstructed text, its code vector, and its nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models import LAST, Targets
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.text_autoencoder.answer import TextAutoencoderAnswer
from saccade.tasks.text_autoencoder.data import Line
from saccade.tasks.text_autoencoder.task import EncodedLine, TextAutoencoder
from saccade.text import END, SPECIAL_TOKENS, START

__all__ = ["TextAutoencoderPredictor"]

#: The attention that computes the code from all tokens.
POOLING = "pooling"
#: How many texts are reconstructed between two progress reports.
PIECE = 250


class TextAutoencoderPredictor(TextInputPredictor):
    """An opened text autoencoder."""

    options = NeighbourOptions
    task: TextAutoencoder

    @property
    def plural(self) -> str:
        return "text autoencoders"

    @torch.inference_mode()
    def _predict(
        self, inputs: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[TextAutoencoderAnswer]:
        """The reconstruction of each text; ``neighbours`` says how many training texts are shown with it."""
        count, now = self.chosen(options).neighbours, Snapshot(self)
        for number, text in enumerate(inputs, start=1):
            if not text.strip():
                raise OptionError(f"Text {number} is empty, so there is nothing to reconstruct.")
        kept, tokenizer = self.task.state.kept, self.task.state.tokenizer
        answers: list[TextAutoencoderAnswer] = []
        for start in range(0, len(inputs), PIECE):
            some = [Line(text, number) for number, text in enumerate(inputs[start : start + PIECE], start=1)]
            lines = self.task.encode(some)
            written, codes = self.task.written(self.model, lines), self.task.codes(self.model, lines)
            for line, ids, code in zip(lines, written, codes, strict=True):
                scores = self._scores(line, ids)
                answers.append(
                    TextAutoencoderAnswer(
                        tokenizer.decode(ids),
                        sum(scores) / len(scores),
                        code.tolist(),
                        [] if kept is None or not count else kept.nearest(code, count),
                        now.later(self._look, line, ids),
                        line.text,
                        [tokenizer.token(i) for i in ids],
                        ids,
                    )
                )
            if progress is not None:
                progress(len(answers))
        return answers

    def _scores(self, line: EncodedLine, ids: list[int]) -> list[float]:
        """The log-probability of each token of a reconstructed text, and of its end."""
        given = self.task.plain_batch([line]).to(self.device)
        wanted = self.task.plain_batch([EncodedLine(ids, "", 1)]).to(self.device)
        targets = Targets(wanted.predicted[0], summed=False)
        scores: list[float] = (-self.model(given.source, given.lengths, wanted.read, targets=targets)).tolist()
        return scores

    @torch.inference_mode()
    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, TextAutoencoderAnswer)
        return self._scores(self.task.encode([Line(given, 1)])[0], answer.ids)[:-1]

    def view_of(self, given: str, answer: Answer) -> View:
        assert isinstance(answer, TextAutoencoderAnswer)
        return self._look(self.task.encode([Line(given, 1)])[0], answer.ids)

    @torch.inference_mode()
    def _look(self, line: EncodedLine, ids: list[int]) -> View:
        given = self.task.plain_batch([line]).to(self.device)
        wanted = self.task.plain_batch([EncodedLine(ids, "", 1)]).to(self.device)
        with watch(self.model) as seen:
            self.model(given.source, given.lengths, wanted.read, at=LAST)
        token = self.task.state.tokenizer.token
        source = [*(token(i) for i in line.ids), SPECIAL_TOKENS[END]]
        target = [SPECIAL_TOKENS[START], *(token(i) for i in ids)]
        # Attention to the code alone has nothing to choose from.
        tokens = {name: trace for name, trace in seen.items() if trace.shape[2] > 1 and not name.endswith("cross")}
        if not tokens:
            raise OptionError("This model has no attention, so there is nothing to view.")
        whole = view(tokens, target, source_tokens=source)
        pooled = view({POOLING: seen[POOLING]}, ["code"], source_tokens=source)
        return View(
            {**whole.traces, **pooled.traces}, {**whole.rows, **pooled.rows}, {**whole.columns, **pooled.columns}
        )
