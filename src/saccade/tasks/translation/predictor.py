"""A translation model that answers: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from sacrebleu.metrics.base import Metric

from saccade.attention import watch
from saccade.attention.watching.interventions import active_edits
from saccade.attention.watching.watch import Rows
from saccade.data.inputs import read_texts
from saccade.data.paths import column
from saccade.decoding import Hypothesis
from saccade.errors import OptionError
from saccade.lens.links import alignment_scores
from saccade.lens.view import View, view
from saccade.models import LAST, Config, Targets
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.capabilities import TranslatesText
from saccade.tasks.base.search import SearchOptions, search
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.task import Evaluation
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.base.text_scores import METRIC_CLASSES, exact_share
from saccade.tasks.base.workers import BATCH_TOKENS
from saccade.tasks.translation.alignment import read_alignment
from saccade.tasks.translation.answer import TranslationAnswer, TranslationAttention
from saccade.tasks.translation.data import read_links
from saccade.tasks.translation.gold import GoldPair, spaced_words
from saccade.tasks.translation.task import EncodedPair
from saccade.text import END, SPECIAL_TOKENS, UNKNOWN, Encoding, Tokenizer

__all__ = ["TranslationPredictor", "as_written"]

#: How many texts are answered between two progress reports.
PIECE = 250
#: The mark after a word that the model does not know.
UNKNOWN_MARK = "(?)"


class TranslationScoring(Config):
    """How translations are compared with references."""

    lowercase: bool = Field(False, description="Compare lower-cased texts")
    alignments: Path | None = Field(None, description="Gold links to score the alignment with, one line per pair")


class TranslationPredictor(TextInputPredictor, TranslatesText):
    """An opened model that turns one text into another."""

    options = SearchOptions
    scoring = TranslationScoring
    reads = True
    takes_workers = True

    def read_file(self, path: Path) -> tuple[list[str], str]:
        how = self.read_as
        return read_texts(
            path, [column(how[f"{side}_column"]) for side in ("source", "target")], encoding=how["encoding"]
        )

    def _predict(
        self, inputs: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[TranslationAnswer]:
        """The best answer to each text, in order; ``alternatives`` has the others.

        Options are those of ``saccade predict`` (beam, n_best, length_penalty, sample, tries, temperature, top_k,
        top_p, seed); the defaults are those that the model was trained with.
        """
        chosen, now = self.chosen(options), Snapshot(self)
        encoded = self.task.state.source.encode_batch(list(inputs))
        sources = [[*encoding.ids, END] for encoding in encoded]
        answers: list[TranslationAnswer] = []
        pieces = list(self._pieces(inputs, sources, chosen))
        for piece, found in zip(pieces, self._search(pieces), strict=True):
            answers += self._answers(piece, found, now)
            if progress is not None:
                progress(len(answers))
        return answers

    def _pieces(
        self, texts: Sequence[str], sources: list[list[int]], options: SearchOptions
    ) -> Iterator[tuple[Sequence[str], list[list[int]], SearchOptions]]:
        """Answer in pieces, so that progress is visible and memory stays bounded, however long the file is.

        An empty text is skipped: a model would make up a translation for it.
        """
        for start in range(0, len(texts), PIECE):
            piece = texts[start : start + PIECE]
            searched = [source for text, source in zip(piece, sources[start:], strict=False) if text.strip()]
            draws = options.model_copy(update={"seed": options.seed + start})  # each piece has its own random numbers
            yield piece, searched, draws

    def _search(
        self, pieces: Sequence[tuple[Sequence[str], list[list[int]], SearchOptions]]
    ) -> Iterator[list[list[Hypothesis]]]:
        work = [(sources, options) for _, sources, options in pieces]
        if self._workers is not None and work and not active_edits():  # other processes do not have the edits
            yield from self._workers.search(work)
            return
        for sources, options in work:
            with torch.inference_mode():
                found = search(self.model, sources, options, BATCH_TOKENS, lambda: None)
            yield found  # outside inference mode, so that the caller's progress report is not in it

    def _answers(
        self, piece: tuple[Sequence[str], list[list[int]], SearchOptions], found: list[list[Hypothesis]], now: Snapshot
    ) -> list[TranslationAnswer]:
        texts, _, _ = piece
        hypotheses = iter(found)
        return [
            self._answer(text, next(hypotheses), now) if text.strip() else self.given_answer(text, "") for text in texts
        ]

    @property
    def languages(self) -> tuple[str, str] | None:
        source, target = (self.bundle.data.get(f"{side}_language") for side in ("source", "target"))
        return (source, target) if source and target else None

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.task.state.source, self.task.state.target

    def metrics(self, *, lowercase: bool = False) -> dict[str, Metric]:
        return {name: make(lowercase=lowercase) for name, make in METRIC_CLASSES.items()}

    def evaluate(
        self, examples: Sequence[GoldPair], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> Evaluation:
        """BLEU and chrF by sacrebleu with their signatures, the share of exact matches, and, with gold links, how
        well the references are aligned."""
        given = {name: options.pop(name) for name in self.scoring.model_fields if name in options}
        how = TranslationScoring.read(given, "the options")
        gold = None if how.alignments is None else read_links(examples, how.alignments)
        answers = self.predict(
            [pair.source for pair in examples], progress=progress, **{"sample": False, "n_best": 1, **options}
        )
        texts, references = [answer.text for answer in answers], [pair.target for pair in examples]
        metrics = self.metrics(lowercase=how.lowercase)
        scores = {name: metric.corpus_score(texts, [references]).score for name, metric in metrics.items()}
        exact = 100 * exact_share(texts, references, how.lowercase)
        lines = [f"exactly right {exact:.2f} % of {len(examples):,}"]
        if gold is not None:
            links = []
            for pair in examples:
                links.append(self.attention(pair.source, pair.target).links)
                if progress is not None:
                    progress(len(links))
            found = alignment_scores(links, gold)
            lines.append(
                f"alignment: precision {100 * found.precision:.2f}  recall {100 * found.recall:.2f}  "
                f"error rate {100 * found.error_rate:.2f}"
            )
        signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
        return Evaluation(scores, lines=lines, signatures=signatures)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target given its source."""
        pairs = self.task.encode([GoldPair(s, t, i) for i, (s, t) in enumerate(zip(sources, targets, strict=True), 1)])
        scores = []
        for start in range(0, len(pairs), 32):
            batch = self.task.plain_batch(pairs[start : start + 32]).to(self.device)
            scored = Targets(batch.predicted[batch.real], batch.real, summed=False)
            with torch.inference_mode():
                losses = self.model(batch.source, batch.source_lengths, batch.read, targets=scored)
                found = losses.new_zeros(len(batch.real)).index_add(0, batch.real.nonzero()[:, 0], -losses)
            scores += found.tolist()
        return scores

    def attention(self, source: str, target: str) -> TranslationAttention:
        """What the model looks at when it reads this source and generates this target."""
        encoding = self.task.state.target.encode(target)
        tokens = as_written(target, encoding)
        return self._look(source, encoding.ids, tokens, spaced_words(target, encoding.spans))

    @torch.inference_mode()
    def view_input(self, given: str, progress: Rows | None = None) -> View:
        """What the encoder looks at when it reads this source, of any length; no answer is generated.

        ``progress`` is called with the name of an attention and the share of its rows that is done.
        """
        encoding = self.task.state.source.encode(given)
        encode = getattr(self.model, "encode", None)
        ids = torch.tensor([[*encoding.ids, END]], device=self.device)
        with watch(self.model, progress=progress) as seen:
            if encode is not None:
                encode(ids)
        if not seen:
            raise OptionError("The encoder of this model has no attention; only answers can be viewed.")
        words = _words(self.task.state.source, encoding.ids)
        tokens = [*as_written(given, encoding), SPECIAL_TOKENS[END]]
        return view(seen, tokens, words=[*words, None])

    def best_answer(self, given: str, **options: Any) -> TranslationAnswer:
        chosen = self.chosen(options | {"sample": False})
        if not given.strip():
            return self.given_answer(given, "")
        now = Snapshot(self)
        with torch.inference_mode():
            source = [*self.task.state.source.encode(given).ids, END]
            return self._answer(given, search(self.model, [source], chosen, BATCH_TOKENS, lambda: None)[0], now)

    @torch.inference_mode()
    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, TranslationAnswer)
        source = [*self.task.state.source.encode(given).ids, END]
        batch = self.task.plain_batch([EncodedPair(source, answer.ids, GoldPair(given, "", 1))]).to(self.device)
        targets = Targets(batch.predicted[0], summed=False)
        losses = self.model(batch.source, batch.source_lengths, batch.read, targets=targets)
        scores: list[float] = (-losses).tolist()
        return scores if answer.finished else scores[:-1]

    def view_of(self, given: str, answer: Answer) -> View:
        assert isinstance(answer, TranslationAnswer)
        return self._look_at_output(given, answer.ids).view

    def given_answer(self, source: str, target: str) -> TranslationAnswer:
        """A given target as if it were the model's answer, with its log-probability."""
        look = Snapshot(self).later(self.attention, source, target)
        (log_probability,) = self.score([source], [target])
        encoding = self.task.state.target.encode(target)
        return TranslationAnswer(
            source, target, log_probability, log_probability, encoding.tokens, True, ids=encoding.ids, look=look
        )

    def _answer(self, text: str, hypotheses: Sequence[Hypothesis], now: Snapshot) -> TranslationAnswer:
        answers = [
            TranslationAnswer(
                text,
                self.task.state.target.decode(found.tokens),
                found.score,
                found.log_probability,
                [self.task.state.target.token(i) for i in found.tokens],
                found.finished,
                ids=found.tokens,
                look=now.later(self._look_at_output, text, found.tokens),
            )
            for found in hypotheses
        ]
        answers[0].alternatives.extend(answers[1:])
        return answers[0]

    def _look_at_output(self, source: str, ids: list[int]) -> TranslationAttention:
        """The tokens of an output may differ from those that its text would be split into, so their positions come from
        decoding ever longer prefixes. A piece of a character adds nothing until the character is complete."""
        text = self.task.state.target.decode(ids)
        decoded = (self.task.state.target.decode(ids[:count]) for count in range(len(ids) + 1))
        starts = [_common_prefix(prefix, text) for prefix in decoded]
        tokens = [self.task.state.target.token(i) for i in ids]
        return self._look(source, ids, tokens, spaced_words(text, list(pairwise(starts))))

    @torch.inference_mode()
    def _look(
        self, source: str, target_ids: list[int], target_tokens: list[str], target_spaced: list[int]
    ) -> TranslationAttention:
        encoding = self.task.state.source.encode(source)
        source_ids = [*encoding.ids, END]
        batch = self.task.plain_batch([EncodedPair(source_ids, target_ids, GoldPair(source, "", 1))]).to(self.device)
        with watch(self.model) as seen:
            self.model(batch.source, batch.source_lengths, batch.read, at=LAST)
        source_words = _words(self.task.state.source, encoding.ids)
        return TranslationAttention(
            [*as_written(source, encoding), SPECIAL_TOKENS[END]],
            target_tokens,
            [*source_words, (source_words[-1] + 1 if source_words else 0)],
            _words(self.task.state.target, target_ids),
            spaced_words(source, encoding.spans),
            target_spaced,
            seen,
            read_alignment(seen, self.task.state.alignment, rows=len(target_ids), columns=len(source_ids)),
            None if self.task.state.alignment is None else self.task.state.alignment.attention,
        )


def as_written(text: str, encoding: Encoding) -> list[str]:
    """The tokens of a text; one that is not in the vocabulary is shown as written, with a mark."""
    return [
        f"{text[start:stop]}{UNKNOWN_MARK}" if id == UNKNOWN else token
        for id, token, (start, stop) in zip(encoding.ids, encoding.tokens, encoding.spans, strict=True)
    ]


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The word that each token belongs to; if tokens are single characters, each is its own word."""
    return tokenizer.words(ids) if tokenizer.spaced else list(range(len(ids)))


def _common_prefix(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
