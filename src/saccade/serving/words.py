"""The vectors that a model learned for words: which are near each other, and how two are related (004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.layers import WordEmbedding
from saccade.serving.refusals import Refused
from saccade.tasks.predictor import Predictor
from saccade.text import SPECIAL_TOKENS, UNKNOWN, Tokenizer

__all__ = ["WordVectors", "word_vectors"]

#: Words of a map where none are chosen: the most frequent.
SHOWN = 100


@dataclass(frozen=True)
class WordVectors:
    """A vocabulary with a vector for each entry."""

    tokenizer: Tokenizer
    vectors: Float[Tensor, "V D"]

    @cached_property
    def _directions(self) -> Float[Tensor, "V D"]:
        """Centred and of length 1, so that a product of two is the correlation of their numbers."""
        return _standardised(self.vectors)

    def find(self, word: str) -> tuple[list[str], Float[Tensor, " D"]]:
        """The pieces of a word and the mean of their vectors."""
        ids = self.tokenizer.encode_ids([word])[0]
        if not ids or UNKNOWN in ids:
            raise Refused(404, f"The word {word[:60]!r} is not in the vocabulary of this model.")
        return [self.tokenizer.token(id) for id in ids], self.vectors[ids].mean(dim=0)

    def neighbours(self, word: str, count: int) -> list[dict[str, Any]]:
        """The entries that are most correlated with a word, itself left out."""
        pieces, vector = self.find(word)
        related = self._directions @ _standardised(vector[None])[0]
        related[: len(SPECIAL_TOKENS)] = -2
        order = related.argsort(descending=True)[: count + len(pieces)].tolist()
        found = [(self.tokenizer.token(id), float(related[id])) for id in order]
        others = [{"word": token, "correlation": value} for token, value in found if token not in pieces and value > -2]
        return others[:count]

    def correlation(self, word: str, other: str) -> float:
        """Between -1 and 1: how much the numbers of two words go up and down together."""
        first, second = (_standardised(self.find(one)[1][None])[0] for one in (word, other))
        return float(first @ second)

    def place(self, words: Sequence[str]) -> dict[str, Any]:
        """Words on a plane: the two directions along which their vectors differ most (principal components)."""
        chosen = list(words) or self._frequent()
        if not chosen:  # a vocabulary of letters
            return {"words": [], "explained": [0.0, 0.0]}
        vectors = torch.stack([self.find(word)[1] for word in chosen]).double()
        centred = vectors - vectors.mean(dim=0)
        _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
        points = torch.zeros(len(chosen), 2, dtype=torch.float64)
        found = (centred @ axes.T)[:, :2]
        points[:, : found.shape[1]] = found
        total = float((spread**2).sum()) or 1.0
        shares = [float(value**2) / total for value in spread[:2]]
        return {
            "words": [{"word": word, "x": x, "y": y} for word, (x, y) in zip(chosen, points.tolist(), strict=True)],
            "explained": shares + [0.0] * (2 - len(shares)),
        }

    def _frequent(self) -> list[str]:
        """The first entries that are words by themselves."""
        tokens = (self.tokenizer.token(id) for id in range(len(SPECIAL_TOKENS), self.tokenizer.vocabulary_size))
        words = (token.lstrip("▁") for token in tokens if token.startswith("▁"))
        known = dict.fromkeys(word for word in words if len(word) > 1 and word.isalpha())
        return list(known)[:SHOWN]


def word_vectors(predictor: Predictor) -> dict[str, WordVectors]:
    """The vocabularies of a model that have vectors: "source" and "target" of a translation, "words" of others."""
    task, model = predictor.task, predictor.model
    tokenizers = {"source": getattr(task, "source", None), "target": getattr(task, "target", None)}
    tokenizers |= {"words": getattr(task, "tokenizer", None)}
    tokenizers |= {"pieces": getattr(getattr(task, "words", None), "pieces", None)}
    found: dict[str, WordVectors] = {}
    for side, tokenizer in tokenizers.items():
        if isinstance(tokenizer, Tokenizer):
            vectors = _embedding(model, side, tokenizer.vocabulary_size)
            if vectors is not None:
                found[side] = WordVectors(tokenizer, vectors)
    return found


def _embedding(model: nn.Module, side: str, size: int) -> Float[Tensor, "V D"] | None:
    """The embedding with an entry for each token; of several that fit, the one whose name says the side."""
    fitting = {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, WordEmbedding) and len(module.weight) == size
    }
    named = [module for name, module in fitting.items() if side in name.split(".")]
    chosen = [*named, *fitting.values()]
    if not chosen:
        return None
    vectors: Tensor = chosen[0].weight.detach().float().cpu()
    return vectors


def _standardised(vectors: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    centred: Tensor = vectors - vectors.mean(dim=1, keepdim=True)
    lengths: Tensor = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    return centred / lengths.clamp(min=1e-12)
