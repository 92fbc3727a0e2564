"""Beam search, the same loop for every model; greedy search is beam search with beam size 1.

    score(y) = log p(y) / |y|^α,   log p(y) = Σ_t log p(y_t | y_<t),   |y| counts the end token

A sentence has `beam` places for finished hypotheses. Each step extends the live (unfinished) hypotheses by every token,
which gives the candidates. Those of the best `beam` candidates that end take a place for good. Of all candidates that
do not end, the best `beam` stay live. A sentence is done when all its places are taken, when no live hypothesis can
become a result any more, or at its maximum length. docs/learn/decoding.md gives the reasons for these rules.

Shapes: B sentences in the request, S sentences not yet done, W live hypotheses per sentence, P places per sentence
(`beam`), C candidates per sentence, T tokens so far, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from saccade.decoding.hypothesis import Hypothesis, penalised
from saccade.decoding.stepper import Stepper, first_tokens
from saccade.decoding.top import top_tokens
from saccade.errors import DivergedError, OptionError, ShapeError

__all__ = ["beam_search"]

State = TypeVar("State")


@torch.no_grad()
def beam_search(
    stepper: Stepper[State],
    state: State,
    *,
    batch_size: int,
    start_token: int | Tensor,
    end_token: int,
    max_length: int | Tensor,
    beam: int = 5,
    n_best: int = 1,
    min_length: int = 0,
    length_penalty: float = 0.0,
    device: torch.device | str | None = None,
    barred: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses for each of the B sentences that `state` was started with, best first.

    `start_token` is one token for all sentences, one per sentence (B,), or a prompt (B, T) that is read first.
    `min_length` and `max_length` (one for all, or (B,)) are the least and the largest number of tokens in a hypothesis,
    including the end token; one that has not ended at `max_length` is cut off, and is returned only if fewer than
    `n_best` have ended. `length_penalty` is the exponent α of the score. `device` is the model's device; it is needed
    if `start_token` is not a tensor. Tokens in `barred` are never written; the log-probabilities of the others do not
    change. Fewer than `n_best` hypotheses are returned only if no more exist.
    """
    rules = _Rules(end_token, beam, n_best, min_length, length_penalty, list(barred))
    prompt = first_tokens(start_token, batch_size, device)
    limits = _limits(max_length, batch_size, min_length, prompt.device)
    for tokens in prompt[:, :-1].unbind(1):
        _, state = stepper.step(tokens, state)
    results: list[list[Hypothesis]] = [[] for _ in range(batch_size)]
    search = _Search.start(limits, beam)
    tokens = prompt[:, -1]
    while len(tokens) > 0:
        logits, state = stepper.step(tokens, state)
        rows, search = _advance(search, logits, rules, results)
        # If every row stays, as in most steps of greedy search, there is no need to copy the cache.
        if len(rows) > 0 and not torch.equal(rows.flatten(), torch.arange(len(tokens), device=rows.device)):
            state = stepper.reorder(state, rows)
        tokens = search.tokens[:, :, -1].flatten()
    return results


@dataclass(frozen=True)
class _Rules:
    """The options of one search, validated."""

    end_token: int
    beam: int
    n_best: int
    min_length: int
    length_penalty: float
    barred: list[int]

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise OptionError(f"beam must be 1 or more, not {self.beam}.")
        if not 1 <= self.n_best <= self.beam:
            raise OptionError(f"n_best must be between 1 and beam ({self.beam}), not {self.n_best}.")
        if self.min_length < 0:
            raise OptionError(f"min_length must be 0 or more, not {self.min_length}.")
        if self.end_token < 0:
            raise OptionError(f"end_token must be 0 or more, not {self.end_token}.")
        if not math.isfinite(self.length_penalty):
            raise OptionError(f"length_penalty must be a finite number, not {self.length_penalty}.")


@dataclass(frozen=True)
class _Finished:
    """The taken places of each sentence, best first; an empty place has score -inf."""

    score: Float[Tensor, "S P"]
    log_probability: Float[Tensor, "S P"]
    length: Int[Tensor, "S P"]
    tokens: Int[Tensor, "S P T"]

    def of(self, sentences: Bool[Tensor, " S"]) -> _Finished:
        return _Finished(
            self.score[sentences],
            self.log_probability[sentences],
            self.length[sentences],
            self.tokens[sentences],
        )


