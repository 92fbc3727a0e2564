"""Continue a prompt by sampling or by search; stop strings can end the text, and only whole characters are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.decoding import Sliding, beam_search, draws
from saccade.errors import OptionError
from saccade.models import LAST, Config, Targets
from saccade.models.targets import Positions
from saccade.tasks.base.task import device_of
from saccade.text import Tokenizer

__all__ = [
    "GenerationOptions",
    "Prompt",
    "Written",
    "generate",
    "known_positions",
    "likeliest",
    "log_probabilities",
    "mean_log_probability",
    "write",
]

#: The maximum number of bytes in a character, and so of tokens to wait for until a character is complete.
CHARACTER_BYTES = 4
#: The number of windows that are read at once if a text is longer than the model's positions.
WINDOWS = 64


class GenerationOptions(Config):
    """How text is generated: the ``[decoding]`` table of a recipe, and the options of ``saccade predict``."""

    max_tokens: int = Field(200, ge=1, le=100_000, description="Maximum number of tokens to generate")
    sample: bool = Field(True, description="Sample at random; if false, search for the most likely text")
    tries: int = Field(1, ge=1, le=1000, description="Number of texts to sample for each prompt")
    temperature: float = Field(1.0, ge=0, le=1000, description="Below 1: more predictable; above 1: more varied")
    top_k: int | None = Field(None, ge=1, description="Sample only from the k most likely tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample only from the most likely tokens that together have this probability"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="Random seed for sampling")
    stop: list[str] = Field(default_factory=list, description="Texts that end the answer; they are not part of it")
    beam: int = Field(1, ge=1, le=1000, description="When searching: texts kept at each step; 1 is greedy search")
    n_best: int = Field(1, ge=1, description="When searching: number of texts to return; at most the beam size")

    @model_validator(mode="after")
    def _check(self) -> GenerationOptions:
        if self.n_best > self.beam and not self.sample:
            raise ValueError(f"n_best = {self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        if "" in self.stop:
            raise ValueError("a stop string must have at least one character")
        return self


class Prompt(NamedTuple):
    """A prompt as the model reads it."""

    ids: list[int]  # at least one
    can_end: bool  # whether the model has learned where texts end
    is_start: bool = False  # whether the prompt has no text, so that its ids are just a separator


def known_positions(model: nn.Module) -> int | None:
    """Return the number of positions for which a model has learned vectors; None if it can read any number of
    tokens."""
    config = cast(Any, model).config
    return config.max_length if getattr(config, "position", None) == "learned" else None


@dataclass
class Written:
    """A text while it is generated. Tokens are added to ``text`` once they form whole characters, and the text ends at
    a stop string."""

    tokenizer: Tokenizer
    stop: Sequence[str] = ()
    is_start: bool = False  # whether there is no text before it
    can_end: bool = True  # whether the end token ends the text; otherwise it is a token without text
    text: str = ""
    ids: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    finished: bool = False  # True if the model or a stop string ended the text, False if it was cut off
    _pending: list[int] = field(default_factory=list)  # tokens that do not form whole characters yet
    _shown: int = 0  # the number of characters that ``fresh`` has returned

    def add(self, token: int, log_probability: float) -> None:
        self.ids.append(token)
        self.log_probabilities.append(log_probability)
        if token == self.tokenizer.special.end and self.can_end:
            self.finished = True
            return
        self._pending.append(token)
        piece = self.tokenizer.following(self._pending)
        if piece.endswith("\ufffd") and len(self._pending) < CHARACTER_BYTES:
            return
        self._pending.clear()
        self._append(piece)

    @property
    def ended(self) -> bool:
        """Whether the model generated its end token, which is not part of the text."""
        return self.can_end and self.ids[-1:] == [self.tokenizer.special.end]

    def close(self) -> None:
        """End the text: show incomplete characters as replacement characters, because no more tokens follow."""
        if self._pending and not self.finished:
            self._append(self.tokenizer.following(self._pending))
        self._pending.clear()

    def fresh(self, *, last: bool = False) -> str:
        """Return the text that was added since the last call. Its last characters are held back if they may be the
        start of a stop string, unless the text is finished or this is the ``last`` call."""
        end = len(self.text)
        if not last and not self.finished:
            waiting = [size for stop in self.stop for size in range(1, len(stop)) if self.text.endswith(stop[:size])]
            end -= max(waiting, default=0)
        piece = self.text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece

    def _append(self, piece: str) -> None:
        if self.is_start and not self.text and self.tokenizer.spaced:
            piece = piece.removeprefix(" ")  # the tokenizer adds a space in front of the first word
        first = max(0, len(self.text) - max(map(len, self.stop), default=0))
        self.text += piece
        found = [place for place in (self.text.find(stop, first) for stop in self.stop) if place >= 0]
        if found:
            self.text = self.text[: min(found)]
            self.finished = True


@torch.inference_mode()
def write(
    model: nn.Module, tokenizer: Tokenizer, prompt: Prompt, options: GenerationOptions
) -> Iterator[list[Written]]:
    """Generate ``options.tries`` texts at once, by sampling or greedily. After each token, and at the end, yield the
    list of all texts as they are so far."""
    device = device_of(model)
    rows = torch.tensor([prompt.ids] * options.tries, device=device)
    network, state = _start(model, rows, options.max_tokens)
    tries = [Written(tokenizer, options.stop, prompt.is_start, prompt.can_end) for _ in range(options.tries)]
    drawn = draws(
        network,
        state,
        batch_size=options.tries,
        start_token=rows[:, -1],
        end_token=tokenizer.special.end if prompt.can_end else None,
        max_length=options.max_tokens,
        temperature=options.temperature if options.sample else 0.0,
        top_k=options.top_k,
        top_p=options.top_p,
        generator=torch.Generator(device).manual_seed(options.seed),
        ends=(lambda row, _: tries[row].finished) if options.stop else None,
        barred=_forbidden(tokenizer, prompt),
    )
    for one in drawn:
        for row, token, term in zip(*(part.tolist() for part in one), strict=True):
            tries[row].add(token, term)
        yield tries
    for one_try in tries:
        one_try.close()
    yield tries


def generate(model: nn.Module, tokenizer: Tokenizer, prompt: Prompt, options: GenerationOptions) -> list[Written]:
    """Generate texts that continue a prompt, ordered by mean log-probability per token, best first."""
    if options.sample or options.beam == 1:
        found = [*write(model, tokenizer, prompt, options)][-1]
    else:
        found = _search(model, tokenizer, prompt, options)
    return sorted(found, key=mean_log_probability, reverse=True)


def mean_log_probability(written: Written) -> float:
    return sum(written.log_probabilities) / max(1, len(written.log_probabilities))


@torch.inference_mode()
def _search(model: nn.Module, tokenizer: Tokenizer, prompt: Prompt, options: GenerationOptions) -> list[Written]:
    rows = torch.tensor([prompt.ids], device=device_of(model))
    network, state = _start(model, rows, options.max_tokens)
    end = tokenizer.special.end
    if end is None:
        raise OptionError("This model has no end token, so beam search cannot tell when a text ends; use a beam of 1.")
    (found,) = beam_search(
        _Forbidding(network, _forbidden(tokenizer, prompt)),
        state,
        batch_size=1,
        start_token=rows[:, -1],
        end_token=end,
        beam=options.beam,
        n_best=options.n_best,
        max_length=options.max_tokens,
        length_penalty=1.0,
    )
    texts = []
    for hypothesis in found:
        ids = [*hypothesis.tokens, *([end] if hypothesis.finished else [])]
        written = Written(tokenizer, options.stop, prompt.is_start, prompt.can_end)
        terms = log_probabilities(model, [*prompt.ids, *ids], len(ids))
        for token, term in zip(ids, terms, strict=True):
            if not written.finished:
                written.add(token, term)
        written.close()
        texts.append(written)
    return texts


def _forbidden(tokenizer: Tokenizer, prompt: Prompt) -> list[int]:
    """Return the tokens that are never generated: special tokens, which have no text, except END if texts can end.

    If the tokenizer has no other tokens, because every word was too rare, UNKNOWN is allowed.
    """
    allowed = {tokenizer.special.end} if prompt.can_end else set()
    if tokenizer.vocabulary_size == len(tokenizer.hidden_ids):
        allowed.add(tokenizer.special.unknown)
    return [id for id in tokenizer.hidden_ids if id not in allowed]


class _Forbidding:
    """A stepper that gives some tokens probability 0."""

    def __init__(self, stepper: Any, forbidden: Sequence[int]) -> None:
        self.stepper = stepper
        self.forbidden = forbidden
        self.reorder = stepper.reorder

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]:
        logits, state = self.stepper.step(tokens, state)
        return logits.index_fill(1, torch.tensor(self.forbidden, device=logits.device), -torch.inf), state


@torch.inference_mode()
def log_probabilities(model: nn.Module, tokens: Sequence[int], count: int) -> list[float]:
    """Return the log-probability of each of the last ``count`` tokens, given the tokens before it."""
    found = [-model(read, targets=Targets(words, at, summed=False)) for read, at, words in _forced(model, tokens)]
    terms: list[float] = torch.cat(found)[len(tokens) - 1 - count :].tolist()
    return terms


@torch.inference_mode()
def likeliest(model: nn.Module, tokens: Sequence[int], count: int, number: int) -> list[list[tuple[int, float]]]:
    """Return the ``number`` most probable tokens, with their log-probabilities, at each of the last ``count``
    positions."""
    places: list[list[tuple[int, float]]] = []
    for read, at, _ in _forced(model, tokens):
        best = model(read, at=at).flatten(0, -2).float().log_softmax(dim=-1).topk(number)
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            places.append(list(zip(ids, values, strict=True)))
    return places[len(tokens) - 1 - count :]


def _forced(
    model: nn.Module, tokens: Sequence[int]
) -> Iterator[tuple[Int[Tensor, "B T"], Positions | None, Int[Tensor, " N"]]]:
    """Yield the tokens to read, the positions to predict from (None means all), and the tokens to predict."""
    rows = torch.tensor([list(tokens)], device=device_of(model))
    read, predicted = rows[:, :-1], rows[:, 1:]
    limit = known_positions(model) or read.shape[1]
    yield read[:, :limit], None, predicted[0, :limit]
    if limit < read.shape[1]:  # each further token only sees the last ``limit`` tokens before it
        windows, targets = read[0].unfold(0, limit, 1)[1:], predicted[0, limit:]
        for some, wanted in zip(torch.split(windows, WINDOWS), torch.split(targets, WINDOWS), strict=True):
            yield some, LAST, wanted


def _start(model: nn.Module, rows: Int[Tensor, "B T"], max_tokens: int) -> tuple[Any, Any]:
    """Return a stepper and its state after reading the prompt, except for its last token."""
    limit = known_positions(model)
    stepper: Any = model if limit is None else Sliding(cast(Any, model), limit)
    return stepper, stepper.start(rows[:, :-1], rows.shape[1] + max_tokens)
