"""Pairs of texts with gold alignments between their words, and the links between tokens that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from saccade.data.grammar import LANGUAGE_NAMES, Example, Span, content_words
from saccade.data.pairs import Pair
from saccade.lens.links import WordLink
from saccade.text import Tokenizer

__all__ = [
    "GoldPair",
    "from_characters",
    "from_grammar",
    "from_pair",
    "language_tag",
    "spaced_words",
    "token_links",
    "word_agreement",
]


@dataclass(frozen=True)
class GoldPair:
    """A source text and a target text and, if links between their words are known, these links, and the position of
    each word in its text."""

    source: str
    target: str
    line: int  # in the user's file, counting from 1
    source_words: tuple[Span, ...] = ()
    target_words: tuple[Span, ...] = ()
    links: frozenset[WordLink] | None = None  # links between words: (source, target)
    content: frozenset[int] = frozenset()  # the target words that count when the alignment is scored
    kind: str = ""  # the kind of sentence in the built-in corpus
    language: str = ""  # the target language, if the corpus has several


def from_grammar(examples: Sequence[Example], tagged: bool = False) -> list[GoldPair]:
    """Convert sentences of the built-in corpus, in which all links are known. If ``tagged``, because there are several
    target languages, each source begins with the name of one: "German: The black cat ate the mouse." """
    pairs = []
    for line, example in enumerate(examples, start=1):
        tag = language_tag(example.language) if tagged else ""
        pair = GoldPair(
            tag + example.source_text,
            example.target_text,
            line,
            tuple((start + len(tag), end + len(tag)) for start, end in example.source_spans),
            tuple(example.target_spans),
            frozenset(example.alignment),
            frozenset(content_words(example)),
            example.kind,
            example.language if tagged else "",
        )
        pairs.append(pair)
    return pairs


def language_tag(language: str) -> str:
    """Return the tag, such as "German: ", that tells a model of several target languages which one to write."""
    return f"{LANGUAGE_NAMES[language]}: "


def from_pair(pair: Pair) -> GoldPair:
    """Convert a pair from the user's files. Its links, if given, are between words that are split at spaces."""
    return _with_words(pair, _word_spans(pair.source), _word_spans(pair.target))


def from_characters(pair: Pair) -> GoldPair:
    """Convert a pair whose links are between single characters, such as letters and sounds."""
    source, target = (tuple((i, i + 1) for i in range(len(text))) for text in (pair.source, pair.target))
    return _with_words(pair, source, target)


def _with_words(pair: Pair, source: tuple[Span, ...], target: tuple[Span, ...]) -> GoldPair:
    links = None if pair.alignment is None else frozenset(pair.alignment)
    return GoldPair(pair.source, pair.target, pair.line, source, target, links, frozenset(range(len(target))))


def token_links(pair: GoldPair, source: Tokenizer, target: Tokenizer) -> frozenset[WordLink] | None:
    """Return links between all tokens of two linked words, for each link between words of a pair; None if the links
    between its words are unknown."""
    if pair.links is None:
        return None
    sources = _tokens_of_words(source.encode(pair.source).spans, pair.source_words)
    targets = _tokens_of_words(target.encode(pair.target).spans, pair.target_words)
    return frozenset((s, t) for one, other in pair.links for s in sources[one] for t in targets[other])


def word_agreement(
    pair: GoldPair, matrix: Float[Tensor, "T S"], source: Tokenizer, target: Tokenizer
) -> tuple[int, int]:
    """Count the content words of the target that have gold links, and how many of these attend most to a source word
    that they are linked to.

    Returns (correct, total). ``matrix`` has the weights between tokens, without END; the weight of a source word is the
    sum over its tokens.
    """
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
    """Return, for each word, the tokens that share a character with it."""
    return [
        [number for number, (start, stop) in enumerate(tokens) if start < last and first < stop]
        for first, last in words
    ]


def spaced_words(text: str, tokens: Sequence[Span]) -> list[int]:
    """Return the number of the word that each token belongs to, from 0. Words are split at spaces, and a space belongs
    to the word after it."""
    words = _word_spans(text)
    last_word = max(len(words) - 1, 0)  # a text of only spaces is one word
    return [min(sum(last <= start for _, last in words), last_word) for start, _ in tokens]


def _word_spans(text: str) -> tuple[Span, ...]:
    spans, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return tuple(spans)