@dataclass(frozen=True)
class _Candidates:
    """The best extensions of each sentence's live hypotheses, best first; -inf marks an empty slot."""

    log_probability: Float[Tensor, "S C"]
    parent: Int[Tensor, "S C"]
    token: Int[Tensor, "S C"]


@dataclass(frozen=True)
class _Search:
    """The sentences that are not yet done."""

    sentence: Int[Tensor, " S"]  # its index among the B
    max_length: Int[Tensor, " S"]
    tokens: Int[Tensor, "S W T"]  # tokens of the live hypotheses, best first
    log_probability: Float[Tensor, "S W"]  # -inf if fewer than W are live
    finished: _Finished

    @classmethod
    def start(cls, max_length: Int[Tensor, " B"], beam: int) -> _Search:
        """Start with one empty live hypothesis per sentence, since `beam` identical ones would only repeat the work."""
        size, device = len(max_length), max_length.device
        empty = torch.full((size, beam), -torch.inf, device=device)
        length = torch.zeros(size, beam, dtype=torch.long, device=device)
        finished = _Finished(empty, empty, length, length.new_zeros(size, beam, 0))
        start = torch.zeros(size, 1, device=device)
        return cls(torch.arange(size, device=device), max_length, length.new_zeros(size, 1, 0), start, finished)


def _limits(max_length: int | Tensor, batch_size: int, min_length: int, device: torch.device) -> Int[Tensor, " B"]:
    """The maximum length of each sentence, validated."""
    limits = torch.as_tensor(max_length, device=device)
    if limits.dim() > 1 or (limits.dim() == 1 and len(limits) != batch_size):
        raise ShapeError(
            f"max_length must be a number or a tensor of shape ({batch_size},), not of shape {tuple(limits.shape)}."
        )
    limits = limits.expand(batch_size)
    shortest = int(limits.min()) if batch_size > 0 else max(1, min_length)
    if shortest < max(1, min_length):
        raise OptionError(f"max_length must be {max(1, min_length)} or more (min_length), not {shortest}.")
    return limits


def _advance(
    search: _Search, logits: Float[Tensor, "R V"], rules: _Rules, results: list[list[Hypothesis]]
) -> tuple[Int[Tensor, "S W"], _Search]:
    """Take one step for all sentences; returns the row of the old state that each new live hypothesis continues.

    Sentences that are done leave the batch, and their hypotheses are added to `results`.
    """
    length = search.tokens.shape[2] + 1
    candidates = _candidates(search, logits, length, rules)
    finished = _finish(search, candidates, length, rules)
    parent, grown = _grow(search, candidates, finished, rules)
    done = _done(grown, length, rules)
    first_row = torch.arange(len(done), device=done.device) * search.tokens.shape[1]
    rows = first_row.unsqueeze(1) + parent
    if not done.any():
        return rows, grown
    _collect(grown, done, rules, results)
    going = ~done
    rest = _Search(
        grown.sentence[going],
        grown.max_length[going],
        grown.tokens[going],
        grown.log_probability[going],
        grown.finished.of(going),
    )
    return rows[going], rest


def _candidates(search: _Search, logits: Float[Tensor, "R V"], length: int, rules: _Rules) -> _Candidates:
    """The best 2·beam extensions, at least `beam` of which do not end, since a parent can end in only one way.

    Ties are ordered by parent, then by token (the sort is stable).
    """
    sentences = len(search.sentence)
    precise = logits if logits.dtype == torch.float64 else logits.float()
    step = precise.log_softmax(dim=1)
    if length < rules.min_length:
        # After the softmax, so that forbidding the end does not raise the probability of the rest.
        step[:, rules.end_token] = -torch.inf
    if rules.barred:
        step[:, rules.barred] = -torch.inf
    best, tokens = top_tokens(step, rules.beam + 1)
    total = (search.log_probability.view(-1, 1) + best).view(sentences, -1)
    total, place = total.sort(dim=1, descending=True, stable=True)
    total, place = total[:, : 2 * rules.beam], place[:, : 2 * rules.beam]
    parent = place // tokens.shape[1]
    return _Candidates(total, parent, tokens.reshape(sentences, -1).gather(1, place))


