"""How similar two texts are: the cosine of the angle between their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import OptionError
from saccade.models.sentence_encoder import SentenceConfig, SentenceEncoder
from saccade.pretrained import Pretrained
from saccade.tasks.base.settings import TextTraining
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Loss,
    Network,
    Probe,
    ReadFile,
    ScoredTask,
    TokenizerState,
    device_of,
    read_tokenizer,
)
from saccade.tasks.similarity.data import ScoredPair
from saccade.text import ForeignTokenizer, Tokenizer, pad, plan_batches

__all__ = ["Similarity", "SimilarityState"]

#: The number of padded tokens that are encoded at once.
BATCH_TOKENS = 8192


@dataclass(frozen=True)
class SimilarityState(TokenizerState):
    """The tokenizer."""

    tokenizer: Tokenizer

    @classmethod
    def prepare(
        cls, settings: Mapping[str, Any], train: Sequence[ScoredPair], tokenizer: Tokenizer | None = None
    ) -> Self:
        raise OptionError(
            "Saccade does not train sentence encoders; it can only open those trained with other libraries."
        )

    @classmethod
    def adopt(cls, model: Pretrained, tokenizer: ForeignTokenizer) -> Self:
        return cls(tokenizer)

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        return cls(read_tokenizer(read, where))

    def description(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class SimilarityBatch(Batch):
    """The first texts of all pairs, then their second texts, padded to the same length."""

    tokens: Int[Tensor, "2B N"]
    lengths: Int[Tensor, " 2B"]
    scores: Float[Tensor, " B"]
    lines: Sequence[int]

    @property
    def count(self) -> int:
        return len(self.scores)


class Similarity(ScoredTask):
    """Compares texts by the cosine of their vectors; its loss is the squared difference from people's scores."""

    name = "sentence-similarity"
    about = "gives a text a vector, and says how similar two texts are"
    metrics = ("spearman", "pearson")
    state_class = SimilarityState
    evaluation_size = BATCH_TOKENS
    tables: ClassVar = {"training": TextTraining}
    networks: ClassVar = {
        "transformer": Network(
            SentenceConfig, lambda config, state: SentenceEncoder(config, state.tokenizer.vocabulary_size)
        )
    }

    state: SimilarityState

    def encode(self, examples: Sequence[ScoredPair]) -> list[ScoredPair]:
        return list(examples)

    def lengths(self, examples: Sequence[ScoredPair]) -> Int[np.ndarray, "n 2"]:
        both = [self.framed(texts) for texts in ([pair.first for pair in examples], [pair.second for pair in examples])]
        return np.array([[len(ids) for ids in pair] for pair in zip(*both, strict=True)])

    def batch(self, examples: Sequence[ScoredPair]) -> SimilarityBatch:
        texts = [pair.first for pair in examples] + [pair.second for pair in examples]
        tokens, lengths = pad(self.framed(texts), self.state.tokenizer.special.pad)
        scores = torch.tensor([pair.score for pair in examples])
        return SimilarityBatch(tokens, lengths, scores, [pair.line for pair in examples])

    def framed(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, with the special tokens that the model expects around it."""
        return [self.state.tokenizer.framed(ids) for ids in self.state.tokenizer.encode_ids(texts)]

    def loss(self, model: nn.Module, batch: SimilarityBatch) -> Loss:
        first, second = model(batch.tokens, batch.lengths).chunk(2)
        return Loss((F.cosine_similarity(first, second) - batch.scores).square().sum(), batch.count)

    @torch.inference_mode()
    def vectors(
        self,
        model: nn.Module,
        texts: Sequence[list[int]],
        batch_size: int = BATCH_TOKENS,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Float[Tensor, "n D"]:
        """Return the vector of each text, which is given as token ids; texts of similar length are encoded together."""
        found: dict[int, Tensor] = {}
        sizes = np.array([[max(1, len(ids))] for ids in texts])
        most = max(batch_size, int(sizes.max(initial=1)))
        for part in plan_batches(sizes, max_tokens=most, shuffle=False):
            check_cancelled()
            tokens, lengths = pad([texts[place] for place in part], self.state.tokenizer.special.pad)
            vectors = model(tokens.to(device_of(model)), lengths.to(device_of(model))).float().cpu()
            found |= dict(zip(part, vectors, strict=True))
        return torch.stack([found[place] for place in range(len(texts))])

    def scores(
        self, model: nn.Module, examples: Sequence[ScoredPair], batch_size: int, check_cancelled: CheckCancelled
    ) -> dict[str, float]:
        """Return the correlation between the cosines and people's scores, of their values (Pearson) and of their ranks
        (Spearman), in percent."""
        first, second = (
            self.vectors(model, self.framed(texts), batch_size, check_cancelled)
            for texts in ([pair.first for pair in examples], [pair.second for pair in examples])
        )
        cosines = F.cosine_similarity(first, second).double().numpy()
        scores = np.array([pair.score for pair in examples])
        return {
            "spearman": 100 * _correlation(_ranks(cosines), _ranks(scores)),
            "pearson": 100 * _correlation(cosines, scores),
        }

    def probe(self, model: nn.Module, example: ScoredPair) -> Probe:
        tokens = self.state.tokenizer.tokens(self.framed([example.first])[0])
        return Probe(tokens, [], example.second, [])


def _correlation(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]) -> float:
    if len(one) < 2 or not one.std() or not other.std():
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the rank of each value; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
