"""Small models that step: their logits depend on the sentence and on every token read so far."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor


@dataclass
class Cache:
    """A state that is written in place, as a static key-value cache is."""

    tokens: Tensor  # (B, T) the sentence's number, then the tokens read; the rest is not yet written
    length: int = 1


@dataclass
class PrefixModel:
    """Logits looked up in a random table by a hash of the whole prefix, so no two histories are alike."""

    num_tokens: int
    seed: int = 0
    sharpness: float = 1.5
    dtype: torch.dtype = torch.float64
    batch_sizes: list[int] = field(default_factory=list)

    SIZE = 10_007

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        table = torch.randn(self.SIZE, self.num_tokens, generator=generator, dtype=torch.float64)
        self.table = (table * self.sharpness).to(self.dtype)

    def start(self, sentences: list[int], capacity: int = 40) -> Cache:
        cache = Cache(torch.full((len(sentences), capacity), -1))
        cache.tokens[:, 0] = torch.tensor(sentences, dtype=torch.long)
        return cache

    def step(self, tokens: Tensor, state: Cache) -> tuple[Tensor, Cache]:
        self.batch_sizes.append(len(tokens))
        state.tokens[:, state.length] = tokens
        state.length += 1
        key = torch.zeros(len(tokens), dtype=torch.long)
        for column in state.tokens[:, : state.length].unbind(1):
            key = (key * 131 + column + 7) % self.SIZE
        return self.table[key], state

    def reorder(self, state: Cache, index: Tensor) -> Cache:
        tokens = state.tokens[index.flatten()]
        state.tokens.fill_(-99)  # whoever goes on with the old state reads nonsense
        return Cache(tokens, state.length)

    def log_probability(self, sentence: int, start: list[int], tokens: list[int]) -> float:
        """log p(tokens), read one by one with nothing beside them."""
        state = self.start([sentence])
        for token in start[:-1]:
            _, state = self.step(torch.tensor([token]), state)
        total = 0.0
        for before, after in itertools.pairwise([start[-1], *tokens]):
            logits, state = self.step(torch.tensor([before]), state)
            total += logits.double().log_softmax(1)[0, after].item()
        return total

    def exhaustive(
        self, sentence: int, start: int, end: int, max_length: int, length_penalty: float, min_length: int = 0
    ) -> list[tuple[list[int], float, bool]]:
        """Every output there is with its score: the finished ones by score, then the cut-off ones."""
        others = [token for token in range(self.num_tokens) if token != end]
        outputs = []
        for length in range(max(1, min_length), max_length + 1):
            for tokens in itertools.product(others, repeat=length - 1):
                score = self.log_probability(sentence, [start], [*tokens, end]) / length**length_penalty
                outputs.append((list(tokens), score, True))
        for tokens in itertools.product(others, repeat=max_length):
            score = self.log_probability(sentence, [start], list(tokens)) / max_length**length_penalty
            outputs.append((list(tokens), score, False))
        return sorted(outputs, key=lambda output: (not output[2], -output[1]))


@dataclass
class MarkovModel:
    """p(next | last token), a table by hand; counts the rows of each step."""

    probabilities: list[list[float]]
    batch_sizes: list[int] = field(default_factory=list)

    def start(self) -> None:
        return None

    def step(self, tokens: Tensor, state: None) -> tuple[Tensor, None]:
        self.batch_sizes.append(len(tokens))
        rows = [[math.log(p) if p > 0 else -math.inf for p in row] for row in self.probabilities]
        return torch.tensor(rows, dtype=torch.float64)[tokens], None

    def reorder(self, state: None, index: Tensor) -> None:
        return None


@pytest.fixture(scope="session")
def prefix_model() -> type[PrefixModel]:
    return PrefixModel


@pytest.fixture(scope="session")
def markov_model() -> type[MarkovModel]:
    return MarkovModel
