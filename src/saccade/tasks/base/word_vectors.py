"""The word vectors of a model (lecture 004): how similar two words are, the nearest words, and a map of words.

    cosine(a, b) = a·b / (|a| |b|),   correlation(a, b) = cosine(a - mean a, b - mean b)

One-hot vectors (method 1 of the lecture) all have cosine 0 with each other. Learned vectors (method 2) do not.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import OptionError, UnknownNameError, counted
from saccade.lens.figures.canvas import drawing, label
from saccade.models.layers import OneHot, WordEmbedding
from saccade.tasks.base.task import Bundle, Task
from saccade.text import SPECIAL_TOKENS, UNKNOWN, Tokenizer
from saccade.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["WordMap", "WordNeighbour", "WordVectors", "all_word_vectors", "word_vectors"]

SPACE = "▁"
#: The number of words on a map if none are named: the most frequent ones.
MAP_WORDS = 100
#: The number of neighbours that a map shows for each named word.
MAP_NEIGHBOURS = 8
_MAP_SIZE = 8.0  # inches


class WordNeighbour(NamedTuple):
    """A word whose vector is close to that of another word, and the cosine of the angle between the two vectors."""

    word: str
    cosine: float


class WordMap(NamedTuple):
    """A map of words: their first two principal components, and the fraction of the variance that these explain."""

    words: list[str]
    points: Float[Tensor, "n 2"]
    share: float

    def figure(self, *, named: Sequence[str] = (), dark: bool = False) -> Figure:
        """Draw the words at their points, with those in ``named`` in bold."""
        title = f"{counted(len(self.words), 'word')}, {100 * self.share:.0f}% of their variance"
        low, high = self.points.amin(dim=0), self.points.amax(dim=0)
        places = ((self.points - low) / (high - low).clamp(min=1e-12)).tolist()
        with drawing(title, dark=dark) as page:
            for word, (across, up) in zip(self.words, places, strict=True):
                text = label(word)
                width, line = page.measure(text)
                left, top = across * (_MAP_SIZE - width), (1 - up) * (_MAP_SIZE - line)
                page.write(left, top, text, fontweight="bold" if word in named else "normal")
        return page.figure


@dataclass(frozen=True)
class WordVectors:
    """One embedding of a model, and its vocabulary."""

    name: str
    vocabulary: Tokenizer | Vocabulary
    vectors: Float[Tensor, "V D"]
    one_hot: bool
    lowercase: bool = False  # words are looked up in lower case

    @cached_property
    def tokens(self) -> list[str]:
        """Every entry of the vocabulary as it is displayed: without the mark "▁" for a preceding space."""
        if isinstance(self.vocabulary, Vocabulary):
            return [*SPECIAL_TOKENS[: UNKNOWN + 1], *self.vocabulary.entries]
        every = self.vocabulary.tokens(range(self.vocabulary.vocabulary_size))
        return [token.removeprefix(SPACE) or token for token in every]

    @cached_property
    def candidates(self) -> list[int]:
        """The ids of the entries that are words or the first piece of one, without special tokens; if tokens are single
        characters or bytes, the ids of all of them."""
        if isinstance(self.vocabulary, Vocabulary):
            return list(range(UNKNOWN + 1, len(self.vectors)))
        hidden = set(self.vocabulary.hidden_ids)
        ids = [id for id in range(self.vocabulary.vocabulary_size) if id not in hidden]
        if not self.vocabulary.spaced:
            return ids
        begin = [id for id in ids if self.vocabulary.token(id).startswith(SPACE)]
        return [id for id in begin if self.vocabulary.token(id) != SPACE]

    def ids(self, word: str) -> list[int]:
        """Return a list with the id of a word or, if it is not in the vocabulary as a whole, the ids of its pieces."""
        if isinstance(self.vocabulary, Vocabulary):
            found = [self.vocabulary.id(word.lower() if self.lowercase else word)]
        else:
            found = self.vocabulary.encode_ids([word])[0]
        unknown = UNKNOWN if isinstance(self.vocabulary, Vocabulary) else self.vocabulary.special.unknown
        if not found or unknown in found:
            near = difflib.get_close_matches(word, self.tokens, n=3)
            hint = f" Similar words: {', '.join(near)}." if near else ""
            raise OptionError(f"The model does not know the word {word!r} ({self.name} vocabulary).{hint}")
        return found

    def vector(self, word: str) -> Float[Tensor, " D"]:
        """Return the vector of a word; if the word consists of several pieces, the mean of their vectors."""
        return self.vectors[self.ids(word)].mean(dim=0)

    def cosine(self, one: str, other: str) -> float:
        return float(F.cosine_similarity(self.vector(one), self.vector(other), dim=0))

    def correlation(self, one: str, other: str) -> float:
        """Return Pearson's correlation between the components of the vectors of two words."""
        first, second = (vector - vector.mean() for vector in (self.vector(one), self.vector(other)))
        return float(F.cosine_similarity(first, second, dim=0))

    def neighbours(self, word: str, count: int = 10) -> list[WordNeighbour]:
        """Return the ``count`` words whose vectors have the largest cosine with the vector of ``word``."""
        if count < 1:
            raise OptionError(f"The number of neighbours must be at least 1, not {count}.")
        return [WordNeighbour(self.tokens[id], cosine) for id, cosine in self._nearest(word, count)]

    def _nearest(self, word: str, count: int) -> list[tuple[int, float]]:
        own = set(self.ids(word))
        ids = [id for id in self.candidates if id not in own]
        cosines = F.cosine_similarity(self.vectors[ids], self.vector(word).unsqueeze(0))
        best = cosines.sort(descending=True, stable=True)
        places = best.indices[:count].tolist()
        return [(ids[place], float(cosines[place])) for place in places]

    def with_near_neighbours(self, among: int = MAP_WORDS) -> str | None:
        """Return a word with three close neighbours, as an example: of the ``among`` most frequent words, the one whose
        third-nearest neighbour has the largest cosine. Words with fewer than three letters are skipped, and the same
        word in other capitals does not count as a neighbour. Return None if there are too few words."""
        words = [id for id in self.candidates[:among] if len(self.tokens[id]) >= 3 and self.tokens[id].isalpha()]
        if len(self.candidates) < 4 or not words:
            return None
        every = F.normalize(self.vectors[self.candidates], dim=1)
        cosines = F.normalize(self.vectors[words], dim=1) @ every.T
        spelt = [self.tokens[id].lower() for id in self.candidates]
        for place, id in enumerate(words):
            same = [other for other, text in enumerate(spelt) if text == self.tokens[id].lower()]
            cosines[place, same] = -1
        return self.tokens[words[int(cosines.topk(3, dim=1).values[:, -1].argmax())]]

    def map(self, words: Sequence[str] = (), others: int = 0, *, fixed: bool = False) -> WordMap:
        """Place these words, their nearest neighbours and the ``others`` most frequent words on a map, by the first two
        principal components of their vectors.

        Without ``words`` and ``others``, the map has the 100 most frequent words. If ``fixed``, the components are
        computed from the frequent words alone, so that these keep their places on the map, whatever ``words`` adds.
        """
        placed = {word: self.vector(word) for word in words}
        near = [id for word in words for id, _ in self._nearest(word, MAP_NEIGHBOURS)]
        frequent = self.candidates[: others if words or others else MAP_WORDS]
        for id in (*near, *frequent):
            placed.setdefault(self.tokens[id], self.vectors[id])
        chosen = list(placed)
        if len(chosen) < 3:
            raise OptionError(f"A map needs at least 3 words, not {len(chosen)} ({self.name} vocabulary).")
        vectors = torch.stack(list(placed.values())).double()
        fitted = self.vectors[list(frequent)].double() if fixed and len(frequent) >= 3 else vectors
        _, sizes, directions = torch.linalg.svd(fitted - fitted.mean(dim=0), full_matrices=False)
        first, points = ((some - fitted.mean(dim=0)) @ directions[:2].T for some in (fitted, vectors))
        largest = first.gather(0, first.abs().argmax(dim=0, keepdim=True))
        points = points * torch.where(largest < 0, -1.0, 1.0)  # the sign of a component is arbitrary, so fix it
        return WordMap(chosen, points.float(), float((sizes[:2] ** 2).sum() / (sizes**2).sum()))


