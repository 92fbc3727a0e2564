"""Translate with a trained model: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from sacrebleu.metrics.base import Metric

from saccade.attention import watch
from saccade.attention.watching.interventions import active_edits
from saccade.attention.watching.watch import RowProgress
from saccade.data.deck_sentences import OWN, deck_sentences
from saccade.data.grammar import showcase
from saccade.data.inputs import read_texts
from saccade.data.lines import suffix
from saccade.data.paths import column
from saccade.data.tables import TABLES
from saccade.decoding import Hypothesis, LateHypothesis
from saccade.errors import OptionError
from saccade.lens.links import alignment_scores
from saccade.lens.view import View, view
from saccade.models import LAST, Config, Targets
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.capabilities import TranslatesText
from saccade.tasks.base.cost import MOST_OUTPUTS, Cost
from saccade.tasks.base.engines import TranslationEngine
from saccade.tasks.base.search import SearchOptions, likeliest_tokens, search
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base.task import Bundle, Evaluation
from saccade.tasks.base.text_input import TextInputPredictor
from saccade.tasks.base.text_scores import METRIC_CLASSES, exact_share
from saccade.tasks.base.workers import BATCH_TOKENS
from saccade.tasks.translation.alignment import alignment_used, read_alignment
from saccade.tasks.translation.answer import TranslationAnswer, TranslationAttention
from saccade.tasks.translation.data import read_links
from saccade.tasks.translation.gold import GoldPair, language_tag, spaced_words
from saccade.tasks.translation.task import EncodedPair
from saccade.text import Encoding, Tokenizer

__all__ = ["TranslationPredictor", "as_written"]

#: The mark that is shown after a word that the model does not know.
UNKNOWN_MARK = "(?)"
#: The number of inputs that an engine other than torch answers at once: it sorts them by length, which saves time.
ENGINE_AT_ONCE = 2000


class TranslationScoring(Config):
    """How translations are compared with references."""

    lowercase: bool = Field(False, description="Compare texts in lower case")
    alignments: Path | None = Field(None, description="File of gold links to score the alignment, one line per pair")


class TranslationPredictor(TextInputPredictor, TranslatesText):
    """An opened model that turns one text into another."""

    options = SearchOptions
    ceilings: ClassVar = {"beam": MOST_OUTPUTS, "n_best": MOST_OUTPUTS, "tries": MOST_OUTPUTS, "max_ratio": 4}
    scoring = TranslationScoring
    reads = True
    takes_workers = True
    in_order = ("source", "target")
    engine: TranslationEngine | None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.engine is not None:
            self.at_once = ENGINE_AT_ONCE

    @classmethod
    def open_engine(cls, engine: str, bundle: Bundle, device: str, precision: str, workers: int) -> TranslationEngine:
        if engine != "ctranslate2":
            super().open_engine(engine, bundle, device, precision, workers)  # which raises an error
        return TranslationEngine(bundle.task, bundle.model, device, precision, workers)

    def read_file(self, path: Path) -> tuple[list[str], str]:
        how = self.read_as
        columns = [None if how[key] is None else column(how[key]) for key in ("source_column", "target_column")]
        from_lines = (
            self.bundle.data.get("source") is not None and suffix(path) not in TABLES and not self.chose_columns
        )
        return read_texts(
            path,
            columns,
            in_order=self.in_order,
            header=how["header"],
            separator=how["separator"],
            encoding=how["encoding"],
            skip_bad=how["skip_bad_rows"],
            lines=how.get("lines", from_lines),
            chosen=self.chose_columns,
        )

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return sentences of the built-in corpus if the model was trained on it, otherwise the recorded example. If
        the model writes several languages, each sentence names one of them in turn."""
        if self.bundle.data.get("builtin") == "decks":
            return [sentence.source_text for sentence in deck_sentences(len(OWN), 0, "test")]
        languages = self.bundle.data.get("languages") or ()
        if self.bundle.data.get("builtin") != "grammar" or len(languages) < 2:
            return super().examples(probe)
        sentences = [sentence.source_text for sentence in showcase()]
        shown = max(len(sentences), len(languages))
        return [
            language_tag(languages[number % len(languages)]) + sentences[number // len(languages)]
            for number in range(shown)
        ]

    def cost(self, given: str, options: SearchOptions) -> Cost:
        tokens = self.count_tokens(given)
        return Cost.of(tokens, options.longest(tokens), options.rows)

    def is_drawn(self, options: SearchOptions) -> bool:
        return options.sample

    def prepare(self, given: str, number: int = 1) -> tuple[str, int]:
        return given, number

    def answer(
        self, inputs: Sequence[tuple[str, int]], options: SearchOptions, now: Snapshot
    ) -> list[TranslationAnswer]:
        return next(self.answer_pieces([inputs], options, now))

    def answer_pieces(
        self, pieces: Sequence[Sequence[tuple[str, int]]], options: SearchOptions, now: Snapshot
    ) -> Iterator[list[TranslationAnswer]]:
        """Yield, for each piece, the best translation of each of its texts, with the others as its ``alternatives``. If
        there are worker processes, the pieces are divided among them.

        Empty texts are left out of the search, because a model would make up translations for them.
        """
        engine = None if options.sample else self.engine_for(now)
        tokenizer, work = self.task.state.source, []
        for piece in pieces:
            encoded = tokenizer.encode_ids([text for text, _ in piece if text.strip()])
            own = options.model_copy(update={"seed": options.seed + piece[0][1] - 1})  # a seed for each piece
            work.append(([tokenizer.ended(ids) for ids in encoded], own))
        for piece, found in zip(pieces, self._search(work, engine), strict=True):
            outputs = iter(found)
            yield [
                self._answer(text, next(outputs), now) if text.strip() else self.given_answer(text, "")
                for text, _ in piece
            ]

    def _search(
        self, work: Sequence[tuple[list[list[int]], SearchOptions]], engine: TranslationEngine | None
    ) -> Iterator[Sequence[Sequence[Hypothesis | LateHypothesis]]]:
        if engine is not None:
            for sources, options in work:
                yield engine.search(sources, options, self.reads_scores)
            return
        if self._workers is not None and work and not active_edits():  # other processes do not have the edits
            yield from self._workers.search(work)
            return
        for sources, options in work:
            yield self._torch_search(sources, options)  # which runs in inference mode; the caller's code does not

    @torch.inference_mode()
    def _torch_search(self, sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
        return search(self.model, sources, options, BATCH_TOKENS, lambda: None, self.task.state.target)

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
        """Translate the sources, and return BLEU and chrF as sacrebleu computes them, with sacrebleu's signatures, and
        the percentage of exact matches.

        If the option ``alignments`` names a file of gold links, also score the alignment that the model's attention
        gives when it is fed the references.
        """
        given = {name: options.pop(name) for name in self.scoring.model_fields if name in options}
        how = TranslationScoring.read(given, "")
        gold = None if how.alignments is None else read_links(examples, how.alignments)
        answers = self.predict(
            [pair.source for pair in examples], progress=progress, **{"sample": False, "n_best": 1, **options}
        )
        texts, references = [answer.text for answer in answers], [pair.target for pair in examples]
        metrics = self.metrics(lowercase=how.lowercase)
        scores = {name: metric.corpus_score(texts, [references]).score for name, metric in metrics.items()}
        exact = 100 * exact_share(texts, references, how.lowercase)
        lines = [f"exact matches: {exact:.2f} % of {len(examples):,}"]
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
        """Return the log-probability of each target given its source."""
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
        """Return the attention of the model while it reads this source and is made to generate this target."""
        encoding = self.task.state.target.encode(target)
        tokens = as_written(target, encoding, self.task.state.target.special.unknown)
        return self._attention(source, encoding.ids, tokens, spaced_words(target, encoding.spans))

    @torch.inference_mode()
    def view_input(self, given: str, progress: RowProgress | None = None) -> View:
        """Return the attention of the encoder while it reads this source, of any length, without generating an answer.

        ``progress`` is called with the name of an attention and the fraction of its rows that is done.
        """
        encoding = self.task.state.source.encode(given)
        encode = getattr(self.model, "encode", None)
        ids, tokens, words = self._framed(given, encoding)
        with watch(self.model, progress=progress) as seen:
            if encode is not None:
                encode(torch.tensor([ids], device=self.device))
        if not seen:
            raise OptionError(
                "The encoder of this model has no attention, so there is nothing to view without an answer."
            )
        inside = range(self.task.state.source.before, self.task.state.source.before + len(encoding.ids))
        return view(seen, tokens, words=[word if place in inside else None for place, word in enumerate(words)])

    def best_answer(self, given: str, **options: Any) -> TranslationAnswer:
        chosen = self.chosen(options | {"sample": False})
        if not given.strip():
            return self.given_answer(given, "")
        now = Snapshot(self)
        with torch.inference_mode():
            source = self.task.state.source.ended(self.task.state.source.encode(given).ids)
            (found,) = search(self.model, [source], chosen, BATCH_TOKENS, lambda: None, self.task.state.target)
            return self._answer(given, found, now)

    @torch.inference_mode()
    def token_scores(self, given: str, answer: Answer) -> list[float]:
        assert isinstance(answer, TranslationAnswer)
        source = self.task.state.source.ended(self.task.state.source.encode(given).ids)
        batch = self.task.plain_batch([EncodedPair(source, answer.ids, GoldPair(given, "", 1))]).to(self.device)
        targets = Targets(batch.predicted[0], summed=False)
        losses = self.model(batch.source, batch.source_lengths, batch.read, targets=targets)
        scores: list[float] = (-losses).tolist()
        return scores if answer.finished else scores[:-1]

    @torch.inference_mode()
    def likeliest(self, given: str, answer: Answer, number: int) -> list[list[tuple[str, float]]]:
        assert isinstance(answer, TranslationAnswer)
        source = self.task.state.source.ended(self.task.state.source.encode(given).ids)
        batch = self.task.plain_batch([EncodedPair(source, answer.ids, GoldPair(given, "", 1))]).to(self.device)
        logits = self.model(batch.source, batch.source_lengths, batch.read)[0, : len(answer.scored_tokens)]
        return likeliest_tokens(logits, number, self.task.state.target)

    def view_of(self, given: str, answer: Answer) -> View:
        assert isinstance(answer, TranslationAnswer)
        return self._attention_for_output(given, answer.ids).view

    def given_answer(self, source: str, target: str) -> TranslationAnswer:
        """Return a target that the user gives as if the model had generated it; ``score`` is its log-probability."""
        compute_attention = Snapshot(self).later(self.attention, source, target)
        (log_probability,) = self.score([source], [target])
        encoding = self.task.state.target.encode(target)
        given = Hypothesis(encoding.ids, log_probability, log_probability, True)
        return TranslationAnswer(source, target, encoding.tokens, given, compute_attention)

    def _answer(self, text: str, hypotheses: Sequence[Hypothesis | LateHypothesis], now: Snapshot) -> TranslationAnswer:
        answers = [
            TranslationAnswer(
                text,
                self.task.state.target.decode(found.tokens),
                self.task.state.target.tokens(found.tokens),
                found,
                now.later(self._attention_for_output, text, found.tokens),
            )
            for found in hypotheses
        ]
        answers[0].alternatives.extend(answers[1:])
        return answers[0]

    def _attention_for_output(self, source: str, ids: list[int]) -> TranslationAttention:
        """View the attention for an output, given as ids.

        The tokens of an output may differ from those that its text would be split into, so the position of each token
        in the text is found by decoding ever longer prefixes. A piece of a character adds nothing to a prefix until the
        character is complete.
        """
        text = self.task.state.target.decode(ids)
        decoded = (self.task.state.target.decode(ids[:count]) for count in range(len(ids) + 1))
        same = (takewhile(lambda pair: pair[0] == pair[1], zip(prefix, text, strict=False)) for prefix in decoded)
        starts = [sum(1 for _ in characters) for characters in same]
        tokens = self.task.state.target.tokens(ids)
        return self._attention(source, ids, tokens, spaced_words(text, list(pairwise(starts))))

    @torch.inference_mode()
    def _attention(
        self, source: str, target_ids: list[int], target_tokens: list[str], target_spaced: list[int]
    ) -> TranslationAttention:
        encoding = self.task.state.source.encode(source)
        source_ids, source_tokens, source_words = self._framed(source, encoding)
        batch = self.task.plain_batch([EncodedPair(source_ids, target_ids, GoldPair(source, "", 1))]).to(self.device)
        with watch(self.model) as seen:
            self.model(batch.source, batch.source_lengths, batch.read, at=LAST)
        return TranslationAttention(
            source_tokens,
            target_tokens,
            source_words,
            _words(self.task.state.target, target_ids),
            spaced_words(source, encoding.spans),
            target_spaced,
            seen,
            read_alignment(seen, self.task.state.alignment, rows=len(target_ids), columns=len(source_ids)),
            alignment_used(seen, self.task.state.alignment),
            self.task.state.alignment is not None,
            self.task.state.source.before,
            self.task.state.target.token(self.task.state.target.special.start),
        )

    def _framed(self, text: str, encoding: Encoding) -> tuple[list[int], list[str], list[int]]:
        """Return the ids and tokens of a source with the special tokens around it, and the word of each token."""
        tokenizer = self.task.state.source
        ids = tokenizer.ended(encoding.ids)
        first, last = tokenizer.before, tokenizer.before + len(encoding.ids)
        tokens = tokenizer.tokens(ids)
        tokens[first:last] = as_written(text, encoding, tokenizer.special.unknown)
        words = [first + word for word in _words(tokenizer, encoding.ids)]
        after = max(words, default=first - 1) + 1
        return ids, tokens, [*range(first), *words, *range(after, after + len(ids) - last)]


def as_written(text: str, encoding: Encoding, unknown: int | None) -> list[str]:
    """Return the tokens of a text. A word that is not in the vocabulary is shown as written, followed by "(?)"."""
    return [
        f"{text[start:stop]}{UNKNOWN_MARK}" if id == unknown else token
        for id, token, (start, stop) in zip(encoding.ids, encoding.tokens, encoding.spans, strict=True)
    ]


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Return the word that each token belongs to. If tokens are single characters, each is its own word."""
    return tokenizer.words(ids) if tokenizer.spaced else list(range(len(ids)))
