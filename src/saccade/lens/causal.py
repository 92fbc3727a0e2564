"""Compare a model's output before and after a change to the model or its input, to see what the output depends on.

Attention weights show what a head attends to. To find out whether the output depends on that, run the model without
that head or link (``saccade.attention.watching.edit``), and compare the output and the probability of each of its
tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from saccade.errors import OptionError, shortened
from saccade.lens.axis import Axis
from saccade.lens.terminal.heatmap import left_aligned, line
from saccade.lens.words import visible, visible_text

__all__ = ["Change", "Scored", "find_places", "replace_word"]

_TOKEN_WIDTH = 24


@dataclass(frozen=True)
class Scored:
    """An output, with the log-probability that the model gives to each of its tokens before and after the change."""

    text: str
    tokens: list[str]  # including END, if the model produced it
    before: list[float]
    after: list[float]

    @property
    def log_probability_before(self) -> float:
        return math.fsum(self.before)

    @property
    def log_probability_after(self) -> float:
        return math.fsum(self.after)


@dataclass(frozen=True)
class Change:
    """A model's outputs before and after a change; the model scores each of them both with and without the change."""

    changed: list[str]  # a description of each change
    before: Scored
    after: Scored

    @property
    def is_same(self) -> bool:
        return self.before.text == self.after.text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield line(f"before  {visible_text(self.before.text)}", options, wrap=True)
        after = "the same" if self.is_same else visible_text(self.after.text)
        yield line(f"after   {after}", options, wrap=True)
        for what in self.changed:
            yield line(f"        {visible_text(what)}", options, wrap=True)
        yield from self._table("The output before: probability of each token", self.before, options)
        if not self.is_same:
            yield from self._table("The output after", self.after, options)

    @staticmethod
    def _table(title: str, scored: Scored, options: ConsoleOptions) -> Iterator[Text]:
        names = [visible(token) for token in scored.tokens]
        width = min(_TOKEN_WIDTH, max(map(cell_len, [*names, "log-probability"])))
        yield line("", options)
        yield line(title, options, wrap=True)
        yield line(f"{' ' * width}   before    after", options)
        for name, before, after in zip(names, scored.before, scored.after, strict=True):
            yield line(f"{left_aligned(name, width)} {math.exp(before):8.4f} {math.exp(after):8.4f}", options)
        totals = scored.log_probability_before, scored.log_probability_after
        yield line(f"{left_aligned('log-probability', width)} {totals[0]:8.3f} {totals[1]:8.3f}", options)


def find_places(axis: Axis, given: int | str) -> list[int]:
    """Return the positions of the tokens that the user means by a position or a word: one token, or all pieces of one
    word.

    A number, or a text of digits, is a position, counted from 0. If a word occurs more than once, the error lists its
    positions.
    """
    text = str(given)
    if text.isdecimal():
        if int(text) >= len(axis):
            raise OptionError(f"There is no token at position {text}; there are {len(axis)} tokens, numbered from 0.")
        return [int(text)]
    words = [number for number, word in enumerate(axis.joined) if word == text]
    if words:
        found = [[place for place, word in enumerate(axis.words) if word == number] for number in words]
    else:
        found = [[place] for place, token in enumerate(axis.tokens) if token == text]
    if not found:
        raise OptionError(f"There is no word {text!r} in: {' '.join(axis.joined)}.")
    if len(found) > 1:
        firsts = ", ".join(str(places[0]) for places in found)
        raise OptionError(f"The word {text!r} occurs {len(found)} times; give one of its positions: {firsts}.")
    return found[0]


def replace_word(text: str, old: str, new: str) -> str:
    """Return the text with ``new`` in place of ``old``, which is a word, or several in a row, and must occur exactly
    once."""
    starts = [
        start
        for start in range(len(text) - len(old) + 1)
        if old and text.startswith(old, start) and _is_whole(text, start, start + len(old))
    ]
    if len(starts) != 1:
        found = "does not occur" if not starts else f"occurs {len(starts)} times (add the words around it)"
        raise OptionError(f"The word to replace, {shortened(old)}, {found} in {shortened(text, 200)}.")
    return text[: starts[0]] + new + text[starts[0] + len(old) :]


def _is_whole(text: str, start: int, stop: int) -> bool:
    """Return whether this part begins and ends at word boundaries; each punctuation mark is a separate word."""
    before = start == 0 or not (text[start - 1].isalnum() and text[start].isalnum())
    return before and (stop == len(text) or not (text[stop - 1].isalnum() and text[stop].isalnum()))


def describe_changes(
    heads: Sequence[str], links: Sequence[tuple[str, int, int]], replaced: tuple[str, str] | None
) -> list[str]:
    """Return a description of each change: heads and links that were removed, by the names that ``edit`` takes, and a
    word that was replaced."""
    changes = [f"without head {head}" for head in heads]
    changes += [f"without link {name}:{row}:{column}" for name, row, column in links]
    return changes if replaced is None else [*changes, f"with {replaced[1]!r} instead of {replaced[0]!r}"]
