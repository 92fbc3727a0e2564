"""Pieces into words, and tokens as they are shown.

Merging keeps the meaning of a row: what a word receives is the sum over its pieces, what a word gives is the mean
over its pieces. Rows that summed to 1 still do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import torch
from jaxtyping import Float
from rich.cells import cell_len
from torch import Tensor

from saccade.errors import OptionError, ShapeError

__all__ = ["code_point", "letters", "merge", "right_to_left", "shorten", "visible", "visible_text"]

_MARKS = {" ": "·", "\t": "⇥", "\n": "↵"}
_OTHER_SPACE = "⍽"  # no-break, narrow, ideographic, ...
_EMPTY = "∅"
_ELLIPSIS = "…"
#: Controls, formatting (all bidi controls), lone surrogates, and the two line separators: nothing to be seen.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Never characters of a text; two of each 65,536, and 32 more. XML does not take U+FFFE and U+FFFF at all.
_NO_CHARACTERS = range(0xFDD0, 0xFDF0)
_CODE_POINT = re.compile(r"(⟨U\+[0-9A-F]{4,6}⟩)")  # never cut into
_JOINERS = frozenset("\u200c\u200d")


def merge(
    weights: Float[Tensor, "*BH Q K"], query_words: Sequence[int], key_words: Sequence[int]
) -> Float[Tensor, "*BH words_of_queries words_of_keys"]:
    """Weights between words from weights between pieces: summed over keys, averaged over queries.

    ``query_words[i]`` is the number of the word that piece i belongs to, counted from 0; a special token is a word
    of its own.
    """
    queries = _words("query", query_words, weights.shape[-2], weights.device)
    keys = _words("key", key_words, weights.shape[-1], weights.device)
    num_pieces = torch.bincount(queries)
    summed = weights.new_zeros(*weights.shape[:-1], _count(keys)).index_add(-1, keys, weights)
    total = summed.new_zeros(*summed.shape[:-2], _count(queries), summed.shape[-1]).index_add(-2, queries, summed)
    return total / num_pieces.to(total.dtype).unsqueeze(-1)


def visible(token: str) -> str:
    """A token with nothing hidden: spaces as ·, controls and bidi characters by their code point.

    The two joiners stay where they join letters that are not ASCII, because scripts and emoji need them there. A
    combining mark at the start, as pieces of words have it, is put on a dotted circle.
    """
    if not token:
        return _EMPTY
    shown = [_visible_character(token, position) for position in range(len(token))]
    first = "◌" if unicodedata.category(token[0]).startswith("M") else ""
    return first + "".join(shown)


def code_point(character: str) -> str:
    """What stands for a character that cannot be shown."""
    return f"⟨U+{ord(character):04X}⟩"


def visible_text(text: str) -> str:
    """A title or sentence: its spaces stay spaces, and nothing else is hidden."""
    return " ".join(visible(word) for word in text.split(" ") if word)


def shorten(text: str, width: int) -> str:
    """``text`` in at most ``width`` terminal cells, with … in the place of its middle."""
    if width < 1:
        raise OptionError(f"shorten() takes a width of at least 1, not {width}.")
    if cell_len(text) <= width:
        return text
    clusters = [part for run in _CODE_POINT.split(text) for part in ([run] if _CODE_POINT.match(run) else letters(run))]
    tail_width = (width - 1) // 2
    tail = _fitting(clusters[::-1], tail_width)[::-1]
    head = _fitting(clusters, width - 1 - cell_len("".join(tail)))
    return "".join([*head, _ELLIPSIS, *tail])


def letters(text: str) -> list[str]:
    """The text in parts that must stay together: a letter with its marks, an emoji with what modifies it."""
    clusters: list[str] = []
    for character in text:
        joined = bool(clusters) and (_modifies(character) or clusters[-1].endswith("\u200d"))
        if joined:
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def right_to_left(text: str) -> bool:
    """Whether any letter of the text is written from right to left."""
    return any(unicodedata.bidirectional(character) in {"R", "AL"} for character in text)


def _visible_character(token: str, position: int) -> str:
    character = token[position]
    if character in _MARKS:
        return _MARKS[character]
    category = unicodedata.category(character)
    if category == "Zs":
        return _OTHER_SPACE
    is_hidden = category in _HIDDEN or _is_no_character(ord(character))
    if not is_hidden or (character in _JOINERS and _joins(token, position)):
        return character
    return code_point(character)


def _is_no_character(code: int) -> bool:
    return code in _NO_CHARACTERS or code & 0xFFFE == 0xFFFE


def _joins(token: str, position: int) -> bool:
    return 0 < position < len(token) - 1 and not (token[position - 1] + token[position + 1]).isascii()


def _modifies(character: str) -> bool:
    skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
    return skin_tone or character in _JOINERS or unicodedata.category(character).startswith("M")


def _fitting(clusters: Sequence[str], width: int) -> list[str]:
    """As many of the first clusters as fit."""
    taken: list[str] = []
    for cluster in clusters:
        width -= cell_len(cluster)
        if width < 0:
            break
        taken.append(cluster)
    return taken


def _words(what: str, words: Sequence[int], num_pieces: int, device: torch.device) -> Tensor:
    if len(words) != num_pieces:
        raise ShapeError(f"merge() takes a word for each {what}: {num_pieces} are expected, {len(words)} were given.")
    missing = set(range(max(words, default=-1) + 1)) ^ set(words)
    if missing:
        raise OptionError(f"The words of merge() are counted from 0 without a gap; {min(missing)} breaks that.")
    return torch.tensor(list(words), dtype=torch.long, device=device)


def _count(words: Tensor) -> int:
    return int(words.max()) + 1 if len(words) else 0
