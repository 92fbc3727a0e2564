"""Measure what an answer depends on, by leaving out each word in turn and by cutting links between words, that is, by
forbidding one word to attend to another.

Attention weights show which words a model attends to. Whether the answer depends on a word is seen only by a change.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from saccade.attention import edit, editable
from saccade.errors import OptionError, TooLargeError
from saccade.lens.causal import find_places
from saccade.lens.view import View
from saccade.tasks.base.predictor import Predictor

__all__ = ["find_opening", "words_left_out"]

#: A word of a text; punctuation marks stay where they are.
_WORD = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?")
#: The most words of a text that are left out one by one.
MOST_WORDS = 200
#: How many links ``find_opening`` cuts before it gives up, and how many strong links it tries for each layer.
_MOST_CUTS = 24
_STRONGEST = 2


def words_left_out(predictor: Predictor, text: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Leave out each word in turn, and yield the log-probability that the model then gives to its original answer.

    The first record is for the complete text, and also has the number of words (``of``). In each record, ``scores`` are
    the log-probabilities of the tokens of the answer; their sum is called ``before`` in the first record, and ``after``
    in the others.
    """
    answer = predictor.best_answer(text, **options)
    words = list(_WORD.finditer(text))
    if len(words) > MOST_WORDS:
        raise TooLargeError(f"The text has {len(words):,} words; at most {MOST_WORDS} can be left out one by one.")
    before = predictor.token_scores(text, answer)
    if not before:
        said = "This model gives no probability for its answer" if answer.text else "The model chose no label or word"
        raise OptionError(f"{said}, so the effect of leaving out a word cannot be measured.")
    found = {"of": len(words), "answer": answer.text, "tokens": answer.scored_tokens}
    yield found | {"before": sum(before), "scores": before}
    for number, word in enumerate(words):
        rest = re.sub(r"\s+", " ", text[: word.start()].rstrip() + " " + text[word.end() :].lstrip()).strip()
        rest = re.sub(r" (?=[^\w\s]*$)", "", rest)
        try:
            scores = predictor.token_scores(rest, answer) if rest else None
        except OptionError:
            raise OptionError(
                "This model labels every word, so no word can be left out; replace a word instead."
            ) from None
        after = None if scores is None else sum(scores)
        yield {"number": number, "word": word[0], "start": word.start(), "after": after, "scores": scores}


def find_opening(
    predictor: Predictor, examples: list[Any], options: dict[str, Any]
) -> Generator[None, None, dict[str, Any] | None]:
    """Find two words of an example between which a link, if cut in all heads of a layer, changes the model's answer.

    Cutting a link means that one word may not attend to the other. Examples whose words are known to depend on each
    other (``Predictor.known_links``) are tried first. Layers are tried from last to first, and in each layer the known
    links before those with large weights. The generator yields after each answer, so that other requests get their
    turn. It returns the example and the link, or None if it finds none.
    """
    texts = [one for one in examples if isinstance(one, str)]
    if predictor.is_drawn(predictor.chosen(options)) or not texts:
        return None
    if not editable(predictor.model):
        return None  # a model without attention has no links
    for text, name, rows, columns in islice(_candidates(predictor, texts, options), _MOST_CUTS):
        yield
        before = predictor.best_answer(text, **options)
        yield
        links = [(name, row, column) for row in rows for column in columns]
        with edit(predictor.model, without_links=links):
            after = predictor.best_answer(text, **options)
        if after.text != before.text:
            axis = predictor.view_of(text, before).columns[name]
            return {"input": text, "name": name, "row": axis.words[rows[0]], "column": axis.words[columns[0]]}
    return None


def _candidates(
    predictor: Predictor, texts: list[str], options: dict[str, Any]
) -> Iterator[tuple[str, str, list[int], list[int]]]:
    """Yield links to cut: a text, the name of an attention, and the positions of the tokens of two words."""
    known = {text: predictor.known_links(text) for text in texts}
    for text in sorted(texts, key=lambda text: not known[text]):
        view = predictor.view_of(text, predictor.best_answer(text, **options))
        for name in reversed([name for name in view.names if view.is_self(name) and view.kind(name) != "causal"]):
            for words in known[text]:
                rows, columns = (find_places(view.columns[name], word) for word in words)
                yield text, name, rows, columns
            for rows, columns in _strong_links(view, name):
                yield text, name, rows, columns


def _strong_links(view: View, name: str) -> list[tuple[list[int], list[int]]]:
    """The strongest links between two different words, as the positions of the tokens of both words."""
    axis = view.columns[name]
    weights = view.matrix(name, "mean", words=True).clone()
    weights.fill_diagonal_(0)
    best = weights.flatten().topk(min(_STRONGEST, weights.numel())).indices.tolist()
    pairs = [divmod(place, weights.shape[1]) for place in best]
    tokens = [[place for place, word in enumerate(axis.words) if word == number] for number in range(len(axis.joined))]
    return [(tokens[row], tokens[column]) for row, column in pairs if tokens[row] and tokens[column]]