def _finish(search: _Search, candidates: _Candidates, length: int, rules: _Rules) -> _Finished:
    """Give a place to each of the best `beam` candidates that ends.

    If there are more of them than places, which ends the search, the best get the places; ties go to the earlier.
    """
    finished, beam = search.finished, rules.beam
    log_probability = candidates.log_probability[:, :beam]
    ended = candidates.token[:, :beam] == rules.end_token
    if not ended.any():
        return finished
    log_probability = log_probability.masked_fill(~ended, -torch.inf)
    score = penalised(log_probability, length, rules.length_penalty)
    score, place = torch.cat((finished.score, score), dim=1).sort(dim=1, descending=True, stable=True)
    score, place = score[:, :beam], place[:, :beam]
    padding = (0, length - 1 - finished.tokens.shape[2])
    tokens = torch.cat(
        (functional.pad(finished.tokens, padding), _take(search.tokens, candidates.parent[:, :beam])), dim=1
    )
    lengths = torch.cat((finished.length, torch.full_like(candidates.parent[:, :beam], length)), dim=1)
    log_probability = torch.cat((finished.log_probability, log_probability), dim=1)
    return _Finished(score, log_probability.gather(1, place), lengths.gather(1, place), _take(tokens, place))


def _grow(
    search: _Search, candidates: _Candidates, finished: _Finished, rules: _Rules
) -> tuple[Int[Tensor, "S W"], _Search]:
    """The best `beam` candidates that do not end stay live; also returns their parents."""
    ending = candidates.token == rules.end_token
    order = ending.byte().argsort(dim=1, stable=True)[:, : rules.beam]
    log_probability = candidates.log_probability.masked_fill(ending, -torch.inf).gather(1, order)
    parent = candidates.parent.gather(1, order)
    token = candidates.token.gather(1, order).unsqueeze(2)
    tokens = torch.cat((_take(search.tokens, parent), token), dim=2)
    return parent, _Search(search.sentence, search.max_length, tokens, log_probability, finished)


def _done(search: _Search, length: int, rules: _Rules) -> Bool[Tensor, " S"]:
    """Whether the results of a sentence are final.

    To see whether a live hypothesis can still become a result, its current score is not enough. Its log-probability can
    only fall, but the divisor may grow until the maximum length (for α < 0 it is largest at the very next token).
    """
    score = search.finished.score
    places_taken = (score > -torch.inf).all(dim=1)
    too_long = length >= search.max_length
    best = search.log_probability[:, 0]
    reachable = torch.maximum(
        penalised(best, length + 1, rules.length_penalty),
        penalised(best, search.max_length, rules.length_penalty),
    )
    # An empty n_best-th place has score -inf, which any live hypothesis can beat.
    hopeless = reachable <= score[:, rules.n_best - 1]
    return places_taken | too_long | hopeless


def _collect(search: _Search, done: Bool[Tensor, " S"], rules: _Rules, results: list[list[Hypothesis]]) -> None:
    """Collect the results of finished sentences: ended hypotheses, then live ones if there are too few."""
    finished = search.finished.of(done)
    length = search.tokens.shape[2]
    live_score = penalised(search.log_probability[done], length, rules.length_penalty)
    columns = (
        search.sentence[done],
        finished.score,
        finished.log_probability,
        finished.length,
        finished.tokens,
        live_score,
        search.log_probability[done],
        search.tokens[done],
    )
    for sentence, score, log_probability, lengths, tokens, *live in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        ended = [
            Hypothesis(t[: n - 1], p, s, True)
            for s, p, n, t in zip(score, log_probability, lengths, tokens, strict=True)
        ]
        cut_off = [Hypothesis(t, p, s, False) for s, p, t in zip(*live, strict=True)]
        every = ended + cut_off
        if any(math.isnan(hypothesis.score) for hypothesis in every):
            raise DivergedError.of_answer()
        found = [hypothesis for hypothesis in every if hypothesis.score > -math.inf]
        results[sentence] = found[: rules.n_best]


def _take(tokens: Int[Tensor, "S W T"], place: Int[Tensor, "S P"]) -> Int[Tensor, "S P T"]:
    """Select row `place[s, p]` of each sentence s."""
    return tokens.gather(1, place.unsqueeze(2).expand(-1, -1, tokens.shape[2]))
