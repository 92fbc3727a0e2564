"""Pairs of texts with their known alignment, and what it says about their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from saccade.data.grammar import Example, content_words
from saccade.data.pairs import Pair
from saccade.lens.links import WordLink
from saccade.text import Tokenizer

__all__ = ["GoldPair", "from_characters", "from_grammar", "from_pair", "spaced_words", "token_links", "word_agreement"]

Span = tuple[int, int]  # first character, one past the last


@dataclass(frozen=True)
class GoldPair:
    """A source and a target text; if links are known, also the words that they link, as spans of the texts."""

    source: str
    target: str
    line: int  # in the user's file, counting from 1
    source_words: tuple[Span, ...] = ()
    target_words: tuple[Span, ...] = ()
    links: frozenset[WordLink] | None = None  # between words: (source, target)
    content: frozenset[int] = frozenset()  # the target words that count when the alignment is scored
    kind: str = ""  # kind of sentence in the built-in corpus


def from_grammar(examples: Sequence[Example]) -> list[GoldPair]:
    """The built-in corpus: every link is known."""
    return [
        GoldPair(
            example.source_text,
            example.target_text,
            line,
            tuple(example.source_spans),
            tuple(example.target_spans),
            frozenset(example.alignment),
            frozenset(content_words(example)),
            example.kind,
        )
        for line, example in enumerate(examples, start=1)
    ]


def from_pair(pair: Pair) -> GoldPair:
    """A pair of the user's own; its links, if given, are between words separated by spaces."""
    words = _spaced(pair.source), _spaced(pair.target)
    links = None if pair.alignment is None else frozenset(pair.alignment)
    return GoldPair(pair.source, pair.target, pair.line, *words, links, frozenset(range(len(words[1]))))


def from_characters(pair: Pair) -> GoldPair:
    """A pair whose links are between characters (letters and sounds)."""
    source = tuple((i, i + 1) for i in range(len(pair.source)))
    target = tuple((i, i + 1) for i in range(len(pair.target)))
    links = None if pair.alignment is None else frozenset(pair.alignment)
    return GoldPair(pair.source, pair.target, pair.line, source, target, links, frozenset(range(len(target))))


def token_links(pair: GoldPair, source: Tokenizer, target: Tokenizer) -> frozenset[WordLink] | None:
    """The links of a pair between the tokens of its words; None if no links are known."""
    if pair.links is None:
        return None
    sources = _tokens_of_words(source.encode(pair.source).spans, pair.source_words)
    targets = _tokens_of_words(target.encode(pair.target).spans, pair.target_words)
    return frozenset((s, t) for one, other in pair.links for s in sources[one] for t in targets[other])


def word_agreement(
    pair: GoldPair, matrix: Float[Tensor, "T S"], source: Tokenizer, target: Tokenizer
) -> tuple[int, int]:
    """How many content words with a link have their strongest source word among their linked ones, and how many there
    are. ``matrix`` is between tokens, without END; the weight of a word is the sum over its tokens."""
    assert pair.links is not None
    sources = _tokens_of_words(source.encode(pair.source).spans, pair.source_words)
    targets = _tokens_of_words(target.encode(pair.target).spans, pair.target_words)
    right = total = 0
    for word in pair.content:
        linked = {one for one, other in pair.links if other == word}
        if not linked or not targets[word]:
            continue
        row = matrix[targets[word]].mean(dim=0)
        weights = [float(row[tokens].sum()) for tokens in sources]
        total += 1
        right += weights.index(max(weights)) in linked
    return right, total


def _tokens_of_words(tokens: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """For each word, the tokens that share a character with it."""
    return [
        [number for number, (start, stop) in enumerate(tokens) if start < last and first < stop]
        for first, last in words
    ]


def spaced_words(text: str, tokens: Sequence[Span]) -> list[int]:
    """For each token, its word (separated by spaces); a token of spaces belongs to the next word."""
    words = _spaced(text)
    last_word = max(len(words) - 1, 0)  # a text of only spaces is one word
    return [min(sum(last <= start for _, last in words), last_word) for start, _ in tokens]


def _spaced(text: str) -> tuple[Span, ...]:
    spans, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return tuple(spans)
