"""A model folder that answers: ``saccade.open("run/").predict(["The black cat ate the mouse."])``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.attention import Trace, edit, watch
from saccade.attention.watch import Rows
from saccade.decoding import Hypothesis, sequence_log_probabilities, token_log_probabilities
from saccade.errors import OptionError
from saccade.lens.causal import Change, Scored, describe_changes, find_places, replace_word
from saccade.lens.links import Link, hard_links
from saccade.lens.view import View, view
from saccade.lens.words import merge
from saccade.models import lower_precision
from saccade.tasks.bundle import Bundle, read_bundle
from saccade.tasks.gold import GoldPair, spaced_words
from saccade.tasks.networks import Seq2Seq
from saccade.tasks.reading import read_alignment
from saccade.tasks.search import SearchOptions, search
from saccade.tasks.translation import EncodedPair
from saccade.tasks.workers import BATCH_TOKENS, Workers
from saccade.text import END, SPECIAL_TOKENS, START, UNKNOWN, Encoding, Tokenizer

__all__ = ["Answer", "Attention", "Predictor", "open_model"]

#: Texts that are answered between two signs of progress.
PIECE = 250
#: After a word that the model does not know.
UNKNOWN_MARK = "(?)"


@dataclass(frozen=True)
class Attention:
    """What a model looked at while it read a source and made a target: one forced pass over both."""

    source_tokens: list[str]  # with END
    target_tokens: list[str]
    source_words: list[int]  # the word that each token is a piece of
    target_words: list[int]
    source_spaced: list[int]  # the same for words as spaces separate them, without END
    target_spaced: list[int]
    traces: Mapping[str, Trace]  # every attention of the model, by name
    pieces: Float[Tensor, "T S"] | None  # the alignment of tokens; None if the model attends to no source

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """The words of the target and of the source, as ``alignment`` has them: pieces joined."""
        return _joined(self.target_tokens, self.target_words), _joined(self.source_tokens, self.source_words)

    @cached_property
    def alignment(self) -> Float[Tensor, "T S"] | None:
        """How much each target word took from each source word: rows sum to 1."""
        return None if self.pieces is None else merge(self.pieces, self.target_words, self.source_words)

    @property
    def links(self) -> frozenset[Link]:
        """Each target word with its strongest source word, counted as in files of links: separated by spaces."""
        if self.pieces is None:
            return frozenset()
        return hard_links(merge(self.pieces[:, :-1], self.target_spaced, self.source_spaced))

    @cached_property
    def view(self) -> View:
        """Every attention with its tokens. The rows of a decoder are the tokens that it reads: first the start."""
        if not self.traces:
            raise OptionError("This model has no attention, so there is nothing to view.")
        return view(
            self.traces,
            [SPECIAL_TOKENS[START], *self.target_tokens],
            source_tokens=self.source_tokens,
            words=[None, *self.target_words],
            source_words=self.source_words,
        )


@dataclass(frozen=True)
class Answer:
    """An output, with its score and the tokens it is made of; its attention is computed when it is asked for."""

    source: str
    text: str
    score: float
    log_probability: float
    tokens: list[str]
    finished: bool  # False: cut off at the longest length
    alternatives: list[Answer] = field(default_factory=list)
    _look: Callable[[], Attention] = field(repr=False, default=lambda: _nothing())

    @cached_property
    def attention(self) -> Attention:
        return self._look()


class Predictor:
    """An opened model."""

    def __init__(
        self, bundle: Bundle, device: str = "cpu", precision: str = "fp32", workers: Workers | None = None
    ) -> None:
        self.bundle = bundle
        self.task = bundle.task
        self.model = lower_precision(bundle.model.to(device).eval(), precision)
        self.device = device
        self._workers = workers

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()

    def predict(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[Answer]:
        """The best answer to each text, in the order of the texts; ``alternatives`` holds the others.

        Options are those of ``saccade predict`` (beam, n_best, length_penalty, sample, tries, temperature, top_k,
        top_p, seed); what is not given is as the model was trained with.
        """
        chosen = SearchOptions.read(self.bundle.decoding.model_dump() | options, "the options")
        encoded = self.task.source.encode_batch(list(texts))
        sources = [[*encoding.ids, END] for encoding in encoded]
        answers: list[Answer] = []
        pieces = list(self._pieces(texts, sources, chosen))
        for piece, found in zip(pieces, self._search(pieces), strict=True):
            answers += self._answers(piece, found)
            if progress is not None:
                progress(len(answers))
        return answers

    def _pieces(
        self, texts: Sequence[str], sources: list[list[int]], options: SearchOptions
    ) -> Iterator[tuple[Sequence[str], list[list[int]], SearchOptions]]:
        """In pieces, so that progress shows and memory stays bounded however long the file is.

        An empty text is not asked: a model asked for the translation of nothing would make something up.
        """
        for start in range(0, len(texts), PIECE):
            piece = texts[start : start + PIECE]
            asked = [source for text, source in zip(piece, sources[start:], strict=False) if text.strip()]
            draws = options.model_copy(update={"seed": options.seed + start})  # no piece repeats another's draws
            yield piece, asked, draws

    def _search(
        self, pieces: Sequence[tuple[Sequence[str], list[list[int]], SearchOptions]]
    ) -> Iterator[list[list[Hypothesis]]]:
        work = [(sources, options) for _, sources, options in pieces]
        if self._workers is not None and work:
            yield from self._workers.search(work)
            return
        for sources, options in work:
            with torch.inference_mode():
                found = search(self.model, sources, options, BATCH_TOKENS, lambda: None)
            yield found  # outside, so that who is shown the progress is not in inference mode

    def _answers(
        self, piece: tuple[Sequence[str], list[list[int]], SearchOptions], found: list[list[Hypothesis]]
    ) -> list[Answer]:
        texts, _, _ = piece
        hypotheses = iter(found)
        return [self._answer(text, next(hypotheses)) if text.strip() else self.given(text, "") for text in texts]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target given its source."""
        pairs = self.task.encode([GoldPair(s, t, i) for i, (s, t) in enumerate(zip(sources, targets, strict=True), 1)])
        scores = []
        for start in range(0, len(pairs), 32):
            batch = self.task.forced(pairs[start : start + 32]).to(self.device)
            network = cast(Seq2Seq, self.model)
            with torch.inference_mode():
                features = network.features(batch.source, batch.source_lengths, batch.read)
                found = sequence_log_probabilities(network.output, features, batch.predicted, batch.real)
            scores += found.tolist()
        return scores

    def attention(self, source: str, target: str) -> Attention:
        """What the model looks at when it reads this source and makes this target."""
        encoding = self.task.target.encode(target)
        tokens = as_written(target, encoding)
        return self._look(source, encoding.ids, tokens, spaced_words(target, encoding.spans))

    @torch.inference_mode()
    def reading(self, source: str, progress: Rows | None = None) -> View:
        """What the encoder looks at when it reads this source, of any length; no answer is made.

        ``progress`` is told the name of an attention and the share of its rows that is done.
        """
        encoding = self.task.source.encode(source)
        encode = getattr(self.model, "encode", None)
        ids = torch.tensor([[*encoding.ids, END]], device=self.device)
        with watch(self.model, progress=progress) as seen:
            if encode is not None:
                encode(ids)
        if not seen:
            raise OptionError("The encoder of this model has no attention, so reading alone shows nothing.")
        words = _words(self.task.source, encoding.ids)
        tokens = [*as_written(source, encoding), SPECIAL_TOKENS[END]]
        return view(seen, tokens, words=[*words, None])

    def compare(
        self,
        text: str,
        *,
        without_heads: Sequence[str] = (),
        without_links: Sequence[tuple[str, int | str, int | str]] = (),
        replace: tuple[str, str] | None = None,
        **options: Any,
    ) -> Change:
        """The answer to a text before and after a change: heads switched off, links forbidden, a word replaced.

        Heads and links are named as ``saccade.edit`` takes them; a row or column may also be a word, if it is there
        once. The rows of a decoder are the tokens that it reads: the start, and the answer before.
        """
        if not (without_heads or without_links or replace):
            raise OptionError("Nothing is to be changed; give without_heads, without_links or replace.")
        changed = text if replace is None else replace_word(text, *replace)
        chosen = SearchOptions.read(self.bundle.decoding.model_dump() | options | {"sample": False}, "the options")
        before = self._best(text, chosen)
        links = self._resolved(changed, before, without_links)
        with edit(self.model, without_heads=without_heads, without_links=links) as made:
            after = self._best(changed, chosen)
            scores_after = [self._token_scores(changed, one) for one in (before, after)]
            if made.unmet:
                raise OptionError(f"The link {made.unmet[0]} is not there: the text or the answer is shorter.")
        scores_before = [self._token_scores(text, one) for one in (before, after)]
        scored = [
            Scored(self.task.target.decode(one.tokens), self._tokens(one), *scores)
            for one, *scores in zip((before, after), scores_before, scores_after, strict=True)
        ]
        return Change(describe_changes(without_heads, links, replace), *scored)

    def _best(self, text: str, options: SearchOptions) -> Hypothesis:
        """The best answer, found in this process, in which the edits are."""
        if not text.strip():
            return Hypothesis([], 0.0, 0.0, True)
        with torch.inference_mode():
            source = [*self.task.source.encode(text).ids, END]
            return search(self.model, [source], options, BATCH_TOKENS, lambda: None)[0][0]

    def _tokens(self, found: Hypothesis) -> list[str]:
        return [self.task.target.token(i) for i in [*found.tokens, *([END] if found.finished else [])]]

    @torch.inference_mode()
    def _token_scores(self, text: str, found: Hypothesis) -> list[float]:
        """The log-probability of each token of an answer, its end included if it has one."""
        source = [*self.task.source.encode(text).ids, END]
        batch = self.task.forced([EncodedPair(source, found.tokens, GoldPair(text, "", 1))]).to(self.device)
        network = cast(Seq2Seq, self.model)
        features = network.features(batch.source, batch.source_lengths, batch.read)
        scores: list[float] = token_log_probabilities(network.output, features, batch.predicted)[0].tolist()
        return scores if found.finished else scores[:-1]

    def _resolved(
        self, text: str, answer: Hypothesis, links: Sequence[tuple[str, int | str, int | str]]
    ) -> list[tuple[str, int, int]]:
        """Links between words as links between the tokens that they are made of."""
        if all(isinstance(place, int) for _, *places in links for place in places):
            return [(name, int(row), int(column)) for name, row, column in links]
        seen = self._look_at_output(text, answer.tokens).view
        resolved = []
        for name, row, column in links:
            attention = name.partition(":")[0]
            seen.heads(attention)  # refuses what is not there
            rows, columns = find_places(seen.rows[attention], row), find_places(seen.columns[attention], column)
            resolved += [(name, one, other) for one in rows for other in columns]
        return resolved

    def given(self, source: str, target: str) -> Answer:
        """A given target as if it had been the answer, with its log-probability."""
        (log_probability,) = self.score([source], [target])
        tokens = self.task.target.encode(target).tokens
        look = partial(self.attention, source, target)
        return Answer(source, target, log_probability, log_probability, tokens, True, _look=look)

    def _answer(self, text: str, hypotheses: Sequence[Hypothesis]) -> Answer:
        answers = [
            Answer(
                text,
                self.task.target.decode(found.tokens),
                found.score,
                found.log_probability,
                [self.task.target.token(i) for i in found.tokens],
                found.finished,
                _look=partial(self._look_at_output, text, found.tokens),
            )
            for found in hypotheses
        ]
        answers[0].alternatives.extend(answers[1:])
        return answers[0]

    def _look_at_output(self, source: str, ids: list[int]) -> Attention:
        """The tokens of an output need not be how its text would be cut: where they stand is how far the text is
        the same with those before them alone. A piece of a character adds nothing until it is whole."""
        text = self.task.target.decode(ids)
        starts = [_same(self.task.target.decode(ids[:count]), text) for count in range(len(ids) + 1)]
        tokens = [self.task.target.token(i) for i in ids]
        return self._look(source, ids, tokens, spaced_words(text, list(pairwise(starts))))

    @torch.inference_mode()
    def _look(
        self, source: str, target_ids: list[int], target_tokens: list[str], target_spaced: list[int]
    ) -> Attention:
        encoding = self.task.source.encode(source)
        source_ids = [*encoding.ids, END]
        batch = self.task.forced([EncodedPair(source_ids, target_ids, GoldPair(source, "", 1))]).to(self.device)
        with watch(self.model) as seen:
            cast(Seq2Seq, self.model).features(batch.source, batch.source_lengths, batch.read)
        source_words = _words(self.task.source, encoding.ids)
        return Attention(
            [*as_written(source, encoding), SPECIAL_TOKENS[END]],
            target_tokens,
            [*source_words, (source_words[-1] + 1 if source_words else 0)],
            _words(self.task.target, target_ids),
            spaced_words(source, encoding.spans),
            target_spaced,
            seen,
            read_alignment(seen, self.task.alignment, rows=len(target_ids), columns=len(source_ids)),
        )