def word_vectors(bundle: Bundle, name: str | None = None) -> WordVectors:
    """Return the embedding with this name (source, target, input, words or pieces); without a name, the model's first
    embedding."""
    found = all_word_vectors(bundle.model, bundle.task)
    if not found:
        raise OptionError(f"Models for {bundle.task.name} have no word embeddings.")
    if name is not None and name not in found:
        raise UnknownNameError("embedding", name, found)
    return found[name] if name is not None else next(iter(found.values()))


def all_word_vectors(model: nn.Module, task: Task) -> dict[str, WordVectors]:
    """Return every word embedding of a model by name; empty if the model does not read words."""
    known = task.state.vocabularies()
    found: dict[str, WordVectors] = {}
    for path, module in model.named_modules():
        if not isinstance(module, WordEmbedding | OneHot):
            continue
        first, last = path.split(".")[0], path.split(".")[-1]
        for name in (first, last, "tokenizer", "pieces"):
            vocabulary = known.get(name)
            if vocabulary is None or (isinstance(module, WordEmbedding) and len(module.weight) != _size(vocabulary)):
                continue
            embedding = last if last in ("words", "pieces") and last in known else first
            one_hot = isinstance(module, OneHot)
            vectors = (
                torch.eye(_size(vocabulary)) if isinstance(module, OneHot) else module.weight.detach().float().cpu()
            )
            found[embedding] = WordVectors(embedding, vocabulary, vectors, one_hot, task.state.lowercases_words)
            break
    return found


def _size(vocabulary: Tokenizer | Vocabulary) -> int:
    return len(vocabulary) if isinstance(vocabulary, Vocabulary) else vocabulary.vocabulary_size
