"""Generate outputs for many sources at once, by beam search or sampling, in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.decoding import Hypothesis, beam_search, sample
from saccade.models import Config
from saccade.tasks.base.networks import Decodable
from saccade.tasks.base.sharing import for_each
from saccade.tasks.base.task import CheckCancelled, device_of
from saccade.text import Tokenizer, pad, plan_batches

__all__ = ["SearchOptions", "likeliest_tokens", "longest_output", "search"]


class SearchOptions(Config):
    """How outputs are generated: the ``[decoding]`` table of a recipe, and the options of ``saccade predict``."""

    beam: int = Field(5, ge=1, le=1000, description="Hypotheses kept at each step; 1 is greedy search")
    n_best: int = Field(1, ge=1, le=1000, description="Number of outputs to return; at most the beam size")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="Outputs are ranked by log-probability / length^penalty; 0 favours short outputs"
    )
    max_ratio: float = Field(2.0, gt=0, le=100, description="Longest output: max_ratio · source length + 20 tokens")
    sample: bool = Field(False, description="Sample at random instead of searching")
    tries: int = Field(1, ge=1, le=1000, description="Number of outputs to sample for each source")
    temperature: float = Field(1.0, ge=0, le=1000, description="Below 1: more predictable; above 1: more varied")
    top_k: int | None = Field(None, ge=1, description="Sample only from the k most likely tokens")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample only from the most likely tokens that together have this probability"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="Random seed for sampling")

    @model_validator(mode="after")
    def _check_beam(self) -> SearchOptions:
        if self.n_best > self.beam and not self.sample:
            raise ValueError(f"n_best = {self.n_best} needs a beam of at least {self.n_best}, not {self.beam}")
        return self

    @property
    def rows(self) -> int:
        """The number of outputs that are generated at once for each source."""
        return self.tries if self.sample else self.beam

    def longest(self, source_length: int) -> int:
        """Return the maximum number of tokens in an output for a source of this many tokens."""
        return int(self.max_ratio * source_length) + 20


def search(
    model: nn.Module,
    sources: Sequence[list[int]],
    options: SearchOptions,
    batch_tokens: int,
    check_cancelled: CheckCancelled,
    target: Tokenizer | type[Tokenizer] = Tokenizer,
) -> list[list[Hypothesis]]:
    """Return the outputs for each source, best first. Sources of similar length share a batch.

    ``target`` is the tokenizer of the outputs; all of Saccade's own tokenizers have the same special tokens.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = np.array([[len(source)] for source in sources])
    generator = torch.Generator(device=device_of(model)).manual_seed(options.seed)
    most = max(batch_tokens // options.rows, int(lengths.max(initial=1)))  # a long source gets a separate batch
    parts = plan_batches(lengths, max_tokens=most, seed=0, epoch=0, shuffle=False)
    if options.sample:  # only sources of equal length are sampled together, because their length limits an output
        parts = [list(equal) for part in parts for _, equal in groupby(part, key=lambda i: len(sources[i]))]

    def outputs_of(part: list[int]) -> list[list[Hypothesis]]:
        check_cancelled()
        batch = [sources[i] for i in part]
        if options.sample:
            return _sample(model, batch, options, generator, target)
        return _search(model, batch, options, target)

    # All samples come from one sequence of random numbers, so processes cannot share the work.
    every = map(outputs_of, parts) if options.sample else for_each(parts, outputs_of)
    for part, outputs in zip(parts, every, strict=True):
        for index, hypotheses in zip(part, outputs, strict=True):
            found[index] = hypotheses
    return found


def longest_output(model: nn.Module, source_length: int, options: SearchOptions) -> int:
    """Return the maximum number of tokens in an output; a network with learned positions cannot exceed their number."""
    wanted = options.longest(source_length)
    config = cast(Any, model).config
    learned = getattr(config, "position", "learned") == "learned" and hasattr(config, "max_length")
    return min(wanted, config.max_length - 1) if learned else wanted  # START takes a position too


def _search(
    model: nn.Module, sources: list[list[int]], options: SearchOptions, target: Tokenizer | type[Tokenizer]
) -> list[list[Hypothesis]]:
    limits = torch.tensor([longest_output(model, len(source), options) for source in sources])
    return beam_search(
        cast(Decodable, model),
        _start(model, sources, int(limits.max())),
        batch_size=len(sources),
        start_token=cast(int, target.special.start),
        end_token=cast(int, target.special.end),
        beam=options.beam,
        n_best=options.n_best,
        max_length=limits.to(device_of(model)),
        length_penalty=options.length_penalty,
        device=device_of(model),
        barred=target.barred_ids,
    )


def _sample(
    model: nn.Module,
    sources: list[list[int]],
    options: SearchOptions,
    generator: torch.Generator,
    target: Tokenizer | type[Tokenizer],
) -> list[list[Hypothesis]]:
    repeated = [source for source in sources for _ in range(options.tries)]
    longest = longest_output(model, len(sources[0]), options)
    flat = sample(
        cast(Decodable, model),
        _start(model, repeated, longest),
        batch_size=len(repeated),
        start_token=cast(int, target.special.start),
        end_token=cast(int, target.special.end),
        max_length=longest,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        generator=generator,
        device=device_of(model),
        barred=target.barred_ids,
    )
    groups = [flat[start : start + options.tries] for start in range(0, len(flat), options.tries)]
    return [sorted(group, key=lambda output: output.score, reverse=True) for group in groups]


def _start(model: nn.Module, sources: list[list[int]], max_length: int) -> Any:
    padded, lengths = pad(sources)
    return cast(Decodable, model).start(padded.to(device_of(model)), lengths.to(device_of(model)), max_length)


def likeliest_tokens(logits: Float[Tensor, "T V"], number: int, tokenizer: Tokenizer) -> list[list[tuple[str, float]]]:
    """Return the ``number`` most probable tokens at each step, with their log-probabilities, best first."""
    best = logits.float().log_softmax(dim=-1).topk(min(number, logits.shape[-1]))
    steps = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[(tokenizer.token(id), value) for id, value in zip(*step, strict=True)] for step in steps]