def as_written(text: str, encoding: Encoding) -> list[str]:
    """The tokens of a text; one that is not in the vocabulary as it was written, with a mark."""
    return [
        f"{text[start:stop]}{UNKNOWN_MARK}" if id == UNKNOWN else token
        for id, token, (start, stop) in zip(encoding.ids, encoding.tokens, encoding.spans, strict=True)
    ]


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The word that each token belongs to; where tokens are single characters, each stands for itself."""
    return list(range(len(ids))) if tokenizer.kind in ("character", "byte") else tokenizer.words(ids)


def _same(one: str, other: str) -> int:
    """How many characters two texts have in common, from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _joined(tokens: list[str], words: list[int]) -> list[str]:
    joined = [""] * (max(words, default=-1) + 1)
    for token, word in zip(tokens, words, strict=True):
        joined[word] += token
    return [word.removeprefix("▁") or word for word in joined]


def _nothing() -> Attention:
    raise AssertionError("an answer is made with its attention")


def open_model(path: str | Path, device: str = "cpu", precision: str = "fp32", workers: int = 1) -> Predictor:
    """Open a model folder, or the folder of a run; ``saccade.open`` is this.

    ``precision`` is that of matrix products: fp32, bf16 or int8. Several ``workers`` are processes that share out the
    texts of ``predict``, on the CPU; ``close()`` ends them.
    """
    bundle = read_bundle(Path(path))
    if workers != 1 and device != "cpu":
        raise OptionError(f"workers = {workers} is for the CPU; on {device} one process does all.")
    processes = None if workers == 1 else Workers(Path(path), workers, precision)
    return Predictor(bundle, device, precision, processes)
