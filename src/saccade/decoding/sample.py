"""Sampling: draw each token from the model's distribution, after temperature and filters.

    p(v) ∝ exp(logit_v / temperature), over the tokens that top-k and top-p keep

Shapes: B rows in the request, A rows that have not ended, T tokens of a prompt, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.hypothesis import Hypothesis
from saccade.decoding.stepper import Stepper, first_tokens
from saccade.errors import DivergedError, OptionError

__all__ = ["Draw", "draws", "filter_logits", "sample"]

#: A temperature below this counts as 0, because dividing a logit by it would overflow float32.
MIN_TEMPERATURE = 1e-20

State = TypeVar("State")


class Draw(NamedTuple):
    """One step of sampling: the rows that have not ended, the token drawn for each, and its log-probability."""

    rows: Int[Tensor, " A"]
    tokens: Int[Tensor, " A"]
    log_probabilities: Float[Tensor, " A"]  # the model's own, before temperature and filters


def sample(
    stepper: Stepper[State],
    state: State,
    *,
    batch_size: int,
    start_token: int | Tensor,
    end_token: int | None,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    barred: Sequence[int] = (),
) -> list[Hypothesis]:
    """Sample one hypothesis for each of the B rows that `state` was started with.

    `start_token` is one token for all rows, one per row (B,), or a prompt (B, T) that is read first. `max_length` is
    the largest number of tokens, including the end token; if `end_token` is None, every hypothesis has that length. The
    log-probability of a hypothesis, which is also its score, is the model's own, before temperature and filters. Tokens
    in `barred` are never drawn. What is drawn for a row also depends on the other rows in the batch, because all rows
    share one random generator.
    """
    _check(temperature, top_k, top_p, max_length)
    prompt = first_tokens(start_token, batch_size, device)
    drawn: list[list[int]] = [[] for _ in range(batch_size)]
    log_probability = [0.0] * batch_size
    finished = [False] * batch_size
    filters = (temperature, top_k, top_p)
    steps = _draws(stepper, state, prompt, end_token, max_length, filters, generator, barred=barred)
    for rows, tokens, terms in steps:
        for row, token, term in zip(rows.tolist(), tokens.tolist(), terms.tolist(), strict=True):
            log_probability[row] += term
            if token == end_token:
                finished[row] = True
            else:
                drawn[row].append(token)
    return [Hypothesis(t, p, p, f) for t, p, f in zip(drawn, log_probability, finished, strict=True)]


def draws(
    stepper: Stepper[State],
    state: State,
    *,
    batch_size: int,
    start_token: int | Tensor,
    end_token: int | None,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
    ends: Callable[[int, int], bool] | None = None,
    barred: Sequence[int] = (),
) -> Iterator[Draw]:
    """Sample as `sample` does, but yield each step; a step is computed only when the iterator reaches it.

    `ends(row, token)` is called once for each drawn token; if it returns True, the row ends as it does at `end_token`.
    Tokens in `barred` are never drawn; the log-probabilities of the others do not change.
    Invalid options raise an error immediately, not at the first token.
    """
    _check(temperature, top_k, top_p, max_length)
    prompt = first_tokens(start_token, batch_size, device)
    return _draws(stepper, state, prompt, end_token, max_length, (temperature, top_k, top_p), generator, ends, barred)


def filter_logits(
    logits: Float[Tensor, "B V"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "B V"]:
    """Return the logits to sample from: divided by the temperature, then -inf for the tokens that a filter removes.

    A temperature of 0, or very close to it, keeps only the best token (the lowest id among ties). `top_k` keeps the k
    best tokens and any that tie with the k-th (Fan et al. 2018). `top_p` then keeps the smallest set of best tokens
    whose probabilities, after `top_k`, sum to p or more (the nucleus; Holtzman et al. 2020, §3.1); among ties it keeps
    the lower ids.
    """
    _check(temperature, top_k, top_p)
    if temperature < MIN_TEMPERATURE:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.full_like(logits, -torch.inf).scatter(-1, best, 0.0)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p is not None and top_p < 1:
        ordered, tokens = logits.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
        better = ordered.cumsum(dim=-1) - ordered  # the probability of all tokens before this one
        too_many = (better >= top_p) & (better > 0)  # always keep the best, even if p is 0 in float32
        cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, tokens, too_many)
        logits = logits.masked_fill(cut, -torch.inf)
    return logits


def _check(temperature: float, top_k: int | None, top_p: float | None, max_length: int = 1) -> None:
    if not 0 <= temperature < float("inf"):
        raise OptionError(f"temperature must be a finite number, 0 or more, not {temperature}.")
    if top_k is not None and top_k < 1:
        raise OptionError(f"top_k must be 1 or more, not {top_k}.")
    if top_p is not None and not 0 < top_p <= 1:
        raise OptionError(f"top_p must be above 0 and at most 1, not {top_p}.")
    if max_length < 1:
        raise OptionError(f"max_length must be 1 or more, not {max_length}.")


@torch.no_grad()
def _draws(
    stepper: Stepper[State],
    state: State,
    prompt: Int[Tensor, "B T"],
    end_token: int | None,
    max_length: int,
    filters: tuple[float, int | None, float | None],
    generator: torch.Generator | None,
    ends: Callable[[int, int], bool] | None = None,
    barred: Sequence[int] = (),
) -> Iterator[Draw]:
    never = torch.tensor(barred, dtype=torch.long, device=prompt.device)
    rows = torch.arange(len(prompt), device=prompt.device)
    for tokens in prompt[:, :-1].unbind(1):
        _, state = stepper.step(tokens, state)
    tokens = prompt[:, -1]
    for _ in range(max_length):
        if len(rows) == 0:
            return
        logits, state = stepper.step(tokens, state)
        if bool(logits.isnan().any()):
            raise DivergedError.of_answer()
        logits = logits if logits.dtype == torch.float64 else logits.float()
        allowed = logits.index_fill(1, never, -torch.inf)
        if filters[0] == 0:  # not random: take the best token, the lowest id among ties
            tokens = allowed.argmax(dim=1)
        else:
            probabilities = filter_logits(allowed, *filters).softmax(dim=1)
            tokens = probabilities.multinomial(1, generator=generator).squeeze(1)
        yield Draw(rows, tokens, logits.log_softmax(dim=1).gather(1, tokens.unsqueeze(1)).squeeze(1))
        going = tokens != (-1 if end_token is None else end_token)
        if ends is not None:
            over = [ends(row, token) for row, token in zip(rows.tolist(), tokens.tolist(), strict=True)]
            going &= ~torch.tensor(over, device=going.device)
        if not going.all():
            rows, tokens = rows[going], tokens[going]
            if len(rows) > 0:
                state = stepper.reorder(state, going.nonzero().squeeze(1))
